"""SmolLM2-135M-Instruct for tests: the real llama.cpp on a real model, in about a second."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from spectui.engine.demo import default_setup, make_draft
from spectui.engine.events import Event, Finished, Message
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup

SNAKE = "write snake game in python"


@cache
def setup() -> Setup:
    """The demo pair: Q4_1 weights are bit-equal at every batch, its Q2_K draft disagrees often.

    One thread, because two that wait for each other crawl when anything else runs on the machine. Chunks of 32, because
    ggml's attention takes another way from 64 rows on, with other roundings.
    """
    with pytest.MonkeyPatch.context() as patch:  # the first test that asks may have directories of its own
        patch.setenv("SPECTUI_CACHE_DIR", os.environ["DEMO_DRAFT_DIR"])
        pair = default_setup(Setup(ctx_size=1024, threads=1, ubatch=32, no_profile="on"))
        make_draft(Path(pair.model or ""), lambda _: None)
    return pair


def alone() -> Setup:
    """The target without a draft."""
    return replace(setup(), draft=None)


def ask(session: Session, knobs: Knobs, *contents: str) -> Finished:
    """Answer a conversation of user and assistant messages in turn."""
    session.knobs = knobs
    roles = ("user", "assistant")
    return session.generate([Message(roles[n % 2], content) for n, content in enumerate(contents)])


def opened(setup: Setup) -> tuple[Session, list[Event]]:
    """A loaded session and the list that its events go to."""
    events: list[Event] = []
    session = Session(events.append)
    session.load(setup)
    return session, events
