"""llama-servers that run here become profiles: real processes, each a script of that name that waits."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from spectui import config
from spectui.cli import root
from spectui.profiles.commands.running import container_of

WAITING = f"#!{sys.executable}\nprint('started', flush=True)\ninput()\n"

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a llama-server with arguments and variables, in a directory of its own."""
    monkeypatch.setenv("SPECTUI_CONFIG_DIR", str(tmp_path))
    only_ours(monkeypatch)
    program = tmp_path / "llama-server"
    program.write_text(WAITING)
    program.chmod(0o755)
    (tmp_path / "served").mkdir()
    processes: list[subprocess.Popen[bytes]] = []

    def started(*arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path / "served",
            env={**os.environ, **variables},
        )  # fmt: skip
        processes.append(process)
        assert process.stdout is not None and process.stdout.readline()
        return process

    yield started
    for process in processes:
        process.communicate(b"\n", timeout=60)


def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what other tests start at the same time."""
    monkeypatch.setattr(psutil, "process_iter", psutil.Process().children)


def spectui(*words: str) -> Result:
    return CliRunner().invoke(root, ["config", "import", "--running", *words])


def test_a_running_server_becomes_a_profile(start: Start, tmp_path: Path) -> None:
    start("-m", "a b.gguf", "--port", "80", "-fa", "on", LLAMA_ARG_CTX_SIZE="5", CUDA_VISIBLE_DEVICES="0", TOKEN="geheim")
    result = spectui()
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"Wrote profile a b to {tmp_path}/config.toml: spectui chat -P 'a b'",
        f"model {tmp_path}/served/a b.gguf is not on this machine.",
        "Set these variables where you start spectui: CUDA_VISIBLE_DEVICES=0.",
        "These flags of llama.cpp are not used: --port 80.",
    ]
    chosen = config.load(profile="a b", environ={}).setup
    assert (chosen.model, chosen.ctx_size, chosen.flash_attn) == (f"{tmp_path}/served/a b.gguf", 5, "on")


def test_one_of_several_is_chosen(start: Start) -> None:
    start("-m", "/m/a.gguf")
    start("-m", "/m/b.gguf")
    again = start("-m", "/m/b.gguf", "-c", "9")
    names = f"a, b, b-{again.pid}"
    assert spectui().stderr == f"spectui: this machine has 3 models ({names}): name those you want, or give --all.\n"
    assert spectui(f"b-{again.pid}", "--as", "mine").exit_code == 0
    assert config.load(profile="mine", environ={}).setup.ctx_size == 9
    assert spectui("--all").stdout.count("Wrote profile") == 3


def test_where_none_runs_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    only_ours(monkeypatch)
    assert spectui().stderr == (
        "spectui: No llama-server runs on this machine: start it, or give the command that starts it.\n"
    )


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can act as another user")
def test_another_users_server_gets_one_sentence(start: Start) -> None:
    process = start("-m", "/m/a.gguf")
    os.seteuid(65534)
    try:
        result = spectui()
    finally:
        os.seteuid(0)
    assert (result.exit_code, result.stderr) == (
        1, f"spectui: No running llama-server can be imported; of process {process.pid}: it is root's, who alone may read its "
        "environment: import it as root.\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("groups", "program"),
    [
        ("0::/system.slice/docker-3f2a.scope", "docker"),
        ("12:cpuset:/kubepods/besteffort/pod1", "kubepods"),
        ("0::/user.slice/user-1000.slice/libpod-9.scope", "libpod"),
        ("0::/user.slice/user-1000.slice/session-2.scope", ""),
        ("0::/", ""),
    ],
)
def test_a_container_is_recognised_by_its_control_group(groups: str, program: str) -> None:
    assert container_of(groups) == program
