"""Loading the kernels' library: what does not suit it, or is no such library, is a clause, and nothing is registered."""

import re
from pathlib import Path

import pytest

from spectui.kernels import plugin
from spectui.kernels.build import LIBRARY, SOURCES
from spectui.kernels.plugin import FUNCTIONS, Kernels, Plugin, Unusable
from spectui.llama.devices import listing
from spectui.llama.library import address
from tests.kernels.libraries import library, needs_a_compiler

OPENMP = ("-fopenmp", "-Wl,--no-as-needed")


def refusal(path: Path, address=address) -> str:
    with pytest.raises(Unusable) as caught:
        Plugin(address, path)
    return str(caught.value)


def without(name: str):
    """Where llama.cpp's functions are, as a build has them that lacks this one."""
    return lambda wanted: None if wanted == name else address(wanted)


def test_a_library_that_is_not_there(tmp_path: Path):
    assert (
        refusal(tmp_path / "none.so")
        == "they were not built: python -m spectui.kernels.build does that where a C++ compiler is"
    )
    assert plugin.identity(tmp_path / "none.so") == ""


def test_a_file_that_is_no_library(tmp_path: Path):
    file = tmp_path / "damaged.so"
    file.write_bytes(b"\x7fELF" + bytes(100))
    said = refusal(file)
    assert said.startswith("their library cannot be loaded (") and str(tmp_path) not in said


@needs_a_compiler
@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"abi": 7}, "their library is of another version (7 instead of 4): install spectui again"),
        ({"sets": ""}, "this CPU, or their library, has no AVX2"),
        ({"source": "int spectui_kernels_abi(void) { return 4; }"}, "their library is damaged, or old: install spectui again"),
        ({"source": "int other(void) { return 1; }"}, "their library is damaged, or old: install spectui again"),
        ({"bind": 1}, "their library refuses this llama.cpp"),
        ({}, "ggml does not load their library"),
    ],
)
def test_a_library_that_does_not_suit(tmp_path: Path, claims: dict, said: str):
    before = listing.list_names()
    assert refusal(library(tmp_path, *OPENMP, **claims)) == said
    assert listing.list_names() == before


@needs_a_compiler
def test_an_instruction_set_that_is_not_there(tmp_path: Path):
    with pytest.raises(Unusable, match="has no avx512vnni, only avx2"):
        Plugin(address, library(tmp_path, *OPENMP), only="avx512vnni")


@needs_a_compiler
def test_another_openmp_runtime(tmp_path: Path):
    """Two runtimes would have two teams of threads."""
    said = "they use another OpenMP runtime than this llama.cpp: build both with one compiler"
    assert refusal(library(tmp_path)) == said
    own = library(tmp_path, source="int omp_get_max_threads(void) { return 1; }\n" + Path(tmp_path / "claims.c").read_text())
    assert refusal(own) == said
    assert refusal(library(tmp_path, *OPENMP), without("omp_get_max_threads")) == "this llama.cpp computes without OpenMP"


@needs_a_compiler
def test_another_version_of_the_plug_in_interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plugin, "API_VERSION", 99)
    assert refusal(library(tmp_path, *OPENMP)) == "this llama.cpp's plug-in interface has version 2, not 99"


@needs_a_compiler
@pytest.mark.parametrize("name", [FUNCTIONS[-1], "ggml_backend_load"])
def test_a_llama_cpp_without_a_function(tmp_path: Path, name: str):
    assert refusal(library(tmp_path, *OPENMP), without(name)) == f"this llama.cpp has no {name}"


@pytest.mark.skipif(not (SOURCES / "ggml_abi.h").exists(), reason="the sources are not there")
def test_the_functions_are_those_of_the_header_in_its_order():
    text = (SOURCES / "ggml_abi.h").read_text()
    struct = text[text.index("struct ggml_functions {") :]
    assert tuple(re.findall(r"\(\*(\w+)\)\(", struct[: struct.index("};")])) == FUNCTIONS
    assert f"GGML_BACKEND_API_VERSION = {plugin.API_VERSION};" in text


def test_a_name_for_people():
    assert [Kernels("avx2").name, Kernels(why="no").name] == ["spectui avx2", "llama.cpp"]


@pytest.mark.skipif(not LIBRARY.exists(), reason="the kernels are not built")
def test_the_library_is_listed_nowhere():
    from spectui.llama.cpu import plugin as loaded

    devices, key = listing.list_devices(), listing.gpu_key()
    found = loaded.load()
    assert found is loaded.load() and found.set in ("amx", "avx512vnni", "avxvnni", "avx2")
    assert found.bytes(8, 256, 64, 1) >= 256 * 64 * 34 // 32 and found.bytes(16, 256, 64, 1) == 0
    after = [each._replace(free=0) for each in listing.list_devices()]
    assert after == [each._replace(free=0) for each in devices]
    assert listing.gpu_key() == key
