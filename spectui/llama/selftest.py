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
from dataclasses import dataclass, field
from pathlib import Path

from spectui import paths
from spectui.atomic import write_atomic
from spectui.errors import SpectuiError
from spectui.llama.rebuild import rebuild_command

QUANTISATIONS = ("Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")
BATCHES = (1, 2, 8)


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
    verdict = _find()
    if not verdict.ok:
        return verdict  # not stored: a full disk or missing memory looks the same, and may be temporary
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


def _find() -> Verdict:
    lines: list[str] = []
    try:
        fast = _survives(True, lines)
        slow = fast or _survives(False, lines)
    except OSError as error:
        raise SpectuiError(f"The self-test of llama.cpp cannot write temporary files: {error.strerror}.") from error
    return Verdict(extra_buffers=fast, ok=slow, lines=lines)


def _survives(extra_buffers: bool, lines: list[str]) -> bool:
    """Run this module as a program, and return whether it ended well. Appends to `lines` what it tried."""
    with tempfile.TemporaryDirectory(prefix="spectui-selftest-") as scratch:
        command = [sys.executable, "-m", __name__, scratch, "fast" if extra_buffers else "plain"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            code, out = done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            code, out = 1, ""
    what = "with the fast kernels" if extra_buffers else "without the fast kernels"
    tried = ", ".join(out.split()) or "nothing"
    if code == 0:
        lines.append(f"{what}: works ({tried})")
        return True
    end = f"killed by signal {-code}" if code < 0 else f"ended with code {code}"
    lines.append(f"{what}: {end} after {tried}")
    return False


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
