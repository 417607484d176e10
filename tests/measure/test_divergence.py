"""How far a draft's distribution is from the target's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spectui.engine.loading.placement import Resolved
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Setup
from spectui.measure import divergence as measured
from spectui.measure.divergence import divergence, kl
from spectui.speculation.drafters.ahead import AheadDrafter
from tests.helpers.smollm2 import whole
from tests.llama.ggufs import WORDS, byte_names, write_model
from tests.measure.models import tiny_setup


def of_pair(setup: Setup) -> float | None:
    session = Session(lambda event: None)
    try:
        session.load(setup)
        return divergence(session)
    finally:
        session.close()


@pytest.mark.parametrize(
    ("target", "draft", "known"),
    [
        ([0.5, 0.25, 0.25], [0.5, 0.25, 0.25], 0.0),
        ([0.5, 0.25, 0.25], [0.25, 0.25, 0.5], 0.25 * np.log(2)),
        ([0.9, 0.1], [0.5, 0.5], 0.9 * np.log(1.8) + 0.1 * np.log(0.2)),  # and not the other way
        ([0.5, 0.5], [0.9, 0.1], 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(5)),
        ([0.2, 0.4, 0.4], [0.0, 0.5, 0.5], 0.0),  # a token that the draft lacks is left out
        ([0.2, 0.4, 0.4], [0.0, 1.0], 0.0),
    ],
)
def test_the_divergence_of_known_rows(target: list[float], draft: list[float], known: float) -> None:
    with np.errstate(divide="ignore"):
        p, q = (np.log(np.array(row, np.float32)) for row in (target, draft))
    assert kl(p, q) == pytest.approx(known, abs=1e-6)
    assert kl(p + 3, q - 2) == pytest.approx(known, abs=1e-6), "logits need not be normalised"


@pytest.mark.xdist_group("demo pair")
def test_the_target_as_its_own_draft_agrees_and_another_quantisation_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "POSITIONS", 12)
    setup = replace(whole(), requantise_draft="off", no_profile="on")
    same, lighter = of_pair(replace(setup, draft=setup.model)), of_pair(setup)
    assert same is not None and lighter is not None and same < 0.01 < lighter


def test_a_context_too_small_for_the_text_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpectuiError, match=r"^The context holds 16 tokens, too few to compare drafts in: "):
        of_pair(tiny_setup(tmp_path, ctx_size=16))  # llama.cpp would end the process


def test_a_draft_that_drafts_by_text_has_none(tmp_path: Path) -> None:
    words = [*WORDS, *byte_names()]
    letters = [f"{a}{b}" for a in "abcdefgh" for b in "abcdefgh"]
    wide = write_model(tmp_path / "wide.gguf", tokens=[*words, *(f"x{n}" for n in range(200))])
    by_text = write_model(tmp_path / "by-text.gguf", tokens=[*words[:5], *letters, *words[5:]])
    assert of_pair(replace(tiny_setup(tmp_path), model=str(wide), draft=str(by_text))) is None


def test_a_draft_that_drafts_ahead_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resolved, "drafts_ahead", lambda *arguments: True)
    session = Session(lambda event: None)
    session.load(tiny_setup(tmp_path))
    assert isinstance(session.strategy.model, AheadDrafter) and divergence(session) is not None
    session.close()
