"""`spectui run --server`, `chat --server` and `bench --server`, as a person starts them."""

import json
import os
import subprocess
import sys
import threading
from subprocess import CompletedProcess

import pytest

from spectui.config import load
from spectui.errors import UsageError
from tests.attach.scripted_server import Answer, ScriptedServer, as_json, delta, events, serving, timings
from tests.attach.test_session import GOOD
from tests.cli.programs import one_sentence, spectui
from tests.helpers.terminal import without_engine

CHECK = (
    "import sys; from spectui.cli import root\n"
    "try: root.main(sys.argv[1:])\n"
    "finally: print([name for name in ('llama_cpp', 'spectui.engine.pair', 'spectui.speculation.decoder', 'gguf')"
    " if name in sys.modules], file=sys.stderr)"
)


def test_run_prints_the_reply_and_the_servers_figures():
    with serving(GOOD) as server:
        done = spectui("run", "--server", server.url, "-p", "hello", "-s", "3")
    assert (done.returncode, done.stdout.decode()) == (0, "Abcd\n")
    assert done.stderr.decode().splitlines()[1:] == [
        "encoded    7 tokens in    0.050 seconds, speed:  140.000 t/s",
        "decoded    5 tokens in    0.400 seconds, speed:   12.500 t/s",
        "", "n_draft   = -", "n_predict = 5", "n_drafted = 3", "n_accept  = 2", "accept    = 66.667%",
    ]  # fmt: skip


def test_run_prints_one_object_with_what_is_not_known_as_null():
    with serving(GOOD) as server:
        done = spectui("run", "--server", f"{server.url}/v1", "-p", "hello", "--json", "--rounds")
    found = json.loads(done.stdout)
    rounds = found["rounds"]
    assert "".join(token["text"] for round in rounds for token in round["tokens"]) == "Abcd" and len(rounds) == 3
    assert (found["text"], found["prompt_tokens"], found["stop_reason"]) == ("Abcd", 7, "eos")
    assert [token["origin"] for token in found["tokens"]] == ["plain", "accepted", "accepted", "correction", "plain"]
    assert {token["p_target"] for token in found["tokens"]} == {None}
    assert found["settings"]["server"] == f"{server.url}/v1" and found["model"]["path"] == "tiny"


def test_neither_llama_cpp_nor_the_decoder_is_loaded():

    with serving(GOOD) as server:
        done = subprocess.run(
            [sys.executable, "-c", CHECK, "run", "--server", server.url, "-p", "hello"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.stderr.splitlines()[-1]) == ("Abcd\n", "[]")
        done = subprocess.run(
            [sys.executable, "-c", CHECK, "chat", "--plain", "--no-history", "--server", server.url],
            capture_output=True, text=True, check=False, input="hello\n",
        )  # fmt: skip
        assert (done.stdout, done.stderr.splitlines()[-1]) == ("Abcd\n", "[]")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--server", "http://me:secret@host"), "takes no password in the URL"),
        (("--server", "http://host/?key=secret"), "takes a URL without ? and #"),
        (("--server", "ftp://host"), "takes a URL such as http://localhost:8080 or https://host/v1."),
        (("--server", "http://[::1"), "this one cannot be read"),
        (("--server", "http://host:99999"), "this one cannot be read"),
        (("--server", "localhost:1", "-m", "x.gguf"), "--server has its own models, and -m names one of this machine"),
        (("--server", "localhost:1", "--verify"), "--verify decodes with models of this machine"),
        (("--server", "localhost:1", "--server-key-file", "/none"), "cannot be read: No such file"),
    ],
)
def test_what_cannot_be_is_one_sentence(arguments, sentence):
    said = one_sentence(spectui("run", *arguments, "-p", "hello"), 2)
    assert sentence in said and "secret" not in said


def test_a_profile_names_a_server_as_it_names_a_model(tmp_path):
    (tmp_path / "config.toml").write_text('[profiles.big]\nserver = "http://big:8080"\nserver-key-file = "key"\n')
    (tmp_path / "key").write_text("k")
    from spectui.cli.models.hub import fetched
    from spectui.cli.models.server import server_setup

    settings = load(path=tmp_path / "config.toml", profile="big", environ={})
    setup = server_setup(settings)
    assert setup is not None and (setup.server, setup.server_key_file) == ("http://big:8080", str(tmp_path / "key"))
    here = load({"model": ("x.gguf", "-m")}, path=tmp_path / "config.toml", profile="big", environ={})
    assert server_setup(here) is None  # a flag has more weight than a profile
    assert fetched(here, None, None).server == ""  # else a bench would ask it
    both = load({"model": ("x.gguf", "-m"), "server": ("a", "--server")}, environ={})
    with pytest.raises(UsageError):
        server_setup(both)


@pytest.mark.parametrize("command", ["tune", "costs"])
def test_a_command_that_asks_no_server_does_not_measure_the_demo_in_its_place(tmp_path, command):
    file = tmp_path / "config.toml"
    file.write_text('[profiles.big]\nserver = "http://big:8080"\n')
    said = one_sentence(spectui(*command.split(), "--config", str(file), "-P", "big"), 2)
    assert f"profile big in {file} names a server: give a model with -m." in said
    named = spectui(*command.split(), "--config", str(file), "-P", "big", "-m", "none.gguf")
    assert b"There is no target model 'none.gguf'" in named.stderr


def test_the_window_on_a_server_needs_neither_llama_cpp_nor_numpy(tmp_path):
    file = tmp_path / "modules"
    flags = ("chat", "--no-history", "--server")
    with serving(GOOD) as server, without_engine(file, *flags, server.url) as terminal:
        terminal.wait("the model", lambda: "tiny" in terminal.text)
        terminal.type("hello\r")
        terminal.wait("the reply", lambda: "Abcd" in terminal.text)
        terminal.leave()
    assert not {"spectui.engine.pair", "spectui.speculation.decoder"} & set(file.read_text().split())
    first = file.with_suffix(".first").read_text().split()
    later = ("httpx2", "hashlib", "pygments", "spectui.engine.isolation", "spectui.gguf_files.header", "spectui.ui.dialogs")
    loaded = [name for name in first if name.startswith(later) or name.startswith(("spectui.attach.", "spectui.measure"))]
    assert loaded == ["spectui.attach.address", "spectui.attach.catalogue"]


def test_a_chat_that_was_killed_is_offered_and_the_server_asked_again(tmp_path):
    environ = os.environ | {"SPECTUI_DATA_DIR": str(tmp_path), "SPECTUI_STATE_DIR": str(tmp_path)}
    flags, ended = ("chat", "--plain", "--server"), threading.Event()
    slow = events(delta("half", **timings(1)), lambda: ended.wait(120) and None)
    with serving([slow, GOOD]) as server:
        with subprocess.Popen(
            [sys.executable, "-m", "spectui", *flags, server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
        ) as killed:
            assert killed.stdin is not None and killed.stdout is not None
            killed.stdin.write(b"hello\n")
            killed.stdin.flush()
            assert killed.stdout.read(4) == b"half"
            killed.kill()
        ended.set()
        done = spectui(*flags, server.url, input=b"/continue\nagain\n", env=environ)
    assert b"/continue opens the conversation again." in done.stderr and b"safe mode" not in done.stderr
    assert done.stdout.splitlines()[-1] == b"Abcd"
    assert server.bodies()[-1]["messages"][0]["content"] == "hello"


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
