"""What a build of llama.cpp is made of, told by the names of its libraries, and the command that builds it anew: for this
Python, with a compiler that is there and works."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from spectui import paths
from spectui.llama import build
from spectui.llama.build import isolated_backends, libraries, rebuild_command
from spectui.llama.library import llama

REQUIREMENT = re.compile(r"llama-cpp-python==[\d.]+")


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["libggml-base.so", "libggml-cpu.so.0", "libllama.so", "libggml-blas.so"], ()),
        (["libggml-cpu.so", "libggml-cuda.so.0.25.3", "libggml-rpc.so"], ("cuda", "rpc")),
        (["libggml-metal.dylib", "libggml-blas.dylib"], ("metal",)),
        (["ggml-vulkan.dll", "ggml-hip.dll", "ggml-cuda.lib"], ("hip", "vulkan")),
    ],
)
def test_isolated_backends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], found: tuple[str, ...]) -> None:
    for name in files:
        (tmp_path / name).touch()
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    isolated_backends.cache_clear()
    assert isolated_backends() == found
    isolated_backends.cache_clear()


def test_the_libraries_are_those_that_are_loaded() -> None:
    llama.llama_max_devices()
    loaded = {mapped.path for mapped in psutil.Process().memory_maps()}
    assert [path for path in libraries() if "libllama" in path.name and str(path.resolve()) in loaded]


def have(monkeypatch: pytest.MonkeyPatch, *programs: str, gcc: str = "12") -> None:
    """Only these programs are installed, and GCC in this version."""
    monkeypatch.setattr(build, "which", {name: f"/usr/bin/{name}" for name in programs}.get)
    monkeypatch.setattr(build.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess((), 0, f"{gcc}.2.0\n"))
    monkeypatch.setattr(build, "backends", lambda: ["RPC", "CPU"])
    monkeypatch.delenv("LLAMA_CPP_LIB_PATH", raising=False)


def test_it_names_the_version_that_spectui_needs_and_the_backends(monkeypatch: pytest.MonkeyPatch):
    """Struct layouts are bound to a version: the newest one may crash."""
    have(monkeypatch, "clang", "clang++", "c++")
    pinned = REQUIREMENT.search((paths.PACKAGE.parent / "pyproject.toml").read_text())
    assert pinned is not None
    command = shlex.split(rebuild_command("CUDA"))
    assert command == [
        "CMAKE_ARGS=-DGGML_CUDA=on -DGGML_RPC=on", "CC=clang", "CXX=clang++", sys.executable, "-m", "pip", "install",
        "--force-reinstall", "--no-binary", "llama-cpp-python", "--no-cache-dir", "--no-deps", pinned[0],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("programs", "cpu", "gcc", "clang"),
    [
        (("clang", "clang++", "c++"), "Xeon", "13", True),
        (("c++",), "EPYC", "12", False),
        (("c++",), "Xeon AMX", "13", False),
        (("c++",), "Xeon AMX", "12", True),
        ((), "EPYC", "13", True),
    ],
)
def test_clang_is_named_where_it_is_installed_or_needed(
    monkeypatch: pytest.MonkeyPatch, programs: tuple[str, ...], cpu: str, gcc: str, clang: bool
):
    have(monkeypatch, *programs, gcc=gcc)
    monkeypatch.setattr(build, "cpu_name", lambda: cpu)
    command = rebuild_command()
    assert ("CC=clang CXX=clang++ " in command) is clang


def test_it_installs_into_the_environment_of_this_python(monkeypatch: pytest.MonkeyPatch):
    python = shlex.quote(sys.executable)
    have(monkeypatch, "c++")
    assert f"{python} -m pip install --force-reinstall" in rebuild_command()
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    assert f"uv pip install --python {python} --force-reinstall" in rebuild_command()


def test_libraries_from_elsewhere_would_stay(monkeypatch: pytest.MonkeyPatch):
    have(monkeypatch, "c++")
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", "/opt/llama.cpp")
    assert rebuild_command().startswith("unset LLAMA_CPP_LIB_PATH; ")


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this environment has no pip")
def test_the_shell_and_pip_understand_it(monkeypatch: pytest.MonkeyPatch):
    """Without the network: pip reads its options, and finds no package."""
    for name, value in {"PIP_NO_INDEX": "1", "PIP_DRY_RUN": "1", "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    done = subprocess.run(["bash", "-c", rebuild_command()], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "No matching distribution found for llama-cpp-python==" in done.stderr
