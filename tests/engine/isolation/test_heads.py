"""A target on an RPC server with heads: its own, EAGLE-3's, DFlash's, or an assistant that reads the server's cells."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from spectui.engine.events import Finished, Loaded
from spectui.engine.isolation.process import EngineProcess
from spectui.knobs import Setup
from tests.engine.isolation.helpers import KNOBS, QUESTION, text_of
from tests.engine.waiting import events_of
from tests.helpers.rpc_server import Server, needs_server
from tests.llama.heads import dflash, eagle
from tests.llama.heads.assistant import write_assistant, write_target
from tests.llama.heads.headed import write_headed

HERE = {"device_draft": "none"}
"""The heads are on this machine, the target is not."""


@needs_server
@pytest.mark.parametrize(
    ("write_its_target", "write_heads", "changes"),
    [
        (write_headed, None, {}),
        (partial(write_target, attends=0.2), partial(write_assistant, attends=0.2), {}),
        # llama.cpp ended the process: the assistant's context had no device that could read the cells.
        (partial(write_target, attends=0.2), partial(write_assistant, attends=0.2), HERE),
        (eagle.write_target, eagle.write_eagle, {}),
        # Here too: the output matrix is the target's, on the server.
        (eagle.write_target, partial(eagle.write_eagle, own=False, width=eagle.WIDTH), HERE),
        (dflash.write_target, dflash.write_dflash, {}),
        (dflash.write_target, partial(dflash.write_dflash, own=False), HERE),
    ],
)
def test_heads_draft_for_a_target_on_a_server(
    server: Server,
    engine: EngineProcess,
    tmp_path: Path,
    write_its_target: Callable[[Path], Path],
    write_heads: Callable[[Path], Path] | None,
    changes: dict[str, str],
):
    events, texts = events_of(engine), set[str]()
    draft = str(write_heads(tmp_path / "heads.gguf")) if write_heads else None
    setup = Setup(model=str(write_its_target(tmp_path / "target.gguf")), draft=draft, ctx_size=256, threads=1)
    engine.load(replace(setup, rpc=server.address, no_profile="on", **changes))
    loaded = events.wait(Loaded)
    assert any(use.device == "RPC0" and use.cells for use in loaded.target.memory)
    for drafter in ("off", "mtp"):
        events.clear()
        engine.knobs = replace(KNOBS, drafter=drafter, predict=60)
        engine.generate(QUESTION)
        statistics = events.wait(Finished).statistics
        texts.add(text_of(events))
    assert len(texts) == 1
    assert statistics.accepted > 0
