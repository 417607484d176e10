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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which
from time import monotonic

SOURCES = Path(__file__).parent / "src"
LIBRARY = Path(__file__).parent / f"libspectui-kernels.{'dylib' if sys.platform == 'darwin' else 'so'}"

_FLAGS = ("-O2", "-std=c++17", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno", "-fopenmp")
"""Contracted products would round differently from one compiler to the next."""

_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni")
_AMX = ("-mamx-tile", "-mamx-int8")
SETS = {"avx2": _AVX2, "avxvnni": (*_AVX2, "-mavxvnni"), "avx512": (*_AVX2, *_AVX512), "amx": (*_AVX2, *_AVX512, *_AMX)}
"""Source file of an instruction set -> its flags. One that the compiler refuses is left out: see set.h, and `left_out`."""

_OWN_FLAGS = {**SETS, "rows": _AVX2, "signs": _AVX2}
"""The same with what every set uses; the other files are for any x86-64."""

_BOUND_S = 300
"""Seconds after which compilers that have not ended are ended."""


def build(library: Path = LIBRARY) -> str:
    """Compile the library in place of the one that may be there. "": it is built; else why not, and the old one stays."""
    try:
        with tempfile.TemporaryDirectory(prefix=".spectui-kernels-", dir=library.parent) as scratch:
            return _build(Path(scratch), library)
    except OSError as error:
        return f"their library cannot be written ({library.parent}: {error.strerror}): install spectui where you may write"


def left_out(library: Path = LIBRARY) -> str:
    """The instruction sets that the library was built without, each with the compiler's first error; "" if there are none."""
    try:
        return library.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _build(scratch: Path, library: Path) -> str:
    if platform.machine().lower() not in ("x86_64", "amd64") or os.name == "nt":
        return f"there are none for {platform.system()} on {platform.machine()}"
    compiler = _compiler()
    if not compiler:
        return "there is no C++ compiler"
    objects = {source: str(scratch / f"{source.stem}.o") for source in sorted(SOURCES.glob("*.cpp"))}
    deadline = monotonic() + _BOUND_S

    def compiled(source: Path) -> str:
        flags = (*_FLAGS, *_OWN_FLAGS.get(source.stem, ()))
        return _run([*compiler, *flags, "-c", str(source), "-o", objects[source]], deadline)

    with ThreadPoolExecutor(len(objects)) as pool:
        said = dict(zip(objects, pool.map(compiled, objects), strict=True))
    refused = {source.stem: text for source, text in said.items() if text}
    if refused.keys() - SETS.keys() or refused.keys() >= SETS.keys():
        return "\n".join(["they do not compile", *refused.values()])
    linked = scratch / library.name
    files = [objects[source] for source, text in said.items() if not text]
    if text := _run([*compiler, "-shared", "-fopenmp", "-o", str(linked), *files], deadline):
        return f"they cannot be linked\n{text}"
    note = library.with_suffix(".txt")
    note.unlink(missing_ok=True)
    if refused:
        note.write_text(", ".join(f"{name} ({_first_error(text)})" for name, text in refused.items()), encoding="utf-8")
    linked.replace(library)  # a process may have the old one loaded
    return ""


def _first_error(text: str) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = text.splitlines()
    return next((line for line in lines if "error: " in line), lines[0])


def _compiler() -> list[str]:
    """The command of the C++ compiler: CXX, as for llama.cpp, or the one that is installed; [] without one."""
    named = shlex.split(os.environ.get("CXX", ""))
    return named or [name for name in ("c++", "g++", "clang++") if which(name)][:1]


def _run(command: list[str], deadline: float) -> str:
    """Run the command; what it said if it failed, "" if it did not. `deadline`: by the monotonic clock."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"}, timeout=max(0, deadline - monotonic()),
        )  # fmt: skip
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{command[0]}: it did not end in {_BOUND_S} s"
    text = done.stdout.decode("utf-8", "replace").strip()
    return "" if done.returncode == 0 else text or f"ended with code {done.returncode}"


if __name__ == "__main__":
    if why := build():
        sys.exit(f"spectui's kernels were not built: {why}")
    if sets := left_out():
        print(f"spectui's kernels were built without {sets}", file=sys.stderr)
    print(LIBRARY)
