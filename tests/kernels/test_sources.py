"""What the kernels' sources say of others: ggml's structs and numbers, and how a file's blocks are read."""

import ctypes
import re
import subprocess
import sysconfig
from pathlib import Path
from shutil import which

import gguf
import numpy as np
import pytest

from spectui.kernels.build import SOURCES
from tests.helpers.peers import NOT_THERE, SOURCE
from tests.kernels.ggml import CPU, Kind, call

pytestmark = pytest.mark.skipif(which("c++") is None, reason="there is no C++ compiler")

GGML = SOURCE / "ggml"
INSTALLED = Path(sysconfig.get_path("platlib")) / "include" / "ggml.h"


def run(folder: Path, source: str, *includes: Path) -> bytes:
    """What the program prints. `includes`: folders of its headers."""
    code, program = folder / "program.cpp", folder / "program"
    code.write_text(source)
    subprocess.run(["c++", "-std=c++17", "-w", *(f"-I{each}" for each in includes), str(code), "-o", str(program)], check=True)
    return subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout


PRINT = """
#include <cstddef>
#include <cstdio>
template <class T> struct Arity { static constexpr int value = -1; };
template <class R, class... A> struct Arity<R (*)(A...)> { static constexpr int value = sizeof...(A); };
#define MEMBER(S, M) printf("%zu bytes at %zu, %d parameters\\n", sizeof(S::M), offsetof(S, M), Arity<decltype(S::M)>::value)
"""


def members(header: str) -> list[tuple[str, str]]:
    """Struct and member, of all that the header declares and uses."""
    found = []
    for struct, body in re.findall(r"^struct (ggml_\w+) \{(.*?)\};$", header, re.M | re.S):
        for line in re.findall(r"([^;]+);", re.sub("//.*", "", body)):
            names = re.findall(r"\(\*\s*(\w+)\)?", line)[:1] or [
                re.sub(r"\[.*", "", part).split()[-1].lstrip("*") for part in line.split(",")
            ]
            found += [(struct, name) for name in names if not name.startswith("unused")]
    return found


@pytest.mark.skipif(not (GGML / "src" / "ggml-backend-impl.h").exists(), reason=NOT_THERE)
def test_the_declarations_are_ggml_s(tmp_path: Path):
    if INSTALLED.exists() and INSTALLED.read_text() != (GGML / "include" / "ggml.h").read_text():
        pytest.skip("llama.cpp's source is not of the version that is installed")
    header = (SOURCES / "ggml_abi.h").read_text().partition("struct ggml_functions")[0]
    places = members(header)
    structs = sorted({struct for struct, _ in places})
    numbers = re.findall(r"\b(GGML_\w+) = -?\d+", header)
    assert len(places) > 60 and len(structs) == 13 and len(numbers) > 40
    lines = [f"MEMBER({struct}, {member});" for struct, member in places]
    lines += [f'printf("%zu bytes\\n", sizeof({struct}));' for struct in structs]
    lines += [f'printf("%d\\n", (int) {number});' for number in numbers]
    main = "\n".join(["int main() {", *lines, "}"])
    ours = run(tmp_path, f'#include "ggml_abi.h"\n{PRINT}{main}', SOURCES)
    theirs = run(tmp_path, f'#include "ggml-backend-impl.h"\n{PRINT}{main}', GGML / "src", GGML / "include")
    names = [*(".".join(each) for each in places), *structs, *numbers]
    assert dict(zip(names, ours.splitlines(), strict=True)) == dict(zip(names, theirs.splitlines(), strict=True))


def test_the_installed_library_has_the_version_of_the_declarations():
    registered = call("ggml_backend_reg_by_name", ctypes.c_void_p, (ctypes.c_char_p, CPU))
    declared = re.search(r"GGML_BACKEND_API_VERSION = (\d+)", (SOURCES / "ggml_abi.h").read_text())
    assert declared is not None
    assert ctypes.c_int.from_address(registered).value == int(declared[1])


READ = """
#include "formats.h"
#include <stdio.h>
#include <stdlib.h>
int main(int, char ** arguments) {
    const int type = atoi(arguments[1]), at = format_of(type);
    const Format f = FORMATS[at];
    const int head[] = { f.block, f.bytes, f.run, f.offset, f.mins, f.codebook };
    fwrite(head, sizeof head, 1, stdout);
    fwrite(CODEBOOK, sizeof CODEBOOK, 1, stdout);
    uint8_t block[256];
    while (fread(block, f.bytes, 1, stdin) == 1) {
        Values v;
        memset(&v, 0, sizeof v);
        read_block(f, block, v);
        fwrite(&v, sizeof v, 1, stdout);
    }
}
"""
VALUES = np.dtype([("q", "u1", 256), ("scale", "i1", 16), ("min", "u1", 16), ("d", "f2"), ("dmin", "f2")])


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    (folder / "read.cpp").write_text(READ)
    subprocess.run(
        ["c++", "-std=c++17", "-w", f"-I{SOURCES}", str(folder / "read.cpp"), "-o", str(folder / "read")], check=True
    )
    return folder / "read"


@pytest.mark.parametrize("kind", re.findall(r"\{ GGML_TYPE_([QI]\w+),", (SOURCES / "formats.h").read_text()))
def test_blocks_are_read_as_the_gguf_package_reads_them(reader: Path, kind: str):
    random = np.random.default_rng(0)
    of_block, size = gguf.constants.GGML_QUANT_SIZES[Kind[kind]]
    blocks = random.integers(0, 256, (500, size), np.uint8)
    with np.errstate(all="ignore"):  # halves at random may be no numbers
        right = gguf.quants.dequantize(blocks, Kind[kind])
    numbers = np.isfinite(right).all(axis=1) & (np.abs(right).max(axis=1) < 1e30)
    blocks, right = blocks[numbers], right[numbers]
    assert len(right) > 300
    out = subprocess.run([reader, str(int(Kind[kind]))], input=blocks.tobytes(), stdout=subprocess.PIPE, check=True).stdout
    block, size_here, run_, offset, mins, codebook = np.frombuffer(out[:24], np.int32)
    assert (block, size_here) == (of_block, size)
    read = np.frombuffer(out[40:], VALUES)
    q = read["q"][:, :block]
    q = (np.frombuffer(out[24:40], np.uint8)[q] if codebook else q).astype(np.float64) - offset
    d, dmin = (read[name].astype(np.float64)[:, None] for name in ("d", "dmin"))
    if not run_:
        found = d * q + dmin * mins
    else:
        scale, least = (np.repeat(read[name][:, : block // run_].astype(np.float64), run_, axis=1) for name in ("scale", "min"))
        found = d * scale * q - dmin * least * mins
    assert (np.abs(found - right) <= 1e-6 * np.abs(right).max(axis=1, keepdims=True)).all()
