"""The knobs as a person has them."""

from __future__ import annotations

import json
from dataclasses import replace

from spectui import paths
from spectui.chat.sentences import NO_THINKING_SWITCH
from spectui.engine.protocol import Engine
from spectui.errors import UsageError
from spectui.knobs import Knobs, json_object
from spectui.profiles.file import ProfileFile


class UserKnobs:
    """The engine's knobs. While a comparison runs, the engine has the comparison's knobs; a person's take effect
    afterwards."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.profiles = ProfileFile(paths.config_file())
        self._users: Knobs | None = None  # the knobs that a person has set, while the engine has others

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

    def override(self, knobs: Knobs) -> None:
        """Give the engine other knobs until `restore`."""
        self._users = self.now
        self._engine.knobs = knobs

    def restore(self) -> None:
        """Give the engine a person's knobs again."""
        if self._users is not None:
            self._engine.knobs, self._users = self._users, None

    def switch_thinking(self, usual: bool | None, on: bool | None = None) -> bool:
        """Have the model think before its next replies, or not; None: the other way than now. Returns which.

        `usual`: what its template does by itself (`ModelInfo.thinks`). Raises UsageError where that has no switch.
        """
        if usual is None:
            raise UsageError(NO_THINKING_SWITCH)
        values = json_object(self.now.chat_template_kwargs) or {}
        on = not values.get("enable_thinking", usual) if on is None else on
        values["enable_thinking"] = on
        if on is usual:
            del values["enable_thinking"]
        self.now = replace(self.now, chat_template_kwargs=json.dumps(values, ensure_ascii=False) if values else "")
        return on

    def use_profile(self, profiles: ProfileFile, name: str) -> None:
        """Turn the knobs that a profile sets. Raises UsageError."""
        self.now = replace(self.now, **profiles.load(name)).checked()
