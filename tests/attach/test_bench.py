"""`spectui bench --server`: servers as rows of one table."""

import json
import os
from subprocess import CompletedProcess

import pytest

from tests.attach.scripted_server import Answer, ScriptedServer, as_json, delta, events, serving
from tests.attach.test_session import GOOD
from tests.cli.programs import one_sentence, spectui


def benched(server: ScriptedServer, *arguments: str) -> CompletedProcess[bytes]:
    wide = os.environ | {"COLUMNS": "120"}
    return spectui("bench", "--server", server.url, "--prompts", "python,table", "--runs", "1", *arguments, env=wide)


def test_two_servers_stand_in_one_table(tmp_path):
    file = str(tmp_path / "runs.jsonl")
    with serving(GOOD) as one, serving(GOOD) as other:
        first = benched(one, "--results", file, "--json")
        both = benched(other, "--results", file)
    assert first.returncode == both.returncode == 0, (first.stderr, both.stderr)
    assert {run["setting"]["server"] for run in json.loads(first.stdout)["runs"]} == {one.url.partition("//")[2]}
    rows = [line.split() for line in both.stdout.decode().splitlines() if line.startswith("127.0.0.1")]
    assert len(rows) == 2 and all(row[2] == "12.5" and row[-5:] == ["1", "6", "4", "66.7", "1.67"] for row in rows)
    body = one.bodies()[-1]
    assert (body["temperature"], body["seed"], body["cache_prompt"], body["max_tokens"]) == (0.8, 1, False, 80)


@pytest.mark.parametrize("flag", ["--draft-max", "--policy", "--draft-p-min"])
def test_what_a_server_fixes_cannot_be_varied(flag):
    value = {"--policy": "fixed,auto"}.get(flag, "0,1")
    said = one_sentence(spectui("bench", "--server", "localhost:1", flag, value), 2)
    assert "A server fixes" in said and flag in said


def test_what_a_server_does_not_tell_of_the_prompt_is_no_number():
    chat = events(delta("one"), delta(" two"), delta(finish="stop"))
    listed = as_json({"data": [{"id": "m"}]})
    with serving(chat, v1__models=listed, props=Answer(404)) as server:
        done = benched(server, "--json")
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert {(run["prompt_tokens"], run["prompt_s"]) for run in runs} == {(None, None)}
