"""Automatic choices of a set-up, made before anything is freed or loaded: layers on GPUs, and the draft's GPU."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from spectui.engine.events import Event, Loading, Notice
from spectui.engine.loading.placement import resolve
from spectui.engine.loading.plan import PlacementError, make_plan, on_servers
from spectui.errors import SpectuiError
from spectui.knobs import Setup
from spectui.llama.devices.records import MemoryUse

_CHOICES = ("gpu_layers", "gpu_layers_draft", "device_draft", "tensor_split")

_log = logging.getLogger(__name__)


class AutomaticPlacement:
    """Remembers what it chose, so that the same set-up is placed the same way while its models are loaded."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._asked: tuple[Any, ...] = ()
        self._planned = Setup()  # the set-up that these choices were made for
        self._chosen: dict[str, Any] = {}

    def place(self, setup: Setup, loaded: Iterable[MemoryUse]) -> Setup:
        """The set-up with its choices made. `loaded`: the memory of what is loaded now, which may be freed.

        Without GPUs there is nothing to choose. A server of llama.cpp answers one process at a time: while models are loaded
        on servers no other process can plan, and what was chosen for the first ones stays. Raises UsageError for a placement
        that cannot be, and PlacementError for one that would end the process.
        """
        resolved = resolve(setup)
        if resolved.on_cpu:
            return setup
        asked = (resolved.target_key, resolved.draft_key, resolved.target.context_key)
        loaded = tuple(loaded)
        if on_servers(loaded):
            same = [key for key in self._chosen if getattr(setup, key) == getattr(self._planned, key)]
            return (
                replace(setup, **{key: self._chosen[key] for key in same})
                if setup.device == self._planned.device
                else setup
            )
        if not loaded or asked != self._asked:
            self._emit(Loading("plan", 0.0))
            try:
                made = make_plan(setup, loaded)
            except PlacementError:
                raise
            except SpectuiError as error:
                _log.info("no plan: %s", error)  # loading tells it, if it fails for the same reason
                return setup
            if made.missing:
                self._emit(Notice(made.sentence()))
            self._asked, self._planned = asked, setup
            self._chosen = {key: getattr(made.setup, key) for key in _CHOICES}
        return replace(setup, **self._chosen)
