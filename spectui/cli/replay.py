"""`spectui replay`: a recorded chat once more in the window, without a model, or what other settings would have given."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import click

from spectui.cli.options import Command
from spectui.cli.terminal import must_move_cursor
from spectui.errors import UsageError


@click.command("replay", cls=Command)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--what-if", "asked", multiple=True, metavar="KEY=VALUE,...",
    help="print what these settings would have given, such as draft-max=8,p-min=.5,policy=auto; may be given several times",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="with --what-if: print one JSON object")
@click.option(
    "--speed", type=float, default=1.0, metavar="X", help="play at so many times the recorded speed (default 1)"
)
@click.option("--no-color", is_flag=True, help="no colours; NO_COLOR in the environment does the same")
@click.pass_context
def command(
    ctx: click.Context, /, file: Path, asked: tuple[str, ...], as_json: bool, speed: float, no_color: bool
) -> None:
    """Play a chat that --trace recorded in the window, or estimate other settings from it. No model is loaded."""
    from spectui.measure.traces.reader import Trace

    if as_json and not asked:
        raise UsageError("--json prints what --what-if computes: give that too.")
    if asked:
        from spectui.measure.traces.report import lines, table
        from spectui.measure.traces.what_if import parse, what_if

        settings = [parse(each) for each in asked]
        trace = Trace(file)
        found = what_if(trace, settings)
        if as_json:
            click.echo(json.dumps(table(found), allow_nan=False))
        else:
            for line in lines(found):
                click.echo(line)
        if trace.cut_off:
            click.echo(f"spectui: {CUT_OFF}", err=True)
        return
    from spectui.measure.traces.player import FASTEST, SLOWEST, TracePlayer, first_setup

    if not SLOWEST <= speed <= FASTEST:
        raise UsageError(f"--speed must be between {SLOWEST:g} and {FASTEST:g}, not {speed:g}.")
    trace = Trace(file)
    terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    if not terminal and "TEXTUAL_DRIVER" not in os.environ:  # textual-serve draws in a browser
        raise UsageError("spectui replay needs a terminal; --what-if needs none.")
    if terminal:
        must_move_cursor()
    if no_color:
        os.environ["NO_COLOR"] = "1"
    from spectui import paths
    from spectui.config import load
    from spectui.ui.app import SpectuiApp
    from spectui.ui.keys import keymap
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
