"""Measuring commands whose device ends the engine's process: what was measured is printed, then one sentence says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from spectui.cli import root
from spectui.measure import progress, quiet
from tests.helpers.rpc_server import LIBRARIES, Server, needs_server
from tests.measure.models import tiny_setup

pytestmark = needs_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(LIBRARIES))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(LIBRARIES))
    monkeypatch.setattr(quiet, "busy", lambda: "")
    server = Server()
    yield server
    server.kill()


@pytest.fixture
def pair(tmp_path: Path, server: Server) -> list[str]:
    """The arguments that name a tiny pair on the server."""
    setup = tiny_setup(tmp_path)
    arguments = ["-m", str(setup.model), "-md", str(setup.draft), "-c", "256", "-t", "1", "--no-profile"]
    return [*arguments, "--requantise-draft", "off", "--rpc", server.address]


def killed(
    monkeypatch: pytest.MonkeyPatch, server: Server, at: Callable[[float, str], bool], arguments: list[str]
) -> Result:
    """Run a command; the server is killed at this moment of its progress."""

    def told(self: progress.ProgressLine, done: float, what: str) -> None:
        if at(done, what):
            server.kill()

    monkeypatch.setattr(progress.ProgressLine, "__call__", told)
    done = CliRunner().invoke(root, arguments)
    assert done.exit_code == 1, done.output
    assert done.stderr.splitlines()[-1] == (
        f"spectui: The RPC server {server.address} is gone: try again, or leave out --rpc."
    )
    return done


def test_tune(pair: list[str], server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def at(done: float, what: str) -> bool:
        seen.append(what)
        return len(seen) == 8

    arguments = ["tune", *pair, "--prompts", "toaster", "-n", "16", "--minutes", "5", "--json"]
    done = killed(monkeypatch, server, at, arguments)
    found = json.loads(done.stdout)
    assert len(found["runs"]) == 8


def test_bench(pair: list[str], server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    arguments = ["bench", *pair, "--prompts", "toaster", "-n", "16", "--results", str(file), "--json"]
    seen: list[str] = []

    def at(done: float, what: str) -> bool:
        seen.append(what)
        return len(seen) == 2

    monkeypatch.setattr(progress.ProgressLine, "__call__", lambda self, done, what: at(done, what) and server.kill())
    done = CliRunner().invoke(root, arguments)
    assert done.exit_code == 1, done.output
    assert done.stderr.splitlines()[-1].startswith(f"spectui: The RPC server {server.address} is gone")
    assert len(json.loads(done.stdout)["runs"]) == len(file.read_text().splitlines()) - 1 == 2
