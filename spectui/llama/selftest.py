"""Self-test: do llama.cpp's fast CPU kernels work on this machine?

On x86 machines with AMX a build by GCC 12 or older crashes at the first batch of two tokens (llama.cpp PR #26954). Python
cannot catch that, so a subprocess decodes a tiny model before the first load. If it crashes, models are loaded without the
extra buffer types that lead to those kernels. The verdict is stored per build and CPU.
"""

from __future__ import annotations

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
from spectui.llama.rebuild import rebuild_command

QUANTISATIONS = ("Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")
BATCHES = (1, 2, 8)

_BOUND_S = 120

_KILLED, _TERMINATED = 9, 15
"""Signals of a system that is short of memory, or shuts down."""


@dataclass(frozen=True)
class Verdict:
    """`extra_buffers`: the fast kernels work. `ok`: decoding works, with or without them. `lines`: what was tried."""

    extra_buffers: bool
    ok: bool
    lines: list[str] = field(default_factory=list)

    @property
    def advice(self) -> str:
        """What to do, in one or two sentences."""
        if self.extra_buffers:
            return "Nothing to do: the fast kernels of this build work."
        if self.ok:
            return (
                "This build of llama.cpp dies in its fast CPU kernels (compilers such as GCC 12 break AMX), so spectui "
                f"runs without them, at up to half the speed. Rebuild it with clang or GCC 13: {rebuild_command()}"
            )
        return (
            f"This build of llama.cpp dies on this CPU even without its fast kernels. Rebuild it: {rebuild_command()}"
        )


def run(force: bool = False) -> Verdict:
    """The verdict for this build and CPU: stored, or found now in about a second. `force`: always find it now."""
    from spectui.llama.library import build_key

    key = build_key()
    stored = paths.state_directory() / f"selftest-{key}.json"
    if not force:
        try:
            return _read(stored.read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError):
            pass  # there is none yet, or it is damaged
    verdict, lasts = _find()
    if not lasts:
        return verdict
    try:
        write_atomic(stored, json.dumps(verdict.__dict__).encode())
    except OSError as error:
        verdict.lines.append(f"the verdict could not be saved: {error.strerror}")
    return verdict


def _read(text: str) -> Verdict:
    """A stored verdict. Raises ValueError or TypeError if the text is none."""
    verdict = Verdict(**json.loads(text))
    if not (isinstance(verdict.extra_buffers, bool) and verdict.ok is True and isinstance(verdict.lines, list)):
        raise ValueError(text)
    return verdict


def _find() -> tuple[Verdict, bool]:
    """The verdict, and whether it will be the same the next time: a full disk or missing memory may be temporary."""
    lines: list[str] = []
    try:
        fast = _ends(True, lines)
        slow = 0 if fast == 0 else _ends(False, lines)
    except OSError as error:
        raise SpectuiError(f"The self-test of llama.cpp cannot write temporary files: {error.strerror}.") from error
    return Verdict(extra_buffers=fast == 0, ok=slow == 0, lines=lines), slow == 0 and (fast == 0 or _crashed(fast))


def _crashed(code: int | None) -> bool:
    """Whether a program ended by a fault of its own, not by an error it told, for lack of time, or because it was killed."""
    return code is not None and (-code not in (_KILLED, _TERMINATED) if code < 0 else code > 255)  # large on Windows


def _ends(extra_buffers: bool, lines: list[str]) -> int | None:
    """Run this module as a program; how it ended: 0 is well, None not within the time. Appends to `lines` what it tried."""
    with tempfile.TemporaryDirectory(prefix="spectui-selftest-") as scratch:
        command = [sys.executable, "-m", __name__, scratch, "fast" if extra_buffers else "plain"]
        code: int | None = None
        out = ""
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(command, capture_output=True, text=True, timeout=_BOUND_S, stdin=subprocess.DEVNULL)
            code, out = done.returncode, done.stdout
    what = "with the fast kernels" if extra_buffers else "without the fast kernels"
    tried = ", ".join(out.split()) or "nothing"
    if code == 0:
        end = f"works ({tried})"
    elif code is None:
        end = f"not ended after {_BOUND_S} s"
    else:
        end = f"{f'killed by signal {-code}' if code < 0 else f'ended with code {code}'} after {tried}"
    lines.append(f"{what}: {end}")
    return code


def main(scratch: str, mode: str) -> None:
    """In the subprocess: decode each batch size with each quantisation, and print the names of those that work."""
    from spectui.gguf_files.tiny import VOCABULARY, write_tiny_model
    from spectui.llama.context import Context
    from spectui.llama.interrupt import Interrupt
    from spectui.llama.model import Model
    from spectui.llama.quantiser import quantise

    source = Path(scratch) / "tiny.gguf"
    write_tiny_model(source)
    for kind in QUANTISATIONS:
        copy = source.with_name(f"{kind}.gguf")
        quantise(source, copy, kind)
        # No devices: llama.cpp would put the model on a GPU if there is one, and the CPU's kernels are what is tested.
        model = Model(str(copy), on_devices=[], extra_buffers=mode == "fast")
        context = Context(model, Interrupt(), n_ctx=64, rows=max(BATCHES))
        for size in BATCHES:
            context.evaluate([token % VOCABULARY for token in range(size)], rows=size)
        context.close()
        model.close()
        print(kind, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
