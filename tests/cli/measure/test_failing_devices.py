"""Measuring commands whose device ends the engine's process: what was measured is printed, then one sentence says why."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from spectui.cli import root
from spectui.measure import progress, quiet
from tests.helpers.rpc_server import LIBRARIES, Server, needs_server
from tests.measure.models import tiny_setup

pytestmark = needs_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(LIBRARIES))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(LIBRARIES))
    # By those libraries, which this process may not have loaded.
    monkeypatch.setattr("spectui.engine.isolation.process.isolated_backends", lambda: ["RPC"])
    monkeypatch.setattr(quiet, "busy", lambda: "")
    server = Server()
    yield server
    server.kill()


@pytest.mark.parametrize(("command", "replies"), [("tune", 8), ("bench", 2)])
def test_a_server_that_is_killed(
    command: str, replies: int, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def tell(self: progress.ProgressLine, done: float, what: str) -> None:
        told.append(what)
        if len(told) == replies:
            server.kill()

    monkeypatch.setattr(progress.ProgressLine, "__call__", tell)
    setup, file = tiny_setup(tmp_path), tmp_path / "runs.jsonl"
    pair = ["-m", str(setup.model), "-md", str(setup.draft), "-c", "256", "-t", "1", "--requantise-draft", "off"]
    arguments = [*pair, "--no-profile", "--rpc", server.address, "--prompts", "toaster", "-n", "16"]
    done = CliRunner().invoke(root, [command, *arguments, "--results", str(file), "--json"])
    assert done.exit_code == 1, done.output
    gone = f"spectui: The RPC server {server.address} is gone: try again, or leave out --rpc."
    assert done.stderr.splitlines()[-1] == gone
    assert len(json.loads(done.stdout)["runs"]) == len(file.read_text().splitlines()) - 1 == replies
