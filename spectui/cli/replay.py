"""`spectui replay`: a recorded chat once more in the window, without a model."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import click

from spectui.cli.options import Command, color_option
from spectui.cli.terminal import must_draw
from spectui.errors import UsageError


@click.command("replay", cls=Command)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--speed", type=float, default=1.0, metavar="X", help="play at so many times the recorded speed (default 1)"
)
@color_option
@click.pass_context
def command(ctx: click.Context, /, file: Path, speed: float, no_color: bool) -> None:
    """Play a recorded chat (--trace) in the window. No model is loaded."""
    from spectui.traces.player import FASTEST, SLOWEST, TracePlayer, first_setup
    from spectui.traces.reader import Trace

    if not SLOWEST <= speed <= FASTEST:
        raise UsageError(f"--speed must be between {SLOWEST:g} and {FASTEST:g}, not {speed:g}.")
    trace = Trace(file)
    must_draw("spectui replay")
    if no_color:
        os.environ["NO_COLOR"] = "1"
    from spectui import paths
    from spectui.config import load
    from spectui.ui.app import SpectuiApp
    from spectui.ui.keymap import keymap
    from spectui.ui.screen.replay import ReplayScreen
    from spectui.ui.terminal_watchdog import terminal_restored

    ui, player = load({}).ui, TracePlayer(trace, speed)
    keys, unmapped = keymap(ui.keys)
    app = SpectuiApp(
        player,
        first_setup(trace),
        trace.header.knobs,
        theme=ui.theme or None,
        theme_directories=(paths.shipped("themes"), paths.user_themes_directory()),
        keymap=keys,
        notices=[*unmapped, *([CUT_OFF] if trace.cut_off else [])],
        make_screen=partial(ReplayScreen, player=player, file=file),
    )
    with terminal_restored("spectui died while it played a trace."):
        app.run()
    ctx.exit(app.return_code or 0)


CUT_OFF = "The last line of the trace was not written whole, and is left out."
