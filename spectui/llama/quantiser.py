"""Write a quantised copy of a model with llama.cpp's quantiser.

Run as a program (`quantise_apart`), it is a process of its own, which can be stopped at once. A fault of llama.cpp ends
only that.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from spectui.atomic import replacing
from spectui.errors import SpectuiError
from spectui.llama import library
from spectui.llama.library import clear_errors, first_error, llama
from spectui.paths import program

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


def quantise_apart(source: Path, destination: Path, kind: str, progress: Callable[[float], None]) -> None:
    """`quantise` in a process of its own. An exception in this one, such as Ctrl+C, ends that and leaves no file.

    Raises SpectuiError.
    """
    command = program(__name__, str(source), str(destination), kind)
    # In a group of its own, so that Ctrl+C reaches only the process that waits.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace",
        start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    error = ""
    try:
        for line in process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "done":
                progress(float(rest))
            elif word == "error":
                error = rest
        code = process.wait()
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        _delete_part(destination, process.pid)
    if error or code:
        raise SpectuiError(error or f"llama.cpp ended while it quantised {source.name} (code {code}): check the file.")


def _delete_part(destination: Path, pid: int) -> None:
    """Delete what this process has written of the file."""
    for part in destination.parent.glob(f"*.{pid}.part"):
        part.unlink(missing_ok=True)


def _end_with_stdin(destination: Path) -> None:
    """Wait until standard input ends, because the parent has died; then end too, and leave no file."""
    os.read(0, 1)  # without the lock of sys.stdin, which Python takes when it ends
    _delete_part(destination, os.getpid())
    os._exit(1)


def _main(source: str, destination: str, kind: str) -> int:
    """Write each step of the progress, and an error's sentence, as a line on standard output."""
    threading.Thread(target=_end_with_stdin, args=(Path(destination),), daemon=True).start()
    try:
        quantise(Path(source), Path(destination), kind, lambda share: print("done", share, flush=True))
    except SpectuiError as error:
        print("error", " ".join(str(error).split()), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
