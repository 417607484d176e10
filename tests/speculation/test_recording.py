"""A round is seen before the next draft or, where a device computes by itself, while it computes the next pass."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.evaluator import Interrupted
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import Candidate, Round, StopReason
from tests.toys import SameCosts, ToyModel, decode, emitted, toy_drafter

PROMPT = [3, 1, 4, 1, 5]
KNOBS = Knobs(policy="fixed", drafter="auto", draft_max=4, temperature=0.8, seed=5, predict=40)
"""Without a draft model, drafts are repetitions."""


class AsynchronousToy(ToyModel):
    """One whose device computes by itself. `log` has what happens, in order."""

    asynchronous = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ends=False)
        self.log: list[str] = []
        self.error: Exception | None = None
        """What the wait for the pass raises that is submitted while this is set."""

    def submit(self, tokens: Sequence[int], rows: int, k: int | None) -> Callable[[], NDArray[np.float32]]:
        before = len(self.tokens)
        found, error = self.evaluate(tokens, rows), self.error
        self.log.append("submitted")

        def computed() -> NDArray[np.float32]:
            self.log.append("computed")
            if error is not None:
                self.truncate(before)
                raise error
            return found

        return computed


def rounds_and_log(target: AsynchronousToy) -> list[Round]:
    """The rounds of a reply; the log says when each was seen."""
    return decode(target, PROMPT, KNOBS, seen=lambda _: target.log.append("seen"))[1]


def test_tokens_are_seen_before_the_draft_model_drafts_on():
    """Else they would appear as much later as the next draft takes, and the time to the first token with them."""
    target, drafter = AsynchronousToy(1), toy_drafter(1, 0.5, ends=False)

    class Noted(ModelDrafter):
        def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
            target.log.append("drafted")
            return super().propose(tokens, knobs)

    noted = Noted(drafter.model, n_vocab=12)
    rounds = decode(target, PROMPT, replace(KNOBS, drafter="model"), noted, seen=lambda _: target.log.append("seen"))[1]
    assert len(rounds) > 8
    drafts = [round for round in rounds if round.drafted]
    assert target.log[: 4 * len(drafts)] == ["drafted", "submitted", "computed", "seen"] * len(drafts)
    assert target.log.count("seen") == len(rounds) and target.log[-1] == "seen"


def test_a_round_is_seen_while_the_device_computes_the_next_pass():
    target = AsynchronousToy(1)
    rounds = rounds_and_log(target)
    middle = ["submitted", "seen", "computed"] * (len(rounds) - 1)
    assert len(rounds) > 8
    assert target.log == ["submitted", "computed", *middle, "seen"]


@pytest.mark.parametrize("policy", ["fixed", "auto", "expected"])
def test_the_rounds_are_those_of_a_target_that_computes_at_once(policy: str):
    """The policy learns from a round before the next one, although it is recorded later."""
    knobs = replace(KNOBS, policy=policy)

    def rounds(target: ToyModel) -> list[Round]:
        costs = SameCosts({1: 1.0, 2: 1.1, 5: 1.4}, first=0.2, next=0.2)
        strategy = Strategy(toy_drafter(1, 0.5, ends=False), costs)
        return decode(target, PROMPT, knobs, strategy=strategy, clock=lambda: 0.0)[1]

    drafted = rounds(AsynchronousToy(1))
    assert len({len(each.drafted) for each in drafted}) > 1 or policy == "fixed"
    assert drafted == rounds(ToyModel(1, ends=False))


def test_a_target_that_computes_at_once_shows_each_round_before_the_next_pass():
    target = AsynchronousToy(1)
    target.asynchronous = False
    rounds = rounds_and_log(target)
    assert target.log == ["submitted", "computed", "seen"] * len(rounds)


@pytest.mark.parametrize("failing", ["submitted", "computed"])
def test_a_round_is_seen_although_the_pass_behind_it_fails(failing: str):
    target = AsynchronousToy(1)
    rounds: list[Round] = []

    def seen(round: Round) -> None:
        rounds.append(round)
        if len(rounds) == 3 and failing == "computed":
            target.error = SpectuiError("the device failed")
        if len(rounds) == 3 and failing == "submitted":
            target.fails_after = len(target.passes)

    with pytest.raises(SpectuiError, match="failed"):
        decode(target, PROMPT, KNOBS, seen=seen)
    assert len(rounds) == 4, "the fourth pass was under way when the third round was seen"
    assert target.tokens == PROMPT + emitted(rounds)[:-1]


def test_a_round_is_seen_although_the_pass_behind_it_is_interrupted():
    target = AsynchronousToy(1)
    rounds: list[Round] = []

    def seen(round: Round) -> None:
        rounds.append(round)
        target.error = Interrupted() if len(rounds) == 3 else None

    decoder, _, _ = decode(target, PROMPT, KNOBS, seen=seen)
    assert (len(rounds), decoder.reason) == (4, StopReason.CANCELLED)
    assert decoder.tokens == PROMPT + emitted(rounds)


@pytest.mark.parametrize("kind", [ToyModel, AsynchronousToy])
def test_the_seconds_of_rounds_are_all_seconds_of_the_reply(kind: type[ToyModel]):
    """Also those in which a round is learned from, recorded and shown: they were left out of the tokens per second."""
    now = [0.0]

    class Slow(Strategy):
        def learn(self, *outcome: object) -> None:
            now[0] += 1.0

    def seen(round: Round) -> None:
        now[0] += 10.0

    strategy = Slow(toy_drafter(1, 0.5, ends=False), CostModel())
    _, rounds, _ = decode(kind(1), PROMPT, KNOBS, strategy=strategy, seen=seen, clock=lambda: now[0])
    assert rounds[0].seconds == 0.0
    assert [round.seconds for round in rounds[1:]] == [11.0] * (len(rounds) - 1)
