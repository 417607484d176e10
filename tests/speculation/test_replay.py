"""What automatic drafting makes of real texts on machines of known costs: mostly it gains, and nowhere does it cost."""

from __future__ import annotations

from dataclasses import replace
from statistics import geometric_mean

import pytest

from tests.speculation.replaying import KNOBS, MACHINES, RECORDED, Costs, Recording, recorded, replay

GAINS = {
    ("q8", "AMX"): 1.8,
    ("q8", "AVX-512"): 1.2,
    ("q8", "AVX-512, memory busy"): 1.5,
    ("q8", "AVX2"): 1.1,
    ("q8", "rows nearly free"): 2.4,
    ("smollm2", "AMX"): 1.0,
    ("smollm2", "AVX-512"): 0.99,
    ("smollm2", "AVX-512, memory busy"): 1.02,
}
"""What the nine replies reach at least by the mean, each as a pair's first."""


@pytest.mark.parametrize(("pair", "machine"), GAINS)
def test_of_nine_replies_none_loses_more_than_a_fiftieth_and_together_they_gain(pair: str, machine: str):
    costs, recordings = MACHINES[pair][machine], recorded(RECORDED / f"{pair}.json").values()
    pays = [replay(each, costs, KNOBS) for each in recordings]
    for each, ratio in zip(recordings, pays, strict=True):
        # A reply of fewer than 125 tokens may lose as much as one of so many; a last look is known only afterwards.
        lost = each.length * (1 / ratio - 1)
        assert ratio > 0.98 - costs.look / 128 if each.length >= 125 else lost < 2.56 + costs.look
    assert geometric_mean(pays) > GAINS[pair, machine]


def test_a_replay_takes_the_time_that_its_machine_says():
    """Two tokens that stood before make a pass over three, and without them there is one pass a token."""
    recording = Recording(
        tokens=[1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6], prompt=12, sure=[0.9] * 6, chains=None
    )
    fixed = replace(KNOBS, policy="fixed", drafter="suffix", draft_max=2, p_min=0.0)
    assert replay(recording, Costs({1: 1.0, 3: 1.5}), fixed) == pytest.approx(6 / 3.0)
    assert replay(recording, Costs({1: 1.0, 3: 1.5}), replace(fixed, drafter="off")) == pytest.approx(1.0)


def test_a_replayed_draft_model_drafts_what_it_did_and_takes_its_time():
    chains = [[(2, 0.9), (3, 0.8)], [(3, 0.8)], [(4, 0.9)], [(9, 0.6), (8, 0.5)], [(6, 0.9)], [(7, 0.9)]]
    recording = Recording(tokens=[1, 2, 3, 4, 5, 6, 7], prompt=1, sure=[0.9] * 6, chains=chains)
    fixed = replace(KNOBS, policy="fixed", drafter="model", draft_max=2, p_min=0.0)
    right = 0.1 + 0.1 + 1.5  # 2 3, and 4 from the target
    wrong = 0.11 + 0.1 + 1.5  # 9 8 instead of 5, after catching up on 4
    last = 0.1 + 1.2  # 6, and 7 from the target
    costs = Costs({1: 1.0, 2: 1.2, 3: 1.5}, draft=0.1)
    assert replay(recording, costs, fixed) == pytest.approx(6 / (right + wrong + last))
