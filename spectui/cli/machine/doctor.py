"""`spectui doctor`: does this build of llama.cpp work on this machine, and what can be done if not?"""

from __future__ import annotations

import importlib.metadata
import os
import platform

import click

import spectui
from spectui.cli.options import Command


@click.command("doctor", cls=Command)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Test llama.cpp on this CPU, and find what its build leaves idle.

    Lists what was found, the dearest first, each with the command that mends it. Exits with 1 if something is lost.
    """
    from spectui.cli.machine.dear_passes import dear_passes
    from spectui.cli.machine.findings import advice, cpu_flags, findings, threads_in_words
    from spectui.engine.costs.files import stored_targets
    from spectui.engine.loading import placement
    from spectui.engine.loading.kernel_choice import available
    from spectui.kernels.plugin import LLAMA_CPP
    from spectui.knobs import Setup
    from spectui.llama import library, selftest
    from spectui.llama.build import features_of
    from spectui.llama.cpu.cores import allowed_cpus
    from spectui.llama.cpu.quota import cpu_quota
    from spectui.llama.devices.listing import list_devices
    from spectui.llama.rebuild import rebuild_command
    from spectui.telemetry.gpus import Nvml
    from spectui.telemetry.sysfs import SysfsGpus

    system_info = library.system_info()
    nvml = Nvml()
    gpus = (*nvml.read(), *SysfsGpus().read())
    nvml.close()
    backends, devices = library.backends(), list_devices()
    facts = {
        "spectui": f"{spectui.__version__} (Python {platform.python_version()})",
        "llama-cpp-python": importlib.metadata.version("llama-cpp-python"),
        "CPU": library.cpu_name(),
        "threads": threads_in_words(placement.threads(0), len(allowed_cpus()), os.cpu_count(), cpu_quota()),
        "GPUs": ", ".join(gpu.name or "unknown" for gpu in gpus if gpu.maker) or "none found",
        "llama.cpp": system_info,
        "backends": ", ".join(backends),
        "devices": ", ".join(device.name for device in devices),
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
    own = available(Setup(device="none"), verdict)
    click.echo(f"spectui's kernels: {own.set or f'not used, because {own.why}'}")
    flags = cpu_flags()
    found = list(
        findings(
            features_of(system_info), backends, flags, gpus, verdict.extra_buffers, rebuild_command, devices,
            os.environ, library.first_error(), bool(own.set),
        )
    )  # fmt: skip
    for line in advice(found, known=bool(flags)):
        click.echo(line)
    # What the CPU's kernels cost is no fault of the build, so it does not change the exit code.
    with_own, without = (stored_targets(placement.measured_with(each)) for each in (own, LLAMA_CPP))
    for line in dear_passes(without | with_own):
        click.echo(f"\n{line}")
    ctx.exit(1 if found else 0)
