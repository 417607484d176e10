"""Which models get spectui's kernels, and the clause that says why not."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest

from spectui.engine.events import Loaded, Notice
from spectui.engine.loading import kernel_choice, models, placement
from spectui.engine.loading.kernel_choice import available
from spectui.engine.loading.kernel_choice import for_model as of_placed
from spectui.engine.loading.plan import make_plan
from spectui.engine.loading.remarks import FAST_KERNELS_CRASH
from spectui.engine.session import Session
from spectui.gguf_files.check import metadata_of
from spectui.kernels.build import LIBRARY
from spectui.kernels.plugin import LLAMA_CPP, Kernels, Unusable
from spectui.knobs import Setup
from spectui.llama import selftest
from spectui.llama.cpu import plugin
from spectui.llama.devices.records import Device
from spectui.llama.selftest import SelfTest
from tests.helpers.smollm2 import alone, setup, whole_alone
from tests.llama.ggufs import finished, write_gemma, write_model
from tests.llama.test_recurrent import HEAD, KV_HEADS, write_lfm2, write_mamba

WORKS = SelfTest(True)
OWN = Kernels("avx2")
built = pytest.mark.skipif(not LIBRARY.exists(), reason="the kernels are not built")


def wanted(**changes: object) -> Setup:
    return replace(whole_alone(), kernels="spectui", device="none", **changes)


def for_model(setup: Setup, role: str, path: str, own: Kernels, freed: int = 0) -> Kernels:
    """The kernels of this file as the target or as the draft."""
    target = placement.place_target(replace(setup, model=path))
    placed = target if role == "target" else placement.place_draft(setup, path, target)
    return of_placed(placed, own, setup.ctx_size, freed)


@pytest.mark.parametrize(
    ("changes", "verdict", "why"),
    [
        ({"kernels": "llama.cpp"}, WORKS, "--kernels llama.cpp"),
        ({"no_repack": "on"}, WORKS, "--no-repack keeps the weights as they are in the file"),
        ({}, SelfTest(True, own=False), "they crash on this machine, or their library is damaged: install spectui again"),
        ({}, WORKS, "they were not built"),
    ],
)
def test_where_they_are_not_available(
    changes: dict[str, str], verdict: SelfTest, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> None:
        raise Unusable("they were not built")

    monkeypatch.setattr(plugin, "load", load)
    assert available(replace(Setup(kernels="spectui"), **changes), verdict) == Kernels(why=why)


@built
def test_layers_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Device("CUDA0", "NVIDIA H100", "gpu", 1 << 30, 80 << 30)
    monkeypatch.setattr(placement, "list_devices", lambda: (card,))
    why = Kernels(why="the model's layers are on a GPU or a server")
    path = wanted().model or ""
    assert for_model(wanted(), "target", path, OWN) == OWN
    assert for_model(replace(wanted(), device=""), "target", path, OWN) == why
    assert for_model(wanted(), "draft", path, OWN) == why
    assert for_model(wanted(device_draft="none"), "draft", path, OWN)[:2] == OWN[:2]
    loaded: list[int] = []
    monkeypatch.setattr(plugin, "load", lambda: loaded.append(1) or SimpleNamespace(set="avx2"))
    alone = replace(wanted(), device="", draft=None)
    assert available(alone, WORKS) == why and not loaded  # ggml does not get to know them
    assert available(replace(alone, draft="d", device_draft="none"), WORKS) == available(wanted(), WORKS) == OWN


@built
@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"gpu_layers": 30}, r"blk\.0\..*"),  # the output counts as the 31st layer
        ({"gpu_layers": 29}, r"blk\.[01]\..*"),
        ({"override_tensor": "ffn_down=CPU"}, r"blk\.\d+\.ffn_down\.weight"),
        ({"override_tensor": r"\.2.\.=CUDA0", "gpu_layers": 1}, r"blk\.(\d|1\d)\..*"),
        ({"override_tensor": "(=CPU"}, ""),  # llama.cpp refuses it
    ],
)
@pytest.mark.parametrize("card", ["CUDA0", "RPC0"])
def test_what_is_on_the_cpu_beside_a_gpu_has_them(changes: dict, names: str, card: str, monkeypatch: pytest.MonkeyPatch):
    """It stays mapped for prompts, which GPUs multiply, and those of servers do not."""
    device = Device(card, "NVIDIA H100", "gpu", 1 << 30, 80 << 30)
    monkeypatch.setattr(placement, "list_devices", lambda: (device,))
    asked = replace(wanted(), device="", draft=None, **changes)
    matrices = placement.place_target(asked).of_cpu
    every = metadata_of(asked.model or "").tensors.matrices
    assert matrices == tuple(each for each in every if re.fullmatch(names, each.name))
    repacked = sum(plugin.load().bytes(each.kind, *each.matrices) for each in matrices)
    if not matrices:
        assert not for_model(asked, "target", asked.model or "", OWN).set and not available(asked, WORKS).set
        return
    assert available(asked, WORKS).set == plugin.load().set
    beside = 0 if card == "RPC0" else repacked
    assert for_model(asked, "target", asked.model or "", OWN) == OWN._replace(beside=beside)
    read = sum(each.size for each in matrices) if beside else 0
    cells = models.bytes_of_cells(placement.place_target(asked), asked.ctx_size)
    for short in (0, 1):
        monkeypatch.setattr(kernel_choice, "free_memory", lambda short=short: repacked + read + cells + 2**28 - short)
        assert bool(for_model(asked, "target", asked.model or "", OWN).set) is not bool(short)


@built
def test_signs_are_for_drafts_alone():
    path = wanted().model or ""
    assert [for_model(wanted(), role, path, OWN).signs for role in ("target", "draft")] == [False, True]
    assert not for_model(wanted(requantise_draft="off"), "draft", path, OWN).signs


@built
def test_weights_that_they_have_no_kernels_for(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "mxfp4.gguf", "llama")
    writer.add_tensor("output.weight", np.zeros((4, 17), np.uint8), raw_dtype=gguf.GGMLQuantizationType.MXFP4)
    found = for_model(wanted(), "target", str(finished(writer, tmp_path / "mxfp4.gguf")), OWN)
    assert found == Kernels(why="they have none for the types of the model's weights")


def test_a_tensor_whose_layer_is_no_number_is_placed_as_the_output(tmp_path: Path) -> None:
    """A file may have any name. `int` does not take all that `str` calls digits."""
    path = write_model(tmp_path / "model.gguf")
    path.write_bytes(path.read_bytes().replace(b"blk.0.ffn_up.weight", "blk.².fn_up.weight".encode()))
    placed = placement.place_target(Setup(model=str(path), device="none", threads=1))
    assert "blk.².fn_up.weight" in [matrix.name for matrix in placed.of_cpu]


@built
def test_too_little_memory_for_a_second_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    path = wanted().model or ""
    repacked = sum(plugin.load().bytes(each.kind, *each.matrices) for each in metadata_of(path).tensors.matrices)
    cells = 2 * 30 * 3 * 2 * 64 * 4096  # bytes in f16, layers, heads of K and V, their width, tokens
    needed = repacked + cells + 2**28

    def free(bytes: int, ctx_size: int = 4096, state_memory: int = -1) -> Kernels:
        monkeypatch.setattr(kernel_choice, "free_memory", lambda: bytes)
        return for_model(wanted(ctx_size=ctx_size, state_memory=state_memory), "target", path, OWN)

    assert free(needed) == OWN
    assert free(needed - 1) == Kernels(why="there is too little memory for a second copy of the weights")
    assert free(needed - 1, ctx_size=2048) == OWN
    assert free(needed, state_memory=1).why, "conversations are promised that"
    assert free(needed, ctx_size=0).why  # the 8192 tokens that it was trained with
    assert for_model(wanted(ctx_size=0), "target", path, OWN, freed=2 * cells) == OWN


@pytest.mark.parametrize(
    ("write_it", "type", "cells"),
    [
        (write_gemma, "f16", 768 * 128),  # a window and a batch, of its 32,768 tokens
        (write_lfm2, "f16", 2 * sum(KV_HEADS) * HEAD * 2 * 32768),  # K and V, bytes: one layer in three has some
        (write_lfm2, "f32", 2 * sum(KV_HEADS) * HEAD * 4 * 32768),
        (write_mamba, "f16", 0),
    ],
)
def test_cells_are_counted_as_llama_cpp_makes_them(
    write_it: Callable[[Path], object], type: str, cells: int, tmp_path: Path
) -> None:
    write_it(tmp_path / "model.gguf")
    setup = Setup(model=str(tmp_path / "model.gguf"), device="none", cache_type_k=type, cache_type_v=type)
    found = models.bytes_of_cells(placement.place_target(setup), 32768)
    assert found == pytest.approx(cells, abs=2**17)  # states, and llama.cpp's hundredths of a MiB


LOAD = """
import json, resource, sys
from spectui.engine.session import Session
from spectui.knobs import Setup

