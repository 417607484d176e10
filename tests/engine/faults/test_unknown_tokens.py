"""A target with more tokens than its draft, and the other way round: the text is the target's own, and no draft fails."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.engine.events import Event, Message, Notice, RoundDone
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from tests.llama.ggufs import WORDS, byte_names, write_model

FEW = [*WORDS, *byte_names()]
TALK = [Message("user", "abc abc abc"), Message("assistant", "ab"), Message("user", "abc")]
TEMPLATE = "{% for each in messages %}<more0>{{ each.content }}<more0>{% endfor %}"
TYPES = {"normal": 1, "control": 3, "user-defined": 4, "unused": 5}
ANYTHING = Knobs(policy="fixed", temperature=5.0, top_k=0, top_p=1.0, min_p=0.0, p_min=0.0, draft_max=5, predict=48)


def vocabulary(more: int, kind: str = "normal") -> dict[str, Any]:
    """A vocabulary with `more` tokens of this kind behind those that both models have."""
    types = [3] * len(WORDS) + [1] * 256 + [TYPES[kind]] * more
    return {"tokens": [*FEW, *(f"<more{number}>" for number in range(more))], "types": types}


@pytest.fixture
def session() -> Iterator[tuple[Session, list[Event]]]:
    events: list[Event] = []
    session = Session(events.append)
    yield session, events
    session.close()


def answered(session: Session, events: list[Event], knobs: Knobs) -> list[int]:
    """The tokens of a reply."""
    del events[:]
    session.knobs = knobs
    session.generate(TALK)
    return [token.id for event in events if isinstance(event, RoundDone) for token in event.round.tokens]


def texts_agree(session: Session, events: list[Event], target: Path, draft: Path) -> list[int]:
    """Load the pair, and compare replies with plain decoding's; the tokens of all prompts and replies."""
    session.load(Setup(model=str(target), draft=str(draft), ctx_size=512, threads=1, no_profile="on"))
    all_tokens: list[int] = []
    for seed in range(2):
        knobs = replace(ANYTHING, seed=seed)
        plain = answered(session, events, replace(knobs, drafter="off"))
        for drafter in ("model", "auto"):
            assert answered(session, events, replace(knobs, drafter=drafter)) == plain
            assert not [event for event in events if isinstance(event, Notice)]
            all_tokens += [*session.context_and_prompt(TALK)[1], *plain]
    return all_tokens


@pytest.mark.parametrize("larger", ["target", "draft"])
@pytest.mark.parametrize(
    ("more", "kind"), [(1, "control"), (2, "user-defined"), (128, "unused"), (129, "normal"), (5000, "control")]
)
def test_one_model_has_more_tokens(session: tuple[Session, list[Event]], tmp_path: Path, larger: str, more: int, kind: str):
    target, draft = (
        write_model(
            tmp_path / f"{role}.gguf", template=TEMPLATE, **(vocabulary(more, kind) if role == larger else {"tokens": FEW})
        )
        for role in ("target", "draft")
    )
    tokens = texts_agree(*session, target, draft)
    if larger == "target":
        assert more < 100 or max(tokens) >= len(FEW)
        assert len(FEW) in tokens or kind not in ("control", "user-defined")


def test_a_draft_whose_tokens_cannot_be_translated_drafts_until_one_that_it_lacks(
    session: tuple[Session, list[Event]], tmp_path: Path
):
    few = [*WORDS, *(f"t{number}" for number in range(300))]  # spells no text
    types = [3] * len(WORDS) + [1] * 300
    target = write_model(tmp_path / "target.gguf", template="<s>" + TEMPLATE, tokens=[*few, "<more0>"], types=[*types, 3])
    draft = write_model(tmp_path / "draft.gguf", tokens=few, types=types)
    assert len(few) in texts_agree(*session, target, draft)
    assert session[0].pair is not None
    assert session[0].pair.remarks["draft"].endswith("It drafts until such a token is in the text.")
