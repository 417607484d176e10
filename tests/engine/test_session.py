"""The engine on SmolLM2 through llama.cpp. What it writes is compared, never read: with four layers it writes no sense."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from spectui.engine.costs import measuring as costs
from spectui.engine.costs.files import TargetCosts
from spectui.engine.events import Event, Guess, Loaded, Message, Notice, Prompt, RoundDone
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.llama.interrupt import Interrupt
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import StopReason
from tests.helpers.smollm2 import SNAKE, alone, ask, opened, setup
from tests.llama.ggufs import write_model

fixed = partial(Knobs, policy="fixed", drafter="model")
Opened = tuple[Session, list[Event]]


def rounds(events: Sequence[Event]) -> list[RoundDone]:
    return [event for event in events if isinstance(event, RoundDone)]


def chosen(events: Sequence[Event]) -> list[tuple[int, float]]:
    """The tokens of all rounds and their probabilities, which differ where logits do, even where the text is the same."""
    return [(token.id, token.p_target) for event in rounds(events) for token in event.round.tokens]


@pytest.mark.parametrize("seen_s", [0.0, 60.0])
def test_guesses_are_what_was_drafted_and_are_told_of_slow_rounds_alone(
    pair: Opened, seen_s: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("spectui.engine.reply._SEEN_S", seen_s)
    session, events = pair
    events.clear()
    ask(session, fixed(temperature=0.0, predict=30, draft_max=4, p_min=0.0), SNAKE)
    told = {event.round: event.text for event in events if isinstance(event, Guess)}
    drafted = {done.round.index: "".join(token.text for token in done.round.drafted) for done in rounds(events)}
    slow = {number: text for number, text in drafted.items() if text and (not seen_s or number == 0)}
    assert told == slow and slow


def test_what_a_draft_reads_while_nobody_waits_is_what_it_reads_in_a_reply(pair: Opened, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Strategy, "_speed_up", lambda *of: 2.0)
    session, events = pair
    knobs = fixed(temperature=0.0, predict=30, draft_max=4, p_min=0.0)
    session.begin_cold()
    read_in_the_reply = ask(session, knobs, SNAKE)
    draft = session.pair_in_use.draft_context
    assert draft is not None
    for forgets in (True, False):
        session.begin_cold()
        ask(session, replace(knobs, drafter="off", predict=1), SNAKE * 8)
        session.knobs = knobs
        with monkeypatch.context() as patch:
            patch.setattr(draft, "forgets", forgets)
            session.catch_up()
        assert len(draft.tokens) == (0 if forgets else len(session.pair_in_use.context.tokens) - 1)
    events.clear()
    after = ask(session, knobs, SNAKE)
    assert (after.text, after.statistics.accepted) == (read_in_the_reply.text, read_in_the_reply.statistics.accepted)


@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_text_with_a_draft_is_text_without(pair: Opened, plain: Opened, temperature: float):
    knobs = fixed(temperature=temperature, seed=11, predict=40, draft_max=6, p_min=0.2)
    expected = ask(plain[0], knobs, SNAKE)
    session, events = pair
    events.clear()
    finished = ask(session, knobs, SNAKE)
    assert finished.text == expected.text
    assert finished.statistics.accepted > 10
    assert finished.statistics.rejected > 0
    assert chosen(events) == chosen(rounds(plain[1])[-expected.statistics.rounds :])


@pytest.fixture(scope="module")
def plain_text(plain: Opened) -> str:
    return ask(plain[0], Knobs(temperature=0.7, seed=11, predict=32, drafter="off"), SNAKE).text


@pytest.mark.parametrize(
    ("drafter", "policy"), [("auto", "auto"), ("suffix", "expected"), ("model", "auto"), ("model", "expected")]
)
def test_text_is_the_same_for_every_drafter_and_policy(pair: Opened, plain_text: str, drafter: str, policy: str):
    knobs = Knobs(temperature=0.7, seed=11, predict=32, drafter=drafter, policy=policy)
    assert ask(pair[0], knobs, SNAKE).text == plain_text


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_knobs_changed_within_the_reply_change_no_token(pair: Opened, plain: Opened, temperature: float):
    knobs = fixed(temperature=temperature, seed=4, predict=28)
    expected = ask(plain[0], knobs, SNAKE)
    changes = [(16, 0, 0.0), (3, 2, 0.5), (0, 0, 0.0), (8, 8, 0.9), (1, 0, 0.3)]
    seen: list[int] = []

    def turn(event: Event) -> None:
        if isinstance(event, RoundDone):
            seen.append(len(event.round.drafted))
            most, least, p = changes[len(seen) % len(changes)]
            session.knobs = replace(session.knobs, draft_max=most, draft_min=least, p_min=p)

    session = Session(turn)
    session.load(setup())
    finished = ask(session, replace(knobs, draft_max=16, p_min=0.0), SNAKE)
    assert finished.text == expected.text
    # the slider's value is the very next draft's
    assert seen[0] == 16
    assert seen[2] == 0
    assert seen[5] == 16


def test_three_turns_reuse_the_cells_and_give_a_fresh_starts_text(pair: Opened):
    session, events = pair
    knobs = fixed(temperature=0.7, seed=5, predict=12)
    talk = ["Name three colours."]
    for question in ("And three animals?", "Which is the largest?"):
        talk += [ask(session, knobs, *talk).text, question]
    events.clear()
    reused = ask(session, knobs, *talk)
    prompt = next(event for event in events if isinstance(event, Prompt))
    assert prompt.reused > 0.6 * prompt.total
    fresh, _ = opened(setup())
    assert ask(fresh, knobs, *talk).text == reused.text


def test_a_full_context_ends_the_reply_with_that_reason():
    session, events = opened(replace(setup(), ctx_size=256))
    most = "Tell me a very long story about a dragon." + " A very long one." * 36
    finished = ask(session, fixed(temperature=0.7, seed=1), most)
    assert finished.reason is StopReason.CONTEXT and finished.statistics.rounds > 4
    assert rounds(events)[-1].n_context == 257
    # the next prompt works
    assert ask(session, fixed(temperature=0, predict=5), "Say hello.").statistics.emitted == 5


def test_a_prompt_that_does_not_fit_says_so_and_nothing_of_it_is_read(plain: Opened):
    session, events = plain
    events.clear()
    for before, what in ([], "The prompt has"), (["Hi.", "Hello."], "The conversation with this prompt has"):
        with pytest.raises(SpectuiError, match=f"^{what} 12[0-9][0-9] tokens and the context holds 1024: shorten"):
            ask(session, Knobs(), *before, "word " * 1200)
    assert not [event for event in events if isinstance(event, Prompt)]


def test_a_reply_that_is_continued_in_a_full_context_ends_at_once_and_stays(plain: Opened):
    finished = ask(plain[0], Knobs(), "Hi.", "word " * 1200)
    assert (finished.reason, finished.text, finished.statistics.rounds) == (StopReason.CONTEXT, "", 0)
    assert finished.prompt_tokens < 1024


def test_a_prompt_that_is_stopped_counts_only_what_was_read():
    interrupt = Interrupt()

    def stop(event: Event) -> None:
        if isinstance(event, Prompt) and event.done >= 64:
            interrupt.set()

    session = Session(stop, interrupt)
    session.load(alone())
    finished = ask(session, Knobs(), "word " * 400)
    assert (finished.reason, finished.prompt_tokens) == (StopReason.CANCELLED, 64)


def test_a_context_beyond_what_the_model_was_trained_with_is_said_once():
    session, events = opened(replace(alone(), ctx_size=8200))
    session.load(replace(alone(), ctx_size=64))
    session.load(replace(alone(), ctx_size=8200))
    assert [event.message for event in events if isinstance(event, Notice) and "8200" in event.message] == [
        "The target's context of 8200 tokens is larger than the 8192 that it was trained with: beyond those it may write "
        "nonsense; -c 8192 ends before that."
    ]


def test_the_sampling_that_the_models_file_recommends_is_told(tmp_path: Path):
    file = write_model(tmp_path / "a.gguf", keys=lambda writer: writer.add_float32("general.sampling.temp", 0.3))
    session, events = opened(Setup(model=str(file), ctx_size=64, no_profile="on"))
    assert [event.sampling for event in events if isinstance(event, Loaded)] == [{"temperature": 0.3}]
    assert any(isinstance(event, Notice) and "recommends temperature 0.3" in event.message for event in events)
    session.close()


@pytest.mark.parametrize(("prompts", "begun"), [(["1 2 3"], True), (["1 2 3", "4 5 6"], False), (["1 2 4", "4 5 6"], True)])
def test_each_conversation_has_a_balance_of_its_own(pair: Opened, prompts: list[str], begun: bool):
    """What one conversation gained or lost does not count in another; a follow-up is of the same one."""
    session, _ = pair
    knobs = Knobs(drafter="off", predict=3)
    ask(session, knobs, "1 2 3")
    session.strategy.budget.balance = -900.0
    session.knobs = knobs
    session.generate([Message("user", prompt) for prompt in prompts])
    assert (session.strategy.budget.balance > 0) == begun


class Turned(Session):
    """Somebody turns the seed at each moment."""

    seeds = cycle((7, -1))

    @property
    def knobs(self) -> Knobs:
        return fixed(temperature=0.7, predict=12, seed=next(self.seeds))

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        pass


def test_a_seed_that_is_turned_meanwhile_is_one_or_the_other():
    events: list[Event] = []
    session = Turned(events.append)
    session.load(alone())
    ask(session, Knobs(), SNAKE)
    seeds = {event.round.knobs.seed for event in rounds(events)}
    assert len(seeds) == 2 and 7 in seeds and -1 not in seeds


def test_a_drawn_seed_is_told_and_gives_the_text_again(pair: Opened):
    session, _ = pair
    first = ask(session, fixed(temperature=1.0, predict=20), SNAKE)
    assert first.knobs.seed >= 0
    again = ask(session, fixed(temperature=1.0, predict=20, seed=first.knobs.seed), SNAKE)
    other = ask(session, fixed(temperature=1.0, predict=20), SNAKE)
    assert again.text == first.text
    assert other.text != first.text


def test_reloading_loads_only_what_changed(pair: Opened):
    session, events = opened(setup())
    target = session.pair.target
    ask(session, fixed(temperature=0, predict=10), SNAKE)
    cells = len(session.pair.context.tokens)
    session.load(alone())
    assert session.pair.target is target
    assert session.pair.draft is None
    assert len(session.pair.context.tokens) == cells
    session.load(replace(setup(), ctx_size=512))
    assert session.pair.target is target
    assert session.pair.context.n_ctx == 512
    loaded = [event for event in events if isinstance(event, Loaded)]
    assert [event.draft is None for event in loaded] == [False, True, False]


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, passes of all sizes are compared at load; behind a short context, which is quicker."""
    monkeypatch.setattr(costs, "BOUND_S", 300.0)
    monkeypatch.setattr(costs, "BEHIND", 64)


