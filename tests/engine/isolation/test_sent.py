"""Rounds that come out of another process are what went in, and little of them was sent."""

from __future__ import annotations

import pickle
from dataclasses import replace

from spectui.engine.events import RoundDone
from spectui.engine.isolation.sent import Receiver, Sender
from spectui.knobs import Knobs
from spectui.speculation.records import Round
from tests.toys import ToyModel, decode, toy_drafter

KNOBS = Knobs(policy="fixed", drafter="model", draft_max=4, p_min=0.0, predict=120, seed=3)


def rounds() -> list[Round]:
    """Of a reply whose temperature was turned in its middle."""
    knobs = [KNOBS] * 10 + [replace(KNOBS, temperature=0.5)]
    return decode(ToyModel(1, ends=False), [3, 1, 4], knobs, toy_drafter(1, 0.5, ends=False))[1]


def sent(rounds: list[Round]) -> tuple[list[Round], list[int]]:
    """What comes out, and the bytes of each."""
    sender, receiver = Sender(), Receiver(Knobs())
    packed = [pickle.dumps(sender.pack(RoundDone(round, 7)), pickle.HIGHEST_PROTOCOL) for round in rounds]
    done = [receiver.unpack(pickle.loads(each)) for each in packed]
    assert all(each.n_context == 7 for each in done)
    return [each.round for each in done], [len(each) for each in packed]


def test_the_same_rounds_come_out():
    given = rounds()
    assert len(given) > 20 and any(each.drafted for each in given)
    found, _ = sent(given)
    assert found == given


def test_rounds_share_their_knobs_and_the_texts_of_tokens():
    found, _ = sent(rounds())
    assert len({id(each.knobs) for each in found}) == 2
    texts = [text for each in found if each.likeliest is not None for text in each.likeliest.texts]
    assert len({id(text) for text in texts}) == len(set(texts)) == 11


def test_a_text_that_changed_is_sent_again():
    """Another target was loaded."""
    before = rounds()
    after = []
    for each in before:
        drafted = tuple(token._replace(text=f"<{token.text}>") for token in each.drafted)
        assert each.likeliest is not None
        likeliest = each.likeliest._replace(texts=tuple(f"<{text}>" for text in each.likeliest.texts))
        after.append(replace(each, drafted=drafted, likeliest=likeliest))
    assert sent([*before, *after])[0] == [*before, *after]


def test_a_round_takes_fewer_bytes_than_it_has():
    given = rounds()
    whole = [len(pickle.dumps(RoundDone(each, 7), pickle.HIGHEST_PROTOCOL)) for each in given]
    _, few = sent(given)
    assert sum(few[11:]) < 0.75 * sum(whole[11:])
