"""What the kernels' sources say of others: ggml's structs and numbers, and how a file's blocks are read."""

import ctypes
import re
import subprocess
import sysconfig
from collections.abc import Sequence
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


THEIR_STRUCTS = {
    "ggml_tensor": "ggml_tensor",
    "ggml_buffer_type": "ggml_backend_buffer_type",
    "ggml_buffer_functions": "ggml_backend_buffer_i",
    "ggml_buffer": "ggml_backend_buffer",
    "ggml_backend_functions": "ggml_backend_i",
    "ggml_backend": "ggml_backend",
    "ggml_device_properties": "ggml_backend_dev_props",
    "ggml_device": "ggml_backend_device",
    "ggml_registry": "ggml_backend_reg",
}
THEIR_MEMBERS = {
    "ggml_buffer.functions": "iface",
    "ggml_buffer.type": "buft",
    "ggml_backend.functions": "iface",
    "ggml_device_properties.id": "device_id",
    "ggml_device.registry": "reg",
}
THROUGH = {"ggml_buffer_type": "iface.", "ggml_device": "iface.", "ggml_registry": "iface.", "ggml_device_properties": "caps."}
"""Members that are in a struct within theirs, and not in one of ours."""

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
    for struct, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", header, re.M | re.S):
        if struct in THEIR_STRUCTS:
            for line in re.findall(r"^    (.*?);", body, re.M):
                names = re.findall(r"\(\*\s*(\w+)\)?", line)[:1] or [
                    re.sub(r"\[.*", "", part).split()[-1].lstrip("*") for part in line.split(",")
                ]
                found += [(struct, name) for name in names if not name.startswith("unused")]
    return found


def theirs(struct: str, member: str, flat: set[str]) -> str:
    """Where ggml's own header has the member."""
    name = THEIR_MEMBERS.get(f"{struct}.{member}", member)
    return (THROUGH.get(struct, "") if name not in flat else "") + name


@pytest.mark.skipif(not (GGML / "src" / "ggml-backend-impl.h").exists(), reason=NOT_THERE)
def test_the_declarations_are_ggml_s(tmp_path: Path):
    if INSTALLED.exists() and INSTALLED.read_text() != (GGML / "include" / "ggml.h").read_text():
        pytest.skip("llama.cpp's source is not of the version that is installed")
    header = (SOURCES / "ggml.h").read_text()
    found = members(header)
    assert len(found) > 70 and {struct for struct, _ in found} == set(THEIR_STRUCTS)
    numbers = re.findall(r"\b((?:TYPE|OP|STATUS|DEVICE|TENSOR)_\w+) = -?\d+", header)
    assert len(numbers) > 20
    flat = {"device", "context", "api_version", "reg", "name", "description", "type", "device_id"}
    flat |= {"memory_free", "memory_total"}
    prefix = {"DEVICE": "GGML_BACKEND_DEVICE_TYPE_"}

    def program(include: str, structs: Sequence[str], places: Sequence[tuple[str, str]], constants: Sequence[str]) -> str:
        lines = [f"MEMBER({struct}, {member});" for struct, member in places]
        lines += [f'printf("%zu bytes\\n", sizeof({struct}));' for struct in structs]
        lines += [f'printf("%d\\n", (int) {constant});' for constant in constants]
        return f'#include "{include}"\n{PRINT}\nint main() {{\n' + "\n".join(lines) + "\n}\n"

    api = ["GGML_API_VERSION", *numbers]
    theirs_api = [
        "GGML_BACKEND_API_VERSION",
        *(prefix.get(n.split("_")[0], "GGML_") + n.removeprefix("DEVICE_") for n in numbers),
    ]
    places = [(THEIR_STRUCTS[struct], theirs(struct, member, flat)) for struct, member in found]
    ours = run(tmp_path, program("ggml.h", list(THEIR_STRUCTS), found, api), SOURCES).decode().splitlines()
    right = run(
        tmp_path,
        program("ggml-backend-impl.h", list(THEIR_STRUCTS.values()), places, theirs_api),
        GGML / "src",
        GGML / "include",
    )
    names = [*(".".join(each) for each in found), *THEIR_STRUCTS, *api]
    assert dict(zip(names, ours, strict=True)) == dict(zip(names, right.decode().splitlines(), strict=True))


def test_the_installed_library_has_the_version_of_the_declarations():
    registered = call("ggml_backend_reg_by_name", ctypes.c_void_p, (ctypes.c_char_p, CPU))
    declared = re.search(r"GGML_API_VERSION = (\d+)", (SOURCES / "ggml.h").read_text())
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
        read_block(type, block, v);
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


@pytest.mark.parametrize("kind", re.findall(r"\{ TYPE_([QI]\w+),", (SOURCES / "formats.h").read_text()))
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