@pytest.mark.usefixtures("unbounded")
def test_strict_keeps_passes_equal_behind_a_long_message():
    """Rows are compared, because a difference in the text is rarer than one in a row."""
    session, _ = opened(replace(setup(), draft=None, strict="on"))
    song = "".join(f"{n} bottles of beer on the wall, {n} bottles of beer; take {n * n % 7} down.\n" for n in range(40))
    context, tokens = session.context_and_prompt([Message("user", song)])
    size = (session.strategy.longest or 0) + 1
    assert size == 16
    context.evaluate(tokens[:512], 0)
    for start in range(512, 576, size):
        together = context.evaluate(tokens[start : start + size], size).copy()
        context.truncate(start)
        single = [context.evaluate([token], 1)[0].copy() for token in tokens[start : start + size]]
        assert np.array_equal(single, together)


@pytest.mark.parametrize(
    ("found", "strict", "told"),
    [
        (
            TargetCosts(equal_up_to=1, tried=16, behind=600),
            "on",
            "nothing is drafted .* round differently .* leave --strict out",
        ),
        (TargetCosts(equal_up_to=16, tried=16), "on", "nothing is drafted .* no time to compare .* the next start compares"),
        (TargetCosts(equal_up_to=2, tried=16, behind=600), "on", ""),
        (TargetCosts(equal_up_to=1, tried=16), "off", "passes of several tokens .* keeps it the same, without drafts"),
        (TargetCosts(equal_up_to=3, tried=16), "off", r"passes of more than 3 tokens .* keeps it the same\.$"),
        (TargetCosts(equal_up_to=16, tried=16), "off", ""),
    ],
)
def test_a_person_is_told_where_passes_round_differently(
    found: TargetCosts, strict: str, told: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("spectui.engine.pair.target_costs", lambda *_: found)
    _, events = opened(replace(alone(), strict=strict, no_profile="off"))
    said = [event.message for event in events if isinstance(event, Notice) and "--strict" in event.message]
    assert len(said) == bool(told)
    assert not told or re.search(told, said[0])


@pytest.mark.usefixtures("unbounded")
@pytest.mark.parametrize("kind", ["legacy quants", "k-quants"])
def test_strict_keeps_to_passes_that_are_bit_equal(kind: str):
    """Q4_1 rounds alike at every size that is tried; Q2_K may not, and then the passes are shorter."""
    both = setup()
    target = both.model if kind == "legacy quants" else both.draft
    session, events = opened(replace(both, model=target, draft=None, strict="on"))
    [found] = [event.target.remark for event in events if isinstance(event, Loaded)]
    assert "strict makes none longer" in found or kind == "k-quants"
    knobs = Knobs(temperature=0, predict=24, drafter="suffix", policy="fixed", draft_max=48, p_min=0.0)
    again = ("list of numbers", "one two three four five six seven eight nine ten\n" * 4, "again")
    events.clear()
    plain = ask(session, replace(knobs, drafter="off"), *again)
    expected = chosen(events)
    events.clear()
    strict = ask(session, knobs, *again)
    sizes = {event.round.pass_size for event in rounds(events)}
    assert strict.text == plain.text and chosen(events) == expected
    assert strict.statistics.drafted
    assert max(sizes) <= 16
    if kind == "legacy quants":
        assert max(sizes) == 16
