"""What llama.cpp can answer: each code of each call, injected under a real pair of models made on the spot.

After each, the text so far is the text's beginning, a person gets a sentence, and the next prompt is answered as ever.
"""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectui.engine.events import Event, Finished, Message, Notice, RoundDone
from spectui.engine.session import Session
from spectui.errors import DraftError, SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.llama.library import llama
from spectui.llama.quantiser import quantise

KNOBS = Knobs(temperature=0.8, seed=3, predict=24, draft_max=4, draft_min=0, p_min=0.0, drafter="model", policy="fixed")
QUESTION = [Message("user", "what now")]


@dataclass
class Chat:
    """A session and what it told."""

    session: Session
    events: list[Event] = field(default_factory=list)

    def ask(self, *messages: Message) -> Finished:
        self.events.clear()
        return self.session.generate(messages or QUESTION)

    @property
    def text(self) -> str:
        rounds = [event.round for event in self.events if isinstance(event, RoundDone)]
        return "".join(token.text for round in rounds for token in round.tokens)

    @property
    def target(self) -> Any:
        """The target's context in llama.cpp."""
        assert self.session.pair is not None and self.session.pair.context is not None
        return self.session.pair.context.handle

    @property
    def draft(self) -> Any:
        assert self.session.pair is not None and self.session.pair.draft_context is not None
        return self.session.pair.draft_context.handle


@pytest.fixture
def chat(setup: Setup) -> Iterator[Chat]:
    events: list[Event] = []
    session = Session(events.append)
    session.knobs = KNOBS
    session.load(setup)
    yield Chat(session, events)
    session.close()


@pytest.fixture
def expected(chat: Chat) -> str:
    """The reply when nothing fails, given by memories that are empty."""
    finished = chat.ask()
    assert finished.statistics.accepted > 0 and finished.statistics.rejected > 0
    assert chat.session.pair is not None
    chat.session.pair.clear_caches()
    return finished.text


Inject = Callable[..., None]


@pytest.fixture
def inject(monkeypatch: pytest.MonkeyPatch) -> Inject:
    """Let a function of llama.cpp answer this from the nth call on: of this context, and after having done it if `done`."""

    def inject(name: str, answer: Any, *, nth: int = 1, of: Any = None, done: bool = False) -> None:
        real = getattr(llama, name)
        calls = 0

        def fake(*arguments: Any) -> Any:
            nonlocal calls
            if of is not None and arguments[0] != of:
                return real(*arguments)
            calls += 1
            if calls < nth:
                return real(*arguments)
            if done:
                real(*arguments)
            return answer(*arguments) if callable(answer) else answer

        monkeypatch.setattr(llama, name, fake)

    return inject


def goes_on(chat: Chat, expected: str, monkeypatch: pytest.MonkeyPatch) -> Finished:
    """Once llama.cpp works again, so does the chat."""
    monkeypatch.undo()
    finished = chat.ask()
    assert finished.text == chat.text == expected
    return finished


# (which pass fails, whether it was computed): the prompt's, the first round's, a later one's
PLACES = [(1, False), (2, True), (5, False), (5, True)]


@pytest.mark.parametrize(("nth", "done"), PLACES)
@pytest.mark.parametrize(
    ("code", "says"),
    [
        (1, "The context is full"),
        (-2, r"could not evaluate \d+ tokens \(code -2.*\): there is too little memory, so load the models with a smaller -c"),
        (3, r"could not evaluate \d+ tokens \(code 3.*\): send the prompt again"),
    ],
)
def test_the_targets_pass_fails(chat: Chat, expected: str, inject: Inject, monkeypatch: pytest.MonkeyPatch,
                                code: int, says: str, nth: int, done: bool) -> None:  # fmt: skip
    inject("llama_decode", code, nth=nth, of=chat.target, done=done)
    with pytest.raises(SpectuiError, match=says):
        chat.ask()
    assert expected.startswith(chat.text)
    assert bool(chat.text) == (nth == 5)
    goes_on(chat, expected, monkeypatch)


@pytest.mark.parametrize(("of", "nth"), [("target", 1), ("target", 2), ("target", 5), ("draft", 1), ("draft", 3)])
def test_a_pass_is_aborted(
    chat: Chat, expected: str, inject: Inject, monkeypatch: pytest.MonkeyPatch, of: str, nth: int
) -> None:
    inject("llama_decode", 2, nth=nth, of=getattr(chat, of), done=True)
    finished = chat.ask()
    assert finished.reason == "cancelled"
    assert finished.text == chat.text
    assert expected.startswith(chat.text)
    goes_on(chat, expected, monkeypatch)


def not_numbers(chat: Chat) -> Any:
    """Logits that llama.cpp may return."""
    rows = np.full((5, chat.session.pair.target.n_vocab), np.nan, np.float32)  # type: ignore[union-attr]
    return rows, rows.ctypes.data_as(ctypes.POINTER(ctypes.c_float))


