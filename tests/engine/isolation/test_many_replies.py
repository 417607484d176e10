"""Many short replies on RPC servers: the texts are those of this machine's CPU, and the servers hold no more than before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from random import Random

import psutil
import pytest

from spectui.engine.events import Event, Finished, Loaded, Message, RoundDone
from spectui.engine.isolation.process import EngineProcess
from spectui.knobs import Knobs
from tests.engine.waiting import events_of
from tests.helpers.rpc_server import Server, needs_server
from tests.helpers.smollm2 import setup as smollm2

REPLIES = 8
Held = tuple[int, int]


def asked(numbers: Random) -> Iterator[tuple[Knobs, str]]:
    """Settings that change what a device keeps of each row, how long drafts are, and the text; and a prompt."""
    while True:
        knobs = Knobs(
            temperature=numbers.choice((0.0, 0.3, 0.8, 1.5)),
            top_k=numbers.choice((0, 1, 40, 40, 100, 500)),
            repeat_penalty=numbers.choice((1.0, 1.0, 1.3, 0.9)),
            min_p=numbers.choice((0.0, 0.05)),
            seed=numbers.randrange(2**30),
            predict=numbers.choice((4, 12, 24)),
            policy=numbers.choice(("fixed", "auto", "expected")),
            drafter=numbers.choice(("model", "auto", "suffix", "off")),
            draft_max=numbers.choice((0, 1, 3, 8, 48)),
            p_min=numbers.choice((0.0, 0.5)),
        )
        yield knobs, " ".join(numbers.choices(("one", "two", "a", "river", "def"), k=numbers.choice((1, 9, 60))))


def replies(engine: EngineProcess, servers: tuple[Server, ...] = ()) -> tuple[list[str], list[Held]]:
    """The texts, and what each of the servers holds then: resident bytes and handles."""
    events, turned = events_of(engine), Random(7)

    def turn(event: Event) -> None:
        """The drafts, which the text does not depend on, in the middle of replies."""
        if isinstance(event, RoundDone):
            engine.knobs = replace(
                engine.knobs, draft_max=turned.choice((0, 2, 16)), drafter=turned.choice(("model", "auto", "off"))
            )

    events.hook, texts = turn, []
    for knobs, prompt in islice(asked(Random(5)), REPLIES):
        events.clear()
        engine.knobs = knobs
        engine.generate([Message("user", prompt)])
        texts.append(events.wait(Finished).text)
    processes = [psutil.Process(server.process.pid) for server in servers]
    return texts, [(each.memory_info().rss, each.num_fds()) for each in processes]


def grown(before: list[Held], now: list[Held]) -> bool:
    """Whether a server holds more than before. A busy one closes a connection some time after its client has."""
    return any(
        bytes_now > bytes * 1.05 or handles_now >= handles + REPLIES
        for (bytes, handles), (bytes_now, handles_now) in zip(before, now, strict=True)
    )


@needs_server
@pytest.mark.parametrize("draft", ["RPC0", "RPC1"])
def test_the_texts_are_the_cpus_and_nothing_grows(server: Server, engine: EngineProcess, draft: str):
    pair = replace(smollm2(), ctx_size=256, no_repack="on", flash_attn="on", requantise_draft="off")
    with Server() as other:
        rpc = f"{server.address},{other.address}"
        engine.load(replace(pair, rpc=rpc, device="RPC0", device_draft=draft, async_draft="on"))
        events_of(engine).wait(Loaded)
        there, held = replies(engine, (server, other))
        for _ in range(4):
            before = held
            again, held = replies(engine, (server, other))
            assert again == there
            # Once a server may take memory that it keeps and uses again; what leaks grows every time.
            if not grown(before, held):
                break
        else:
            raise AssertionError(f"the servers hold more after each of five repetitions, at last {before} -> {held}")
    events_of(engine).clear()
    engine.load(pair)
    events_of(engine).wait(Loaded)
    here, _ = replies(engine)
    assert there == here
    assert len(set(here)) > REPLIES / 2