session, setup = Session(lambda event: None), Setup(**json.loads(sys.argv[1]))
session.load(Setup(setup.model, ctx_size=256, kernels="llama.cpp", no_repack="on", no_profile="on", device="none"))
size = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (size + (30 << 20), resource.RLIM_INFINITY))
print(session.load(setup).target.kernels_in_words)
"""


@built
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of the process's own memory is Linux's")
def test_where_a_second_copy_cannot_be_had_the_model_is_loaded_as_it_is_in_the_file() -> None:
    """The system grants it, and a limit of the process does not."""
    asked = json.dumps(asdict(replace(wanted(ctx_size=256), kernels="auto")))
    done = subprocess.run([sys.executable, "-c", LOAD, asked], capture_output=True, text=True, check=False)
    assert done.stdout == "llama.cpp, because there is too little memory for a second copy of the weights\n", done.stderr


def test_why_they_are_not_used_is_said_once_where_they_are_wanted_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []
    session = Session(events.append)
    crash = replace(selftest.run(), own=False)
    for changes, tested in (
        ({"no_repack": "on"}, selftest.run()),
        ({"no_repack": "on", "ctx_size": 512}, selftest.run()),
        ({"kernels": "llama.cpp"}, selftest.run()),
        ({"kernels": "auto"}, crash),
    ):
        monkeypatch.setattr("spectui.engine.pair.selftest.run", lambda tested=tested: tested)
        session.load(replace(wanted(ctx_size=256), **changes))
    said = [each.message for each in events if isinstance(each, Notice) and "spectui's kernels are" in each.message]
    assert said == [
        "spectui's kernels are not used here: --no-repack keeps the weights as they are in the file.",
        "spectui's kernels are not used here: they crash on this machine, or their library is damaged: install spectui again.",
    ]


@built
def test_a_pair_is_loaded_with_them_and_again_when_the_setting_changes() -> None:
    events: list[object] = []
    session = Session(events.append)
    pair = replace(setup(), ctx_size=256, kernels="spectui", device="none", device_draft="none")
    own = f"spectui {plugin.load().set}"
    loaded = session.load(pair)
    assert loaded.target.kernels == own and loaded.draft is not None and loaded.draft.kernels == own
    assert session.load(pair).target.kernels == own
    target = session.pair and session.pair.target
    loaded = session.load(replace(pair, kernels="llama.cpp"))
    assert session.pair is not None and session.pair.target is not target
    assert loaded.target.kernels_in_words == "llama.cpp, because --kernels llama.cpp"
    assert [each.name for each in loaded.devices] == ["CPU"]
    assert {use.device for use in loaded.target.memory} == {"CPU"}
    assert not [event.message for event in events if isinstance(event, Notice) and "spectui's kernels" in event.message]
    assert sum(isinstance(event, Loaded) for event in events) == 3


@built
@pytest.mark.parametrize(("kernels", "said"), [("spectui", []), ("llama.cpp", [FAST_KERNELS_CRASH])])
def test_fast_kernels_that_crash_are_told_where_spectuis_are_not_used(
    kernels: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = replace(selftest.run(), extra_buffers=False)
    monkeypatch.setattr("spectui.engine.pair.selftest.run", lambda: crash)
    events: list[object] = []
    session = Session(events.append)
    session.load(replace(wanted(ctx_size=256), kernels=kernels))
    assert [each.message for each in events if isinstance(each, Notice) and "kernels" in each.message] == said


@built
def test_costs_are_kept_apart() -> None:
    pair = replace(setup(), device="none")
    found = []
    for each, kernels in (
        (pair, LLAMA_CPP),
        (replace(pair, kernels="spectui"), LLAMA_CPP),
        (replace(pair, kernels="llama.cpp"), Kernels(why="--kernels llama.cpp")),
        (replace(pair, kernels="spectui"), OWN),
        (pair, OWN),
        (pair, Kernels("avxvnni")),
    ):
        placed = placement.resolve(each)
        assert placed.draft is not None
        found.append(tuple(replace(model, kernels=kernels).costs_key() for model in (placed.target, placed.draft)))
    assert len({target for target, _ in found}) == len({draft for _, draft in found}) == 3
    assert found[0] == found[1] == found[2] and found[3] == found[4]


@built
def test_a_plan_counts_the_repacked_copy() -> None:
    """Mapped weights count as free memory; repacked ones do not. A simulation knows no mapping: it says their sizes."""
    small = replace(alone(), device="none", ctx_size=256)
    repacked = sum(plugin.load().bytes(each.kind, *each.matrices) for each in metadata_of(small.model or "").tensors.matrices)
    with_own, without = (make_plan(replace(small, kernels=kernels)).target for kernels in ("spectui", "llama.cpp"))
    assert [use.device for use in with_own] == [use.device for use in without] == ["CPU"]
    assert with_own[0].weights >= repacked
    assert with_own[0].weights >= without[0].weights
