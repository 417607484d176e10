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
    """Try llama.cpp's kernels on this CPU, and look for what its build leaves unused on this machine.

    Lists what was found, the dearest first, each with the command that mends it. Exits with 1 if something is lost.
    """
    from spectui.cli.machine.findings import cpu_flags, features_of, findings
    from spectui.llama import library, selftest
    from spectui.telemetry.gpus import Nvml

    system_info = library.llama.llama_print_system_info().decode("utf-8", "replace").strip(" |\n")
    nvml = Nvml()
    cards = [gpu.name or "an NVIDIA GPU" for gpu in nvml.read()]
    nvml.close()
    facts = {
        "spectui": f"{spectui.__version__} (Python {platform.python_version()})",
        "llama-cpp-python": importlib.metadata.version("llama-cpp-python"),
        "CPU": library.cpu_name(),
        "NVIDIA GPUs": ", ".join(cards) or "none",
        "llama.cpp": system_info,
        "backends": ", ".join(library.backends()),
    }
    for name, fact in facts.items():
        click.echo(f"{name:<17} {fact}")
    click.echo()
    verdict = selftest.run(force=True)
    for line in verdict.lines:
        click.echo(line)
    if not verdict.ok:
        click.echo(verdict.advice)
        ctx.exit(1)
    found = list(
        findings(
            features_of(system_info), library.backends(), cpu_flags(), cards, verdict.extra_buffers,
            selftest.rebuild_command(), selftest.rebuild_command("CUDA"),
        )
    )  # fmt: skip
    commands = list(dict.fromkeys(finding.command for finding in found))
    for number, finding in enumerate(found, 1):
        click.echo(f"{number}. {finding.sentence}")
    for mending in commands:
        numbers = ", ".join(str(number) for number, finding in enumerate(found, 1) if finding.command == mending)
        click.echo(f"\nThis mends {numbers}:\n{mending}")
    if not found:
        click.echo("Nothing to do: this build uses what the machine has, and its fast kernels work.")
    ctx.exit(1 if found else 0)
