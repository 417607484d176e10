"""A target on an RPC server with heads: its own, EAGLE-3's, DFlash's, or an assistant that reads the server's cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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


def own(folder: Path) -> Setup:
    return Setup(model=str(write_headed(folder / "own.gguf")))


def assistant(folder: Path) -> Setup:
    target, heads = write_target(folder / "t.gguf", attends=0.2), write_assistant(folder / "a.gguf", attends=0.2)
    return Setup(model=str(target), draft=str(heads))


def assistant_here(folder: Path) -> Setup:
    """llama.cpp ended the process: the assistant's context had no device that could read the cells."""
    return replace(assistant(folder), device_draft="none")


def eagle3(folder: Path) -> Setup:
    return Setup(model=str(eagle.write_target(folder / "t.gguf")), draft=str(eagle.write_eagle(folder / "e.gguf")))


def block(folder: Path) -> Setup:
    return Setup(model=str(dflash.write_target(folder / "t.gguf")), draft=str(dflash.write_dflash(folder / "d.gguf")))


def eagle3_here(folder: Path) -> Setup:
    """llama.cpp ended the process: its output matrix is the target's, on the server."""
    head = eagle.write_eagle(folder / "e.gguf", own=False, width=eagle.WIDTH)
    return Setup(model=str(eagle.write_target(folder / "t.gguf")), draft=str(head), device_draft="none")


def block_here(folder: Path) -> Setup:
    """The same."""
    head = dflash.write_dflash(folder / "d.gguf", own=False)
    return Setup(model=str(dflash.write_target(folder / "t.gguf")), draft=str(head), device_draft="none")


@needs_server
@pytest.mark.parametrize("write", [own, assistant, assistant_here, eagle3, eagle3_here, block, block_here])
def test_heads_draft_for_a_target_on_a_server(
    server: Server, engine: EngineProcess, tmp_path: Path, write: Callable[[Path], Setup]
):
    events, texts = events_of(engine), set[str]()
    engine.load(replace(write(tmp_path), rpc=server.address, ctx_size=256, threads=1, no_profile="on"))
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
