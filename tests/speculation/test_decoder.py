"""The promise: no drafter, knob or seed of the draft changes a token of the text."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.knobs import Knobs
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import StopReason
from spectui.speculation.statistics import Statistics
from tests.toys import END, ToyGrammar, ToyModel, decode, emitted, toy_drafter

PROMPT = [3, 1, 4, 1, 5]

fixed = partial(Knobs, policy="fixed", drafter="model")

samplers = st.builds(
    fixed,
    temperature=st.sampled_from([0.0, 0.3, 0.8, 1.5]),
    top_k=st.sampled_from([0, 1, 3, 40]),
    top_p=st.sampled_from([0.5, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.3]),
    repeat_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 1.5]),
    frequency_penalty=st.sampled_from([0.0, 0.7]),
    seed=st.integers(0, 2**32 - 1),
    predict=st.integers(1, 60),
)
speculation = st.tuples(st.integers(0, 20), st.integers(0, 6), st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]))


@given(
    samplers, st.lists(speculation, min_size=1, max_size=30), st.integers(0, 50), st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from(["model", "auto", "suffix"]), st.sampled_from([None, None, 9, 100]),
)  # fmt: skip
@settings(max_examples=400)
def test_text_is_plain_decodings_whatever_the_drafts(sampler, turned, seed, noise, drafter, allowed):
    """`allowed`: tokens, by a grammar."""
    knobs = [
        replace(sampler, drafter=drafter, draft_max=most, draft_min=min(least, most), p_min=p) for most, least, p in turned
    ]
    grammars = [ToyGrammar(allowed) if allowed else None for _ in range(2)]
    plainly, plain, _ = decode(ToyModel(seed), PROMPT, replace(sampler, drafter="off"), grammar=grammars[0])
    decoder, drafted, _ = decode(ToyModel(seed), PROMPT, knobs, toy_drafter(seed, noise), grammar=grammars[1])
    assert emitted(drafted) == emitted(plain) == decoder.tokens[len(PROMPT) :]
    assert decoder.reason == plainly.reason
    for round in drafted if allowed else ():  # no draft was refused by the grammar
        asked = ToyGrammar(allowed, tuple(emitted(plain)[: round.position - len(PROMPT)]))
        assert all(asked.accept(token.id) for token in round.drafted)


@given(samplers, st.integers(0, 50), st.sampled_from([0.0, 1.0]))
def test_the_books_balance(sampler, seed, noise):
    decoder, rounds, _ = decode(ToyModel(seed), PROMPT, sampler, toy_drafter(seed, noise))
    statistics = Statistics.of(rounds)
    assert statistics.drafted == statistics.accepted + statistics.rejected + statistics.ignored
    assert statistics.drafted == sum(len(round.drafted) for round in rounds)
    assert statistics.accepted == sum(token.origin == "accepted" for round in rounds for token in round.tokens)
    for number, round in enumerate(rounds):
        own = [token for token in round.tokens if token.origin != "accepted"]
        assert len(own) == 1 or (number == len(rounds) - 1 and decoder.reason is StopReason.EOS)
        assert [token.position for token in round.tokens] == list(range(round.position, round.position + len(round.tokens)))


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_no_draft_extends_over_the_end_of_a_ring_of_cells(noise: float):
    ring = 7
    target = ToyModel(3, ends=False)
    target.ring = ring
    knobs = fixed(temperature=0.8, seed=5, draft_max=6, p_min=0.0, predict=60)
    _, rounds, _ = decode(target, PROMPT, knobs, toy_drafter(3, noise, ends=False))
    _, plain, _ = decode(ToyModel(3, ends=False), PROMPT, knobs)
    assert emitted(rounds) == emitted(plain)
    sent = [(round.position, round.pass_size - 1) for round in rounds if round.pass_size > 1]
    assert all(position // ring == (position + size - 1) // ring for position, size in sent) and len(sent) > 5


def test_a_perfect_draft_fills_every_pass():
    knobs = fixed(temperature=0.8, seed=5, draft_max=4, p_min=0.0, predict=50)
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, toy_drafter(1, 0.0, ends=False))
    statistics = Statistics.of(rounds)
    assert statistics.acceptance == 1.0
    assert statistics.tokens_per_pass == 5.0
    assert {token.origin for token in rounds[0].tokens} == {"accepted", "bonus"}


def test_the_coupled_noise_makes_a_good_draft_agree_at_high_temperature():
    """Without the shared noise, two samples of the same distribution would agree far less often."""
    knobs = fixed(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, seed=5, draft_max=4, p_min=0.0, predict=80)
    _, coupled, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, toy_drafter(1, 0.1, ends=False))

    class Uncoupled(type(toy_drafter(1, 0.1))):
        def propose(self, tokens, knobs):
            yield from super().propose(tokens, replace(knobs, seed=knobs.seed + 1))

    other = Uncoupled(ToyModel(1, noise=0.1, ends=False), 12)
    _, uncoupled, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, other)
    assert emitted(coupled) == emitted(uncoupled)
    assert Statistics.of(coupled).acceptance > 0.8 > 2 * Statistics.of(uncoupled).acceptance


def test_the_draft_evaluates_nothing_twice():
    drafter = toy_drafter(1, 0.7, ends=False)
    knobs = fixed(temperature=0, draft_max=4, p_min=0.0, predict=60)
    decode(ToyModel(1, ends=False), PROMPT, knobs, drafter)
    prompt_passes = 1
    # one pass a drafted token; the first of a round catches up on one token, or two after a fully accepted draft
    assert set(drafter.model.passes[prompt_passes:]) <= {1, 2}


def test_draft_min_ignores_and_counts_short_drafts():
    knobs = fixed(temperature=1.0, seed=4, draft_max=4, draft_min=4, p_min=0.3, predict=80)
    _, rounds, _ = decode(ToyModel(2, ends=False), PROMPT, knobs, toy_drafter(2, 0.3, ends=False))
    shown = [len([token for token in round.drafted if token.fate != "ignored"]) for round in rounds]
    assert set(shown) == {0, 4}
    assert Statistics.of(rounds).ignored > 0
    assert all(round.tokens[0].origin == "plain" for round, n in zip(rounds, shown, strict=True) if n == 0)


def test_p_min_is_checked_before_a_token_is_taken():
    knobs = fixed(temperature=1.0, seed=4, draft_max=8, p_min=0.3, predict=80)
    _, rounds, _ = decode(ToyModel(2, ends=False), PROMPT, knobs, toy_drafter(2, 0.3, ends=False))
    drafted = [token for round in rounds for token in round.drafted]
    assert drafted
    assert all(token.p >= 0.3 for token in drafted)


def test_knobs_act_on_the_next_round():
    knobs = [fixed(temperature=0, draft_max=most, p_min=0.0, predict=40) for most in (2, 7, 0, 3)]
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, toy_drafter(1, 0.0, ends=False))
    assert [len(round.drafted) for round in rounds[:4]] == [2, 7, 0, 3]


def test_full_context_ends_the_reply():
    target = ToyModel(1, n_ctx=20, ends=False)
    decoder, rounds, _ = decode(target, PROMPT, fixed(p_min=0.0), toy_drafter(1, 0.0, ends=False))
    assert decoder.reason is StopReason.CONTEXT
    # the last token needs no cell of its own
    assert len(PROMPT) + len(emitted(rounds)) == 21


def test_a_prompt_beyond_the_context_ends_before_it_begins():
    decoder, rounds, _ = decode(ToyModel(1, n_ctx=4), PROMPT, fixed())
    assert (decoder.reason, rounds) == (StopReason.CONTEXT, [])


def test_a_smaller_draft_context_only_ends_the_drafting():
    knobs = fixed(temperature=0, p_min=0.0, predict=60)
    _, plain, _ = decode(ToyModel(1, ends=False), PROMPT, knobs)
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, toy_drafter(1, 0.0, ends=False, n_ctx=30))
    assert emitted(rounds) == emitted(plain)
    assert rounds[0].drafted
    assert not rounds[-1].drafted


def test_limit_and_cancel():
    decoder, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, fixed(predict=7, p_min=0.0), toy_drafter(1, 0.0))
    assert (decoder.reason, len(emitted(rounds))) == (StopReason.LIMIT, 7)
    decoder, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, fixed(), cancel_after=3)
    assert (decoder.reason, len(rounds)) == (StopReason.CANCELLED, 3)


def test_an_accepted_end_stops_the_reply_and_leaves_the_rest_unjudged():
    for seed in range(40):
        decoder, rounds, _ = decode(ToyModel(seed), PROMPT, fixed(temperature=0, p_min=0.0), toy_drafter(seed, 0.0))
        last = rounds[-1]
        if decoder.reason is StopReason.EOS and last.tokens[-1].origin == "accepted":
            assert last.tokens[-1].id == END
            assert all(token.fate == "ignored" for token in last.drafted[len(last.tokens) :])
            return
    raise AssertionError("no toy ended with an accepted token")


def test_a_failing_draft_is_dropped_and_the_reply_goes_on():
    knobs = fixed(temperature=0.8, seed=3, p_min=0.0, predict=40)
    _, plain, _ = decode(ToyModel(1, ends=False), PROMPT, knobs)
    for fails_after in (0, 1, 5, 9):
        drafter = toy_drafter(1, 0.5, ends=False)
        drafter.model.fails_after = fails_after
        _, rounds, notices = decode(ToyModel(1, ends=False), PROMPT, knobs, drafter)
        assert emitted(rounds) == emitted(plain)
        assert len(notices) == 1


def test_a_target_that_cannot_drop_a_suffix_is_never_corrupted():
    knobs = fixed(temperature=0.8, seed=3, p_min=0.0, predict=40)
    _, plain, _ = decode(ToyModel(1, ends=False), PROMPT, knobs)
    target = ToyModel(1, ends=False)
    target.forgets = True
    _, rounds, _ = decode(target, PROMPT, knobs, toy_drafter(1, 0.5, ends=False))
    assert emitted(rounds) == emitted(plain)


def test_the_next_prompt_reuses_what_both_memories_hold():
    target, drafter = ToyModel(1, ends=False), toy_drafter(1, 0.5, ends=False)
    knobs = fixed(temperature=0, predict=20)
    decoder, _, _ = decode(target, PROMPT, knobs, drafter)
    follow_up = [*decoder.tokens, 7, 8]
    before = target.evaluated, drafter.model.evaluated
    _, rounds, _ = decode(target, follow_up, replace(knobs, predict=1), drafter)
    assert target.evaluated - before[0] <= 4
    assert drafter.model.evaluated - before[1] <= 4
    _, fresh, _ = decode(ToyModel(1, ends=False), follow_up, replace(knobs, predict=1))
    assert emitted(rounds) == emitted(fresh)


def test_each_place_of_a_round_says_what_the_target_found_likeliest():
    knobs = fixed(temperature=0.0, draft_max=4, p_min=0.0, predict=30)
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, toy_drafter(1, 0.5, ends=False))
    assert any(len(round.tokens) > 1 for round in rounds)
    for round in rounds:
        assert round.likeliest is not None
        for place, token in enumerate(round.tokens):
            best = round.likeliest.at(place)
            assert best[0][0] == token.id and abs(best[0][2] - token.p_target) < 1e-6
            assert [p for _, _, p in best] == sorted((p for _, _, p in best), reverse=True)
            assert len(best) == 5 and sum(p for _, _, p in best) <= 1.000001
        assert len(round.likeliest.texts) == 5 * len(round.tokens)


def confidences(rounds):
    """The target's of its likeliest token, at each position of these rounds."""
    return [round.likeliest.at(place)[0][2] for round in rounds for place in range(len(round.tokens))]


def test_how_sure_the_target_is_does_not_hang_on_what_the_seed_chooses():
    knobs = fixed(temperature=5.0, draft_max=4, p_min=0.0, predict=40)
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, toy_drafter(1, 0.5, ends=False))
    tokens = [token for round in rounds for token in round.tokens]
    pairs = zip(tokens, confidences(rounds), strict=True)
    assert any(token.p_target < confidence - 0.1 for token, confidence in pairs)


def test_a_round_says_what_a_plain_pass_would_have_cost_once_that_is_measured():
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, fixed(predict=10), toy_drafter(1, 0.0, ends=False))
    assert rounds[0].plain_s is None
    assert all(round.plain_s is not None and round.plain_s > 0 for round in rounds[1:])


def test_the_targets_confidence_is_learned_without_drafts_too():
    """Nothing else is known then of what the model would draft."""
    strategy = Strategy(toy_drafter(1, 0.5, ends=False), CostModel())
    opening = expected = strategy.acceptance.undrafted()
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, Knobs(drafter="off", predict=30), strategy=strategy)
    for confidence in confidences(rounds):
        expected += 0.2 * (confidence - expected)
    assert strategy.acceptance.undrafted() == pytest.approx(expected) != opening
