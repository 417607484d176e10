"""The models that the engine has or is loading, and the ways to load others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spectui.chat.figures.activity import Activity
from spectui.chat.sentences import LARGER, short_name
from spectui.chat.text.attachments import images_in
from spectui.engine import demo
from spectui.engine.events import (
    Counted,
    Device,
    Devices,
    Event,
    Fixed,
    Loaded,
    LoadFailed,
    Loading,
    ModelInfo,
    Notice,
    Unloaded,
)
from spectui.engine.protocol import Engine
from spectui.knobs import Setup
from spectui.llama.devices import rpc
from spectui.llama.devices.records import MemoryUse
from spectui.profiles.setup_line import with_flags
from spectui.store.recovery.crash import Crash, safe_setup

if TYPE_CHECKING:  # it brings hashlib, which the first screen does without
    from spectui.gguf_files.header import GgufHeader


LAST_PAIRS = 5
"""Pairs that are remembered."""


class LoadedModels:
    """Asks the engine for models and takes its events about them.

    After a `crash`, the first `load` of the same models does not load them and returns False, because they may end spectui
    again.
    """

    def __init__(self, engine: Engine, setup: Setup, activity: Activity, crash: Crash | None = None) -> None:
        self._engine = engine
        self.setup = setup
        """The requested set-up; after loading, the set-up that was loaded. Its system prompt is that of new chats."""
        self._activity = activity
        self.crash = crash
        """The crash that ended spectui the last time; None once models are loaded."""
        pair = (setup.model, setup.draft, "")
        self.held = crash is not None and (crash.setup.model, crash.setup.draft, setup.server) == pair
        self.target: ModelInfo | None = None
        self.draft: ModelInfo | None = None
        self.devices: tuple[Device, ...] = ()
        self.without_draft = False
        """The last loading failed because of the draft; the target alone would load."""
        self.draft_problem = ""
        """Why the draft could not be loaded, while the target works alone."""
        self.stopped = False
        """A person stopped the loading, so its failure is not an error."""
        self.fixed: dict[str, Fixed] = {}
        """The knobs that have no effect, by name."""
        self.images = False
        """The target takes images."""
        self.counted: Counted | None = None
        """A server's own counts, over all its clients."""
        self.listed: Sequence[GgufHeader] = ()
        """The models that were listed last, which a person may name by their numbers."""
        self.pairs: list[tuple[str, str | None]] = []
        """The files of target and draft that were loaded last, the latest first."""
        self.requested = False
        """Models have been asked for."""
        self.unloaded = False
        """The engine has freed the models, and other processes can load them."""
        self._loads = 0  # loads that were requested and have not ended
        self._told_demo = False

    @property
    def n_ctx(self) -> int | None:
        """Tokens that the target's context holds; None if no target is loaded."""
        return (self.target.n_ctx or None) if self.target is not None else None

    def refusal(self, prompt: str) -> str:
        """Why the target cannot take this prompt; "" if it can."""
        images = images_in(prompt)[1]
        if not images or self.images or self.target is None:
            return ""
        other = "ask another server" if self.setup.server else "ask a server (--server), as images go to servers only"
        return f"{short_name(self.setup.model)} takes no images: leave {images[0].name} out, or {other}."

    @property
    def larger_context(self) -> str:
        """The end of a line that says that the context is full: the way to a larger one."""
        fixed = self.fixed.get("ctx_size")
        return f". {fixed.sentence.rstrip('.')}" if fixed is not None else LARGER

    @property
    def measured(self) -> bool:
        """They are being measured in another process, or are about to be."""
        return self._activity.now == "measuring"

    @property
    def drafter(self) -> str:
        """The name of the draft's file, or what the target drafts with of its own; "" if repetitions alone are drafted."""
        own = self.draft if self._activity.now != "loading" else None  # while others load, it is of those before
        return short_name(self.setup.draft) or (own.description if own is not None else "")

    @property
    def memory(self) -> list[MemoryUse]:
        """What the loaded models take on each device."""
        return [use for each in (self.target, self.draft) if each is not None for use in each.memory]

    def load(self, setup: Setup) -> bool:
        """Replace the loaded models by these, stopping a reply. Returns False if they were held back after a crash."""
        self.requested = True
        if self.held:
            self.held, self._activity.now = False, "failed"
            return False
        if setup.model != self.setup.model:
            self.draft_problem = ""
        self.setup, self._activity.now, self.unloaded = setup, "loading", False
        self.counted = None
        self._loads += 1
        self.without_draft = self.stopped = False
        self._engine.load(setup)
        return True

    def load_again(self) -> bool:
        """Load the same models again."""
        return self.load(self.setup)

    def load_others(self, target: str | None, draft: str | None) -> bool:
        """Load these files; the other settings stay."""
        return self.load(replace(self.setup, model=target, draft=draft))

    def load_safely(self) -> bool:
        """Load the models after a crash with settings that are likelier to work."""
        self.crash, self.held = None, False
        return self.load(safe_setup(self.setup))

    def change(self, setup: Setup) -> bool:
        """Load the models with this set-up. Returns False also if it is the one that they have."""
        return setup != self.setup and self.load(setup)

    def place(self, line: str) -> bool:
        """`change` the set-up by what these flags say. Raises UsageError."""
        return self.change(with_flags(self.setup, line))

    def unload(self) -> None:
        """Free the models, to measure them in another process. `load` brings them back."""
        self._activity.now = "measuring"
        self._engine.unload()

    def take(self, event: Event) -> bool:
        """Update with an event. Returns False if there is nothing to show: the event is about models that other ones have
        replaced since, or says again that this is the demo pair."""
        if isinstance(event, Loaded | LoadFailed):
            self._loads = max(0, self._loads - 1)
            if self._loads:
                return False
        match event:
            case Loading():
                self._activity.now = self._activity.now if self._activity.replying else "loading"
            case Loaded(setup=setup, target=target, draft=draft, devices=devices, fixed=fixed, images=images):
                self._activity.now = self._activity.now if self._activity.replying else "ready"
                self.crash, self.fixed, self.images = None, {knob.knob: knob for knob in fixed}, images
                self.setup = setup
                if setup.model is not None:
                    pair = setup.model, setup.draft
                    self.pairs = [pair, *(other for other in self.pairs if other != pair)][:LAST_PAIRS]
                self.target, self.draft, self.devices = target, draft, devices
                self.draft_problem = "" if draft else self.draft_problem
            case LoadFailed(message=message, without_draft=without_draft, without_servers=without_servers):
                self._activity.now = "failed"
                if without_servers:  # the next attempt does not need the servers
                    self.setup = rpc.without_servers(self.setup)
                self.target = self.draft = None
                self.without_draft = without_draft
                self.draft_problem = message if without_draft else ""
            case Unloaded():
                self.target = self.draft = None
                self.unloaded = self.measured
            case Devices(devices=devices):
                self.devices = devices
            case Counted():
                self.counted = event
            case Notice(message=demo.NOTICE):
                told, self._told_demo = self._told_demo, True
                return not told
        return True
