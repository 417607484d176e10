"""The models that a command line names: those of this machine, or with `--server URL` a server's; and their engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spectui.cli.models.hub import fetched
from spectui.cli.options import Options
from spectui.config import Configuration
from spectui.errors import UsageError

if TYPE_CHECKING:
    from spectui.engine.events import Event
    from spectui.engine.protocol import Session, SessionEngine
    from spectui.engine.worker import Watch
    from spectui.gguf_files.catalogue import ModelCatalogue
    from spectui.knobs import Knobs, Setup
    from spectui.llama.interrupt import Interrupt

_LAYERS = ("default", "file", "profile", "env", "flag")  # the later wins


@dataclass(frozen=True)
class ModelOptions(Options):
    """What a command line says of settings and models."""

    hub_target: str | None = None
    hub_draft: str | None = None

    def server_setup(self) -> Setup | None:
        """The set-up of the server that the settings name; None if they name models of this machine. Raises UsageError."""
        return server_setup(self.settings, self.hub_target, self.hub_draft)

    def own_setup(self) -> Setup:
        """The set-up of models of this machine, downloaded if needed. Raises SpectuiError."""
        return fetched(self.settings, self.hub_target, self.hub_draft)


def server_setup(settings: Configuration, *hub: str | None) -> Setup | None:
    """The set-up of the server that the settings name; None if they name models of this machine with more weight.

    `hub`: the flags that name models of the hub. Raises UsageError.
    """
    setup = settings.setup
    if not setup.server:
        return None
    flags = [settings.origins[key].removeprefix("flag ") for key in ("model", "draft") if _weight(settings, key) == 4]
    given = [*flags, *(["-hf"] if any(hub) else [])]
    if _weight(settings, "server") == 4 and given:
        raise UsageError(f"--server has its own models, and {given[0]} names one of this machine: give one of them.")
    if given or (setup.model is not None and _weight(settings, "model") > _weight(settings, "server")):
        return None
    from spectui.attach.address import address, read_key, with_port

    server = with_port(setup.server)
    read_key(setup.server_key_file)  # what is wrong with it is said before a window opens
    return replace(setup, server=server, model=setup.server_model or address(server).short, draft=None)


def engine_of(setup: Setup, knobs: Knobs, watch: Watch = lambda stage, setup: None) -> SessionEngine:
    """An engine that asks the set-up's server, or loads models here."""
    if not setup.server:
        from spectui.engine.isolation.process import engine_for  # a chat with a server does not need it

        return engine_for(setup, knobs, watch)
    from spectui.engine.worker import Worker

    return Worker(knobs, watch, _session_of_server)


def _session_of_server(on_event: Callable[[Event], None], interrupt: Interrupt) -> Session:
    # In the engine's thread, as llama.cpp is: a window appears before that.
    from spectui.attach.session import ServerSession

    return ServerSession(on_event, interrupt)


def served_models(setup: Setup) -> ModelCatalogue:
    """The server's models, for the list of models."""
    from spectui.attach.catalogue import ServedModels

    return ServedModels(setup.server, setup.server_key_file)


def _weight(settings: Configuration, key: str) -> int:
    return _LAYERS.index(settings.origins[key].partition(" ")[0])
