"""The target's context does not use ggml's CPU flash attention for long conversations, and only for those."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from spectui.engine import attention as attention_module
from spectui.engine import pair as pair_module
from spectui.engine.attention import is_long
from spectui.engine.costs import files as cost_files
from spectui.engine.costs import measuring as costs
from spectui.engine.costs.files import TargetCosts
from spectui.engine.events import Event, Message, Notice, Prompt
from spectui.engine.loading import placement
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.kernels.plugin import LLAMA_CPP, Kernels
from spectui.knobs import Knobs, Setup
from spectui.llama import library
from spectui.llama.context import Context
from spectui.llama.cpu import reference_path
from spectui.llama.devices.records import Device
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from tests.helpers.smollm2 import SNAKE, alone, opened

PAGE = " ".join(f"Line {n}: the quick brown fox jumps over the lazy dog." for n in range(6))
LONG = [Message("user", f"Repeat: {PAGE[:250]}")]
SHORT = [Message("user", SNAKE)]
KNOBS = Knobs(temperature=0.0, predict=4)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session to which a page is long, and which measures only what it must: both would take seconds."""
    monkeypatch.setattr(attention_module, "_PASTED", 200)
    monkeypatch.setattr(costs, "BOUND_S", 0.1)
    monkeypatch.setattr(cost_files, "write", lambda *_: None)  # so little is no measurement for another test
    session, _ = opened(alone())
    session.knobs = KNOBS
    yield session
    session.close()


def attention(session: Session, messages: list[Message]) -> str:
    """What llama.cpp says of the memory that is made for them; "" if none is."""
    told: list[str] = []
    with library.listening(told.append):
        session.generate(messages)
    return "".join(line.split("=")[1].strip() for line in told if "flash_attn" in line)


def test_what_is_long():
    text = 10 * PAGE
    given, reply = [Message("user", text)], Message("assistant", text)
    assert is_long(given)
    assert is_long([Message("system", text), *SHORT])
    assert not is_long([*SHORT, reply, *SHORT])
    # to answer yes is to read again what came before
    assert not is_long([*SHORT, reply, *given])
    assert is_long([*SHORT, reply, Message("user", 5 * text)])


@pytest.mark.parametrize(("character", "least"), [("x", 2500), ("\u65e5", 834)])
def test_from_which_length_it_is_long(character: str, least: int):
    assert is_long([Message("user", character * least)])
    assert not is_long([Message("user", character * (least - 1))])


def test_a_conversation_stays_long():
    text = 10 * PAGE
    messages = [Message("user", text), Message("assistant", 5 * text), *SHORT, Message("assistant", text)]
    assert all(is_long(messages[: n + 1]) for n in range(len(messages)))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "off"),
        ({"flash_attn": "on"}, "on"),
        ({"strict": "on"}, "auto"),
        ({"cache_type_v": "q8_0"}, "auto"),
        ({"cache_type_k": "q8_0"}, "off"),
    ],
)
def test_attention_is_chosen_where_it_is_open(changed: dict[str, str], expected: str):
    setup = replace(Setup(model="m"), **changed)  # type: ignore[arg-type]
    assert placement.target_flash(setup, long=True) == expected
    assert placement.target_flash(setup, long=False) == setup.flash_attn


def test_on_a_gpu_it_is_left_to_llama_cpp(monkeypatch: pytest.MonkeyPatch):
    gpu = Device(name="CUDA0", description="", kind="gpu", free=1, total=1, id=None)
    monkeypatch.setattr(placement, "list_devices", lambda: (gpu,))
    assert placement.target_flash(Setup(model="m"), long=True) == "auto"
    assert placement.target_flash(Setup(model="m", gpu_layers=0), long=True) == "off"
    assert placement.target_flash(Setup(model="m", device="none"), long=True) == "off"


