"""How far a draft's distribution is from the target's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spectui.engine import pair as pair_module
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


def test_the_divergence_of_a_row_from_itself_is_zero_and_known_rows_have_the_known_one() -> None:
    p, q = np.log(np.array([0.5, 0.25, 0.25], np.float32)), np.log(np.array([0.25, 0.25, 0.5], np.float32))
    assert kl(p, p) == pytest.approx(0.0, abs=1e-7)
    assert kl(p, q) == pytest.approx(0.5 * np.log(2) - 0.25 * np.log(2), abs=1e-6)
    assert kl(p + 3, q - 2) == pytest.approx(kl(p, q), abs=1e-6), "logits need not be normalised"


def test_the_divergence_is_of_the_draft_from_the_target_and_not_the_other_way() -> None:
    p, q = np.log(np.array([0.9, 0.1], np.float32)), np.log(np.array([0.5, 0.5], np.float32))
    assert kl(p, q) == pytest.approx(0.9 * np.log(1.8) + 0.1 * np.log(0.2), abs=1e-6)
    assert kl(q, p) == pytest.approx(0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(5), abs=1e-6)


def test_tokens_that_the_draft_lacks_are_left_out_of_the_divergence() -> None:
    p, q = np.log(np.array([0.2, 0.4, 0.4], np.float32)), np.array([-np.inf, 0.0, 0.0], np.float32)
    assert kl(p, q) == pytest.approx(0.0, abs=1e-6)
    assert kl(p, q[:2]) == 0.0


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
    monkeypatch.setattr(pair_module.models, "drafts_ahead", lambda *arguments: True)
    session = Session(lambda event: None)
    session.load(tiny_setup(tmp_path))
    assert isinstance(session.strategy.model, AheadDrafter) and divergence(session) is not None
    session.close()
