"""`spectui exact`: whether passes over several tokens compute the bits of passes over one, so that drafts change no text."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from spectui.cli.measure.common import MeasureOptions, columns, in_engine, measurement
from spectui.cli.models.server import engine_of
from spectui.cli.terminal import prepare_stdout
from spectui.errors import UsageError


@measurement("exact", "models", "devices", replies=False)
@click.option("--lengths", default="0,300,600", metavar="N,...", help="tokens before the passes (default 0,300,600)")
@click.option("--types", default="", metavar="TYPE,...", help="compare copies in these types too, such as Q8_0,Q4_K")
def command(ctx: click.Context, options: MeasureOptions, lengths: str, types: str) -> None:
    """Compare passes over several tokens with passes over one.

    With spectui's kernels, with llama.cpp's, and on GPUs. With --server the texts of its replies with and without drafts.
    """
    from spectui.engine.isolation.process import engine_for
    from spectui.llama.quantiser import FILE_TYPES
    from spectui.measure import exact
    from spectui.measure.bench import prompt_files
    from spectui.measure.prompts import USUAL

    prepare_stdout()
    kinds = [kind for kind in types.upper().split(",") if kind]
    if not all(map(str.isdecimal, lengths.split(","))) or not set(kinds) <= FILE_TYPES.keys():
        raise UsageError(f"--lengths takes numbers of tokens such as 0,300, and --types some of {', '.join(FILE_TYPES)}.")
    rows: list[Any]
    if (server := options.server_setup()) is not None:
        prompts, knobs = prompt_files.built_in(USUAL, server.system), options.knobs(None)
        rows = in_engine(ctx, engine_of(server, knobs), True, exact.ask, server, knobs, prompts)
        lines = exact.answer_lines(rows, columns())
    else:
        setup = options.own_setup()
        rows = in_engine(ctx, engine_for(setup), False, exact.measure, setup, [*map(int, lengths.split(","))], kinds)
        lines = exact.text_lines(rows, columns())
    table = {"schema": exact.SCHEMA, "rows": [asdict(row) for row in rows]}
    click.echo(json.dumps(table) if options.as_json else "\n".join(lines))
