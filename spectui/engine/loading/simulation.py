"""A program that simulates the loading of a pair: `plan.make_plan` runs it. llama.cpp says exactly what it would allocate."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from spectui.engine.loading import draft_copy, kernel_choice, models, placement
from spectui.engine.loading.placement import Placed, resolve
from spectui.engine.loading.plan import MemoryPlan, shortage
from spectui.errors import DraftError, SpectuiError, UsageError
from spectui.gguf_files.check import metadata_of
from spectui.gguf_files.heads import are_heads
from spectui.kernels.plugin import LLAMA_CPP, Kernels
from spectui.knobs import Setup
from spectui.llama import selftest
from spectui.llama.context import Context
from spectui.llama.devices import rpc
from spectui.llama.devices.listing import list_devices, offloading
from spectui.llama.devices.memory_use import HOST
from spectui.llama.devices.records import Device, MemoryUse, added
from spectui.llama.interrupt import Interrupt
from spectui.llama.last_words import on_abort
from spectui.llama.model import Model

AUTO, ALL = -1, -2
"""Numbers of layers, as in llama.cpp: as many as fit, and all."""

MARGIN = 2**30
"""Bytes that automatic choices leave free on each GPU: llama.cpp's --fit-target."""


class Simulation:
    """Asks llama.cpp what set-ups would take on the devices. One question takes 0.1 to 0.3 s."""

    def __init__(self, freed: Iterable[MemoryUse], own: Callable[[Setup], Kernels] = lambda _: LLAMA_CPP) -> None:
        """`own`: spectui's kernels, as far as they are available for a set-up: beside them llama.cpp plans GPUs otherwise."""
        self._own = own
        self._interrupt = Interrupt()
        self._freed = {use.device: use for use in added(freed)}  # target and draft may be on one device
        self._target: tuple[Model, Context] | None = None  # asked about last: heads draft beside it
        self.n_ctx = 0
        """Tokens of the context of the target asked about last."""
        self.devices: tuple[Device, ...] = ()
        self.layers = self.layers_draft = 0

    def target(self, setup: Setup) -> tuple[MemoryUse, ...]:
        """The memory of the set-up's target."""
        if self._target is not None:
            self._close(*self._target)
            self._target = None
        placed = self._with_kernels(placement.place_target(setup), setup.ctx_size)
        model = models.load(placed, placed, simulated=True, metadata=metadata_of(placed.path))
        self.layers = model.layers
        context = models.target_context(placed, model, self._interrupt)
        self.n_ctx = context.n_ctx
        self._target = model, context
        return self._ask(context)

    def draft(self, setup: Setup) -> tuple[MemoryUse, ...]:
        """The memory of its draft beside the target of the last call, or of that target's own heads; () without either."""
        path, beside = setup.draft, self._target
        if beside is not None and models.rows_for_heads(setup, beside[0]) is None:
            if path is not None and are_heads(metadata_of(path)):
                raise DraftError(models.heads_problem(path, beside[0]))
            beside = None
        if path is None and beside is None:
            return ()
        target = placement.place_target(setup)
        placed = placement.place_draft(setup, path or setup.model or "", target)
        if path is None and beside is not None:
            own = models.heads_context(replace(placed, kernels=beside[0].kernels), *beside, self._interrupt)
            uses = tuple(use._replace(weights=0) for use in self._ask(own))  # the target has them
            own.close()
            return uses
        if setup.requantise_draft == "auto" and placed.on_cpu:
            copy = draft_copy.copy_of(placed.path)
            placed = replace(placed, path=str(copy)) if os.path.exists(copy) else placed
        placed = self._with_kernels(placed, setup.ctx_size_draft or self.n_ctx)
        model = models.load(placed, target, simulated=True, metadata=metadata_of(placed.path))
        self.layers_draft = model.layers
        context: Context
        if beside is not None:
            context = models.heads_context(placed, model, beside[1], self._interrupt)
        else:
            context = models.draft_context(placed, model, self._interrupt, self.n_ctx)
        uses = self._ask(context)
        self._close(model, context)
        return uses

    def _with_kernels(self, placed: Placed, n_ctx: int) -> Placed:
        freed = sum(use.total - use.mapped for name, use in self._freed.items() if name == HOST)
        return replace(placed, kernels=kernel_choice.for_model(placed, self._own(placed.setup), n_ctx, freed))

    def look(self) -> None:
        """Read the free memory of the devices, once: the first model has opened those that are used."""
        if not self.devices:
            devices = list_devices()
            uses = {device.name: self._freed.get(device.name, MemoryUse(device.name)) for device in devices}
            of_host = [uses[device.name] for device in devices if device.unified or device.kind == "cpu"]
            # The system has a mapped file's pages among its free memory already.
            freed_of_host = sum(use.total - use.mapped for use in of_host)

            def free(device: Device) -> int:
                freed = freed_of_host if device.kind == "cpu" else uses[device.name].total
                # Some drivers report all memory as free whatever is taken.
                return min(device.free + freed, device.total)

            self.devices = tuple(device._replace(free=free(device)) for device in devices)

    def _ask(self, context: Context) -> tuple[MemoryUse, ...]:
        uses: tuple[MemoryUse, ...] = context.simulated_memory()
        self.look()
        return uses

    def _close(self, model: Model, context: Context) -> None:
        context.close()
        model.close()


