"""--op-offload-min-batch reaches ggml, which reads it once for each process."""

import os
from dataclasses import replace

import pytest

from spectui.engine.events import Loaded
from spectui.engine.isolation.process import EngineProcess
from spectui.engine.session import Session
from spectui.knobs import Setup
from tests.engine.waiting import PATIENCE, events_of


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
        found.append((process.pid, process.call("call", variable).result(PATIENCE)))
    assert [each for _, each in found] == ["7", "7", "11"]
    assert found[0][0] == found[1][0]
