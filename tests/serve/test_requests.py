"""The queue of requests: one at a time, each client in turn, one event at the end of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spectui.engine.events import Event, Failed, Finished, Message, RoundDone
from spectui.engine.requests import Request, Requests, TooManyError
from spectui.knobs import Knobs
from tests.fake_engine import FakeEngine
from tests.serve.served import until


class Heard(list[Event]):
    """What a request was told."""

    def has_ended(self) -> bool:
        return any(isinstance(event, Finished | Failed) for event in self)


Ask = Callable[..., tuple[Request, Heard]]


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(Knobs(draft_max=7))


@pytest.fixture
def queue(engine: FakeEngine) -> Requests:
    return Requests(engine, most=4)


@pytest.fixture
def ask(queue: Requests) -> Ask:
    def asked(text: str, client: str = "a", **knobs: object) -> tuple[Request, Heard]:
        heard = Heard()
        request = Request((Message("user", text),), heard.append, client, knobs=knobs)
        queue.submit(request)
        return request, heard

    return asked


def order(engine: FakeEngine) -> list[str]:
    return [messages[-1].content for messages in engine.generates]


def test_each_client_in_turn_and_each_reply_to_its_own(engine: FakeEngine, ask: Ask) -> None:
    heard = {text: ask(text, text[0])[1] for text in ("a1", "a2", "a3", "b1")}
    for text in ("a1", "b1", "a2", "a3"):
        until(lambda text=text: order(engine)[-1:] == [text])
        engine.emit_round(text)
        engine.finish()
        until(heard[text].has_ended)
    assert order(engine) == ["a1", "b1", "a2", "a3"]
    for text, events in heard.items():
        rounds = [event.round for event in events if isinstance(event, RoundDone)]
        assert "".join(token.text for round in rounds for token in round.tokens).startswith(text)
        assert sum(isinstance(event, Finished | Failed) for event in events) == 1


def test_a_client_that_asks_again_is_not_overtaken_for_ever_by_new_ones(engine: FakeEngine, ask: Ask) -> None:
    ask("b1", "b")
    until(lambda: order(engine) == ["b1"])
    ask("b2", "b")
    for number in range(1, 5):
        ask(f"new {number}", f"client {number}")
        engine.finish()
        until(lambda number=number: len(order(engine)) == number + 1)
    assert order(engine)[:3] == ["b1", "new 1", "b2"]


def test_one_who_is_told_of_the_end_takes_no_answer_from_a_client(engine: FakeEngine, queue: Requests, ask: Ask) -> None:
    def ended(request: Request) -> None:
        raise RuntimeError("it is only told")

    queue.ended = ended
    for text in ("a", "b"):
        request, heard = ask(text)
        until(lambda text=text: order(engine)[-1:] == [text])
        engine.emit_round(text)
        engine.finish()
        until(heard.has_ended)
        assert [type(event) for event in heard][-2:] == [RoundDone, Finished]
        assert queue.seen[-1] is request and request.events == heard


def test_knobs_of_a_request_hold_for_it_alone_and_the_others_live(engine: FakeEngine, queue: Requests, ask: Ask) -> None:
    _, heard = ask("a", temperature=0.0)
    until(lambda: engine.knobs == Knobs(draft_max=7, temperature=0.0))
    queue.knobs = Knobs(draft_max=3, temperature=1.5)
    until(lambda: engine.knobs == Knobs(draft_max=3, temperature=0.0))
    engine.finish()
    until(lambda: heard.has_ended() and engine.knobs == Knobs(draft_max=3, temperature=1.5))


def test_a_request_that_is_cancelled_while_it_waits_never_reaches_the_engine(
    engine: FakeEngine, queue: Requests, ask: Ask
) -> None:
    first, heard = ask("first")
    waiting, told = ask("waiting")
    queue.cancel(waiting)
    until(told.has_ended)
    assert order(engine) == ["first"]
    assert engine.stops == 0
    queue.cancel(first)
    until(heard.has_ended)
    queue.cancel(first)  # it has ended
    _, after = ask("after")
    until(lambda: order(engine) == ["first", "after"])
    assert engine.stops == 1
    engine.finish()
    until(after.has_ended)


def test_the_queue_is_bounded_and_its_end_ends_all(engine: FakeEngine, queue: Requests, ask: Ask) -> None:
    heard = [ask("runs")[1]]
    until(lambda: queue.running is not None)
    heard += [ask(f"{number}")[1] for number in range(4)]
    with pytest.raises(TooManyError):
        ask("too many")
    queue.close()
    assert all(events.has_ended() for events in heard)
    with pytest.raises(TooManyError):
        ask("late")


def test_an_engine_that_cannot_begin_ends_one_request_and_no_other(
    engine: FakeEngine, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(messages: object, terms: object) -> None:
        monkeypatch.undo()
        raise OSError("no pipe")

    monkeypatch.setattr(engine, "generate", broken)
    _, bad = ask("bad")
    until(bad.has_ended)
    _, good = ask("good")
    until(lambda: order(engine) == ["good"])
    engine.finish()
    until(good.has_ended)
    assert isinstance(bad[-1], Failed) and isinstance(good[-1], Finished)


def test_a_listener_that_fails_ends_no_other_request(engine: FakeEngine, queue: Requests, ask: Ask) -> None:
    def fail(event: Event) -> None:
        raise RuntimeError("gone")

    queue.submit(Request((Message("user", "bad"),), fail))
    until(lambda: order(engine) == ["bad"])
    engine.finish()
    _, heard = ask("good")
    until(lambda: order(engine) == ["bad", "good"])
    engine.finish()
    until(heard.has_ended)
