"""`spectui doctor`: does this build of llama.cpp work on this machine, and what can be done if not?"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform

import click

import spectui
from spectui.cli.options import Command
from spectui.cli.terminal import json_option
from spectui.text import one_line


@click.command("doctor", cls=Command)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Test llama.cpp on this CPU, and find what its build leaves idle.

    Lists what was found, the dearest first, each with the command that mends it. Exits with 1 if something is lost.
    """
    from spectui.cli.machine.findings import FAST_KERNELS, Facts, advice, cpu_flags, findings
    from spectui.engine.loading import placement
    from spectui.engine.loading.kernel_choice import available
    from spectui.kernels.build import left_out
    from spectui.knobs import Setup
    from spectui.llama import build, library, selftest
    from spectui.llama.cpu.cores import allowed_cpus
    from spectui.llama.cpu.quota import cpu_quota
    from spectui.llama.devices.listing import list_devices
    from spectui.telemetry.gpus import Nvml
    from spectui.telemetry.sysfs import SysfsGpus

    nvml = Nvml()
    gpus = (*nvml.read(), *SysfsGpus().read())
    nvml.close()
    system_info, backends, devices = library.system_info(), build.backends(), list_devices()
    lines = {
        "spectui": f"{spectui.__version__} (Python {platform.python_version()})",
        "llama-cpp-python": importlib.metadata.version("llama-cpp-python"),
        "CPU": build.cpu_name(),
        "threads": threads_in_words(placement.threads(0), len(allowed_cpus()), os.cpu_count(), cpu_quota()),
        "GPUs": ", ".join(gpu.name or "unknown" for gpu in gpus if gpu.maker) or "none found",
        "llama.cpp": system_info,
        "backends": ", ".join(backends),
        "devices": ", ".join(device.name for device in devices),
    }
    say = (lambda line: None) if as_json else click.echo
    for name, line in lines.items():
        say(f"{name:<17} {line}")
    verdict = selftest.run(force=True)
    say("\n" + "\n".join(verdict.lines))
    own = available(Setup(device="none"), verdict)
    kernels = own.set or f"not used, because {own.why}"
    if sets := one_line(left_out()):
        kernels += f"; built without {sets}"
    say(f"spectui's kernels: {kernels}")
    features = {*build.features_of(system_info), *([FAST_KERNELS] if verdict.extra_buffers else [])}
    error = library.first_error()
    facts = Facts(features, backends, cpu_flags(), gpus, devices, os.environ, error, own=bool(own.set))
    lost = list(findings(facts, build.rebuild_command))
    for line in advice(lost, known=bool(facts.flags)):
        say(line)
    if as_json:
        found = [finding._asdict() for finding in lost]
        more = {"self-test": verdict.lines, "spectui's kernels": kernels, "findings": found}
        click.echo(json.dumps(lines | more))
    ctx.exit(1 if lost else 0)


def threads_in_words(threads: int, allowed: int, cpus: int | None, quota: float | None) -> str:
    """How many threads compute, and what bounds them: the CPUs that this process may use, and its quota of their time."""
    bound = "no quota" if quota is None else f"a quota of {quota:.3g} cores' time"
    return f"{threads}, because of {allowed} of {cpus or allowed} logical CPUs and {bound}"
