"""`spectui fit`: random weights of a shape stand for a model that is not there."""

import json
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from spectui import paths
from spectui.cli import root
from spectui.engine.events import Loaded, ModelInfo
from spectui.gguf_files.check import metadata_of
from spectui.gguf_files.random_model import QUANTS, Shape, bytes_of, tensors, write_model
from spectui.knobs import Setup
from spectui.llama.context import Context
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from spectui.measure import fit, quiet
from spectui.speculation.policies.cost_model import CostModel
from tests.helpers.smollm2 import whole

TOYS = {
    "shapes": {
        "toy-2b": ["llama", 6, 256, 512, 4, 2, 64, 320],
        "toy-1b": ["qwen2", 2, 64, 128, 2, 1, 32, 320],
        "other-1b": ["qwen3", 2, 64, 128, 2, 1, 32, 320],
    },
    "acceptance": [{"pair": "toy-2b toy-1b", "range": [0.5, 0.9], "source": "a made-up page"}],
}


def test_each_shape_has_as_many_weights_as_its_name_says() -> None:
    for name, shape in fit.known().items():
        number, unit = re.findall(r"-([\d.]+)(b|m)", name)[0]
        weights = bytes_of(shape, "F16", shape.layers) / 2
        assert 0.9 < weights / (float(number) * {"b": 1e9, "m": 1e6}[unit]) < 1.4, name


def test_the_tensors_are_those_of_the_real_file() -> None:
    shape = fit.known()["smollm2-135m"]
    made = {(name, size[::-1]) for name, _, size in tensors(shape, "Q4_1", shape.layers)}
    real = metadata_of(whole().model or "").tensors.entries
    assert made == {(tensor.name, tensor.shape) for tensor in real}
    assert bytes_of(shape, "Q4_1", shape.layers) == sum(tensor.size for tensor in real)


@pytest.mark.parametrize(
    ("architecture", "quant"),
    [
        *(("llama", quant) for quant in QUANTS),
        *((name, "Q4_K_M") for name in ("qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3")),
    ],
)
def test_llama_cpp_computes_numbers_with_every_kind(tmp_path: Path, architecture: str, quant: str) -> None:
    experts = (4, 2) if architecture.endswith("moe") else ()
    file = tmp_path / "made.gguf"
    write_model(file, Shape(architecture, 3, 256, 512, 4, 2, 64, 320, *experts), quant, 2)
    model = Model(str(file), on_devices=[])
    context = Context(model, Interrupt(), n_ctx=64, rows=4)
    rows = context.evaluate([1, 2, 3, 4], 4).copy()
    context.close()
    model.close()
    assert np.isfinite(rows).all() and rows.std() > 0


def test_what_few_layers_cost_is_drawn_on_to_all_of_them() -> None:
    """A target of 10 + 2 ms a layer, measured with 2 and 4 of its 12; a draft that was measured whole."""
    few, more = (CostModel({1: 10.0 + 2 * n, 2: 11.0 + 3 * n, 4: 9.0 + 2 * n}, first=3.0, next=2.0) for n in (2, 4))
    costs = fit.scaled([few, more], (12 - 2) / (4 - 2), 1.0)
    assert costs.passes == {1: 33.0, 2: 47.0, 4: 33.0}, "no pass takes less than one over one token"
    assert (costs.first, costs.next) == (3.0, 2.0)


def said(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["fit", *arguments, "-t", "1"], env={"COLUMNS": "80"})


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fit, "_table", lambda: TOYS)
    monkeypatch.setattr(fit, "_MOST_BYTES", 1)  # so that models of more than four layers are cut
    monkeypatch.setattr(quiet, "busy", lambda: "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.usefixtures("toys")
def test_it_says_what_a_pair_would_gain_by_the_costs_report_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = said("toy:2b+1b")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("target: toy-2b Q4_K_M, 0.0 GB from 4 of 6 layers, ")
    assert "tokens" in done.stdout and "pays from" in done.stdout, "the table of spectui costs"
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert not [*paths.state_directory().glob("*costs*")] and not [*tmp_path.glob("spectui-fit*")]
    found = json.loads(said("--target", "toy-2b", "--draft", "toy-1b", "--json").stdout)
    assert (found["acceptance"], found["source"]) == ([0.5, 0.9], "a made-up page")
    assert len(found["gain"]) == 2 and found["gain"][0] <= found["gain"][1]
    assert found["model"]["path"] == "toy-2b" and found["draft"]["path"] == "toy-1b"


@pytest.mark.usefixtures("toys")
def test_without_a_known_acceptance_it_cannot_be_told() -> None:
    found = json.loads(said("--target", "toy-2b", "--draft", "other-1b", "--json").stdout)
    assert (found["acceptance"], found["gain"]) == (None, None)
    costs = CostModel({1: 0.1, 2: 0.11, 4: 0.12}, first=0.01, next=0.01)
    models = (ModelInfo(name, name, 0, 0, 0, 0, 0) for name in ("toy-2b", "other-1b"))
    text = list(fit.text_lines(Loaded(Setup(), *models, ()), costs, 500))
    assert text[-1].startswith("Whether this pair would pay cannot be told")


def test_what_is_not_known_or_does_not_fit_is_said() -> None:
    assert "qwen3-30b-a3b" in said().stdout
    assert "There is no shape of 'qwen3:8c' here; did you mean qwen3-8b?" in said("qwen3:8c").stderr
    assert "choose one of Q4_0" in said("qwen3:8b", "--quant", "q9").stderr
    assert "not by both" in said("qwen3:8b", "--target", "qwen3-8b").stderr


def test_a_pair_that_does_not_fit_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectui.llama.cpu.quota.free_memory", lambda: 10**9)
    assert "It cannot be told: the weights take 5.1 GB, and 1.0 GB are free." in said("qwen3:8b+0.6b").stderr
