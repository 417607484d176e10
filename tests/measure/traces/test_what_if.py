"""Estimates from a recorded chat, held against what the same toy models do under the asked settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from spectui.engine.events import Asked, Event, Finished, Message, Prompt, RoundDone
from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup
from spectui.measure.traces import what_if as room
from spectui.measure.traces.simulation import Clock
from spectui.measure.traces.what_if import KEYS, WhatIfError, parse, what_if
from spectui.speculation.decoder import Decoder
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.policies.cost_model import CostModel, DraftCost, VerifyCost
from spectui.speculation.records import StopReason
from spectui.speculation.statistics import Statistics
from spectui.speculation.strategy import Strategy
from tests.measure.traces.events import LOADED
from tests.toys import ToyModel

TABLE = {1: 1.0, 2: 1.2, 3: 1.3, 4: 1.5, 5: 1.7, 8: 2.2, 17: 4.0}
DRAFT_S = 0.2
USUAL = Knobs(temperature=0.0, predict=100, drafter="model", policy="fixed", p_min=0.0)


class TimedToy(ToyModel):
    """A toy whose passes take the time of a table."""

    def __init__(self, clock: Clock, cost: VerifyCost | None = None, **kind: Any) -> None:
        super().__init__(ends=False, n_ctx=256, n_vocab=40, **kind)
        self._clock, self._cost = clock, cost

    def evaluate(self, tokens: Sequence[int], rows: int) -> Any:
        if rows:
            self._clock.now += DRAFT_S if self._cost is None else self._cost(len(tokens), len(self.tokens))
        return super().evaluate(tokens, rows)


@cache
def chat(knobs: Knobs, drafts: bool = True, per_row: float = 0.0) -> tuple[Event, ...]:
    """What an engine says of three conversations with a pair that was just loaded."""
    clock = Clock()
    verify = VerifyCost(TABLE, 1.0, per_row)
    costs = CostModel(VerifyCost(TABLE, 1.0), DraftCost(DRAFT_S, DRAFT_S))
    loaded = LOADED._replace(costs=costs.snapshot(), setup=Setup(), draft=LOADED.draft if drafts else None)
    loaded = loaded._replace(target=loaded.target._replace(n_ctx=256))
    events: list[Event] = [loaded]
    drafter = ModelDrafter(TimedToy(clock, seed=1, noise=0.6), 40, clock) if drafts else None
    strategy = Strategy(drafter, costs, clock=clock)
    target = TimedToy(clock, verify, seed=1)
    for number in range(3):
        prompt = [number + 1, 5, 6, 7]
        strategy.begin_conversation()
        decoder = Decoder(
            target, strategy, text=str, piece=str, is_end=lambda token: False, cancelled=lambda: False,
            notice=lambda text: None, clock=clock,
        )  # fmt: skip
        events.append(Asked((Message("user", str(number)),), tuple(prompt)))
        decoder.prompt(prompt, knobs)
        events.append(Prompt(4, 4, 0, 0.0))
        rounds = list(decoder.rounds(lambda: knobs))
        events += [RoundDone(each, each.position + len(each.tokens)) for each in rounds]
        events.append(Finished(StopReason.LIMIT, "", Statistics.of(rounds), knobs, 4, 0.0, 1.0))
    return tuple(events)


def speed(events: Sequence[Event]) -> float:
    return Statistics.of(event.round for event in events if isinstance(event, RoundDone)).tokens_per_s or 0.0


def whole(knobs: Knobs) -> dict[str, Any]:
    return {key: getattr(knobs, key) for key in KEYS}


ASKED = [
    replace(USUAL, drafter="off"),
    replace(USUAL, draft_max=1),
    replace(USUAL, draft_max=3),
    replace(USUAL, draft_max=4, p_min=0.6),
    replace(USUAL, drafter="suffix", draft_max=6),
    replace(USUAL, drafter="auto", policy="auto"),
]


@pytest.mark.parametrize("asked", ASKED)
def test_where_all_drafts_are_recorded_the_estimate_is_what_a_real_run_takes(asked: Knobs):
    recorded = chat(replace(USUAL, draft_max=16))
    found = what_if(recorded, [whole(asked)])
    assert found.error == pytest.approx(0, abs=1e-6)
    assert found.positions > 0.95 * found.text_positions
    assert found.tokens_per_s(found.estimates[0]) == pytest.approx(speed(chat(asked)), rel=0.02)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "DRAWS", 1)


@pytest.mark.parametrize("asked", ASKED)
def test_what_was_not_recorded_is_drawn_and_the_estimate_is_near(asked: Knobs, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "DRAWS", 3)
    found = what_if(chat(replace(USUAL, draft_max=2)), [whole(asked)])
    (estimate,) = found.estimates
    assert found.positions < 0.8 * found.text_positions
    assert found.tokens_per_s(estimate) == pytest.approx(speed(chat(asked)), rel=0.12)
    assert estimate.fastest_s <= estimate.seconds <= estimate.slowest_s
    if asked.draft_max == 3:
        assert estimate.recorded is not None and 0.4 < estimate.recorded < 0.9


def test_tokens_that_p_min_refused_stay_refused():
    """They are not recorded. If only those were drawn that were not refused, drafts would be longer than they were."""
    found = what_if(chat(replace(USUAL, draft_max=8, p_min=0.75)), [])
    assert found.again.tokens_per_pass == pytest.approx(found.measured.tokens_per_pass, rel=0.02)
    assert found.error == pytest.approx(0, abs=0.02)


def test_a_setting_that_the_trace_cannot_tell_of_is_refused():
    events = chat(replace(USUAL, drafter="suffix"))
    with pytest.raises(WhatIfError, match="drafted nothing in this trace"):
        what_if(events, [{"drafter": "model"}])
    found = what_if(events, [{"drafter": "off"}])
    assert found.tokens_per_s(found.estimates[0]) == pytest.approx(speed(chat(replace(USUAL, drafter="off"))), rel=0.02)


def test_a_chat_that_was_sampled_is_estimated_as_well():
    """The text depends on the seed alone, and the draft model draws with the same noise."""
    warm = replace(USUAL, temperature=0.8, seed=3, repeat_penalty=1.1)
    found = what_if(chat(replace(warm, draft_max=16)), [{"draft_max": 3}])
    assert found.tokens_per_s(found.estimates[0]) == pytest.approx(speed(chat(replace(warm, draft_max=3))), rel=0.02)


def test_without_a_draft_model_nothing_has_to_be_drawn():
    events = chat(replace(USUAL, drafter="suffix", draft_max=2), drafts=False)
    asked = replace(USUAL, drafter="auto", policy="auto", draft_max=16)
    found = what_if(events, [whole(asked)])
    assert found.estimates[0].recorded is None
    assert found.tokens_per_s(found.estimates[0]) == pytest.approx(speed(chat(asked, drafts=False)), rel=0.02)


def test_times_come_from_the_rounds_and_not_from_the_table_alone():
    """Today the machine is half as fast as when the table was measured."""
    events = [slower(event) for event in chat(replace(USUAL, draft_max=4))]
    found = what_if(events, [{"drafter": "off"}])
    assert found.tokens_per_s(found.estimates[0]) == pytest.approx(
        speed(chat(replace(USUAL, drafter="off"))) / 2, rel=0.05
    )


def test_what_the_context_costs_comes_from_the_rounds():
    """Rows behind a long text take longer, and the table was measured with an empty context."""
    found = what_if(chat(replace(USUAL, draft_max=16), per_row=0.005), [{"draft_max": 2}])
    real = speed(chat(replace(USUAL, draft_max=2), per_row=0.005))
    assert found.tokens_per_s(found.estimates[0]) == pytest.approx(real, rel=0.05)


def slower(event: Event) -> Event:
    if not isinstance(event, RoundDone):
        return event
    times = ("draft_s", "verify_s", "choose_s", "seconds")
    return event._replace(round=replace(event.round, **{name: 2 * getattr(event.round, name) for name in times}))


def test_a_comparison_with_plain_decoding_is_not_a_reply_of_its_own():
    usual, plain = chat(replace(USUAL, draft_max=4)), chat(replace(USUAL, drafter="off"))
    first, other = usual[: next(n for n, e in enumerate(usual) if isinstance(e, Finished)) + 1], plain[1:]
    compared = [*first, *other[: next(n for n, e in enumerate(other) if isinstance(e, Finished)) + 1]]
    assert what_if(compared, []).measured == what_if(first, []).measured


def test_sizes_of_pass_that_only_the_table_tells_of_are_named():
    found = what_if(chat(replace(USUAL, draft_max=1)), [{"draft_max": 4}])
    assert 5 in found.estimates[0].unseen
    assert found.again.unseen == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is none"), ("draft-max", "is none"), ("draft-max=", "is none"), ("draft-max=x", "takes a number"),
        ("draft-max=99", "between 0 and 48"), ("policy=best", "policy is one of"), ("temperature=1", "would change the text"),
        ("seed=1", "would change the text"), ("speed=9", "There is no setting 'speed'"), ("p-min=nan", "between 0 and 1"),
        ("draft-min=9,draft-max=3", "draft-min 9 is above"),
    ],
)  # fmt: skip
def test_senseless_settings_are_one_sentence(text: str, sentence: str):
    with pytest.raises(UsageError, match=sentence):
        parse(text)


def test_settings_are_written_as_flags_are():
    expected = {"draft_max": 8, "p_min": 0.5, "policy": "auto"}
    assert parse("draft-max=8,p-min=.5,policy=auto") == parse("--draft_max = 8, p_min=0.5,policy=auto") == expected


def test_times_that_fit_no_machine_are_one_sentence():
    events = [
        event._replace(round=replace(event.round, verify_s=1e6)) if isinstance(event, RoundDone) else event
        for event in chat(replace(USUAL, draft_max=2))
    ]
    with pytest.raises(WhatIfError, match="fit no machine"):
        what_if(events, [])


def test_a_trace_without_replies_is_one_sentence():
    with pytest.raises(WhatIfError, match="no reply"):
        what_if([LOADED], [])