def test_cells_of_another_type_are_for_strict_on_a_cpu_without_a_choice_of_kernels(monkeypatch: pytest.MonkeyPatch):
    strict = Setup(model="m", strict="on")
    gpu = Device(name="CUDA0", description="", kind="gpu", free=1, total=1, id=None)
    assert placement.value_type(strict) == "f16", "this build chooses the kernels instead"
    monkeypatch.setattr(reference_path, "available", lambda: False)
    assert placement.value_type(strict) == "bf16"
    assert placement.value_type(Setup(model="m")) == "f16"
    assert placement.value_type(replace(strict, cache_type_v="q8_0")) == "q8_0"
    assert placement.value_type(replace(strict, cache_type_k="f32", cache_type_v="f32")) == "bf16"
    monkeypatch.setattr(placement, "list_devices", lambda: (gpu,))
    assert placement.value_type(strict) == "f16", "CUDA has no attention over cells of two types"
    assert placement.value_type(replace(strict, gpu_layers=0)) == "bf16"


def test_the_targets_rows_are_equal_in_passes_of_all_sizes():
    """From 257 tokens on, with two threads, a single row would round differently."""
    session, _ = opened(replace(alone(), threads=2))
    context = session.pair.context
    tokens = list(range(1000, 1266))
    context.evaluate(tokens[:260], 0)
    single = [context.evaluate([token], 1)[0].copy() for token in tokens[260:]]
    context.truncate(260)
    together = context.evaluate(tokens[260:], len(single))
    assert np.array_equal(single, together)
    session.close()


def test_the_memory_follows_the_conversation(session: Session):
    assert attention(session, SHORT) == ""
    assert attention(session, LONG) == "disabled"
    assert attention(session, LONG) == ""
    assert attention(session, SHORT) == "auto"


def test_a_conversation_that_goes_on_finds_its_cells(session: Session):
    events: list[Event] = []
    first = session.generate(LONG)
    session.load(alone())  # for whatever it is
    with session.listening(events.append):
        session.generate([*LONG, Message("assistant", first.text), *SHORT])
    begun = next(event for event in events if isinstance(event, Prompt))
    assert begun.reused >= first.prompt_tokens


def test_the_text_does_not_depend_on_what_was_asked_before(session: Session):
    # Drafts' lengths hang on the time, and behind a long text roundings on those.
    session.knobs = replace(KNOBS, drafter="off", predict=16)
    long, short = (session.generate(messages).text for messages in (LONG, SHORT))
    assert (session.generate(SHORT).text, session.generate(LONG).text) == (short, long)


def test_what_attention_costs_is_known_for_each(session: Session):
    strategy, measured, learned = session.strategy, 1e-5, (1e-6, 2e-6)
    strategy.costs = replace(strategy.costs, per_row=measured)
    session.pair.select_attention(LONG)
    assert strategy.costs.per_row == 0.0
    strategy.costs = replace(strategy.costs, per_row=learned[0], per_pass=learned[1])
    session.pair.select_attention(SHORT)
    assert (strategy.costs.per_row, strategy.costs.per_pass) == (measured, 0.0)
    session.pair.select_attention(LONG)
    assert (strategy.costs.per_row, strategy.costs.per_pass) == learned


