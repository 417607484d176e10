"""A smaller copy of a model, by llama.cpp's own quantiser."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from pathlib import Path

from spectui.atomic import replacing
from spectui.errors import SpectuiError
from spectui.llama import library
from spectui.llama.library import first_error, forget_errors, llama

FILE_TYPES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q2_K": 10, "Q4_K": 15, "Q5_K": 17, "Q6_K": 18}
"""llama_ftype of the quantisations used here (llama.h)."""


_Q4_0 = 2
"""ggml_type of "Q4_0" (ggml.h)."""


def quantise(
    source: Path,
    destination: Path,
    kind: str,
    progress: Callable[[float], None] = lambda _: None,
    *,
    throughout: bool = False,
) -> None:
    """Write a copy of `source` quantised as `kind`; the file appears whole or not at all. Raises SpectuiError.

    `throughout`: the output matrix and the embeddings too, which llama.cpp keeps at more bits; of Q4_0 alone.
    """
    params = llama.llama_model_quantize_default_params()
    params.ftype = FILE_TYPES[kind]
    params.allow_requantize = True
    params.nthread = os.cpu_count() or 1
    if throughout:
        params.pure = True
        params.output_tensor_type = params.token_embedding_type = _Q4_0
    forget_errors()

    def watch(line: str) -> None:
        # "[  12/ 272] blk.1.attn_k.weight ..." is the only sign of progress that the quantiser gives.
        found = re.match(r"\[\s*(\d+)/\s*(\d+)\]", line)
        if found:
            progress(int(found.group(1)) / int(found.group(2)))

    try:
        with replacing(destination) as part, library.listening(watch):
            code = llama.llama_model_quantize(os.fsencode(source), os.fsencode(part), ctypes.byref(params))
            if code:
                reason = first_error() or f"code {code}"
                raise SpectuiError(f"{source.name} could not be quantised as {kind}: {reason}.")
    except OSError as error:
        raise SpectuiError(f"{source.name} could not be kept as {kind}: {error.strerror}.") from error
