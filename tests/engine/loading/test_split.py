"""How a model is divided among GPUs: tensor split, split mode and main GPU, of the target and of the draft."""

from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.loading import placement
from spectui.engine.loading.placement import shares
from spectui.engine.loading.plan import make_plan, way_out
from spectui.errors import UsageError
from spectui.knobs import Setup
from spectui.llama.devices.memory_use import divided, logged
from spectui.llama.devices.records import Device, MemoryUse
from tests.helpers.rpc_server import Server, needs_server
from tests.helpers.smollm2 import whole
from tests.llama.heads.headed import write_headed

GIB = 2**30
FIRST = Device("CUDA0", "a GPU", "gpu", 8 * GIB, 8 * GIB)
SECOND = Device("CUDA1", "a GPU", "gpu", 4 * GIB, 4 * GIB)
CPU = Device("CPU", "a CPU", "cpu", 32 * GIB, 32 * GIB)


def asked(role: str, **split: object) -> Setup:
    """A pair with these settings of a role, on two GPUs."""
    suffix = "_draft" if role == "draft" else ""
    changes = {f"{key}{suffix}": value for key, value in (split | {"device": "CUDA0,CUDA1"}).items()}
    return replace(Setup(model="m", draft="d"), **changes)  # type: ignore[arg-type]


def devices(setup: Setup, role: str) -> list[Device]:
    """The GPUs that the role uses."""
    return list(getattr(placement.resolve(setup), role).devices)


@pytest.mark.parametrize("role", ["target", "draft"])
@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("1", "{} 1 has 1 share and the {} uses 2 GPUs: give one for each."),
        ("1,2,3", "{} 1,2,3 has 3 shares and the {} uses 2 GPUs: give one for each."),
        ("nan,1", "{} is numbers from 0 up"),
        ("-1,2", "{} is numbers from 0 up"),
        ("inf,1", "{} is numbers from 0 up"),
        ("0,0", "{} is numbers from 0 up with commas, not all 0"),
        ("a,b", "{} is numbers from 0 up"),
    ],
)
def test_a_tensor_split_that_cannot_be_is_refused(cards, role: str, split: str, message: str) -> None:
    cards(FIRST, SECOND, CPU)
    with pytest.raises(UsageError) as caught:
        placement.resolve(asked(role, tensor_split=split))
    assert str(caught.value).startswith(message.format({"target": "tensor-split"}.get(role, "tensor-split-draft"), role))


@pytest.mark.parametrize(
    ("changes", "device"),
    [({}, [SECOND]), ({"tensor_split": "1,0"}, [FIRST]), ({"device": "CUDA0"}, [FIRST]), ({"gpu_layers": 0}, []),
     ({"split_mode": "none", "main_gpu": 0}, [FIRST]), ({"device_draft": "CUDA0"}, [FIRST])],
)  # fmt: skip
def test_heads_lie_where_the_targets_last_layers_do(
    cards, tmp_path: Path, changes: dict[str, object], device: list[Device]
) -> None:
    """A draft model lies where most memory is free."""
    cards(FIRST, SECOND, CPU)
    setup = replace(Setup(model="m", draft=str(write_headed(tmp_path / "h.gguf", alone=True))), **changes)  # type: ignore[arg-type]
    assert devices(setup, "draft") == device
    assert devices(Setup(model="m", draft="d"), "draft") == [FIRST]


@pytest.mark.parametrize("role", ["target", "draft"])
def test_a_main_gpu_that_there_is_not_is_refused(cards, role: str) -> None:
    cards(FIRST, SECOND, CPU)
    one = asked(role, split_mode="none", main_gpu=2)
    with pytest.raises(UsageError, match=rf"There is no main-gpu\S* 2: the {role} uses 2 GPUs, counted from 0"):
        placement.resolve(one)
    assert devices(asked(role, split_mode="none", main_gpu=1), role) == [FIRST, SECOND]
    cards(CPU)
    alone = replace(one, device="", device_draft="")
    assert devices(alone, role) == []  # a line written for a machine with GPUs


