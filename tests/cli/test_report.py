"""The object of `run --json` and the lines after a reply."""

import dataclasses
import json
import math

from spectui.chat.figures.lines import summary_line
from spectui.cli.report import report, summary
from spectui.engine.events import Finished, Loaded, ModelInfo
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import DraftToken, Round, StopReason, Token
from spectui.speculation.statistics import Statistics

TARGET = ModelInfo("big.gguf", "llama 1B Q8_0", 1_000_000, 1_100_000, 32_000, 4096, 32_768)
LOADED = Loaded(Setup(model="big.gguf"), TARGET, None, ())


def a_round() -> Round:
    """Three drafted: one accepted, one rejected, one ignored; then the correction."""
    fates = ("accepted", "rejected", "ignored")
    drafted = tuple(DraftToken(place, "a", 0.9, "model", fate) for place, fate in enumerate(fates))
    tokens = (Token(0, "a", "accepted", "model", 0, 7, 0.9, 0.8), Token(5, "é", "correction", None, 0, 8, None, math.nan))
    return Round(0, 7, Knobs(), drafted, tokens, 0.1, 0.2, 0.05, 0.5)


def finished(*rounds: Round) -> Finished:
    text = "".join(token.text for round in rounds for token in round.tokens)
    return Finished(StopReason.EOS, text, Statistics.of(rounds), Knobs(seed=3), 7, 0.5, None)


def test_what_the_reply_thought_is_apart() -> None:
    noted = [("<think>", True), ("so</think>\n\n", True), ("Use <think>.", False)]
    tokens = tuple(Token(0, text, "plain", None, 0, 8, None, 0.8, thought) for text, thought in noted)
    thought = dataclasses.replace(a_round(), tokens=tokens)
    found = report(LOADED, [thought], finished(thought))
    assert (found["text"], found["thinking"], found["answer"]) == (finished(thought).text, "so", "Use <think>.")


def test_the_object() -> None:
    found = json.loads(json.dumps(report(LOADED, [a_round()], finished(a_round())), allow_nan=False))
    assert found["schema"] == "spectui.run/1"
    assert found["model"] == {
        "path": "big.gguf",
        "description": "llama 1B Q8_0",
        "parameters": 1e6,
        "bytes": 1.1e6,
        "remark": "",
        "kernels": "llama.cpp",
        "kernels_why": "",
    }
    assert found["draft"] is None
    names = {member.name for owner in (Knobs, Setup) for member in dataclasses.fields(owner)}
    assert set(found["settings"]) == names
    assert found["settings"]["seed"] == 3
    assert (found["text"], found["stop_reason"], found["prompt_tokens"]) == ("aé", "eos", 7)
    assert found["tokens"] == [
        {"id": 0, "text": "a", "origin": "accepted", "source": "model", "round": 0, "position": 7,
         "p_draft": 0.9, "p_target": 0.8, "thought": None},
        {"id": 5, "text": "é", "origin": "correction", "source": None, "round": 0, "position": 8,
         "p_draft": None, "p_target": None, "thought": None},
    ]  # fmt: skip
    assert found["stats"] == {
        "emitted": 2, "rounds": 1, "drafted": 3, "accepted": 1, "rejected": 1, "ignored": 1, "acceptance": 0.5,
        "tokens_per_pass": 2.0, "per_position": [1.0, 0.0], "prompt_s": 0.5, "time_to_first_token_s": None,
        "decode_s": 0.5, "tokens_per_s": 4.0, "draft_s": 0.1, "verify_s": 0.2, "choose_s": 0.05,
        "guesses": 0, "right_guesses": 0, "saved_s": 0.0,
    }  # fmt: skip


def test_without_rounds_ratios_are_unknown() -> None:
    figures = report(LOADED, [], finished())["stats"]
    assert [figures[key] for key in ("acceptance", "tokens_per_pass", "tokens_per_s")] == [None, None, None]
    assert figures["per_position"] == []
    assert summary(finished()).endswith("accept    = -")


def test_the_lines_are_llama_speculatives() -> None:
    assert summary(finished(a_round())).splitlines() == [
        "encoded    7 tokens in    0.500 seconds, speed:   14.000 t/s",
        "decoded    2 tokens in    0.500 seconds, speed:    4.000 t/s",
        "",
        "n_draft   = 16",
        "n_predict = 2",
        "n_drafted = 3",
        "n_ignored = 1",
        "n_accept  = 1",
        "accept    = 50.000%",
    ]


def test_a_draft_that_goes_ahead_has_a_line() -> None:
    right = dataclasses.replace(a_round(), guessed=True, saved_s=0.25)
    found = finished(a_round(), dataclasses.replace(a_round(), guessed=False), right)
    assert summary(found).splitlines()[-1] == "ahead     = 1 of 2 right, 0.250 s saved"
    stats = report(LOADED, [], found)["stats"]
    assert (stats["guesses"], stats["right_guesses"], stats["saved_s"]) == (2, 1, 0.25)
    assert summary_line(found.statistics).endswith("50 % of its guesses ahead right, which saved 0.25 s")


def test_the_rounds_are_in_the_object_where_they_are_asked_for() -> None:
    found = json.loads(json.dumps(report(LOADED, [a_round()], finished(a_round()), with_rounds=True), allow_nan=False))
    (round,) = found["rounds"]
    assert [token["fate"] for token in round["drafted"]] == ["accepted", "rejected", "ignored"]
    assert round["tokens"] == found["tokens"] and round["knobs"]["draft_max"] == Knobs().draft_max
    assert (round["seconds"], round["likeliest"], round["reason"]) == (0.5, None, None)
