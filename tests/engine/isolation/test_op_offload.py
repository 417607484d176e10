"""--op-offload-min-batch reaches ggml, which reads it once for each process."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.events import Loaded
from spectui.engine.isolation.process import EngineProcess
from spectui.engine.session import Session
from spectui.knobs import Setup
from tests.engine.waiting import PATIENCE, events_of
from tests.llama.devices.test_asynchronous_device import needs_vulkan, on_the_device
from tests.llama.ggufs import write_model


def variable(session: Session) -> str | None:
    return os.environ.get("GGML_OP_OFFLOAD_MIN_BATCH")


def test_ggml_finds_the_least_batch_for_a_gpu_in_its_variable(
    isolated: EngineProcess, setup: Setup, monkeypatch: pytest.MonkeyPatch
):
    """It reads it once, so another number needs another process; without one a person's own stays."""
    monkeypatch.setenv("GGML_OP_OFFLOAD_MIN_BATCH", "11")
    events, found = events_of(isolated), []
    for number, least in enumerate((7, 7, 0), 2):
        isolated.load(replace(setup, op_offload_min_batch=least, ctx_size=64 * number))
        events.wait(Loaded, number)
        process = isolated.link
        assert process is not None
        found.append((process.pid, process.call(variable).result(PATIENCE)))
    assert [each for _, each in found] == ["7", "7", "11"]
    assert found[0][0] == found[1][0]


OFFLOAD = """
import json, sys
from dataclasses import replace
from spectui.engine.events import Loaded
from spectui.engine import worker
from spectui.engine.isolation import process
from spectui.engine.loading.plan import make_plan
from spectui.knobs import Knobs, Setup
from tests.engine.waiting import Events

worker.deque = Events
chat = process.EngineProcess(Knobs())
setup = Setup(**json.loads(sys.argv[1]))
found = []
for number, least in enumerate((0, 4096), 1):
    asked = replace(setup, op_offload_min_batch=least)
    made = make_plan(asked).target
    chat.load(asked)
    loaded = chat.events.wait(Loaded, number).target.memory
    found.append([{use.device: use.compute for use in each} for each in (made, loaded)])
chat.close()
print(json.dumps(found))
"""


@needs_vulkan
def test_a_gpu_computes_layers_of_the_hosts_memory_from_that_batch_on(tmp_path: Path):
    """With no layer on it, it has buffers for prompts; not where a prompt's passes are below the least batch."""
    model = str(write_model(tmp_path / "model.gguf"))
    setup = {"model": model, "ctx_size": 256, "gpu_layers": 0, "no_profile": "on"}
    (planned, loaded), (planned_without, loaded_without) = on_the_device(OFFLOAD, json.dumps(setup))
    assert planned["Vulkan0"] > 2**16 and loaded["Vulkan0"] == pytest.approx(planned["Vulkan0"], abs=2**13)
    assert not planned_without.get("Vulkan0") and not loaded_without.get("Vulkan0")
