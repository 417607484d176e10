"""Stop texts cut a reply at the same place whatever divides it into tokens and rounds; and texts without a template."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.events import Event, Finished, Message, Notice, Prompt, RoundDone
from spectui.engine.session import WITHOUT_TEMPLATE, Session
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import Round, StopReason, Token
from spectui.speculation.stop_texts import StopTexts
from tests.llama.ggufs import WORDS, byte_names, write_model

ASKED = (Message("user", "abc"),)
ANYTHING = Knobs(policy="fixed", temperature=3.0, p_min=0.0, draft_max=5, predict=48, seed=4)


def a_round(number: int, texts: Sequence[str]) -> Round:
    tokens = tuple(Token(0, text, "plain", None, number, 0, None, 1.0) for text in texts)
    return Round(number, 0, Knobs(), (), tokens, draft_s=0.0, verify_s=0.0, choose_s=0.0, seconds=0.0)


def expected(texts: Sequence[str], stops: Sequence[str]) -> str:
    """The text before the first stop text, as soon as a token completes one."""
    for text in accumulate(texts):
        if found := [text.index(stop) for stop in stops if stop in text]:
            return text[: min(found)]
    return "".join(texts)


@given(
    texts=st.lists(st.text("ab\n", max_size=4), max_size=24),
    stops=st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3),
    sizes=st.lists(st.integers(1, 5), min_size=24, max_size=24),
)
def test_any_tokens_in_any_rounds(texts: list[str], stops: list[str], sizes: list[int]):
    pieces = iter(texts)
    found = StopTexts(lambda _: next(pieces), lambda _: "")
    shown: list[str] = []
    made: list[Round] = []

    def rounds() -> Iterator[Round]:
        left, stopped = list(texts), False
        while left and not stopped:
            # As the decoder does it: a round ends with the token that completes a stop text.
            taken: list[str] = []
            for _ in range(min(sizes[len(made)], len(left))):
                taken.append(left.pop(0))
                if found.reached(0, stops):
                    stopped = True
                    break
            made.append(a_round(len(made), taken))
            yield made[-1]
            assert expected(texts, stops).startswith("".join(shown)), "nothing of a stop text is shown"

    for round in found.shown(rounds()):
        shown += [token.text for token in round.tokens]
        assert round == made[round.index] or len(round.tokens) == len(made[round.index].tokens)
    assert "".join(shown) == expected(texts, stops)


def test_text_that_is_no_beginning_of_a_stop_text_is_shown_at_once():
    texts = ["x", "\n", "U", "s", "er", ":", "y"]
    pieces = iter(texts)
    found = StopTexts(lambda _: next(pieces), lambda _: "")
    came: list[tuple[int, str]] = []
    rounds = (a_round(number, [text]) for number, text in enumerate(texts) if not found.reached(number, ["\nUser?"]))
    for round in found.shown(rounds):
        came.append((round.index, round.tokens[0].text))
    assert came == list(enumerate(texts))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("models")
    template = "{% for each in messages %}<|im_start|>{{ each.content }}{% endfor %}"
    draft = write_model(directory / "draft.gguf", template=template, tokens=[*WORDS, *byte_names(), "more"],
                        types=[3] * len(WORDS) + [1] * 257)  # fmt: skip
    return write_model(directory / "target.gguf", template=template), draft


class Chat:
    """A session with the pair, and its events."""

    def __init__(self, models: tuple[Path, Path]) -> None:
        self.models = models
        self.events: list[Event] = []
        self.session = Session(self.events.append)

    def load(self, **changes: str) -> None:
        target, draft = map(str, self.models)
        setup = Setup(model=target, draft=draft, ctx_size=512, threads=1, no_profile="on")
        self.session.load(replace(setup, **changes))  # type: ignore[arg-type]

    def tokens(self) -> list[Token]:
        return [token for event in self.events if isinstance(event, RoundDone) for token in event.round.tokens]

    def reply(self, knobs: Knobs, messages: Sequence[Message] = ASKED) -> Finished:
        """The reply; its text is that of its rounds."""
        del self.events[:]
        self.session.knobs = knobs
        finished = self.session.generate(messages)
        assert finished.text == "".join(token.text for token in self.tokens())
        return finished


@pytest.fixture
def chat(models: tuple[Path, Path]) -> Chat:
    chat = Chat(models)
    chat.load()
    return chat


@pytest.mark.parametrize(("drafter", "draft_max"), [("off", 1), ("model", 1), ("model", 5), ("auto", 16)])
def test_drafts_do_not_move_the_cut(chat: Chat, drafter: str, draft_max: int):
    whole = chat.reply(replace(ANYTHING, drafter="off")).text
    assert len(whole) > 20
    for start, length in ((3, 1), (5, 4), (9, 7)):
        stop = whole[start : start + length]
        knobs = replace(ANYTHING, drafter=drafter, draft_max=draft_max, stop=("never\n", stop))
        finished = chat.reply(knobs)
        assert finished.text == whole[: whole.index(stop)]
        assert finished.reason is StopReason.STOP


def test_a_text_that_only_begins_is_shown_when_the_reply_ends(chat: Chat):
    whole = chat.reply(ANYTHING).text
    assert chat.reply(replace(ANYTHING, stop=(whole[-4:] + "never",))).text == whole


def test_the_name_of_a_control_token_ends_the_reply_with_it(chat: Chat):
    chat.load(special="on")
    flat = replace(ANYTHING, temperature=5.0, top_k=0, top_p=1.0, min_p=0.0, predict=300)
    name = next(
        name
        for flat in (replace(flat, seed=seed) for seed in range(20))
        for name in ("<|im_start|>", "<s>")
        if name in (text := chat.reply(flat).text)
    )
    chat.load()
    finished = chat.reply(replace(chat.session.knobs, stop=(name,)))
    assert finished.reason is StopReason.STOP
    assert finished.text == text[: text.index(name)]


def test_names_of_control_tokens_are_shown_and_not_read_again(chat: Chat):
    talk = [*ASKED, Message("assistant", "x<|im_end|>"), Message("user", "y")]
    lengths = []
    for special in ("on", "off"):
        chat.load(special=special)
        chat.reply(replace(ANYTHING, predict=1), talk)
        lengths.append([event for event in chat.events if isinstance(event, Prompt)][-1].total)
    assert lengths[0] < lengths[1]


def test_without_a_template_the_texts_are_continued(chat: Chat):
    chat.load(no_template="on")
    assert WITHOUT_TEMPLATE in [event.message for event in chat.events if isinstance(event, Notice)]
    talk = [Message("user", "Once"), Message("assistant", " upon"), Message("user", " a time<|im_end|>")]
    assert len(chat.session.context_and_prompt(talk)[1]) == len("Once upon a time") + 1
    chat.load()
    assert len(chat.session.context_and_prompt(talk)[1]) > len("Once upon a time") + 1


def test_a_stop_text_that_began_before_the_reply_went_on_ends_it(chat: Chat):
    """The limit of -n ended the reply within it."""
    whole = chat.reply(ANYTHING).text
    tokens = chat.tokens()
    at = next(n for n in range(10, len(tokens)) if tokens[n - 1].text and tokens[n].text and whole.count(
        tokens[n - 1].text + tokens[n].text) == 1)  # fmt: skip
    begun = Message("assistant", "".join(token.text for token in tokens[:at]), tuple(token.id for token in tokens[:at]))
    knobs = replace(ANYTHING, stop=(tokens[at - 1].text + tokens[at].text,))
    for drafter in ("off", "suffix"):
        finished = chat.reply(replace(knobs, drafter=drafter), (*ASKED, begun))
        assert (finished.reason, finished.text) == (StopReason.STOP, "")
    behind = replace(ANYTHING, stop=(begun.content[-9:-1],))
    assert chat.reply(behind, (*ASKED, begun)).text, "what it goes on from is not cut"
