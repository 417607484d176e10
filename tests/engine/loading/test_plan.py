"""What a set-up will take: llama.cpp's simulation beside its real loading, automatic choices, and the process that asks it."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.loading import models, placement, simulation
from spectui.engine.loading.kernel_choice import available, for_model, without_crashes
from spectui.engine.loading.placement import shares as split
from spectui.engine.loading.plan import MemoryPlan, PlacementError, make_plan, shortage
from spectui.errors import SpectuiError
from spectui.knobs import Setup
from spectui.llama import selftest
from spectui.llama.devices import memory_use
from spectui.llama.devices.records import Device, MemoryUse, added
from spectui.llama.devices.rpc import PROTOCOL
from spectui.llama.interrupt import Interrupt
from tests.engine.waiting import PATIENCE
from tests.helpers.rpc_server import Server, fake_server, hello, needs_server
from tests.helpers.smollm2 import whole, whole_alone
from tests.llama.devices.test_asynchronous_device import needs_vulkan, on_the_device
from tests.llama.heads.headed import write_headed

MIB, GIB = 2**20, 2**30
FIRST = Device("CUDA0", "a GPU", "gpu", 8 * GIB, 8 * GIB)
SECOND = Device("CUDA1", "a GPU", "gpu", 4 * GIB, 4 * GIB)
CPU = Device("CPU", "a CPU", "cpu", 32 * GIB, 32 * GIB)


def test_the_plan_is_what_llama_cpp_logs_after_loading():
    asked = replace(whole(), requantise_draft="off", cache_type_k="q8_0", cache_type_v="q8_0")
    asked = without_crashes(asked, selftest.run())
    made = make_plan(asked)
    placed = placement.resolve(asked)
    assert placed.draft is not None
    target = models.load(placed.target, placed.target)
    context = models.target_context(placed.target, target, Interrupt())
    draft = models.load(placed.draft, placed.target)
    beside = models.draft_context(placed.draft, draft, Interrupt(), context.n_ctx)
    for planned, logged in ((made.target, context.memory), (made.draft, beside.memory)):
        assert [use.device for use in planned] == [use.device for use in logged] == ["CPU"]
        for one, other in zip(planned[0][1:4], logged[0][1:4], strict=True):
            assert one == pytest.approx(other, rel=0.01)
            assert one > MIB
    for each in (beside, draft, context, target):
        each.close()
    assert made.sentence() == "It fits."


def compared(setup: Setup) -> Iterator[tuple[MemoryUse, MemoryUse]]:
    """(planned, logged) for each device that either names."""
    made = make_plan(setup)
    planned = {use.device: use for use in made.target}
    own = available(made.setup, selftest.run())
    placed = placement.place_target(without_crashes(made.setup, selftest.run()))
    placed = replace(placed, kernels=for_model(placed, own, setup.ctx_size))
    model = models.load(placed, placed)
    context = models.target_context(placed, model, Interrupt())
    logged = {use.device: use for use in context.memory}
    context.close()
    model.close()
    for name in planned | logged:
        yield planned.get(name, MemoryUse(name)), logged.get(name, MemoryUse(name))


@needs_vulkan
def test_the_plan_is_what_llama_cpp_logs_on_a_gpu():
    """With all, some and no layers on it."""
    program = (
        "import json, sys; from tests.engine.loading.test_plan import compared; from spectui.knobs import Setup;"
        "setups = [Setup(**json.loads(sys.argv[1]), gpu_layers=n) for n in (-2, 12, 0)];"
        "print(json.dumps([[each.gpu_layers, *pair] for each in setups for pair in compared(each)]))"
    )
    pairs = on_the_device(program, json.dumps({"model": whole_alone().model, "ctx_size": 1024}))
    on_gpu = {n: planned for n, planned, _ in pairs if planned[0] == "Vulkan0"}
    assert on_gpu[-2][1] > on_gpu[12][1] > on_gpu[0][1] == 0
    for _, planned, logged in pairs:
        assert planned[0] == logged[0]
        assert sum(planned[1:4]) == pytest.approx(sum(logged[1:4]), rel=0.01)


def test_a_draft_copy_that_exists_is_planned_with(monkeypatch: pytest.MonkeyPatch):
    def load(placed: placement.Placed, *_: object, **__: object) -> None:
        raise SpectuiError(placed.path)

    pair = whole()
    monkeypatch.setattr(simulation.draft_copy, "copy_of", lambda draft: Path(pair.model or ""))  # any file that exists
    monkeypatch.setattr(models, "load", load)
    for way, path in (("auto", pair.model), ("off", pair.draft)):
        with pytest.raises(SpectuiError) as caught:
            simulation.Simulation([]).draft(replace(pair, requantise_draft=way))
        assert str(caught.value) == path


@pytest.mark.parametrize("named", [True, False], ids=["named", "beside"])
def test_a_file_of_heads_is_planned_beside_its_target(tmp_path: Path, named: bool) -> None:
    target = write_headed(tmp_path / "target.gguf", heads=0, layers=2)
    heads = write_headed(tmp_path / "mtp-target.gguf", layers=2, alone=True)
    setup = Setup(model=str(target), draft=str(heads) if named else None, ctx_size=512)
    made = make_plan(setup)
    assert made.setup.draft == str(heads)
    (use,) = made.draft
    assert use.weights > 0
    assert use.cells == 512 * 288 * 2 * 2  # width, K and V, bytes
    (other := tmp_path / "other").mkdir()
    plain = make_plan(replace(setup, model=str(target.rename(other / "target.gguf")), draft=None))
    rows = sum(use.compute for use in made.target) - sum(use.compute for use in plain.target)
    assert rows == 512 * 288 * 4  # those of a batch, which the target keeps for its heads


@needs_server
def test_auto_fits_a_server_and_the_plan_shows_its_memory(remote: None):
    with Server() as server:
        asked = replace(whole_alone(), rpc=server.address)
        made = make_plan(asked)
        remote = next(device for device in made.devices if device.name == "RPC0")
        assert remote.free > GIB
        assert made.layers == (31, 31)
        (use,) = (each for each in made.target if each.device == "RPC0")
        per_token = use.cells // asked.ctx_size
        full = make_plan(replace(asked, ctx_size=remote.total // per_token))
    assert 0 < full.layers[0] < 31, "the cells of all layers would fill it"
    assert "RPC0" not in full.missing


@needs_server
def test_auto_divides_a_target_among_two_servers_and_puts_the_draft_on_the_other(remote: None):
    """Two real devices, each with the memory of this machine."""
    with Server() as one, Server() as other:
        rpc = f"{one.address},{other.address}"
        asked = replace(whole(), rpc=rpc, requantise_draft="off", ctx_size_draft=1024)
        beside = make_plan(replace(asked, device="RPC0"))
        first, second = (each for each in beside.devices if each.name.startswith("RPC"))
        (alone_there,) = (each for each in beside.target if each.device == "RPC0")
        per_token = alone_there.cells // asked.ctx_size
        of_both = make_plan(replace(asked, ctx_size=3 * first.total // per_token))
    assert [use.device for use in beside.draft if use.weights and use.device != "CPU"] == ["RPC1"]
    assert beside.layers == (31, 31)
    on = {use.device: use.total for use in added([*of_both.target, *of_both.draft])}
    assert 0 < of_both.layers[0] < 31, "the cells of all layers would need three servers"
    # One layer takes a tenth of a server.
    assert all(0.7 * (each.free - GIB) < on[each.name] <= each.free - GIB for each in (first, second)), on


class Toy(simulation.Simulation):
    """A target of 33 layers of 1/4 GiB and a draft of 17 of 1/8 GiB, on cards as given."""

    def __init__(self, devices: tuple[Device, ...]) -> None:
        super().__init__(())
        self.devices = devices
        self.layers, self.layers_draft = 33, 17

    def target(self, setup: Setup) -> tuple[MemoryUse, ...]:
        names = [gpu.name for gpu in placement.place_target(setup).devices]
        shares = split(setup.tensor_split) or [1.0] * len(names)
        layers = self.layers if setup.gpu_layers < 0 else setup.gpu_layers
        on_cards = (
            MemoryUse(name, int(layers * GIB / 4 * share / sum(shares))) for name, share in zip(names, shares, strict=True)
        )
        return (*on_cards, MemoryUse("CPU", int((self.layers - layers) * GIB / 4)))

    def draft(self, setup: Setup) -> tuple[MemoryUse, ...]:
        if setup.draft is None:
            return ()
        layers = self.layers_draft if setup.gpu_layers_draft < 0 else setup.gpu_layers_draft
        draft = placement.place_draft(setup, setup.draft, placement.place_target(setup))
        return tuple(MemoryUse(gpu.name, int(layers * GIB / 8)) for gpu in draft.devices[:1])


def test_auto_leaves_a_gibibyte_of_each_card(cards):
    made = simulation.plan(Setup(model="m"), Toy(cards(FIRST, CPU)))
    assert made.layers == (28, 33)  # 7 of 8 GiB
    assert made.setup.gpu_layers == 28


def test_auto_takes_all_layers_where_they_fit(cards):
    made = simulation.plan(Setup(model="m"), Toy(cards(FIRST._replace(free=16 * GIB), CPU)))
    assert made.layers == (33, 33)
    assert made.setup.tensor_split == ""


def test_all_and_numbers_are_taken_at_their_word(cards):
    toy = Toy(cards(FIRST, CPU))
    assert simulation.plan(Setup(model="m", gpu_layers=-2), toy).layers == (33, 33)
    assert simulation.plan(Setup(model="m", gpu_layers=31), toy).missing == {}
    assert simulation.plan(Setup(model="m", gpu_layers=33), toy).missing == {"CUDA0": GIB // 4}


def test_the_draft_is_put_on_one_card_and_the_target_around_it(cards):
    made = simulation.plan(Setup(model="m", draft="d"), Toy(cards(FIRST, SECOND, CPU)))
    assert [use.device for use in made.draft] == ["CUDA0"]  # most is free there, once the target took its halves
    assert made.missing == {}
    on = {use.device: use.total for use in (*made.target, *made.draft)}
    assert on["CUDA0"] != on["CUDA1"]
    left = {each.name: each.free - sum(use.total for use in (*made.target, *made.draft) if use.device == each.name)
            for each in (FIRST, SECOND)}  # fmt: skip
    assert all(GIB <= free < GIB * 1.3 for free in left.values())


def test_the_draft_goes_where_most_is_free_beside_the_target(cards):
    """The first card is the larger one, and the target takes 6 GiB of it."""
    made = simulation.plan(Setup(model="m", draft="d", device="CUDA0", gpu_layers=24), Toy(cards(FIRST, SECOND, CPU)))
    assert [use.device for use in made.draft] == ["CUDA1"]
    assert made.setup.device_draft == "CUDA1"


def test_a_draft_that_is_told_where_to_go_goes_there(cards):
    made = simulation.plan(Setup(model="m", draft="d", device_draft="CUDA1"), Toy(cards(FIRST, SECOND, CPU)))
    assert [use.device for use in made.draft] == ["CUDA1"]


def test_unified_memory_is_counted_once():
    integrated = Device("Vulkan0", "an integrated GPU", "igpu", 6 * GIB, 8 * GIB)
    host = CPU._replace(free=8 * GIB)
    uses = [MemoryUse("Vulkan0", 5 * GIB), MemoryUse("CPU", 4 * GIB)]
    assert shortage(uses, (integrated, host)) == {"CPU": GIB}
    assert shortage(uses, (integrated._replace(kind="gpu"), host)) == {}


def test_a_gpu_with_unified_memory_takes_no_more_than_its_driver_allows(cards):
    """Apple's may have three quarters of the memory, and llama.cpp's --fit keeps the margin there too."""
    integrated = Device("Vulkan0", "an integrated GPU", "igpu", 6 * GIB, 6 * GIB)
    toy = Toy(cards(integrated, CPU))
    assert simulation.plan(Setup(model="m"), toy).layers == (20, 33)  # 5 of 6 GiB
    assert simulation.plan(Setup(model="m", gpu_layers=-2), toy).missing == {"Vulkan0": 9 * GIB // 4}


def test_what_target_and_draft_take_of_one_card_is_freed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(simulation, "list_devices", lambda: (FIRST._replace(free=GIB), CPU))
    toy = simulation.Simulation([MemoryUse("CUDA0", 3 * GIB), MemoryUse("CUDA0", 2 * GIB)])
    toy.look()
    assert toy.devices[0].free == 6 * GIB


def test_freed_unified_memory_is_the_hosts_too(monkeypatch: pytest.MonkeyPatch):
    devices = (Device("Vulkan0", "an integrated GPU", "igpu", GIB, 6 * GIB), CPU._replace(free=2 * GIB))
    monkeypatch.setattr(simulation, "list_devices", lambda: devices)
    toy = simulation.Simulation([MemoryUse("Vulkan0", 3 * GIB), MemoryUse("CPU", GIB)])
    toy.look()
    assert [device.free // GIB for device in toy.devices] == [4, 6]


def test_a_mapped_file_is_not_freed_a_second_time(monkeypatch: pytest.MonkeyPatch):
    """The system can have its pages while it is loaded."""
    monkeypatch.setattr(simulation, "list_devices", lambda: (CPU._replace(free=2 * GIB),))
    found = memory_use.logged_weights(
        [
            "load_tensors:   CPU_Mapped model buffer size =  4096.00 MiB",
            "load_tensors:   CPU_REPACK model buffer size =  1024.00 MiB",
        ],
        4 * GIB,
        0,
    )
    assert found == (MemoryUse("CPU", 4 * GIB, mapped=3 * GIB),)
    toy = simulation.Simulation(found)
    toy.look()
    assert toy.devices[0].free == 3 * GIB


@pytest.mark.parametrize(
    ("repacked", "tied", "weights", "mapped"),
    [
        (4096, 0, 4096, 0),  # all of it
        (4300, 0, 4300, 0),  # in a larger layout than the file's
        (4096, 512, 4096 + 512, 512),  # the output is repacked, and the embedding stays mapped
        (3000, 512, 4096, 1096),  # neither is repacked
    ],
)
def test_repacked_weights_are_the_process_s_own(repacked: int, tied: int, weights: int, mapped: int):
    mib = 2**20
    lines = [
        "load_tensors:   CPU_Mapped model buffer size =  4600.00 MiB",
        f"load_tensors:      SPECTUI model buffer size =  {repacked}.00 MiB",
    ]
    found = memory_use.logged_weights(lines, 4096 * mib, tied * mib)
    assert found == (MemoryUse("CPU", weights * mib, mapped=mapped * mib),)


def test_log_lines_are_added_up_by_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory_use, "list_names", lambda: ("CUDA0", "CUDA1", "CUDA10", "RPC0", "RPC1", "MTL0"))
    monkeypatch.setattr(memory_use, "server_buffers", lambda: {"RPC0[a:50052]": "RPC0", "RPC0[b:50052]": "RPC1"})
    found = memory_use.logged([
        "load_tensors:   CPU_Mapped model buffer size =    10.00 MiB",
        "load_tensors:        CUDA0 model buffer size =     1.00 MiB",
        "load_tensors:       CUDA10 model buffer size =     2.00 MiB",
        "load_tensors:    CUDA_Host model buffer size =     5.00 MiB",
        "llama_kv_cache:      CUDA0 KV buffer size =     3.00 MiB",
        "llama_kv_cache:      CUDA0 KV buffer size =     4.00 MiB",
        "sched_reserve:      CUDA0 compute buffer size =   100.00 MiB",
        "sched_reserve:      CUDA0 compute buffer size =     8.00 MiB",
        "load_tensors: RPC0[a:50052] model buffer size =     6.00 MiB",
        "load_tensors: RPC0[b:50052] model buffer size =     7.00 MiB",
        "llama_context: n_ctx = 4096",
    ])  # fmt: skip
    assert {use.device: [part // MIB for part in use[1:4]] for use in found} == {
        "CPU": [15, 0, 0], "CUDA0": [1, 7, 8], "CUDA10": [2, 0, 0], "RPC0": [6, 0, 0], "RPC1": [7, 0, 0],
    }  # fmt: skip


def test_what_is_missing_is_told_with_the_flags_that_may_help():
    made = MemoryPlan(Setup(), (FIRST, CPU), (MemoryUse("CUDA0", 9 * GIB), MemoryUse("CPU", 40 * GIB)))
    assert made.sentence() == (
        "It does not fit, CUDA0 lacks 1,025 MiB and CPU lacks 8,193 MiB: choose fewer layers on GPUs (-ngl, -ngld), a "
        "smaller -c, smaller cells (-ctk q8_0 -ctv q8_0), or a smaller model or quantisation."
    )
    assert "-ngl" not in made._replace(target=(MemoryUse("CPU", 40 * GIB),)).sentence()


ABORT = """
import ctypes
from spectui.engine.loading import simulation
from spectui.llama.library import symbol