def plan(setup: Setup, simulation: Simulation) -> MemoryPlan:
    """The plan for a set-up, with automatic choices made. Raises SpectuiError."""
    whole = replace(setup, gpu_layers=ALL if setup.gpu_layers == AUTO else setup.gpu_layers)
    whole = replace(whole, gpu_layers_draft=ALL if setup.gpu_layers_draft == AUTO else setup.gpu_layers_draft)
    target = simulation.target(whole)
    if setup.draft is not None and not setup.device_draft and not are_heads(metadata_of(setup.draft)):
        whole = replace(whole, device_draft=_one_device(target, simulation.devices))
    draft = simulation.draft(whole)
    if setup.gpu_layers_draft == AUTO and not _leaves_margin(draft, simulation.devices):
        fits = _most(simulation.layers_draft, lambda n: _leaves_margin(
            simulation.draft(replace(whole, gpu_layers_draft=n)), simulation.devices))  # fmt: skip
        whole = replace(whole, gpu_layers_draft=fits)
        draft = simulation.draft(whole)
    if setup.gpu_layers == AUTO and not _leaves_margin([*target, *draft], simulation.devices):
        if not setup.tensor_split and setup.split_mode != "none":
            whole = replace(whole, tensor_split=_free_shares(whole, draft, simulation.devices))
        fits = _most(simulation.layers, lambda n: _leaves_margin(
            [*simulation.target(replace(whole, gpu_layers=n)), *draft], simulation.devices))  # fmt: skip
        whole = replace(whole, gpu_layers=fits)
        target = simulation.target(whole)
    placed = resolve(whole)
    layers, layers_draft = simulation.layers, simulation.layers_draft
    on_gpus = _on_gpus(placed.target.on_cpu, whole.gpu_layers, layers)
    on_gpus_draft = _on_gpus(placed.draft is None or placed.draft.on_cpu, whole.gpu_layers_draft, layers_draft)
    states = (MemoryUse(HOST, 0, setup.state_memory << 20),) if setup.state_memory > 0 else ()
    return MemoryPlan(whole, simulation.devices, target, draft, (on_gpus, layers), (on_gpus_draft, layers_draft), states)


def _on_gpus(on_cpu: bool, layers: int, of: int) -> int:
    return 0 if on_cpu else of if layers < 0 else min(layers, of)


def _most(layers: int, fits: Callable[[int], bool]) -> int:
    """The largest number of layers below `layers` that fits, found by bisection; 0 if none does."""
    low, high = 0, layers
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _leaves_margin(uses: Iterable[MemoryUse], devices: Iterable[Device]) -> bool:
    """Whether the GPUs keep the margin; the host's memory is not asked."""
    gpus = [device._replace(free=max(0, device.free - MARGIN)) for device in devices if device.kind in ("gpu", "igpu")]
    names = {gpu.name for gpu in gpus}
    return not shortage([use for use in uses if use.device in names], gpus)


def _one_device(target: Iterable[MemoryUse], devices: Sequence[Device]) -> str:
    """The GPU with the most free memory beside the target, for the draft; "" without a GPU."""
    taken = {use.device: use.total for use in target}
    gpus = offloading(devices)
    return max(gpus, key=lambda gpu: gpu.free - taken.get(gpu.name, 0)).name if gpus else ""


def _free_shares(setup: Setup, draft: Iterable[MemoryUse], devices: Iterable[Device]) -> str:
    """A tensor split by the memory that is free beside the draft, in MiB; "" for fewer than two GPUs."""
    names = [device.name for device in placement.place_target(setup).devices]
    taken = {use.device: use.total for use in draft}
    free = {device.name: device.free - MARGIN - taken.get(device.name, 0) for device in devices}
    return ",".join(str(max(1, free[name] // 2**20)) for name in names) if len(names) > 1 else ""


def answer(setup: Setup, freed: Iterable[MemoryUse]) -> MemoryPlan | SpectuiError:
    """The answer to `make_plan`'s question: the plan, or why there is none."""
    setup = models.with_heads_beside(setup)
    tested = selftest.run()
    try:
        rpc.add_servers(setup.rpc)

        def own(asked: Setup) -> Kernels:
            return kernel_choice.available(replace(asked, no_repack=setup.no_repack), tested)

        return plan(kernel_choice.without_crashes(setup, tested), Simulation(freed, own))
    except SpectuiError as error:
        return (UsageError if isinstance(error, UsageError) else SpectuiError)(str(error))


def _end_with_parent() -> None:
    """End this process when standard input ends: who asked has the answer, or has ended."""
    while os.read(0, 4096):
        pass
    rpc.reset_when_closed()
    os._exit(0)


def main() -> None:
    """Answer the question on standard input; where ggml ends the process, with what it said."""
    # Drivers may write to standard output.
    out, sys.stdout = os.fdopen(os.dup(1), "wb"), sys.stderr
    os.dup2(2, 1)

    def report_abort(words: str) -> None:
        if not out.closed:
            pickle.dump(words, out)
            out.flush()

    on_abort(report_abort)
    question = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answered = answer(*question)
    with out:
        pickle.dump(answered, out)


if __name__ == "__main__":
    main()
