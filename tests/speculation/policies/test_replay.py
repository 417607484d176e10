"""Automatic drafting of real texts on machines of known costs: mostly it gains, and it loses no more than is promised."""

from dataclasses import replace
from functools import cache
from statistics import geometric_mean

import pytest

from spectui.speculation.policies.strategy import MAY_LOSE
from tests.benchmarks.prompts import SHORT
from tests.speculation import replaying
from tests.speculation.replaying import HEADS, KNOBS, MACHINES, RECORDED, replay
from tests.speculation.simulation import Machine, Recording, Simulator

recorded = cache(replaying.recorded)

GAINS = {
    ("q8", "AMX"): 1.75,
    ("q8", "AVX-512"): 1.23,
    ("q8", "AVX-512, memory busy"): 1.48,
    ("q8", "AVX2"): 1.18,
    ("q8", "AVX-512, Q8_0 in steps"): 1.69,
    ("q8", "AVX-512, Q4_0"): 1.37,
    ("q8", "AMX, Q4_K_M"): 1.22,
    ("q8", "GPU"): 2.02,
    ("q8", "rows nearly free"): 2.4,
    ("smollm2", "AMX"): 1.02,
    ("smollm2", "AVX-512"): 1.01,
    ("smollm2", "AVX-512, memory busy"): 1.05,
}
"""What the recorded replies reach at least by the mean, each as a pair's first."""


@pytest.mark.parametrize(("pair", "machine"), GAINS)
def test_no_recorded_reply_loses_more_than_it_may_and_together_they_gain(pair: str, machine: str):
    costs, recordings = MACHINES[pair][machine], recorded(RECORDED / pair).values()
    pays = [replay(each, costs, KNOBS) for each in recordings]
    for each, ratio in zip(recordings, pays, strict=True):
        plain, longest_s = costs.plain_s(each), costs.truth.verify(1, len(each.tokens))
        # What a last look for repetitions takes is known only afterwards.
        lost = plain / ratio - plain - costs.look * costs.pass_s
        assert lost < MAY_LOSE * longest_s + 0.02 * plain
        assert lost < max(0.5, 0.05 * plain) or machine in ("AVX2", "AMX, Q4_K_M")  # .59 and .71 s there
    assert geometric_mean(pays) > GAINS[pair, machine]


@pytest.mark.parametrize(("pair", "machine"), [("q8", "AVX2"), ("q8", "AVX-512, Q4_0"), ("q8", "GPU"), ("smollm2", "AVX-512")])
def test_a_conversation_of_recorded_replies_is_never_under_98_hundredths_of_plain(pair: str, machine: str):
    """At the end of each reply from 500 tokens on, in two orders of them."""
    costs, recordings = MACHINES[pair][machine], list(recorded(RECORDED / pair).values())
    for order in (recordings, recordings[::-1]):
        simulator = Simulator(order, costs)
        simulator.strategy.begin_conversation()
        tokens, plain, seconds = 0, 0.0, 0.0
        for each in order:
            seconds += costs.plain_s(each) / replay(each, costs, KNOBS, simulator)
            tokens, plain = tokens + each.length, plain + costs.plain_s(each)
            assert tokens < 500 or plain / seconds > 0.98


@pytest.mark.parametrize("machine", ["AVX2", "AVX-512"])
@pytest.mark.parametrize("times", [3, 12])
def test_a_pair_that_was_measured_on_a_busy_machine_loses_little(machine: str, times: int):
    """One size, and that so many times too slow, as is the draft. The table is not trusted."""
    costs, recordings = MACHINES["q8"][machine], recorded(RECORDED / "q8")
    right = costs.measured(drafts=True)
    slow = replace(right, passes={1: right.passes[1]}, trusted=0).scaled(times)
    for name in ("story", "translation", "chess", "python"):
        simulator = Simulator([recordings[name]], costs, slow)
        assert replay(recordings[name], costs, KNOBS, simulator) > 0.9


@pytest.mark.parametrize("slower", [0.4, 2.5])
def test_the_speed_that_a_machine_had_when_it_was_measured_does_not_matter(slower: float):
    costs = MACHINES["q8"]["AVX2"]
    for each in recorded(RECORDED / "q8").values():
        simulator = Simulator([each], costs, costs.measured(drafts=True).scaled(slower))
        assert replay(each, costs, KNOBS, simulator) == pytest.approx(replay(each, costs, KNOBS), rel=0.01)


@pytest.mark.parametrize("machine", HEADS)
@pytest.mark.parametrize(("acceptance", "share"), [(0.5, 0.95), (0.7, 0.96), (0.9, 0.89)])
def test_a_head_drafts_about_as_well_as_with_the_best_fixed_length(machine: str, acceptance: float, share: float):
    """Or as plain decoding. A head whose confidence tells nothing of a token drafts on too long where nearly all are right."""
    found = replaying.with_heads(machine, acceptance, lengths=(1, 2, 4, 7), tokens=512)
    assert found.auto > share * max(1.0, *found.fixed)
    assert found.drafted < 0.2 or max(found.fixed) > 1.0


def test_a_replay_takes_the_time_that_its_machine_says():
    """Two tokens that stood before make a pass over three, and without them there is one pass a token."""
    recording = Recording(
        tokens=[1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6], prompt=12, confidences=[0.9] * 6, chains=None
    )
    fixed = replace(KNOBS, policy="fixed", drafter="suffix", draft_max=2, p_min=0.0)
    assert replay(recording, Machine({1: 1.0, 3: 1.5}), fixed) == pytest.approx(6 / 3.0)
    assert replay(recording, Machine({1: 1.0, 3: 1.5}), replace(fixed, drafter="off")) == pytest.approx(1.0)


def test_a_replayed_draft_model_drafts_what_it_did_and_takes_its_time():
    chains = [[(2, 0.9), (3, 0.8)], [(3, 0.8)], [(4, 0.9)], [(9, 0.6), (8, 0.5)], [(6, 0.9)], [(7, 0.9)]]
    recording = Recording(tokens=[1, 2, 3, 4, 5, 6, 7], prompt=1, confidences=[0.9] * 6, chains=chains)
    fixed = replace(KNOBS, policy="fixed", drafter="model", draft_max=2, p_min=0.0)
    right = 0.1 + 0.1 + 1.5  # 2 3, and 4 from the target
    wrong = 0.11 + 0.1 + 1.5  # 9 8 instead of 5, after catching up on 4
    last = 0.1 + 1.2  # 6, and 7 from the target
    costs = Machine({1: 1.0, 2: 1.2, 3: 1.5}, draft=0.1)
    assert replay(recording, costs, fixed) == pytest.approx(6 / (right + wrong + last))


SHORT_ROWS = {"AMX": 35, "AVX-512": 28, "GPU": 38}
"""Rows of their passes; 54, 35 and 56 if drafts went on behind the end."""


@pytest.mark.parametrize("machine", SHORT_ROWS)
def test_short_replies_take_no_row_behind_their_end(machine: str):
    """Five replies of two to ten tokens in one chat, to their ends, without a limit that would keep drafts before them."""
    recordings = list(recorded(RECORDED / "q8", tuple(SHORT)).values())
    simulator = Simulator(recordings, MACHINES["q8"][machine])
    rounds = [round for each in recordings for round in simulator.decode(each, KNOBS)]
    emitted = sum(len(round.tokens) for round in rounds)
    assert emitted == sum(each.length for each in recordings)
    rows = sum(round.pass_size for round in rounds)
    assert rows - emitted <= sum(round.count("rejected") + round.count("ignored") for round in rounds)
    assert rows <= SHORT_ROWS[machine]
