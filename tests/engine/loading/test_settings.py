"""Which settings reach which model: target and draft each have their own."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from spectui.engine.loading import models, placement
from spectui.kernels.plugin import LLAMA_CPP
from spectui.knobs import Setup
from spectui.llama.devices.records import Device
from spectui.llama.interrupt import Interrupt

CARDS = tuple(Device(f"CUDA{number}", "a GPU", "gpu", 1, 2) for number in range(2))
USUAL = {
    "gpu_layers": -1, "split_mode": "layer", "main_gpu": 0, "tensor_split": [], "n_ctx": 4096, "type_k": "f16", "type_v": "f16",
    "flash_attn": "auto", "threads": 7, "ubatch": 512, "batch": 2048,
}  # fmt: skip


@pytest.mark.parametrize(
    ("setup", "target", "draft"),
    [
        ({}, {}, {}),
        ({"gpu_layers": 5, "gpu_layers_draft": 3}, {"gpu_layers": 5}, {"gpu_layers": 3}),
        ({"split_mode": "none", "main_gpu": 1}, {"split_mode": "none", "main_gpu": 1}, {}),
        ({"split_mode_draft": "row", "main_gpu_draft": 2}, {}, {"split_mode": "row", "main_gpu": 2}),
        ({"tensor_split": "4,1"}, {"tensor_split": [1.0, 0.25]}, {}),
        ({"tensor_split_draft": "1,2", "device_draft": "CUDA0,CUDA1"}, {}, {"tensor_split": [0.5, 1.0]}),
        ({"ctx_size": 512}, {"n_ctx": 512}, {}),
        ({"ctx_size_draft": 256}, {}, {"n_ctx": 256}),
        ({"cache_type_k": "q8_0", "cache_type_v": "q4_0"}, {"type_k": "q8_0", "type_v": "q4_0"}, {}),
        ({"cache_type_k_draft": "q8_0", "cache_type_v_draft": "q4_0"}, {}, {"type_k": "q8_0", "type_v": "q4_0"}),
        ({"flash_attn": "off"}, {"flash_attn": "off"}, {"flash_attn": "off"}),
        ({"flash_attn_draft": "off"}, {}, {"flash_attn": "off"}),
        ({"threads": 3}, {"threads": 3}, {"threads": 3}),
        ({"threads_draft": 2}, {}, {"threads": 2}),
        ({"ubatch": 64, "batch": 128}, {"ubatch": 64, "batch": 128}, {"ubatch": 64, "batch": 128}),
    ],
)
def test_each_setting_reaches_its_model(
    setup: dict[str, object], target: dict[str, object], draft: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, object]] = []

    def make(*_: object, **given: object) -> object:
        made.append(given)
        return SimpleNamespace(output_on_gpu=False, n_vocab=64, kernels=LLAMA_CPP)

    monkeypatch.setattr(models, "Model", make)
    monkeypatch.setattr(models, "Context", make)
    monkeypatch.setattr(placement, "list_devices", lambda: CARDS)
    monkeypatch.setattr(placement, "threads", lambda wanted: wanted or 7)
    asked = replace(Setup(model="m", draft="d"), **setup)  # type: ignore[arg-type]
    resolved = placement.resolve(asked)
    assert resolved.draft is not None
    models.target_context(resolved.target, models.load(resolved.target, resolved.target), Interrupt())
    models.draft_context(resolved.draft, models.load(resolved.draft, resolved.target), Interrupt(), 4096)
    for found, wanted in ((made[0] | made[1], target), (made[2] | made[3], draft)):
        assert {key: found[key] for key in USUAL} == USUAL | wanted
