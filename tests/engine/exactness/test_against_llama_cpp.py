"""llama.cpp's own program accepts as many tokens of the same heads, and writes the same text."""

import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from spectui.knobs import Knobs, Setup
from tests.helpers.llama_server import PROGRAM
from tests.helpers.smollm2 import ask, opened
from tests.llama.heads import dflash, eagle
from tests.llama.heads.assistant import write_assistant, write_target
from tests.llama.heads.headed import write_headed

Write = Callable[[Path], Path]

_SPECULATIVE = PROGRAM.with_name("llama-speculative-simple")

needs_llama_cpp = pytest.mark.skipif(not _SPECULATIVE.exists(), reason=f"llama.cpp's programs are not built ({_SPECULATIVE})")


@needs_llama_cpp
@pytest.mark.parametrize(
    ("kind", "write_its_target", "write_heads", "most"),
    [
        *(("mtp", partial(write_headed, heads=heads, echo=0.2), None, 3) for heads in (1, 3)),
        ("mtp", partial(write_target, attends=0.2), partial(write_assistant, attends=0.2, echo=0.2), 3),
        *(("eagle3", eagle.write_target, partial(eagle.write_eagle, echo=echo), 3) for echo in (0.2, 0.3)),
        *(("dflash", dflash.write_target, partial(dflash.write_dflash, own=own), dflash.BLOCK - 1) for own in (True, False)),
    ],
)
def test_as_many_are_accepted(tmp_path: Path, kind: str, write_its_target: Write, write_heads: Write | None, most: int) -> None:
    """llama-speculative-simple writes the same text behind "hello there", and accepts the same share within .02.

    Both shares are printed (`pytest -s`).
    """
    draft = str(write_heads(tmp_path / "heads.gguf")) if write_heads else None
    model = str(write_its_target(tmp_path / "target.gguf"))
    setup = Setup(model=model, draft=draft, ctx_size=512, threads=1, no_profile="on", no_template="on")
    text, theirs = _accepted_by_llama_cpp(tmp_path, setup, kind, most)
    session, _ = opened(setup)
    knobs = Knobs(temperature=0.0, predict=200, policy="fixed", drafter="mtp", draft_max=most, p_min=0.0)
    found = ask(session, knobs, "hello there")
    print(f"\ndraft-{kind}: llama.cpp accepts {theirs:.3f}, spectui {found.statistics.acceptance:.3f}")
    assert found.text[:100] in text
    assert found.statistics.acceptance == pytest.approx(theirs, abs=0.02)


def _accepted_by_llama_cpp(folder: Path, setup: Setup, kind: str, most: int) -> tuple[str, float]:
    """(text, share of the drafted tokens)"""
    prompt = folder / "prompt.txt"
    prompt.write_text("hello there")
    flags = ["-m", setup.model or "", *(["-md", setup.draft] if setup.draft else ())]
    flags += ["-n", "200", "--temp", "0", "-c", "512", "-t", "1", "--spec-type", f"draft-{kind}"]
    flags += ["--spec-draft-n-max", str(most), "--spec-draft-p-min", "0"]
    for _ in range(20):  # it may end before its log is written
        done = subprocess.run([_SPECULATIVE, "-f", prompt, *flags], capture_output=True, text=True, timeout=60, check=True)
        if said := re.search(r"accept +=\s+([\d.]+)%", done.stderr):
            return done.stdout, float(said[1]) / 100
    raise AssertionError("llama-speculative-simple does not say what it accepted")