def test_where_its_scores_would_fill_the_memory_flash_attention_stays(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(attention_module, "_MOST_SCORES", 2**20)
    assert attention(session, LONG) == ""


def test_where_there_is_too_little_memory_for_the_other_kind_the_chat_goes_on(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    """Nothing is tried again before the models are loaded again: each attempt would empty the context."""
    made: list[str] = []
    make = attention_module.models.target_context

    def refuse(setup: Setup, model: Model, interrupt: Interrupt, flash_attn: str) -> Context:
        made.append(flash_attn)
        if flash_attn == "off":
            raise SpectuiError("A context of 512 tokens could not be made.")
        return make(setup, model, interrupt, flash_attn)

    events: list[Event] = []
    with monkeypatch.context() as patched:
        patched.setattr(attention_module.models, "target_context", refuse)
        patched.setattr(session.pair, "_emit", events.append)
        for messages in (LONG, LONG, SHORT):
            session.generate(messages)
    assert made == ["off", "auto"]
    assert [event.message for event in events if isinstance(event, Notice)] == [
        "A context of 512 tokens could not be made. Attention stays as it was, which may be slower."
    ]
    session.load(alone())
    assert attention(session, LONG) == "disabled"


def test_what_is_loaded_anew_begins_for_short_texts(session: Session):
    session.generate(LONG)
    told: list[str] = []
    with library.listening(told.append):
        session.load(replace(alone(), ctx_size=512))
    assert [line for line in told if "flash_attn" in line and "auto" in line]
    assert attention(session, SHORT) == ""


def test_an_empty_memory_is_measured_as_one_for_short_texts(session: Session):
    session.generate(LONG)
    session.pair.clear_caches()  # as after a failure
    session.load(alone())
    assert attention(session, SHORT) == ""


@pytest.mark.parametrize("changed", [{"flash_attn": "on"}, {"strict": "on"}])
def test_what_is_asked_for_later_is_done(session: Session, changed: dict[str, str]):
    session.generate(LONG)
    told: list[str] = []
    with library.listening(told.append):
        session.load(replace(alone(), **changed))  # type: ignore[arg-type]
        session.generate(LONG)
    said = [line.split("=")[1].strip() for line in told if "flash_attn" in line]
    assert said == ["enabled" if "flash_attn" in changed else "auto"]


@pytest.mark.parametrize(
    ("changed", "per_row", "told"),
    [
        ({}, 2e-5, "behind 1,000 tokens a pass over one takes 3.0 times as long: -fa off may be faster"),
        ({}, 5e-6, ""),
        ({"flash_attn": "on"}, 2e-5, ""),
        ({"flash_attn": "off"}, 2e-5, ""),
        ({"strict": "on"}, 2e-5, ""),
    ],
)
def test_a_person_is_told_where_flash_attention_is_dear(
    changed: dict[str, str], per_row: float, told: str, monkeypatch: pytest.MonkeyPatch, session: Session
):
    costs = TargetCosts({1: 0.01, 2: 0.015}, per_row=per_row, behind=600)
    monkeypatch.setattr(pair_module, "target_costs", lambda *_: costs)
    loaded = session.load(replace(alone(), no_profile="off", **changed))  # type: ignore[arg-type]
    assert loaded.target.remark.split(", but ")[0] == told


def test_what_was_measured_holds_for_long_texts_too(monkeypatch: pytest.MonkeyPatch, session: Session):
    keys = []

    def measured(target: object, key: object, *_: object) -> TargetCosts:
        keys.append(key)
        return TargetCosts({1: 0.01, 2: 0.015}, per_row=1e-5)

    monkeypatch.setattr(pair_module, "target_costs", measured)
    setup = replace(alone(), no_profile="off")
    session.load(setup)
    assert session.strategy.costs.per_row == 1e-5
    session.generate(LONG)
    session.load(setup)
    assert keys[0] == keys[1]
    assert (session.strategy.costs.known, session.strategy.costs.per_row) == (True, 0.0)
    session.pair.select_attention(SHORT)
    assert session.strategy.costs.per_row == 1e-5


@pytest.mark.parametrize(("cells", "expected"), [("f16", "auto"), ("q8_0", "auto"), ("bf16", "off"), ("f32", "off")])
def test_flash_attention_stays_on_where_spectuis_kernels_compute_it(cells: str, expected: str) -> None:
    setup = Setup(model="m", gpu_layers=0, cache_type_k=cells, cache_type_v="f16")
    assert placement.target_flash(setup, long=True, kernels=Kernels("avx2")) == expected
    assert placement.target_flash(setup, long=True, kernels=LLAMA_CPP) == "off"
