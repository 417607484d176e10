"""The command that measures a chat's pair."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spectui.config import load
from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup
from spectui.measure.live.command import arguments, flags, in_short, results_of

PAIR = Setup(
    model="/m/big one.gguf", draft="/m/small.gguf", ctx_size=512, gpu_layers=-2, flash_attn="on", system="Be terse."
)
KNOBS = Knobs(temperature=0.3, top_k=10, draft_max=5, policy="fixed", seed=7, predict=9)


def test_the_models_their_settings_and_the_sampling_of_the_chat_are_flags_and_its_drafting_is_none():
    assert flags(PAIR, KNOBS) == [
        "-m", "/m/big one.gguf", "-md", "/m/small.gguf", "-c", "512", "-ngl", "-2", "-fa", "on", "-sys", "Be terse.",
        "--temp", "0.3", "--top-k", "10",
    ]  # fmt: skip
    assert flags(Setup(), Knobs()) == ["--temp", "0.8"], "a measurement says its temperature"


def test_a_command_reads_no_configuration_and_ends_with_the_options_of_a_person():
    command = arguments(PAIR, KNOBS, "--minutes 2 -f 'my prompts.txt'")
    assert command[:5] == ("tune", "--live", "--config", os.devnull, "--results")
    assert results_of(command) == Path(command[5])
    assert results_of(arguments(PAIR, KNOBS, "--results mine.jsonl")) == Path("mine.jsonl"), "a person's counts"
    assert command[-4:] == ("--minutes", "2", "-f", "my prompts.txt")
    assert load(path=Path(os.devnull), environ={}).setup == Setup()
    with pytest.raises(UsageError, match=r"The options cannot be read: No closing quotation\."):
        arguments(PAIR, KNOBS, "'")


def test_in_short_it_has_the_names_of_the_models():
    assert in_short(PAIR) == "spectui tune -m 'big one.gguf' -md small.gguf"
