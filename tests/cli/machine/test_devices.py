"""`spectui devices`: the list, and the plan."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from spectui.cli import root
from spectui.cli.machine.devices import _lines
from spectui.engine.loading.plan import MemoryPlan
from spectui.knobs import Setup
from spectui.llama.devices.records import Device, MemoryUse
from tests.helpers.rpc_server import LIBRARIES, Server, needs_server
from tests.helpers.smollm2 import whole
from tests.llama.devices.test_asynchronous_device import needs_vulkan, on_the_device
from tests.measure.models import tiny_setup


def said(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["devices", *arguments])


def test_the_devices_are_listed() -> None:
    found = said()
    assert found.exit_code == 0
    assert found.output.startswith("CPU: ") and " MiB free)" in found.output
    assert " (CPU, " in found.output, "its kind"


def test_the_plan_names_models_devices_and_whether_they_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the working directory are no modules of Python: plans, as the engine, have a process of their own."""
    for name in ("json", "pickle", "numpy", "spectui", "runpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of a person')\n")
    monkeypatch.chdir(tmp_path)
    pair = tiny_setup(tmp_path)
    found = said("--plan", "-m", pair.model or "", "-md", pair.draft or "", "-c", "1024", "--state-memory", "64")
    assert found.exit_code == 0
    lines = found.output.splitlines()
    assert lines[0].split() == ["device", "model", "weights", "cells", "compute", "sum", "free"]
    assert [line.split()[:2] for line in lines[1:4]] == [["CPU", "target"], ["CPU", "draft"], ["CPU", "states"]]
    assert lines[3].split()[2:6] == ["0", "64", "0", "64"]
    assert [line.split()[-3:] for line in lines[4:6]] == [["on", "the", "CPU"]] * 2
    assert lines[-1] == "It fits."


def test_the_plan_says_where_the_layers_are() -> None:
    """A line for each model on each device, and for each model."""
    card = Device("CUDA0", "a GPU", "gpu", 2**33, 2**33)
    host = Device("CPU", "a CPU", "cpu", 2**35, 2**35)
    target = (MemoryUse("CUDA0", 3 * 2**30, 2**30, 2**20), MemoryUse("CPU", 2**30))
    pair = Setup(model="/a/big.gguf", draft="/a/small.gguf")
    made = MemoryPlan(pair, (card, host), target, (MemoryUse("CUDA0", 2**30),), (20, 33), (17, 17))
    assert [" ".join(line.split()) for line in _lines(made)] == [
        "device model weights cells compute sum free",
        "CUDA0 target 3,072 1,024 1 4,097 8,192",
        "CUDA0 draft 1,024 0 0 1,024 8,192",
        "CPU target 1,024 0 0 1,024 32,768",
        "target: big.gguf, 20 of 33 layers on CUDA0",
        "draft: small.gguf, 17 of 17 layers on CUDA0",
    ]


def test_what_does_not_fit_has_exit_code_1_and_a_way_out() -> None:
    found = said("--plan", "-m", whole().model or "", "-c", "4000000")
    assert found.exit_code == 1
    assert "It does not fit, CPU lacks " in found.output
    assert "choose a smaller -c" in found.output


@pytest.mark.parametrize(
    ("arguments", "message"), [((), "--plan needs a target model"), (("-m", "none.gguf"), "There is no target model")]
)
def test_bad_input_is_a_sentence(arguments: tuple[str, ...], message: str) -> None:
    found = said("--plan", *arguments)
    assert message in str(found.exception) + found.output


@pytest.mark.parametrize("wrong", [("-dev", "CUDA9"), ("-ts", "nan,1"), ("-devd", "CUDA9")])
def test_the_plan_refuses_the_settings_that_a_chat_refuses_with_the_same_exit_code(
    wrong: tuple[str, str], tmp_path: Path
) -> None:
    setup = tiny_setup(tmp_path)
    pair = ("-m", setup.model or "", "-md", setup.draft or "", *wrong)
    planned, run = (CliRunner().invoke(root, each) for each in (["devices", "--plan", *pair], ["run", *pair, "-p", "Hi"]))
    assert planned.exit_code == run.exit_code == 2
    assert planned.stderr == run.stderr != ""


ROW = """
import json, sys
from spectui.engine.loading.plan import make_plan
from spectui.errors import SpectuiError
from spectui.knobs import Setup

try:
    make_plan(Setup(**json.loads(sys.argv[1]), split_mode="row"))
except SpectuiError as error:
    print(json.dumps(str(error)))
"""


@needs_vulkan
def test_a_split_mode_that_the_backend_has_not_names_one_that_it_has() -> None:
    assert on_the_device(ROW, json.dumps({"model": whole().model})).endswith(
        " cannot be divided so (error loading model: device Vulkan0 does not support split buffers): choose -sm layer."
    )


@needs_server
def test_the_devices_of_a_server_are_listed():
    with Server() as server:
        libraries = {"LLAMA_CPP_LIB_PATH": str(LIBRARIES), "LD_LIBRARY_PATH": str(LIBRARIES)}
        command = [sys.executable, "-m", "spectui", "devices", "--rpc", server.address]
        done = subprocess.run(command, env={**os.environ, **libraries}, capture_output=True, text=True, check=False)
    assert f"RPC0: {server.address} (GPU, " in done.stdout, done.stderr
