"""Makes `spectui/pin.py` from llama.cpp's source and the installed libraries.

    python -m tests.generators.pin DIR

DIR is the llama.cpp that llama-cpp-python carries (vendor/llama.cpp of its source).
"""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

_DEFINED = {
    "MOST_LAYERS": ("src/llama-hparams.h", "LLAMA_MAX_LAYERS", 0),
    "MOST_EXPERTS": ("src/llama-hparams.h", "LLAMA_MAX_EXPERTS", 0),
    "MOST_DIMENSIONS": ("ggml/include/ggml.h", "GGML_MAX_DIMS", 0),
    "LONGEST_TENSOR_NAME": ("ggml/include/ggml.h", "GGML_MAX_NAME", -1),
    "GGUF_VERSION": ("ggml/include/gguf.h", "GGUF_VERSION", 0),
}
"""Name -> file of the source, macro, and what is added to it: the zero behind a name counts there."""


def in_source(directory: Path) -> dict[str, int | str]:
    """The bounds as the source defines them."""
    found: dict[str, int | str] = {}
    for name, (file, macro, more) in _DEFINED.items():
        match = re.search(rf"#\s*define {macro}\s+(\d+)", (directory / file).read_text())
        assert match is not None, f"{file} defines no {macro}"
        found[name] = int(match[1]) + more
    one, several = _with_heads(directory / "src")
    return {**found, "ONE_HEAD": " ".join(one), "SEVERAL_HEADS": " ".join(several)}


def _with_heads(source: Path) -> tuple[list[str], list[str]]:
    """The architectures whose own heads can draft: those with a graph that asserts that there is one, and those with others."""
    names = dict(re.findall(r"{ (LLM_ARCH_\w+), *\"([\w-]+)\"", (source / "llama-arch.cpp").read_text()))
    classes = re.findall(r"case (LLM_ARCH_\w+):\s+return new (\w+)\(", (source / "llama-model.cpp").read_text())
    one, several = [], []
    for file in (source / "models").glob("*.cpp"):
        text = file.read_text()
        graph = re.search(r"(\w+)::build_arch_graph[^}]*GRAPH_TYPE_DECODER_MTP\) {\s+return", text)
        found = [names[architecture] for architecture, name in classes if graph is not None and name == graph[1]]
        (one if "n_layer_nextn == 1" in text else several).extend(found)
    return sorted(one), sorted(several)


def installed() -> dict[str, str]:
    """The versions of what is installed, as it says them."""
    import llama_cpp

    from spectui.llama.library import symbol

    said = {name: symbol(function, ctypes.c_char_p)().decode() for name, function in
            (("LLAMA", "llama_version"), ("GGML", "ggml_version"))}  # fmt: skip
    return {"LLAMA_CPP_PYTHON": llama_cpp.__version__, **said}


def main() -> None:
    """Write the values into the module."""
    from spectui import pin

    file = Path(pin.__file__)
    text = file.read_text()
    for name, value in {**installed(), **in_source(Path(sys.argv[1]))}.items():
        written = f'"{value}"' if isinstance(value, str) else str(value)
        text = re.sub(rf"^{name} = .*$", f"{name} = {written}", text, flags=re.MULTILINE)
    file.write_text(text)


if __name__ == "__main__":
    main()
