"""A server on a real pair, as clients use it, `--server` among them."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from spectui.attach.session import ServerSession
from spectui.engine.events import FREE, Event, Message, RoundDone, Terms
from spectui.engine.isolation.process import EngineProcess
from spectui.engine.protocol import also
from spectui.engine.requests import Request
from spectui.engine.session import Session
from spectui.knobs import Setup
from spectui.serve.app import Access
from spectui.serve.tools import FORMS, tool_grammar
from tests.helpers.smollm2 import SNAKE, ask, opened, setup
from tests.serve.served import KNOBS, Client, serving, until

TALK = {"messages": [{"role": "user", "content": SNAKE}]}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}}, "required": ["n", "ok"]}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving(setup()) as client:
        yield client


@pytest.fixture(scope="module")
def plain() -> Iterator[Session]:
    """The target here, without a server and without a draft."""
    session, _ = opened(replace(setup(), draft=None))
    yield session
    session.close()


@pytest.fixture(scope="module")
def text(plain: Session) -> str:
    """What plain decoding writes."""
    return ask(plain, replace(KNOBS, drafter="off"), SNAKE).text


def test_every_endpoint_writes_plain_decodings_text(client: Client, text: str) -> None:
    assert client.chat(SNAKE)["message"]["content"] == text
    assert client.ask("/v1/messages", **TALK)["content"] == [{"type": "text", "text": text}]
    response = client.ask("/v1/responses", input=SNAKE)
    assert response["output"][0]["content"][0]["text"] == text
    prompt = client.ask("/apply-template", **TALK)["prompt"]
    assert client.ask("/completion", prompt=prompt)["content"] == text
    tokens = client.ask("/tokenize", content=prompt)["tokens"]
    for same in (tokens, [tokens], [prompt]):
        assert client.ask("/v1/completions", prompt=same)["choices"][0]["text"] == text
    assert "one text" in client.ask("/v1/completions", prompt=[prompt, prompt])["error"]["message"]
    assert client.ask("/detokenize", tokens=tokens)["content"] == prompt


@pytest.mark.parametrize("knobs", [{"drafter": "off"}, {"policy": "fixed", "p_min": 0.0}, {"speculative.n_max": 2}])
@pytest.mark.parametrize("others", [{}, {"max_tokens": 300, "response_format": {"type": "json_object", "schema": SCHEMA}}])
def test_no_knob_of_a_request_changes_the_text(client: Client, knobs: dict[str, Any], others: dict[str, Any]) -> None:
    usual = client.chat(SNAKE, temperature=1.0, seed=5, **others)["message"]["content"]
    assert client.chat(SNAKE, temperature=1.0, seed=5, **others, **knobs)["message"]["content"] == usual
    if others:
        assert json.loads(usual).keys() == {"n", "ok"}


def test_every_dialect_binds_replies_by_a_schema(client: Client) -> None:
    form = {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}
    message = client.ask("/v1/messages", **TALK, max_tokens=300, output_config=form)["content"][0]["text"]
    response = client.ask("/v1/responses", input=SNAKE, max_output_tokens=300, text=form)["output"][0]["content"][0]["text"]
    assert [json.loads(text).keys() for text in (message, response)] == [{"n", "ok"}] * 2


def test_each_tools_arguments_obey_its_own_schema(client: Client) -> None:
    """Also where two name different things alike; one that cannot be made a grammar is free."""
    of = {"a": SCHEMA, "b": {"type": "boolean"}}
    tools = [
        {"name": name, "parameters": {"type": "object", "properties": {"of": {"$ref": "#/$defs/Of"}}, "required": ["of"]}}
        for name in of
    ]
    for tool in tools:
        tool["parameters"]["$defs"] = {"Of": of[tool["name"]]}
    assert "t2-object" in tool_grammar(FORMS[0], [*tools, {"name": "c", "parameters": {"$ref": "#/no"}}], alone=True)
    grammar, written = tool_grammar(FORMS[0], tools, alone=False), {}
    for seed in range(8):
        said = client.chat("Call!", grammar=grammar, temperature=1.0, seed=seed, max_tokens=200, stop="</tool_call>")
        call = json.loads(said["message"]["content"].removeprefix("<tool_call>"))
        written[call["name"]] = call["arguments"]["of"]
    assert written["a"].keys() == {"n", "ok"}
    assert isinstance(written["b"], bool)


@pytest.mark.parametrize(
    ("path", "body", "asked"),
    [
        ("/v1/chat/completions", TALK, {"logprobs": True, "top_logprobs": 9}),
        ("/v1/completions", {"prompt": SNAKE}, {"logprobs": 9}),
        ("/completion", {"prompt": SNAKE}, {"n_probs": 9}),
    ],
)
def test_probabilities_of_a_stream_are_those_of_the_body(
    client: Client, path: str, body: dict[str, Any], asked: dict[str, Any]
) -> None:
    def rows(answer: dict[str, Any]) -> list[Any]:
        logprobs = answer["choices"][0].get("logprobs") or {} if answer.get("choices") else answer
        return logprobs.get("content" if "choices" in answer else "completion_probabilities") or []

    whole = rows(client.ask(path, **body, **asked))
    assert [len(row["top_logprobs"]) for row in whole] == [9] * KNOBS.predict
    assert all(row["logprob"] == pytest.approx(row["top_logprobs"][0]["logprob"], abs=1e-5) for row in whole), (
        "at temperature 0"
    )
    streamed = [row for event in client.events(path, **body, **asked) for row in rows(event)]
    assert [row["id"] for row in streamed] == [row["id"] for row in whole]
    assert [row["logprob"] for row in streamed] == pytest.approx([row["logprob"] for row in whole], abs=1e-4)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "new words " * 40}]}),
        ("/v1/completions", {"prompt": "newer words " * 40}),
        ("/completion", {"prompt": "newest words " * 40}),
        ("/v1/responses", {"input": "last words " * 40}),
    ],
)
def test_progress_is_told_from_what_is_reused_to_the_end(client: Client, path: str, body: dict[str, Any]) -> None:
    for _ in range(2):
        told = [event for event in client.events(path, **body, return_progress=True) if "prompt_progress" in event]
        steps = [event["prompt_progress"] for event in told]
        assert steps[0]["processed"] == steps[0]["cache"]
        assert told[0]["timings"]["prompt_n"] == told[0]["timings"]["prompt_ms"] == 0
        assert steps[-1]["processed"] == steps[-1]["total"]
        done = [step["processed"] for step in steps]
        assert done == sorted(set(done))


def test_streams_say_what_bodies_say(client: Client, text: str) -> None:
    chunks = client.events("/v1/chat/completions", **TALK, stream_options={"include_usage": True})
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    said = [chunk["choices"][0] for chunk in chunks[1:-1]]
    assert "".join(choice["delta"].get("content", "") for choice in said) == text
    assert [choice["finish_reason"] for choice in said[-1:]] == ["length"]
    assert chunks[-1]["usage"]["completion_tokens"] == KNOBS.predict
    events = client.events("/v1/messages", **TALK)
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta") == text
    events = client.events("/v1/responses", input=SNAKE)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    reading = [event for event in events if event["type"] == "response.in_progress"][1:]
    assert reading[-1]["prompt_progress"]["processed"] == events[-1]["response"]["usage"]["input_tokens"]
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == text


def test_the_next_turn_reads_only_what_is_new(client: Client, text: str) -> None:
    talk = [*TALK["messages"], {"role": "assistant", "content": text}, {"role": "user", "content": "And?"}]
    client.chat(SNAKE)
    usage = client.ask("/v1/chat/completions", messages=talk)["usage"]
    first = client.ask("/v1/chat/completions", **TALK)["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= first["prompt_tokens"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"mirostat": 2}, "mirostat"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"messages": "x"}, "messages"),
        ({"messages": [{"role": "bot", "content": ""}]}, "role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "text alone"),
        ({"response_format": {"type": "sound"}}, "response_format"),
        ({"response_format": {"type": "json_object", "schema": 1}}, "schema"),
        ({"grammar": "root ::= ("}, "grammar"),
        ({"tool_choice": {"name": "x"}}, "tool_choice"),
        ({"tool_choice": {"function": 3}}, "tool_choice"),
        ({"logit_bias": {"the": 1}}, "logit_bias"),
        ({"n": 2}, "n would change"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "include_usage"),
        ({"messages": [TALK["messages"][0], *[{"role": "assistant", "content": "a"}] * 2]}, "At most one"),
    ],
)
def test_what_cannot_be_is_a_400_that_names_it(client: Client, body: dict[str, Any], said: str) -> None:
    answer = client.post("/v1/chat/completions", json={**TALK, **body})
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert client.chat("hi", max_tokens=1)["finish_reason"] == "length"
    assert client.chat("hi", max_tokens=0)["message"]["content"] == ""


@pytest.mark.parametrize("file", [{}, {"filename": "a.c"}, {"filename": 3, "text": "x"}])
def test_a_file_beside_an_infill_has_a_name_and_a_text(client: Client, file: dict[str, Any]) -> None:
    answer = client.post("/infill", json={"input_prefix": "int ", "input_suffix": "}", "input_extra": [file]})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("filename" if "text" in file else "text is missing")


def test_a_prompt_without_room_says_both_numbers(client: Client) -> None:
    for others in ({}, {"stream": True}):
        answer = client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "word " * 2000}], **others})
        error = answer.json()["error"]
        assert (answer.status_code, error["type"], error["n_ctx"]) == (400, "exceed_context_size_error", 1024)
        assert error["n_prompt_tokens"] > 2000


def test_a_client_that_leaves_ends_its_reply(client: Client) -> None:
    before = {*client.server.requests.seen}

    def asked() -> list[Request]:
        return [request for request in client.server.requests.seen if request not in before]

    with client.stream("POST", "/v1/chat/completions", json={**TALK, "max_tokens": 900, "stream": True}) as answer:
        next(answer.iter_lines())
    body = json.dumps({**TALK, "max_tokens": 900}).encode()
    with socket.create_connection((client.base_url.host, client.base_url.port or 0)) as leaving:
        leaving.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        leaving.sendall(b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        until(lambda: len(asked()) == 2 and asked()[1].figures.emitted)
    until(lambda: all(request.state == "ended" for request in asked()))
    assert all(request.figures.emitted < 900 for request in asked())


def test_an_engine_that_is_killed_ends_one_reply() -> None:
    engine = EngineProcess(KNOBS, setup(), restarts=True)
    with serving(setup(), engine=engine) as client:
        text = client.chat(SNAKE)["message"]["content"]
        with ThreadPoolExecutor() as pool:
            future = pool.submit(client.post, "/v1/chat/completions", json={**TALK, "max_tokens": 900})
            until(lambda: client.server.requests.running is not None)
            assert engine.link is not None
            os.kill(engine.link.pid, signal.SIGKILL)
        assert future.result().status_code == 500
        assert "ended by signal SIGKILL" in future.result().json()["error"]["message"]
        assert client.chat(SNAKE)["message"]["content"] == text


def test_who_may_ask() -> None:
    with serving(setup(), Access(key="secret", cors="http://page")) as client:
        health = client.get("/health")
        assert health.status_code == 200
        for headers in ({}, {"authorization": "Bearer other"}, {"x-api-key": "other"}):
            assert client.get("/v1/models", headers=headers).status_code == 401
        for headers in ({"authorization": "Bearer secret"}, {"x-api-key": "secret"}):
            assert client.get("/v1/models", headers=headers).json()["data"][0]["meta"]["n_ctx"] == 1024
            for host, status in (("evil.example", 403), ("[", 403), ("localhost:1", 200), ("[::1]:8080", 200)):
                assert client.get("/v1/models", headers={**headers, "host": host}).status_code == status
            assert client.get("/v1/models", headers={**headers, "origin": "http://evil"}).status_code == 403
            page = client.get("/v1/models", headers={**headers, "origin": "http://page"})
            assert page.headers["access-control-allow-origin"] == "http://page"


def test_figures(client: Client) -> None:
    timings = client.ask("/v1/chat/completions", **TALK)["timings"]
    assert timings["predicted_n"] == KNOBS.predict
    assert timings["draft_n"] >= timings["draft_n_accepted"]
    metrics = client.get("/metrics").text
    assert "llamacpp:spec_decode_num_drafts_total" in metrics
    assert client.get("/v1/models/any").json() == client.get("/v1/models").json()["data"][0]
    assert client.get("/slots").json()[0]["is_processing"] is False
    assert client.get("/props").json()["default_generation_settings"]["n_ctx"] == 1024


def _tokens(events: list[Event]) -> list[tuple[str, str]]:
    """Each token's text and origin."""
    rounds = [event.round for event in events if isinstance(event, RoundDone)]
    return [(token.text, token.origin) for round in rounds for token in round.tokens]


@pytest.mark.parametrize("drafter", ["auto", "ngram", "off"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("terms", [FREE, Terms(grammar=json.dumps(SCHEMA))])
def test_a_client_of_ours_shows_what_the_engine_did(
    client: Client, plain: Session, drafter: Any, temperature: float, terms: Terms
) -> None:
    plain.knobs = knobs = replace(KNOBS, temperature=temperature, seed=7, predict=60)
    text = plain.generate([Message("user", SNAKE)], terms).text
    told: list[Event] = []
    shown: list[Event] = []
    requests = client.server.requests
    usual, requests.knobs = requests.knobs, replace(knobs, drafter=drafter, policy="fixed", p_min=0.0)
    heard, requests.engine.listen = requests.engine.listen, also(requests.engine.listen, told.append)
    session = ServerSession(shown.append, threading.Event())
    try:
        session.load(Setup(server=str(client.base_url)))
        session.knobs = knobs
        assert session.generate([Message("user", SNAKE)], terms).text == text
    finally:
        session.close()
        requests.engine.listen, requests.knobs = heard, usual
    assert _tokens(shown) == _tokens(told)
    origins = {origin for _, origin in _tokens(told)}
    assert origins >= {"accepted", "correction"} if drafter == "auto" else "plain" in origins
