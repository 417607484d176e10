"""What a build of llama.cpp is made of, told by the names of its libraries."""

from pathlib import Path

import pytest

from spectui.llama.build import directory, isolated_backends
from spectui.llama.library import directory as loaded_directory


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["libggml-base.so", "libggml-cpu.so.0", "libllama.so", "libggml-blas.so"], ()),
        (["libggml-cpu.so", "libggml-cuda.so.0.25.3", "libggml-rpc.so"], ("cuda", "rpc")),
        (["libggml-metal.dylib", "libggml-blas.dylib"], ("metal",)),
        (["ggml-vulkan.dll", "ggml-hip.dll", "ggml-cuda.lib"], ("hip", "vulkan")),
    ],
)
def test_isolated_backends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files, found):
    for name in files:
        (tmp_path / name).touch()
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    isolated_backends.cache_clear()
    assert isolated_backends() == found
    isolated_backends.cache_clear()


def test_the_directory_is_that_of_the_library_that_is_loaded():
    found = directory()
    assert found is not None and found.resolve() == loaded_directory()
