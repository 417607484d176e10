"""`spectui chat`: the terminal user interface."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial

import click

from spectui import paths
from spectui.cli.models.hub import fetch_pair
from spectui.cli.models.server import ModelOptions, engine_of, served_models
from spectui.cli.options import ENGINE, Command, color_option, rare_option, setting_options, unused_flags
from spectui.cli.terminal import is_terminal, must_draw
from spectui.config import unknown_variables
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Setup
from spectui.paths import expanded
from spectui.profiles.file import ProfileFile

_NOTHING = "There is no conversation to go on with: start spectui chat without --continue."


@click.command("chat", cls=Command)
@click.option("--continue", "resume", is_flag=True, help="go on with the last conversation")
@rare_option("--demo", "with_demo", is_flag=True, help="with the demo pair, if no model is named")
@rare_option("--conversation", metavar="ID", help="go on with this one: spectui history lists them")
@click.option("--plain", is_flag=True, help="line by line, for screen readers and pipes")
@color_option
@setting_options(*ENGINE, "ui", kind=ModelOptions)
@click.pass_context
def command(
    ctx: click.Context, /, options: ModelOptions, resume: bool, with_demo: bool, conversation: str | None, plain: bool
) -> None:
    """Open the chat in this terminal."""
    settings = options.settings
    if plain and None in (sys.stdin, sys.stdout, sys.stderr):
        raise UsageError("spectui chat --plain needs standard input, output and error: one of them is closed.")
    if not plain:
        must_draw("spectui chat", "; for pipes and scripts there are --plain and spectui run")
    gc.disable()  # until the window stands: nothing that its start makes is garbage
    ctx.call_on_close(gc.enable)
    from spectui.chat.history.conversations import conversation_at_start
    from spectui.chat.session import ChatSession
    from spectui.cli import complain
    from spectui.engine import demo
    from spectui.gguf_files.catalogue import ModelCatalogue, model_directories, why_no_models
    from spectui.store.database import StoreError, database_file
    from spectui.store.journal import Journal
    from spectui.store.recovery.crash import Run, take_crash

    server = options.server_setup()
    setup = server or options.own_setup()
    if plain or with_demo:  # in the window a model can be chosen
        setup = demo.default_setup(setup)
    history = None if settings.ui.no_history == "on" else database_file()
    keep = "off" if history is None else setup.keep_read
    setup = replace(setup, keep_read="on" if keep == "auto" else keep)
    notices: list[str] = []
    resumed = None
    if resume or conversation is not None:
        resumed = conversation_at_start(conversation, history, notices)
        if resumed is None:
            raise SpectuiError(" ".join([*notices, _NOTHING]))
    runs = paths.state_directory() / "runs"
    crash = take_crash(runs)
    offer = None
    if crash is not None and resumed is None:
        with suppress(StoreError):  # the journal will say so
            last = conversation_at_start(None, history, notices)
            offer = last if last is not None and last.unfinished else None
    configured = [expanded(part.strip()) for part in settings.ui.models_dir.split(",") if part.strip()]
    notices.extend(filter(None, map(why_no_models, configured)))
    if not plain:  # before there is an engine, which would load its libraries at the same time
        from spectui.engine.loading.plan import plan_in_words
        from spectui.telemetry.monitor import Monitor
        from spectui.ui.app import show
        from spectui.ui.remembered import Remembered
        from spectui.ui.screen.chat import ChatScreen
    catalogue = (
        served_models(server)
        if server is not None
        else ModelCatalogue([*model_directories(), *configured], paths.cache_directory() / "models.json")
    )
    profiles = ProfileFile(options.config_path or paths.config_file())
    given = {key for key, origin in settings.origins.items() if origin != "default"}
    run, journal = Run(runs), Journal(history)
    try:
        run.take_stderr()
        engine = engine_of(server or Setup(), settings.knobs, run.enter)
        journal.notices.extend(notices)
        session = ChatSession(engine, setup, journal, crash=crash, offer=offer)
        session.user_knobs.profiles, session.user_knobs.given = profiles, given
        if plain:
            from spectui.cli.plain.chat import chat

            gc.enable()
            ctx.exit(chat(session, catalogue, resumed, interactive=is_terminal()))
        code = show(
            session,
            settings.ui,
            "spectui died: spectui chat --continue goes on with what is saved.",
            [*unknown_variables(), *unused_flags()],
            monitor=Monitor(),
            make_screen=partial(
                ChatScreen,
                conversation=resumed,
                catalogue=catalogue,
                plan=plan_in_words if server is None else None,
                fetch=fetch_pair,
            ),
            remembered=Remembered(paths.state_directory() / "window.json"),
        )
    finally:
        run.end()
        if lost := journal.close():  # the window and the plain chat have closed it, and show nothing any more
            complain(lost, 0)
    ctx.exit(code)
