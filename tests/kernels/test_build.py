"""The build of the kernels' library, with compilers that lack something, and without one."""

import ctypes
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spectui.kernels import build

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform == "win32", reason="not for this machine")

needs_a_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")

REAL = build.SOURCES
SET = """
#include "set.h"
static bool supported() {{ return true; }}
extern const KernelSet {name}_set = {{ "{name}", supported }};
"""
PLUGIN = """
#include <omp.h>
#include "set.h"
const KernelSet * const SETS[] = { &avx512_set, &avxvnni_set, &avx2_set };
extern "C" __attribute__((visibility("default"))) int without() { return !SETS[0] + 2*!SETS[1] + 4*!SETS[2]; }
"""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    for name in build.SETS:
        (folder / f"{name}.cpp").write_text(SET.format(name=name))
    (folder / "plugin.cpp").write_text(PLUGIN)
    shutil.copy(REAL / "set.h", folder)
    monkeypatch.setattr(build, "SOURCES", folder)
    return folder


def use_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let this script of the shell be the compiler."""
    file = tmp_path / "compiler"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("CXX", str(file))


def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *refused: str) -> None:
    """The system's compiler, which does not know these flags."""
    cases = "".join(f'  *" {flag} "*) echo "unknown {flag}"; exit 1;;\n' for flag in refused)
    use_compiler(tmp_path, monkeypatch, f'case " $* " in\n{cases}esac\nexec c++ "$@"')


@needs_a_compiler
@pytest.mark.parametrize(
    ("refused", "without", "told"),
    [
        ((), 0, ""),
        (("-mavx512vnni",), 1, "amx (unknown -mavx512vnni), avx512 (unknown -mavx512vnni)"),
        (("-mavxvnni",), 2, "avxvnni (unknown -mavxvnni)"),
        (("-mavxvnni", "-mavx512f"), 3, "amx (unknown -mavx512f), avx512 (unknown -mavx512f), avxvnni (unknown -mavxvnni)"),
    ],
)
def test_a_set_that_the_compiler_does_not_know_is_left_out(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...], without: int, told: str
):
    compiler(tmp_path, monkeypatch, *refused)
    library = tmp_path / "lib.so"
    assert build.build(library) == ""
    assert ctypes.CDLL(str(library)).without() == without
    assert build.left_out(library) == told


@needs_a_compiler
def test_the_compilers_first_error_about_a_set_is_told_until_it_compiles(sources: Path, tmp_path: Path):
    (sources / "avxvnni.cpp").write_text('#include "own.h"\n')
    (sources / "own.h").write_text("no C++\n")
    library = tmp_path / "lib.so"
    assert build.build(library) == ""
    assert re.fullmatch(r"avxvnni \(\S+own\.h:1:1: error: .+\)", build.left_out(library))
    (sources / "own.h").write_text(SET.format(name="avxvnni"))
    assert (build.build(library), build.left_out(library)) == ("", "")


USE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.spectui_kernels_sets.restype = ctypes.c_char_p
functions = (ctypes.c_void_p * 9)()
print(library.spectui_kernels_sets().decode(), *(library.spectui_kernels_bind(functions, name) for name in (b"amx", b"avx2")))
"""


@needs_a_compiler
def test_the_library_uses_no_set_that_was_left_out(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In a process of its own, which a call of what is not there would end."""
    for file in REAL.iterdir():
        if file.stem not in build.SETS:
            shutil.copy(file, sources)
    compiler(tmp_path, monkeypatch, "-mavx512f")
    monkeypatch.setattr(build, "_FLAGS", ("-O0", *build._FLAGS[1:]))
    library = tmp_path / "lib.so"
    assert build.build(library) == ""
    done = subprocess.run([sys.executable, "-c", USE, str(library)], capture_output=True, text=True)
    assert done.stdout == "avxvnni avx2 1 0\n", done.stderr


@needs_a_compiler
@pytest.mark.parametrize("refused", [("-mavx2",), ("-c",), ("-shared",), ("-fopenmp",)])
def test_a_compiler_that_cannot_leaves_the_old_library(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...]
):
    compiler(tmp_path, monkeypatch, *refused)
    library = tmp_path / "lib.so"
    library.write_text("the old one")
    assert f"unknown {refused[0]}" in build.build(library)
    assert library.read_text() == "the old one"
    assert {each.name for each in tmp_path.iterdir()} == {"src", "compiler", "lib.so"}


@needs_a_compiler
def test_a_fault_in_a_source_is_told(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compiler(tmp_path, monkeypatch)
    (sources / "plugin.cpp").write_text("no C++")
    assert "plugin.cpp:1:1: error" in build.build(tmp_path / "lib.so")


def test_without_a_compiler(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.build(tmp_path / "lib.so") == "there is no C++ compiler"
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    assert "No such file" in build.build(tmp_path / "lib.so")


@pytest.mark.parametrize("flag", ["-c", "-shared"])
def test_a_compiler_that_hangs_is_not_waited_for_any_longer(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
):
    use_compiler(tmp_path, monkeypatch, f'case " $* " in *" {flag} "*) exec tail -f /dev/null;; esac')
    monkeypatch.setattr(build, "_BOUND_S", 1)
    library = tmp_path / "lib.so"
    library.write_text("the old one")
    assert "it did not end in 1 s" in build.build(library)
    assert library.read_text() == "the old one"


def test_compilers_that_hang_are_waited_for_together(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each of these ends as soon as all have begun."""
    count, begun = len([*sources.glob("*.cpp")]), tmp_path / "begun"
    all_begun = f"until [ $(wc -l < {begun}) -ge {count} ]; do sleep 0.01; done"
    use_compiler(tmp_path, monkeypatch, f"echo >> {begun}; {all_begun}; echo all at once; exit 1")
    monkeypatch.setattr(build, "_BOUND_S", 120)
    assert build.build(tmp_path / "lib.so").count("all at once") == count


def test_a_folder_that_cannot_be_written(sources: Path, tmp_path: Path):
    why = build.build(sources / "plugin.cpp" / "lib.so")
    assert why.startswith(f"their library cannot be written ({sources / 'plugin.cpp'}: Not a directory): install spectui")


def test_another_processor(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert build.build(tmp_path / "lib.so") == f"there are none for {platform.system()} on arm64"


def test_it_needs_nothing_but_the_standard_library():
    """The package's build runs it where nothing is installed."""
    program = f"import runpy; runpy.run_path({build.__file__!r})"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
