"""The plan's figures beside those that llama.cpp logs when it has loaded the model: `python -m tests.benchmarks.plan FILE...`.

Each model is planned and loaded with all, 12 and none of its layers on the GPUs, or once where there is none; with
`--rpc HOST:PORT` before the files on that RPC server. The last line is the largest difference of a sum, which must be
below 5 %. `--settings`, before the files, plans and loads each with other flags too, all layers on the GPUs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from spectui.engine.loading import models, placement
from spectui.engine.loading.kernel_choice import without_crashes
from spectui.engine.loading.plan import MemoryPlan, make_plan
from spectui.knobs import Setup
from spectui.llama import selftest
from spectui.llama.devices import rpc
from spectui.llama.devices.listing import list_names
from spectui.llama.devices.records import MemoryUse
from spectui.llama.interrupt import Interrupt
from spectui.profiles.setup_line import with_flags

MIB = 2**20

SETTINGS = (
    "-ctk q8_0 -ctv q8_0", "-ctk q4_0 -ctv q4_0", "-ctk f32 -ctv f32", "-fa on", "-fa off", "-c 512", "-c 16384", "-ub 64",
    "-ub 1024", "-b 128", "--no-repack", "--strict",
)  # fmt: skip
"""Flags that change what a model takes."""


def compare(setup: Setup) -> Iterator[tuple[MemoryUse, MemoryUse]]:
    """(planned, logged) for each device that either names."""
    yield from load(make_plan(setup))


def load(made: MemoryPlan) -> Iterator[tuple[MemoryUse, MemoryUse]]:
    """The same of a plan."""
    planned = {use.device: use for use in made.target}
    placed = placement.place_target(without_crashes(made.setup, selftest.run()))
    model = models.load(placed, placed)
    context = models.target_context(placed, model, Interrupt())
    logged = {use.device: use for use in context.memory}
    context.close()
    model.close()
    for name in planned | logged:
        yield planned.get(name, MemoryUse(name)), logged.get(name, MemoryUse(name))


def main(files: list[str]) -> None:
    """Print the table, in MiB."""
    servers = ""
    if files[:1] == ["--rpc"]:
        servers, files = files[1], files[2:]
    flags = SETTINGS if files[:1] == ["--settings"] else ()
    files = files[bool(flags) :]
    # A server answers one process at a time, so all plans come before this process names it.
    numbers = {"all": -2, "12": 12, "none": 0} if servers or list_names() else {"none": 0}
    setups = [
        (file, name, Setup(model=file, gpu_layers=number, rpc=servers))
        for file in files
        for name, number in numbers.items()
    ] + [
        (file, line, with_flags(Setup(model=file, gpu_layers=-2, rpc=servers), line))
        for file in files
        for line in flags
    ]
    plans = [(file, name, make_plan(setup)) for file, name, setup in setups]
    rpc.add_servers(servers)
    print(
        f"{'model':<40} {'layers':>20} {'device':<8} {'weights':>13} {'cells':>11} {'compute':>11} {'sum':>13} {'off':>6}"
    )
    worst = 0.0
    for file, name, made in plans:
        for planned, logged in load(made):
            pairs = [*zip(planned[1:4], logged[1:4], strict=True), (planned.total, logged.total)]
            cells = [f"{one / MIB:.0f}/{other / MIB:.0f}" for one, other in pairs]
            off = planned.total / logged.total - 1 if logged.total else 1.0
            worst = max(worst, abs(off))
            print(f"{Path(file).stem[:40]:<40} {name:>20} {planned.device:<8} {cells[0]:>13} {cells[1]:>11} "
                  f"{cells[2]:>11} {cells[3]:>13} {off:>6.1%}")  # fmt: skip
    print(f"largest difference: {worst:.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
