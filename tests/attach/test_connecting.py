"""The way to a server: its address, its list of models, its key, and waiting until it is ready."""

import socket
import threading

import pytest

from spectui.attach.address import with_port
from spectui.attach.session import ServerSession
from spectui.engine.events import Loading
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Setup
from tests.attach.scripted_server import LISTED, Answer, as_json, serving
from tests.attach.test_session import GOOD, Opened

LOADING = as_json({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, 503)


def test_a_server_that_loads_is_waited_for():
    with serving(GOOD, v1__models=[LOADING, LOADING, as_json(LISTED)]) as server:
        opened = Opened(server)
    assert [event.what for event in opened.told(Loading)] == ["the server's model"] * 2
    assert opened.notices() == [f"{server.url} is not ready: Loading model. It is asked again until it is."]


def test_waiting_for_a_server_that_loads_can_be_stopped():
    stop = threading.Event()
    with (
        serving(GOOD, v1__models=LOADING) as server,
        pytest.raises(SpectuiError, match=r"^Waiting for the server was stopped\.$"),
    ):
        ServerSession(lambda event: stop.set(), stop).load(Setup(server=server.url))


@pytest.mark.parametrize(
    ("listed", "sentence"),
    [
        (Answer(200, (b"<html><body>nginx</body></html>",)), "sends a web page: check --server, which takes what"),
        (as_json({"error": "who?"}, 403), "asks for a key: who?"),
    ],
)
def test_what_is_wrong_with_the_address_is_said_at_once(listed, sentence):
    with serving(GOOD, v1__models=listed) as server, pytest.raises(SpectuiError) as raised:
        Opened(server)
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("end", "base"),
    [("/v1/chat/completions", "v1"), ("/v1beta/openai", "v1beta__openai"), ("/a/chat/completions", "a"), ("/a/v1/", "a__v1")],
)
@pytest.mark.parametrize("listed", [as_json({"data": [{"id": "m"}]}), Answer(404), as_json({"error": "no"}, 403)])
def test_an_address_may_be_any_part_of_the_chats(end, base, listed):
    """Whether the server has a list of models there, or none, or keeps it from this key."""
    paths = {f"{base}__models": listed, f"{base}__chat__completions": GOOD}
    with serving(Answer(404), **({"v1__models": Answer(404), "props": Answer(404)} | paths)) as server:
        assert Opened(server, end=end, server_model="m").ask().text == "Abcd"


@pytest.mark.parametrize(
    ("names", "wanted", "asked"),
    [
        (["llama3.2:latest", "other"], "llama3.2", "llama3.2"),
        (["text-embedding-small", "bge-m3", "chat-7b"], "", "chat-7b"),
        (["only-embeddings"], "", "only-embeddings"),
    ],
)
def test_the_server_judges_a_name_and_of_its_list_the_first_is_asked_that_can_chat(names, wanted, asked):
    listed = as_json({"data": [{"id": name} for name in names]})
    with serving(GOOD, v1__models=listed, props=Answer(404)) as server:
        Opened(server, server_model=wanted).ask()
    assert [body["model"] for body in server.bodies()] == [asked]


def test_where_nothing_listens_that_is_said():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(SpectuiError, match=rf"^Nothing answers at http://127.0.0.1:{port} \("):
        ServerSession(lambda event: None, threading.Event()).load(Setup(server=f"127.0.0.1:{port}"))


def test_the_key_goes_into_requests_and_into_nothing_else(monkeypatch, tmp_path):
    file = tmp_path / "key"
    file.write_text("sk-from-file\n")
    monkeypatch.setenv("SPECTUI_API_KEY", "sk-from-variable")
    refusal = as_json({"error": {"message": "not this one"}}, 401)
    for given, key in (({"server_key_file": str(file)}, "sk-from-file"), ({}, "sk-from-variable")):
        with serving([GOOD, refusal]) as server:
            opened = Opened(server, **given)
            opened.ask()
            with pytest.raises(SpectuiError, match="refuses the key: not this one") as raised:
                opened.ask()
        assert {headers.get("authorization") for _, headers, _ in server.requests} == {f"Bearer {key}"}
        assert "sk-" not in repr([opened.events, opened.loaded, raised.value])


@pytest.mark.parametrize(
    "content", ["", "two words", "sk-\x01", "sk-\N{SNOWMAN}", "x" * 20_000], ids=["empty", "words", "control", "ascii", "large"]
)
def test_a_file_that_holds_no_key_is_not_quoted(tmp_path, content):
    file = tmp_path / "key"
    file.write_text(content)
    with pytest.raises(UsageError) as raised:
        ServerSession(lambda event: None, threading.Event()).load(Setup(server="localhost", server_key_file=str(file)))
    assert "sk-" not in str(raised.value) and "words" not in str(raised.value).replace(str(file), "")


def test_a_server_of_this_machine_is_found_at_the_first_port_that_answers(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed, socket.create_server(("127.0.0.1", 0)) as server:
        ports = closed.getsockname()[1], server.getsockname()[1]
        closed.close()
        monkeypatch.setattr("spectui.attach.address.PORTS", ports)
        assert with_port("127.0.0.1") == with_port("http://127.0.0.1/v1") == f"http://127.0.0.1:{ports[1]}"
        for named in ("http://127.0.0.1:1", "https://127.0.0.1", "http://example.com", "http://127.0.0.1/other"):
            assert with_port(named) == named