abort = symbol("ggml_abort", None, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)
simulation.answer = lambda *question: abort(b"ggml.c", 1, {words})
simulation.main()
"""


@pytest.mark.parametrize(
    ("words", "kind", "sentence"),
    [
        (b"GGML_ASSERT(reg) failed", PlacementError, "cannot place the models so (GGML_ASSERT(reg) failed): choose -sm layer"),
        (b"pre-allocated tensor (cache_k_l0) in a buffer (Vulkan0) that cannot run the operation (NONE)", PlacementError,
         "cannot place the models so (pre-allocated tensor (cache_k_l0)"),
        (b"CUDA error", SpectuiError, "cannot be told: llama.cpp ended while it was asked (CUDA error)."),
    ],
)  # fmt: skip
def test_an_assertion_refuses_a_placement_and_a_driver_that_fails_does_not(
    monkeypatch: pytest.MonkeyPatch, words: bytes, kind: type[SpectuiError], sentence: str
):
    """A card that is full now may have room when the models are freed."""
    monkeypatch.setattr("spectui.engine.loading.plan._COMMAND", [sys.executable, "-c", ABORT.format(words=words)])
    with pytest.raises(SpectuiError) as caught:
        make_plan(replace(whole_alone(), split_mode="tensor"))
    assert type(caught.value) is kind
    assert sentence in str(caught.value)


def test_without_memory_for_a_thread_there_is_no_plan(monkeypatch: pytest.MonkeyPatch):
    """Loading then says what there is too little memory for."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(SpectuiError, match="cannot be told"):
        make_plan(whole_alone())


@needs_server
def test_a_plan_ends_with_the_process_that_asked_for_it(remote: None):
    """Also where it waits for a server that hangs, which would find it in use ever after."""
    connections: list[socket.socket] = []
    both = threading.Event()  # the one that asks whether it can be used, and ggml's

    def asked() -> None:
        if len(connections) == 2:
            both.set()

    with fake_server(hello(*PROTOCOL), asked, connections) as address:
        ask = f"from spectui.engine.loading.plan import *\nmake_plan(Setup(model='none', rpc={address!r}))"
        asker = subprocess.Popen([sys.executable, "-c", ask])
        assert both.wait(PATIENCE)
        asker.kill()
        asker.wait()
        connections[1].settimeout(PATIENCE)
        with suppress(ConnectionResetError):
            while connections[1].recv(64):
                pass
