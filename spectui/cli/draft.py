"""`spectui draft make`: a quantised copy of a model, to draft for it."""

from __future__ import annotations

import os
import shlex
import shutil
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from time import perf_counter

import click

from spectui.atomic import leftovers
from spectui.cli.options import INTERRUPTED, Command, Group, NewFile
from spectui.errors import ExistsError, SpectuiError
from spectui.paths import expanded
from spectui.text import one_line

BITS = {
    "F32": 32.0, "F16": 16.0, "BF16": 16.0, "Q8_0": 8.5, "Q6_K": 6.6, "Q5_K": 5.5, "Q5_0": 5.5, "Q4_K": 4.5, "Q4_1": 5.0,
    "Q4_0": 4.5, "Q2_K": 2.6,
}  # fmt: skip
"""Bits a weight, without those tensors that llama.cpp gives more."""


@click.group("draft", cls=Group, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Make a draft of a model."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command("make", cls=Command)
@click.option("-m", "--model", "target", required=True, metavar="FILE", help="the target model, a GGUF file")
@click.option("--type", "kind", required=True, type=click.Choice([name for name in BITS if name[0] == "Q"], False),
              help="the quantisation")  # fmt: skip
@click.option("-o", "--output", type=NewFile(), metavar="FILE", help="the new file (default: beside it)")
@click.option("--replace", is_flag=True, help="replace a file that exists")
def make(target: str, kind: str, output: Path | None, replace: bool) -> None:
    """Write a quantised copy of a model that drafts for it.

    The copy has the target's vocabulary, and fewer bits a weight. Ctrl+C stops it and leaves no file.
    """
    from spectui.chat.figures.format import size
    from spectui.gguf_files.check import check_file
    from spectui.llama.quantiser import quantise
    from spectui.measure.progress import ProgressLine

    source = check_file(target, "target")
    file = expanded(output or source.with_name(f"{source.stem}.draft-{kind}.gguf"))
    _check(source, file, kind, replace)
    for left in leftovers(file.parent, file.name):
        left.unlink(missing_ok=True)
    line, begun = ProgressLine(), perf_counter()
    made: Future[None] | None = None
    try:
        # In a thread: Python cannot be interrupted in a function of llama.cpp.
        made = ThreadPoolExecutor(1).submit(quantise, source, file, kind, lambda done: line(done, f"quantising as {kind}"))
        while not made.done():
            wait((made,), timeout=0.1)  # a signal that another thread got is acted on when this one wakes
    except KeyboardInterrupt:
        if made is None or not made.done():
            for part in file.parent.glob(f"*.{os.getpid()}.part"):
                part.unlink(missing_ok=True)
            line.show("")
            click.echo(f"spectui: Stopped; {one_line(str(file))} was not written.", err=True)
            os._exit(INTERRUPTED)  # which ends that thread
    line.show("")
    made.result()
    shutil.copymode(source, file)
    sizes = f"{size(file.stat().st_size)} of {size(source.stat().st_size)}"
    click.echo(f"Wrote {file} ({sizes}, {perf_counter() - begun:.1f} s).")
    # The copy is to be measured as it is, not as a draft copy of itself.
    bench = ["spectui", "bench", "-m", str(source), "--draft", f"{file}", "--requantise-draft", "off"]
    click.echo(f"This measures how well it drafts; --draft takes several files, with commas:\n{shlex.join(bench)}")


def _check(source: Path, file: Path, kind: str, replace: bool) -> None:
    """Raise SpectuiError if the copy cannot be written, or would have as many bits per weight."""
    from spectui.chat.figures.format import size
    from spectui.gguf_files.header import read_header
    from spectui.gguf_files.parts import part_of

    if part_of(source):
        raise SpectuiError(f"{source.name} is one part of a model, and only whole files can be quantised: join them first.")
    has = BITS.get(read_header(source).quantisation.removesuffix("_S").removesuffix("_M"))
    if has is not None and BITS[kind] >= has:
        raise SpectuiError(f"{source.name} has no more bits a weight than {kind}, so a copy would not be faster.")
    if file.resolve() == source.resolve():
        raise SpectuiError(f"{file} is the target itself: write the copy to another file.")
    if file.exists() and not replace:
        raise ExistsError(f"{file} exists already: draft with it (-md), --replace it, or name another with -o.")
    if not file.parent.is_dir():
        raise SpectuiError(f"There is no directory {file.parent}: make it, or name another with -o.")
    needed = source.stat().st_size * BITS[kind] / (has or 16)
    if (free := shutil.disk_usage(file.parent).free) < needed:
        raise SpectuiError(
            f"{file.parent} has {size(free)} free, and the copy needs at least {size(needed)}: name another with -o."
        )
