"""`spectui chat`: the terminal user interface."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from spectui import paths
from spectui.cli.hub import fetched, hub_options
from spectui.cli.options import Command, configuration, setting_options
from spectui.errors import SpectuiError, UsageError
from spectui.presets import Presets


@click.command("chat", cls=Command)
@setting_options("ui")
@hub_options
@click.option("--continue", "resume", is_flag=True, help="go on with the last conversation")
@click.option("--conversation", metavar="ID", help="go on with this one: spectui history lists them")
@click.option(
    "--plain", is_flag=True, help="line by line, for screen readers and pipes: no drawing, commands after a slash"
)
@click.option("--no-color", is_flag=True, help="no colours; NO_COLOR in the environment does the same")
@click.pass_context
def command(
    ctx: click.Context,
    profile: str | None,
    config_path: Path | None,
    resume: bool,
    conversation: str | None,
    plain: bool,
    no_color: bool,
    hub_target: str | None,
    hub_draft: str | None,
    **values: Any,
) -> None:
    """Open the chat in this terminal."""
    settings = configuration(profile, config_path, values)
    terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    if plain and None in (sys.stdin, sys.stdout, sys.stderr):
        raise UsageError("spectui chat --plain needs standard input, output and error: one of them is closed.")
    if not plain and not terminal and "TEXTUAL_DRIVER" not in os.environ:  # textual-serve draws in a browser
        raise UsageError("spectui chat needs a terminal; for pipes and scripts there are --plain and spectui run.")
    if no_color:
        os.environ["NO_COLOR"] = "1"  # Textual reads it when the app is made
    from spectui.engine import demo
    from spectui.engine.worker import Worker
    from spectui.llama.shelf import Shelf, usual_places
    from spectui.store import library
    from spectui.store.crash import Run, take_crash
    from spectui.store.database import StoreError, database_file
    from spectui.store.journal import Journal

    # In the window a model can be chosen.
    setup, knobs = demo.default_setup(fetched(settings, hub_target, hub_draft), required=plain), settings.knobs
    if demo.is_demo(setup):
        knobs = demo.drafting(knobs, [key for key, origin in settings.origins.items() if origin != "default"])
    if conversation is not None:
        kept = library.open_conversation(database_file(), conversation)
    else:
        kept = library.last(database_file()) if resume else None
        if resume and kept is None:
            raise SpectuiError("There is no conversation to go on with: start spectui chat without --continue.")
    runs = paths.state_directory() / "runs"
    crash = take_crash(runs)
    offer = None
    if crash is not None and kept is None:
        with suppress(StoreError):  # the journal will say so
            last = library.last(database_file())
            offer = last if last is not None and last.unfinished else None
    configured = [Path(part).expanduser() for part in settings.ui.models_dir.split(",") if part.strip()]
    if not plain:  # before there is a worker, which would load its libraries at the same time
        from spectui.telemetry.monitor import Monitor
        from spectui.ui.app import SpectuiApp
        from spectui.ui.guard import guarded
    shelf = Shelf([*usual_places(), *configured], paths.cache_directory() / "models.json")
    presets = Presets(config_path or paths.config_file())
    run = Run(runs)
    try:
        run.take_stderr()
        worker = Worker(knobs, run.enter)
        journal = Journal(None if settings.ui.no_history == "on" else database_file())
        if plain:
            from spectui.cli.plain import chat

            if crash is not None:
                click.echo(f"spectui: {crash.sentence}", err=True)
            ctx.exit(chat(worker, setup, journal, kept, shelf, presets, interactive=terminal))
        app = SpectuiApp(
            worker,
            setup,
            knobs,
            theme=settings.ui.theme or None,
            theme_directories=(paths.shipped("themes"), paths.user_themes_directory()),
            keymap=dict(settings.ui.keys),
            monitor=Monitor(),
            journal=journal,
            conversation=kept,
            crash=crash,
            offer=offer,
            presets=presets,
            shelf=shelf,
        )
        with guarded("spectui died: spectui chat --continue goes on with what is kept."):
            app.run()
    finally:
        run.end()
    ctx.exit(app.return_code or 0)