def drafts_fail(chat: Chat, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reply goes on without the draft, and the next one has it again."""
    assert chat.ask().text == expected
    (notice,) = [event.message for event in chat.events if isinstance(event, Notice)]
    assert notice.startswith("The draft failed, so the reply goes on without it: ")
    assert goes_on(chat, expected, monkeypatch).statistics.accepted > 0, "it drafts again"


@pytest.mark.parametrize(("nth", "done"), PLACES)
@pytest.mark.parametrize("code", [1, -2])
def test_the_drafts_pass_fails(chat: Chat, expected: str, inject: Inject, monkeypatch: pytest.MonkeyPatch,
                               code: int, nth: int, done: bool) -> None:  # fmt: skip
    inject("llama_decode", code, nth=nth, of=chat.draft, done=done)
    drafts_fail(chat, expected, monkeypatch)


def test_a_draft_whose_logits_are_nan(chat: Chat, expected: str, inject: Inject, monkeypatch: pytest.MonkeyPatch) -> None:
    _kept, pointer = not_numbers(chat)
    inject("llama_get_logits", pointer, nth=2, of=chat.draft)
    drafts_fail(chat, expected, monkeypatch)


@pytest.mark.parametrize("nan", [False, True])
def test_no_logits_or_such_as_are_nan(
    chat: Chat, expected: str, inject: Inject, monkeypatch: pytest.MonkeyPatch, nan: bool
) -> None:
    _kept, pointer = not_numbers(chat)
    inject("llama_get_logits", pointer if nan else None, nth=4, of=chat.target)
    with pytest.raises(SpectuiError, match="logits that are not numbers" if nan else "returned no logits"):
        chat.ask()
    assert expected.startswith(chat.text) and chat.text
    goes_on(chat, expected, monkeypatch)


def test_a_context_that_cannot_be_truncated_changes_no_token(chat: Chat, expected: str, inject: Inject) -> None:
    inject("llama_memory_seq_rm", False)
    assert chat.ask().text == expected


@pytest.mark.parametrize("nth", [1, 9])
def test_a_token_that_cannot_be_spelled(
    chat: Chat, expected: str, inject: Inject, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    inject("llama_token_to_piece", -100, nth=nth)
    with pytest.raises(SpectuiError, match=r"cannot spell token \d+"):
        chat.ask()
    assert expected.startswith(chat.text)
    goes_on(chat, expected, monkeypatch)


@pytest.mark.parametrize("code", [-100, -(2**31)])
def test_a_prompt_that_the_tokenizer_does_not_take(chat: Chat, expected: str, inject: Inject,
                                                   monkeypatch: pytest.MonkeyPatch, code: int) -> None:  # fmt: skip
    for text in ("short", "long " * 2000):
        inject("llama_tokenize", code)
        with pytest.raises(SpectuiError, match="does not take this text"):
            chat.ask(Message("user", text))
    goes_on(chat, expected, monkeypatch)


def test_a_conversation_that_the_template_does_not_take(chat: Chat, expected: str) -> None:
    with pytest.raises(SpectuiError, match="I refuse"):
        chat.ask(Message("user", "refuse"))
    assert chat.ask().text == expected


@pytest.mark.parametrize(
    ("nth", "error", "again"), [(2, SpectuiError, {}), (4, DraftError, {"draft": None})], ids=["target", "draft"]
)  # each is simulated first, once for a size
def test_no_memory_for_a_context(chat: Chat, setup: Setup, expected: str, inject: Inject, monkeypatch: pytest.MonkeyPatch,
                                 nth: int, error: type[SpectuiError], again: dict[str, None]) -> None:  # fmt: skip
    inject("llama_init_from_model", None, nth=nth)
    n_ctx = 512 + nth
    with pytest.raises(error, match=f"A context of {n_ctx} tokens could not be made"):
        chat.session.load(replace(setup, ctx_size=n_ctx))
    with pytest.raises(SpectuiError, match="No model is loaded"):
        chat.ask()  # and not with a drafter whose model is gone
    monkeypatch.undo()
    assert (chat.session.load(replace(setup, **again)).draft is None) == bool(again)
    goes_on(chat, expected, monkeypatch)


@pytest.mark.parametrize("what", ["target", "draft"])
def test_weights_that_do_not_fit(chat: Chat, setup: Setup, expected: str, inject: Inject, monkeypatch: pytest.MonkeyPatch,
                                 tmp_path: Path, what: str) -> None:  # fmt: skip
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(Path(setup.model or "").read_bytes())
    inject("llama_model_load_from_file", None)
    with pytest.raises(SpectuiError, match=f"The {what} model .*copy.gguf' could not be loaded"):
        chat.session.load(replace(setup, model=str(copy)) if what == "target" else replace(setup, draft=str(copy)))
    with pytest.raises(SpectuiError, match="No model is loaded"):
        chat.ask()
    monkeypatch.undo()
    chat.session.load(setup)
    goes_on(chat, expected, monkeypatch)


def test_a_copy_that_cannot_be_made(setup: Setup, inject: Inject, tmp_path: Path) -> None:
    inject("llama_model_quantize", 1)
    with pytest.raises(SpectuiError, match="could not be quantised as Q8_0"):
        quantise(Path(setup.model or ""), tmp_path / "copy.gguf", "Q8_0")
    assert list(tmp_path.iterdir()) == []
