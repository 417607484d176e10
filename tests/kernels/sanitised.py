"""What the kernels do to memory: their test program with every instruction set, and the tests of their graphs.

    python -m tests.kernels.sanitised [SEED...]

AMX, AVX-512 and AVX-VNNI are emulated (emulated/immintrin.h), so that any CPU with AVX2 runs them. The test program puts all
that they read and write before pages that nobody may touch; all else is compiled with AddressSanitizer and UBSan.
"""

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

from spectui.kernels.build import SOURCES

HERE = Path(__file__).parent
SETS = ("avx2", "avxvnni", "avx512vnni", "amx")
EMULATED = ("amx", "avx512", "avxvnni")
FLAGS = (
    "-O1", "-g1", "-std=c++17", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fopenmp", "-Wall", "-Wextra", "-Wno-psabi",
    "-mavx2", "-mfma", "-mf16c", f"-I{HERE / 'emulated'}", "-DEMULATED=true",
)  # fmt: skip
SANITISED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "--param", "asan-stack=0")
"""Not the stack: there are the kernels' registers, and guards around each would take minutes to compile."""

TESTS = ("test_products.py", "test_attention.py", "test_rows.py")


def together(*commands: list[str], **environment: str) -> None:
    """Run the commands at the same time; end the program if one fails."""
    running = [subprocess.Popen(command, env={**os.environ, **environment}) for command in commands]
    ended = [process.wait() for process in running]
    if failed := [command for command, code in zip(commands, ended, strict=True) if code != 0]:
        sys.exit(f"failed: {' '.join(failed[0])}")


def main(seeds: list[str]) -> None:
    compiler = which("g++")
    if compiler is None or platform.machine() != "x86_64":
        print("The kernels were not tried: there is no g++, or this is no x86-64.")
        return
    with tempfile.TemporaryDirectory(prefix="spectui-kernels-") as scratch:
        sources = {each.stem: each for each in (*sorted(SOURCES.glob("*.cpp")), HERE / "check.cpp")}
        objects = {name: f"{scratch}/{name}.o" for name in sources}
        flags = {name: () if name in EMULATED else SANITISED for name in sources}
        together(*([compiler, *FLAGS, *flags[name], "-c", str(sources[name]), "-o", objects[name]] for name in sources))
        check, library = f"{scratch}/check", f"{scratch}/libspectui-kernels.so"
        link = [compiler, *FLAGS, *SANITISED]
        together(
            [*link, *(objects[name] for name in ("check", "avx2", *EMULATED)), "-o", check],
            # Without the emulated sets, for which a library asks the CPU.
            [*link, "-shared", *(objects[name] for name in objects if name not in ("check", *EMULATED)), "-o", library],
        )
        together(*([check, name, seed] for name in SETS for seed in seeds))
        runtime = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
        together(
            [sys.executable, "-m", "pytest", "-q", "-n0", *(str(HERE / each) for each in TESTS)],
            KERNELS_LIBRARY=library, LD_PRELOAD=runtime.stdout.strip(), ASAN_OPTIONS="detect_leaks=0",
        )  # fmt: skip
    print("The kernels touch no memory but their own.")


if __name__ == "__main__":
    main(sys.argv[1:] or ["1", "2", "3"])
