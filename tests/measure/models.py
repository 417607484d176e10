"""Tiny pairs for tests of measurements: llama.cpp runs, on weights that know nothing."""

from pathlib import Path

from spectui.knobs import Setup
from tests.llama.ggufs import write_model


def tiny_setup(directory: Path, **values: object) -> Setup:
    """A target and a draft of one layer each, with one vocabulary."""
    target, draft = write_model(directory / "target.gguf"), write_model(directory / "draft.gguf")
    settings: dict[str, object] = {"ctx_size": 256, "threads": 1, "no_profile": "on", "requantise_draft": "off", **values}
    return Setup(model=str(target), draft=str(draft), **settings)  # type: ignore[arg-type]
