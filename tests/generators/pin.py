"""Makes `spectui/pin.py` from llama.cpp's source and the installed libraries.

    python -m tests.generators.pin DIR

DIR is the llama.cpp that llama-cpp-python carries (vendor/llama.cpp of its source).
"""

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
    layers, last = _with_rows(directory / "src")
    lists = {"ONE_HEAD": one, "SEVERAL_HEADS": several, "LAYER_ROWS": layers, "LAST_ROWS": last}
    return {**found, **{name: " ".join(each) for name, each in lists.items()}}


def _with_heads(source: Path) -> tuple[list[str], list[str]]:
    """The architectures whose own heads can draft: those with a graph that asserts that there is one, and those with others."""
    one, several = [], []
    for file in (source / "models").glob("*.cpp"):
        text = file.read_text()
        graph = re.search(r"(\w+)::build_arch_graph[^}]*GRAPH_TYPE_DECODER_MTP\) {\s+return", text)
        found = _named(source, {graph[1]}) if graph is not None else []
        (one if "n_layer_nextn == 1" in text else several).extend(found)
    return sorted(one), sorted(several)


def _with_rows(source: Path) -> tuple[list[str], list[str]]:
    """The architectures that give the rows that go into each layer, and those of them that give what comes out of the last.

    A row that is wider than the model ends the process: that of Qwen 4's wide residual.
    """
    layers, last = set(), set()
    for file in (source / "models").glob("*.cpp"):
        text = file.read_text()
        if re.search(r"t_layer_inp\[il\] = (inpL|cur|build_hc_mean\(inpL\));", text):
            found = set(re.findall(r"^(\w+)::graph", text, re.MULTILINE))
            layers |= found
            last |= found if "res->t_h_nextn = " in text else set()
    derived = r"struct (\w+) :[^{]*{(?:(?!\n};).)*?using graph = (\w+)::graph"
    same = re.findall(derived, (source / "models/models.h").read_text(), re.DOTALL)
    return _named(source, _with_those(layers, same)), _named(source, _with_those(last, same))


def _with_those(classes: set[str], same: list[tuple[str, str]]) -> set[str]:
    """The classes, and those that use the graph of one of them."""
    return classes | {name for name, other in same if other in classes}


def _named(source: Path, classes: set[str]) -> list[str]:
    """The architectures that have one of these classes."""
    names = dict(re.findall(r"{ (LLM_ARCH_\w+), *\"([\w-]+)\"", (source / "llama-arch.cpp").read_text()))
    cases = re.findall(r"((?:case LLM_ARCH_\w+:\s+)+)return new (\w+)\(", (source / "llama-model.cpp").read_text())
    found = [re.findall(r"LLM_ARCH_\w+", labels) for labels, name in cases if name in classes]
    return sorted(names[each] for labels in found for each in labels)


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
        before = rf"^{name} = (\([^)]*\)|.*)$"  # the formatter divides long lists
        text = re.sub(before, f"{name} = {written}", text, flags=re.MULTILINE)
    file.write_text(text)


if __name__ == "__main__":
    main()
