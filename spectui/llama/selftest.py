"""Self-test: do llama.cpp's fast CPU kernels work on this machine, and do spectui's?

On x86 machines with AMX a build by GCC 12 or older crashes at the first batch of two tokens (llama.cpp PR #26954). Python
cannot catch that, so a subprocess decodes a tiny model before the first load. If it crashes, models are loaded without the
extra buffer types that lead to those kernels. Another subprocess tries spectui's kernels, whose library may be damaged. The
result is stored per build and CPU.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from spectui import paths
from spectui.atomic import write_atomic
from spectui.errors import SpectuiError
from spectui.kernels.plugin import LLAMA_CPP, Kernels, Unusable, identity
from spectui.llama.build import build_key, rebuild_command
from spectui.paths import program
from spectui.text import safe

QUANTISATIONS = ("Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")
FURTHER = ("Q5_K", "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS")
"""Types that spectui's kernels are tried with besides: those that they have none for are left to llama.cpp."""

BATCHES = (1, 2, 8)

_BOUND_S = 120

_ADVICE = "free some memory, make room for temporary files (TMPDIR), or raise the limits that hold here (ulimit -a)"

_KILLED, _TERMINATED = 9, 15
"""Signals of a system that is short of memory or shuts down."""


@dataclass(frozen=True)
class SelfTest:
    """`extra_buffers`: the fast kernels work. `lines`: what was tried. `own`: nothing is known against spectui's kernels."""

    extra_buffers: bool
    lines: list[str] = field(default_factory=list)
    own: bool = True


def run(force: bool = False) -> SelfTest:
    """The result for this build and CPU: stored, or found now in about a second. `force`: always find it now.

    Raises SpectuiError where decoding fails without the fast kernels too.
    """
    key = hashlib.sha256(f"{build_key()} {identity()}".encode()).hexdigest()[:16]
    stored = paths.state_directory() / f"selftest-{key}.json"
    if not force:
        with suppress(OSError, ValueError, TypeError):  # there is none yet, or it is damaged
            return SelfTest(**json.loads(stored.read_bytes()))
    result, lasts = _find()
    if not lasts:
        return result
    try:
        write_atomic(stored, json.dumps(result.__dict__).encode())
    except OSError as error:
        result.lines.append(f"the result could not be saved: {error.strerror}")
    return result


def _find() -> tuple[SelfTest, bool]:
    """The result, and whether it will be the same the next time: a full disk or missing memory may be temporary."""
    lines: list[str] = []
    try:
        fast = _ends("fast", lines)
        slow = 0 if fast == 0 else _ends("plain", lines)
        own = 0 if slow != 0 or not identity() else _ends("own", lines)
    except OSError as error:
        raise SpectuiError(f"The self-test of llama.cpp cannot run ({error}): {_ADVICE}.") from error
    if slow != 0:
        raise SpectuiError(
            f"The self-test of llama.cpp failed ({lines[-1]}): {_ADVICE}. If that does not help, rebuild llama.cpp: "
            f"{rebuild_command()}"
        )
    lasts = all(code == 0 or _crashed(code) for code in (fast, own))
    return SelfTest(extra_buffers=fast == 0, lines=lines, own=own == 0), lasts


def _crashed(code: int | None) -> bool:
    """Whether a program ended by a fault of its own, not by an error it told, for lack of time, or because it was killed."""
    return code is not None and (-code not in (_KILLED, _TERMINATED) if code < 0 else code > 255)  # large on Windows


_MODES = {"fast": "with the fast kernels", "plain": "without the fast kernels", "own": "with spectui's kernels"}


def _ends(mode: str, lines: list[str]) -> int | None:
    """Run this module as a program; how it ended: 0 is well, None not within the time. Appends to `lines` what it tried."""
    with tempfile.TemporaryDirectory(prefix="spectui-selftest-") as scratch:
        command = program(__name__, scratch, mode)
        code: int | None = None
        out = said = ""
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(command, capture_output=True, text=True, timeout=_BOUND_S, stdin=subprocess.DEVNULL)
            code, out, said = done.returncode, done.stdout, done.stderr
    tried = ", ".join(out.splitlines()) or "nothing"
    if code == 0:
        end = f"works ({tried})"
    elif code is None:
        end = f"not ended after {_BOUND_S} s"
    else:
        end = f"{f'killed by signal {-code}' if code < 0 else f'ended with code {code}'} after {tried}"
        if words := " ".join(safe(said.strip().rpartition("\n")[2]).split()):
            end += f", said {words}"
    lines.append(f"{_MODES[mode]}: {end}")
    return code


def main(scratch: str, mode: str) -> None:
    """In the subprocess: decode each batch size with each quantisation, and print the names of those that work.

    `mode`: one of _MODES. Where spectui's kernels cannot be used it prints why, and all is well.
    """
    from spectui.gguf_files.random_model import VOCABULARY, write_tiny_model
    from spectui.llama.context import Context
    from spectui.llama.cpu import plugin
    from spectui.llama.interrupt import Interrupt
    from spectui.llama.model import Model
    from spectui.llama.quantiser import quantise

    kernels = LLAMA_CPP
    if mode == "own":
        try:
            kernels = Kernels(plugin.load().set)
        except Unusable as error:
            print(error)
            return
    source = Path(scratch) / "tiny.gguf"
    write_tiny_model(source)
    for kind in (*QUANTISATIONS, *(FURTHER if kernels.set else ())):
        copy = source.with_name(f"{kind}.gguf")
        quantise(source, copy, kind)
        # No devices: llama.cpp would put the model on a GPU if there is one, and the CPU's kernels are what is tested.
        model = Model(str(copy), on_devices=[], extra_buffers=mode == "fast", kernels=kernels)
        context = Context(model, Interrupt(), n_ctx=64, rows=max(BATCHES))
        for size in BATCHES:
            context.evaluate([token % VOCABULARY for token in range(size)], rows=size)
        context.close()
        model.close()
        print(kind, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
