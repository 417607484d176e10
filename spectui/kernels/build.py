"""Compile the kernels' library: for the package's build (hatch_build.py), or by hand: `python -m spectui.kernels.build`.

Only the standard library is used, because this runs where nothing is installed yet. Each instruction set is a file of its own,
compiled with its own flags; which one is used is chosen at run time, by the CPU.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shutil import which

SOURCES = Path(__file__).parent / "src"
LIBRARY = Path(__file__).parent / f"libspectui-kernels.{'dylib' if sys.platform == 'darwin' else 'so'}"

_FLAGS = ("-O2", "-std=c++17", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno", "-fopenmp")
"""Contracted products would round differently from one compiler to the next."""

_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni")
SETS = {"avx2": _AVX2, "avxvnni": (*_AVX2, "-mavxvnni"), "avx512": (*_AVX2, *_AVX512)}
"""Source file of an instruction set -> its flags. A compiler that does not know the flags leaves the file out."""

_OWN_FLAGS = {**SETS, "attention": _AVX2, "signs": _AVX2}
"""The same with what every set uses; the other files are for any x86-64."""

_BOUND_S = 300


def build(library: Path = LIBRARY) -> str:
    """Compile the library in place of the one that may be there. "": it is built; else why not, and then there is none."""
    with tempfile.TemporaryDirectory(prefix="spectui-kernels-") as scratch:
        why = _build(Path(scratch), library)
    if why:
        library.unlink(missing_ok=True)  # it may not be that of these sources
    return why


def _build(scratch: Path, library: Path) -> str:
    if platform.machine().lower() not in ("x86_64", "amd64") or os.name == "nt":
        return f"there are none for {platform.system()} on {platform.machine()}"
    compiler = _compiler()
    if not compiler:
        return "there is no C++ compiler"
    sources = sorted(SOURCES.glob("*.cpp"))
    said = _compile(compiler, sources, scratch, ())
    left_out = [name for name in SETS if said.get(SOURCES / f"{name}.cpp", "missing")]
    if left_out:  # the others must not call them
        without = [f"-DSPECTUI_NO_{name.upper()}" for name in left_out]
        said |= _compile(compiler, [source for source in sources if source.stem not in SETS], scratch, without)
    fatal = [text for source, text in said.items() if text and source.stem not in left_out]
    if fatal or len(left_out) == len(SETS):
        return "\n".join(["they do not compile", *(fatal or said.values())])
    objects = [_object(source, scratch) for source, text in said.items() if not text]
    linked = scratch / library.name
    if text := _run([[*compiler, "-shared", "-fopenmp", "-o", str(linked), *objects]])[0]:
        return f"they cannot be linked\n{text}"
    beside = library.with_name(f"{library.name}.{os.getpid()}")  # a process may have the old one loaded
    beside.write_bytes(linked.read_bytes())
    beside.replace(library)
    return ""


def _compiler() -> list[str]:
    """The command of the C++ compiler: CXX, as for llama.cpp, or the one that is installed; [] without one."""
    named = shlex.split(os.environ.get("CXX", ""))
    return named or [name for name in ("c++", "g++", "clang++") if which(name)][:1]


def _compile(compiler: list[str], sources: list[Path], scratch: Path, more: Sequence[str]) -> dict[Path, str]:
    """Source -> what the compiler said if it refused it, "" if it did not. They are compiled at the same time."""
    commands = [
        [*compiler, *_FLAGS, *_OWN_FLAGS.get(source.stem, ()), *more, "-c", str(source), "-o", _object(source, scratch)]
        for source in sources
    ]
    return dict(zip(sources, _run(commands), strict=True))


def _object(source: Path, scratch: Path) -> str:
    return str(scratch / f"{source.stem}.o")


def _run(commands: list[list[str]]) -> list[str]:
    """Run the commands at the same time; for each what it said if it failed, and ""."""
    said = []
    try:
        running = [
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for command in commands
        ]
    except OSError as error:
        return [f"{commands[0][0]}: {error.strerror}"] * len(commands)
    for process in running:
        try:
            out, _ = process.communicate(timeout=_BOUND_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        text = out.decode("utf-8", "replace").strip()
        said.append("" if process.returncode == 0 else text or f"ended with code {process.returncode}")
    return said


if __name__ == "__main__":
    if why := build():
        sys.exit(f"spectui's kernels were not built: {why}")
    print(LIBRARY)
