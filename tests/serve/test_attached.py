"""`--server` on a server of ours: the text of a local run, and the rounds of the engine that wrote it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from spectui.attach.session import ServerSession
from spectui.engine.events import FREE, Event, Message, RoundDone, Terms
from spectui.engine.protocol import also
from spectui.knobs import Setup
from tests.helpers.smollm2 import SNAKE, opened, setup
from tests.serve.served import KNOBS, Client, serving
from tests.serve.test_app import SCHEMA


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving(setup()) as client:
        yield client


def _tokens(events: list[Event]) -> list[tuple[str, str]]:
    """Each token's text and origin."""
    rounds = [event.round for event in events if isinstance(event, RoundDone)]
    return [(token.text, token.origin) for round in rounds for token in round.tokens]


@pytest.mark.parametrize("drafter", ["auto", "ngram", "off"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("terms", [FREE, Terms(grammar=json.dumps(SCHEMA))])
def test_a_client_of_ours_shows_what_the_engine_did(client: Client, drafter: Any, temperature: float, terms: Terms) -> None:
    knobs = replace(KNOBS, temperature=temperature, seed=7, predict=60)
    local, _ = opened(setup())
    local.knobs = knobs
    text = local.generate([Message("user", SNAKE)], terms).text
    local.close()

    told: list[Event] = []
    shown: list[Event] = []
    requests = client.server.requests
    requests.knobs = replace(knobs, drafter=drafter, policy="fixed", p_min=0.0)
    heard, requests.engine.listen = requests.engine.listen, also(requests.engine.listen, told.append)
    session = ServerSession(shown.append, threading.Event())
    try:
        session.load(Setup(server=str(client.base_url)))
        session.knobs = knobs
        assert session.generate([Message("user", SNAKE)], terms).text == text
    finally:
        session.close()
        requests.engine.listen = heard
    assert _tokens(shown) == _tokens(told)
    origins = {origin for _, origin in _tokens(told)}
    assert origins >= {"accepted", "correction"} if drafter == "auto" else "plain" in origins
