"""SmolLM2-135M-Instruct with four of its layers: the real llama.cpp on a real vocabulary, at a quarter of the time.

What it writes means nothing, but its kernels, its tokens and its template are those of the whole model, which the tests of the
demo run.
"""

import ctypes
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from spectui.engine import demo
from spectui.engine.events import Event, Finished, Message
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.llama.library import llama
from spectui.llama.quantiser import quantise

SNAKE = "write snake game in python"

KERNELS = "llama.cpp"
"""Those of these pairs: what is measured as faster may be others at the next run of the tests."""

_LAYERS = (0, 1, 28, 29)
"""With these it repeats itself little, and its draft agrees with it on two tokens in five."""


@cache
def setup() -> Setup:
    """The pair: Q4_1 weights are bit-equal at every batch, its Q4_K draft disagrees often.

    One thread, because two that wait for each other crawl when anything else runs on the machine. Chunks of 32, because
    ggml's attention takes another way from 64 rows on, with other roundings.
    """
    target = Path(os.environ["DEMO_DRAFT_DIR"], "SmolLM2-4-layers.Q4_1.gguf")
    draft = target.with_name("SmolLM2-4-layers.Q4_K.gguf")
    if not draft.exists():  # a process of another test may have made it
        target.parent.mkdir(parents=True, exist_ok=True)
        _prune(Path(demo.default_setup(Setup()).model or ""), target)
        quantise(target, draft, "Q4_K")
    return Setup(model=str(target), draft=str(draft), ctx_size=1024, threads=1, ubatch=32, no_profile="on", kernels=KERNELS)


@cache
def whole() -> Setup:
    """The demo pair with all layers, for tests of its size and of the demo: Q4_1 with a draft in Q2_K."""
    with pytest.MonkeyPatch.context() as patch:  # the first test that asks may have directories of its own
        patch.setenv("SPECTUI_CACHE_DIR", os.environ["DEMO_DRAFT_DIR"])
        pair = demo.default_setup(Setup(ctx_size=1024, threads=1, ubatch=32, no_profile="on", kernels=KERNELS))
        demo.make_draft(Path(pair.model or ""), lambda _: None)
    return pair


def _prune(source: Path, destination: Path) -> None:
    """Write a copy without most layers."""
    params = llama.llama_model_quantize_default_params()
    params.only_copy = True
    without = [layer for layer in range(30) if layer not in _LAYERS]
    params.prune_layers = (ctypes.c_int32 * (len(without) + 1))(*without, -1)
    assert llama.llama_model_quantize(os.fsencode(source), os.fsencode(destination), ctypes.byref(params)) == 0


def alone() -> Setup:
    """The target without a draft."""
    return replace(setup(), draft=None)


def whole_alone() -> Setup:
    """The demo pair's target without a draft."""
    return replace(whole(), draft=None)


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
