"""The knobs as a person has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

from spectui import paths
from spectui.engine.protocol import Engine
from spectui.errors import UsageError
from spectui.knobs import Knobs, json_object, specs
from spectui.profiles.file import ProfileFile


class UserKnobs:
    """The engine's knobs. While a comparison runs, or a thought is being ended, the engine has others; a person's take effect
    afterwards."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.profiles = ProfileFile(paths.config_file())
        self._profile = "", Knobs()  # the profile that was used or saved last, and the knobs that it has
        self._users: Knobs | None = None  # the knobs that a person has set, while the engine has others
        self.given: Set[str] = frozenset()
        """The knobs that a flag, a variable, a profile or the file of settings sets."""
        self.defaults = Knobs()
        """What the others have where a person has not turned them: the loaded model's file may recommend values."""
        self.schema = "", ""
        """The JSON schema that new replies obey: its file's name, and its text."""

    @property
    def now(self) -> Knobs:
        """The knobs as a person has them."""
        return self._engine.knobs if self._users is None else self._users

    @now.setter
    def now(self, knobs: Knobs) -> None:
        if self._users is None:
            self._engine.knobs = knobs
        else:
            self._users = knobs

    def recommend(self, values: Mapping[str, Any]) -> None:
        """Take the values that a loaded model's file recommends in place of the defaults that a person has not turned."""
        before, self.defaults = self.defaults, replace(Knobs(), **values)
        free = (key for key, *_ in specs(Knobs) if key not in self.given)
        taken = {key: getattr(self.defaults, key) for key in free if getattr(self.now, key) == getattr(before, key)}
        self.now = replace(self.now, **taken)

    def override(self, knobs: Knobs) -> None:
        """Give the engine other knobs until `restore`."""
        self._users = self.now
        self._engine.knobs = knobs

    def end_thinking(self) -> None:
        """End the thinking of the reply in progress, which keeps what it has thought: a budget that is used up ends it."""
        self.override(replace(self.now, reasoning_budget=0))

    def restore(self) -> None:
        """Give the engine a person's knobs again."""
        if self._users is not None:
            self._engine.knobs, self._users = self._users, None

    def switch_thinking(self, usual: bool | None, on: bool | None = None) -> bool:
        """Have the model think before its next replies, or not; None: the other way than now. Returns which.

        `usual`: what its template does by itself (`ModelInfo.thinks`). Raises UsageError where that has no switch.
        """
        if usual is None:
            raise UsageError("The model's chat template has no switch for thinking (enable_thinking).")
        values = json_object(self.now.chat_template_kwargs) or {}
        on = not values.get("enable_thinking", usual) if on is None else on
        values["enable_thinking"] = on
        if on is usual:
            del values["enable_thinking"]
        self.now = replace(self.now, chat_template_kwargs=json.dumps(values, ensure_ascii=False) if values else "")
        return on

    @property
    def profile(self) -> str:
        """The profile that the knobs are of; "" if there is none, or one was turned since."""
        name, knobs = self._profile
        return name if knobs == self.now else ""

    @profile.setter
    def profile(self, name: str) -> None:
        self._profile = name, self.now

    def take(self, values: Mapping[str, Any]) -> None:
        """Turn these knobs, which a model's file leaves as they are. Raises UsageError."""
        self.now = replace(self.now, **values).checked()
        self.given |= values.keys()