@pytest.mark.parametrize(
    ("modes", "flags"),
    [({"split_mode": "row"}, "-sm layer,"), ({"split_mode_draft": "tensor"}, "-smd layer,"),
     ({"split_mode": "row", "split_mode_draft": "row"}, "-sm layer and -smd layer,")],
)  # fmt: skip
def test_another_split_mode_is_the_way_out(modes: dict[str, str], flags: str) -> None:
    assert way_out(replace(Setup(), **modes)).startswith(f"choose {flags}")  # type: ignore[arg-type]
    assert "-dev" in way_out(Setup())


@pytest.mark.parametrize(
    ("both", "draft", "on_cpu", "used"),
    [
        ("auto", "auto", True, "off"), ("auto", "auto", False, "auto"), ("on", "auto", True, "on"),
        ("auto", "on", True, "on"), ("on", "off", False, "off"),
    ],
)  # fmt: skip
def test_the_drafts_attention_is_the_targets_unless_it_is_named(both: str, draft: str, on_cpu: bool, used: str, cards):
    cards(*([] if on_cpu else [FIRST]), CPU)
    placed = placement.resolve(Setup(model="m", draft="d", flash_attn=both, flash_attn_draft=draft)).draft
    assert placed is not None and placed.flash_attn == used
    assert placed.chunk == (128 if (both, draft, on_cpu) == ("auto", "auto", True) else 512)


def test_the_draft_alone_is_placed_as_beside_the_target() -> None:
    pair = Setup(
        model="m", draft="d", device="CUDA0", gpu_layers=3, tensor_split="1", threads=8, flash_attn="on",
        device_draft="CUDA1,CUDA2", gpu_layers_draft=5, tensor_split_draft="3,1", split_mode_draft="row", threads_draft=2,
        flash_attn_draft="off", cache_type_k_draft="q8_0",
    )  # fmt: skip
    assert pair.draft_alone() == replace(
        pair, model="d", draft=None, device="CUDA1,CUDA2", gpu_layers=5, tensor_split="3,1", split_mode="row", threads=2,
        flash_attn="off", cache_type_k="q8_0",
    )  # fmt: skip
    anywhere = replace(pair, device_draft="", tensor_split_draft="").draft_alone()
    assert (anywhere.device, anywhere.split_mode) == ("", "none"), "on one GPU, as beside the target"


@needs_server
def test_a_draft_is_divided_by_its_own_shares(remote: None) -> None:
    """Real devices. The numbers do not fit into the C floats that llama.cpp takes; their proportion does."""
    pair = replace(whole(), device="none", device_draft="RPC0,RPC1", gpu_layers_draft=-2, requantise_draft="off")
    with Server() as one, Server() as other:
        pair = replace(pair, rpc=f"{one.address},{other.address}")
        found = {
            (mode, split): make_plan(replace(pair, split_mode_draft=mode, tensor_split_draft=split, main_gpu_draft=gpu))
            for mode, split, gpu in (("layer", "1e39,3e39", 0), ("none", "", 1))
        }
    divided = {use.device: use.cells for use in found["layer", "1e39,3e39"].draft}
    assert 2.5 < divided["RPC1"] / divided["RPC0"] < 3.5
    whole_draft = {use.device: use.cells for use in found["none", ""].draft if use.cells}
    assert set(whole_draft) == {"RPC1"}


def test_tensors_of_several_gpus_are_told_apart_by_their_shares() -> None:
    """The log has the sizes of the largest part, a simulation those of undivided tensors."""
    shares = {"CUDA0": 3.0, "CUDA1": 1.0}
    log = [
        "load_tensors: Meta() model buffer size = 300.00 MiB", "llama_kv_cache: Meta() KV buffer size = 30.00 MiB",
        "sched_reserve: Meta() compute buffer size = 8.00 MiB", "sched_reserve: CPU compute buffer size = 1.00 MiB",
    ]  # fmt: skip
    mib = 2**20
    expected = (MemoryUse("CUDA0", 300 * mib, 30 * mib, 8 * mib), MemoryUse("CUDA1", 100 * mib, 10 * mib, 8 * mib))
    cpu = MemoryUse("CPU", 0, 0, mib)
    assert divided(logged(log), shares) == (*expected, cpu)
    assert divided([MemoryUse("Meta()", 400 * mib, 40 * mib, 8 * mib), cpu], shares, whole=True) == (*expected, cpu)


def test_numbers_of_any_size_are_shares() -> None:
    """Also those whose sum is infinite."""
    assert shares("1e308/1e308, 5e307") == [1.0, 1.0, 0.5]
