"""`spectui doctor`: does this build of llama.cpp work on this machine, and what can be done if not?"""

from __future__ import annotations

import importlib.metadata
import platform

import click

import spectui
from spectui.cli.options import Command


@click.command("doctor", cls=Command)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Try llama.cpp's kernels on this CPU.

    Explains what was found and what to do. Exits with 1 if no model can run.
    """
    from spectui.llama import library, selftest

    facts = {
        "spectui": f"{spectui.__version__} (Python {platform.python_version()})",
        "llama-cpp-python": importlib.metadata.version("llama-cpp-python"),
        "CPU": library.cpu_name(),
        "llama.cpp": library.llama.llama_print_system_info().decode("utf-8", "replace").strip(" |\n"),
    }
    for name, fact in facts.items():
        click.echo(f"{name:<17} {fact}")
    click.echo()
    verdict = selftest.run(force=True)
    for line in verdict.lines:
        click.echo(line)
    click.echo(verdict.advice)
    ctx.exit(0 if verdict.ok else 1)
