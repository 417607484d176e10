"""Write a quantised copy of a model with llama.cpp's quantiser."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from pathlib import Path

from spectui.atomic import replacing
from spectui.errors import SpectuiError
from spectui.llama import library
from spectui.llama.library import clear_errors, first_error, llama

FILE_TYPES = {
    "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q2_K": 10, "Q3_K": 12, "Q4_K": 15, "Q5_K": 17, "Q6_K": 18, "IQ4_NL": 25,
    "IQ4_XS": 30,
}  # fmt: skip
"""llama_ftype of the quantisations used here (llama.h)."""

_Q4_0 = 2
"""ggml_type of "Q4_0" (ggml.h)."""


def quantise(
    source: Path, destination: Path, kind: str, progress: Callable[[float], None] = lambda _: None, *, throughout: bool = False
) -> None:
    """Write a copy of `source` quantised as `kind`, atomically. Raises SpectuiError.

    `throughout`: also quantise the output matrix and the embeddings, for which llama.cpp uses more bits; for Q4_0 only.
    """
    params = llama.llama_model_quantize_default_params()
    params.ftype = FILE_TYPES[kind]
    params.allow_requantize = True
    params.nthread = os.cpu_count() or 1
    if throughout:
        params.pure = True
        params.output_tensor_type = params.token_embedding_type = _Q4_0
    clear_errors()

    def watch(line: str) -> None:
        # The quantiser reports its progress only by lines such as "[  12/ 272] blk.1.attn_k.weight ...".
        match = re.match(r"\[\s*(\d+)/\s*(\d+)\]", line)
        if match:
            progress(int(match.group(1)) / int(match.group(2)))

    try:
        with replacing(destination) as part, library.listening(watch):
            code = llama.llama_model_quantize(os.fsencode(source), os.fsencode(part), ctypes.byref(params))
            if code:
                reason = first_error() or f"code {code}"
                if "iostream" in reason:  # all that the C++ library says of a failed write
                    reason = "the file cannot be written, the disk may be full"
                raise SpectuiError(f"{source.name} could not be quantised as {kind}: {reason}.")
    except OSError as error:
        raise SpectuiError(f"{source.name} could not be saved as {kind}: {error.strerror}.") from error
