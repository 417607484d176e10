"""Tensors that a person puts into buffers: llama.cpp's -ot, -ncmoe and -cmoe."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.loading.placement import Placed, resolve
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Setup
from spectui.llama.model import Model
from tests.llama.ggufs import write_model


def placed(setup: Setup, role: str = "target") -> Placed:
    return Placed(setup, role, "", False, (), 1)


def chosen(name: str, placed: Placed) -> str:
    """The buffers of the tensor of this name; "" if nothing is said of it."""
    return next((buffers for pattern, buffers in placed.overrides if re.search(pattern, name)), "")


def test_the_experts_of_the_first_layers_are_in_the_hosts_memory():
    setup = Setup(n_cpu_moe=2, override_tensor="blk.1.ffn_up_exps=GPU, attn=GPU")
    names = ["blk.0.ffn_up_exps.weight", "blk.1.ffn_up_exps.weight", "blk.1.ffn_gate_up_exps.weight",
             "blk.2.ffn_up_exps.weight", "blk.10.ffn_down_exps.weight", "blk.0.ffn_up.weight",
             "blk.5.attn_q.weight"]  # fmt: skip
    assert [chosen(name, placed(setup)) for name in names] == ["CPU", "GPU", "CPU", "", "", "", "GPU"]
    assert {chosen(name, placed(setup, "draft")) for name in names} == {""}
    everything = [chosen(name, placed(Setup(cpu_moe_draft="on"), "draft")) for name in names]
    assert everything == ["CPU"] * 5 + ["", ""]


def test_models_are_loaded_again_with_other_buffers():
    setup = Setup(model=__file__, draft=__file__)
    for changes in ({"n_cpu_moe": 1}, {"cpu_moe": "on"}, {"override_tensor": "a=CPU"}):
        before, after = resolve(setup), resolve(replace(setup, **changes))
        assert after.target_key != before.target_key
        after = resolve(replace(setup, **{f"{key}_draft": value for key, value in changes.items()}))
        assert after.draft_key != before.draft_key and after.target_key == before.target_key


def test_a_model_is_loaded_into_named_buffers(tmp_path: Path):
    path = str(write_model(tmp_path / "a.gguf"))
    Model(path, extra_buffers=False, overrides=[("ffn", "CPU")]).close()
    with pytest.raises(UsageError, match=r"There are no buffers 'GPU9' for the tensors 'ffn', only .*CPU"):
        Model(path, extra_buffers=False, overrides=[("ffn", "GPU9")])
    with pytest.raises(SpectuiError, match="could not be loaded"):
        Model(path, extra_buffers=False, overrides=[("(", "CPU")])


def test_what_names_no_buffers_is_refused():
    with pytest.raises(UsageError, match="override-tensor-draft is PATTERN=BUFFER with commas"):
        assert placed(Setup(override_tensor_draft="exps"), "draft").overrides
