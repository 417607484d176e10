"""`spectui exact`: which passes compute the bits of passes over one token, and whether drafts change a server's text."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spectui.cli import root
from spectui.llama.context import Context
from tests.attach.scripted_server import delta, events, serving, timings
from tests.measure.models import tiny_setup


def found(*arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(root, ["exact", *arguments, "-t", "1", "--json"])
    assert done.exit_code == 0, done.output
    whole = json.loads(done.stdout)
    assert whole["schema"] == "spectui.exact/1"
    rows: list[dict[str, Any]] = whole["rows"]
    return rows


def test_it_tells_how_far_and_for_which_sizes_passes_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose kernels round otherwise from six rows on, by up to a thousandth, and choose another token."""
    evaluate = Context.evaluate

    def rounded(self: Context, tokens: Any, rows: int) -> Any:
        logits = evaluate(self, tokens, rows)
        if len(tokens) > 4 and rows:
            logits[1, 7] += 0.001
            logits[2, 9] += 1000.0
        return logits

    monkeypatch.setattr(Context, "evaluate", rounded)
    model = tiny_setup(tmp_path).model or ""
    rows = found("-m", model, "--kernels", "llama.cpp", "--lengths", "0,20", "--types", "q8_0")
    assert [(row["where"], row["behind"]) for row in rows] == [("llama.cpp", 0), ("llama.cpp", 20)] * 2
    assert len({row["model"] for row in rows}) == 2, "the file, and its copy"
    for row in rows[2:]:  # llama.cpp's sums of floats of 32 bits are others in a single row
        assert [size for size, each in row["sizes"].items() if each["equal"]] == ["2", "3", "4"]
        assert row["sizes"]["6"]["largest"] == pytest.approx(1000, rel=1e-3) and row["sizes"]["6"]["changed"] == 1
    text = (
        CliRunner()
        .invoke(root, ["exact", "-m", model, "-t", "1", "--lengths", "20", "--types", "q8_0"], env={"COLUMNS": "80"})
        .stdout
    )
    assert re.search(r" 20 +=( +=){2}( +1e.03 /1){3}$", text, re.MULTILINE) and max(map(len, text.splitlines())) <= 80


def test_a_servers_replies_with_and_without_drafts_are_compared() -> None:
    def reply(text: str, drafted: int) -> Any:
        return events(delta(text), delta(finish="stop") | timings(3, drafted=drafted, accepted=drafted // 2))

    replies = [reply("one two", 4), reply("one two", 0), reply("one two", 4), reply("one too", 0),
               reply("a", 0), reply("a", 0), reply("a", 4), reply("a", 4)]  # fmt: skip
    with serving(replies) as server:
        rows = found("--server", server.url)
    assert [row["text"].partition(":")[0] for row in rows] == [
        "the same", "another from character 6 on", "cannot be told", "cannot be told",
    ]  # fmt: skip
    assert [body.get("speculative.n_max") for body in server.bodies()] == [None, 0] * 4
    assert {body["temperature"] for body in server.bodies()} == {0.0}
