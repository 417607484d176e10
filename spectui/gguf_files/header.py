"""The GGUF header of a model file: enough to choose a model, without loading it and without llama.cpp."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spectui.gguf_files.heads import EAGLE3, TARGETS, are_heads, usable_heads
from spectui.gguf_files.judgement import judge, read_file
from spectui.gguf_files.metadata import Value, whole_number
from spectui.gguf_files.parts import model_name
from spectui.gguf_files.vocabulary import VocabularyDigest

_WIDTHS = {EAGLE3: "target_hidden_size", **dict.fromkeys(TARGETS, "embedding_length_out")}

_PAUSE_S = 0.0005


@dataclass(frozen=True)
class GgufHeader:
    """What a model file says of itself; "" or None is unknown.

    `size` is in bytes, of all its parts. `n_ctx_train`: tokens of the context that it was trained with. `problem`: why it
    cannot be loaded, to complete the sentence "The model ..."; "" if it can. `called`: its name in the program that keeps it,
    where its file has another. `heads`: of its own (multi-token prediction). `only_heads`: it is those of a target, and no
    model. `width`: numbers of a hidden row, of the target's where it is a head for one.
    """

    path: str
    size: int
    architecture: str = ""
    quantisation: str = ""
    parameters: str = ""
    n_ctx_train: int | None = None
    vocabulary: VocabularyDigest | None = None
    problem: str = ""
    called: str = ""
    heads: int = 0
    only_heads: bool = False
    width: int | None = None

    @property
    def name(self) -> str:
        """What the program that keeps it calls it, or the file's name without ending and number of the part."""
        return self.called or model_name(Path(self.path))


def read_header(path: Path, cancelled: Callable[[], bool] = lambda: False) -> GgufHeader:
    """The header of a file with any content. Raises OSError if it cannot be read, Cancelled when `cancelled` returns true."""
    if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would block
        return GgufHeader(str(path), 0, problem="is not a file: name one that ends in .gguf")

    def pause() -> None:
        # A thread that never waits keeps the interpreter for 5 ms each time that the worker returns from llama.cpp. Measured on
        # 2 cores with rounds of 0.4 ms: 900 a second with these pauses, 50 without, and 0.3 s for a header instead of 0.15 s.
        time.sleep(_PAUSE_S)
        if cancelled():
            raise Cancelled

    header = judge(path, lambda file: read_file(file, pause))
    of = header.metadata
    if of is None:
        return GgufHeader(str(path), header.size, problem=header.problem)
    values, architecture = of.values, of.text("general.architecture")
    return GgufHeader(
        str(path),
        header.size,
        architecture=architecture,
        quantisation=_quantisation(values.get("general.file_type")),
        parameters=of.text("general.size_label"),
        n_ctx_train=whole_number(values.get(f"{architecture}.context_length")),
        vocabulary=of.vocabulary,
        problem=header.problem,
        heads=usable_heads(of),
        only_heads=are_heads(of),
        width=whole_number(values.get(f"{architecture}.{_WIDTHS.get(architecture, 'embedding_length')}")),
    )


class Cancelled(Exception):
    """The caller cancelled the reading."""


def _quantisation(number: Value | None) -> str:
    from gguf import LlamaFileType

    try:
        name: str = LlamaFileType(number).name
        return name.removeprefix("MOSTLY_").removeprefix("ALL_")
    except ValueError:
        return ""
