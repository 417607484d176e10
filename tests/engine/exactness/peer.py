"""What llama.cpp's own program makes of the same heads."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.knobs import Knobs, Setup
from tests.helpers.llama_server import PROGRAM
from tests.helpers.smollm2 import ask, opened

_SPECULATIVE = PROGRAM.with_name("llama-speculative-simple")

needs_llama_cpp = pytest.mark.skipif(
    not _SPECULATIVE.exists(), reason=f"llama.cpp's programs are not built ({_SPECULATIVE})"
)


def accepts_as_llama_cpp(folder: Path, setup: Setup, kind: str = "mtp", most: int = 3) -> None:
    """Assert that llama-speculative-simple (`--spec-type draft-KIND`) writes the same text behind "hello there", and accepts
    the same share of drafts of up to `most` tokens, within .02. Both shares are printed (`pytest -s`)."""
    text, theirs = _accepted_by_llama_cpp(folder, setup, kind, most)
    session, _ = opened(replace(setup, no_template="on"))
    knobs = Knobs(temperature=0.0, predict=200, policy="fixed", drafter="mtp", draft_max=most, p_min=0.0)
    try:
        found = ask(session, knobs, "hello there")
    finally:
        session.close()
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
        done = subprocess.run(
            [_SPECULATIVE, "-f", prompt, *flags], capture_output=True, text=True, timeout=60, check=True
        )
        if said := re.search(r"accept +=\s+([\d.]+)%", done.stderr):
            return done.stdout, float(said[1]) / 100
    raise AssertionError("llama-speculative-simple does not say what it accepted")
