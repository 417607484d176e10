"""A conversation with a server over a real connection, and everything that a server can do wrong."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from spectui.attach.session import ServerSession
from spectui.engine.events import Event, Finished, Message, Notice, Prompt, RoundDone, Terms
from spectui.engine.room import NoRoomError
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import StopReason, Token
from tests.attach.scripted_server import Answer, ScriptedServer, as_json, delta, events, serving, timings

ASKED = [Message("user", "hello")]
GOOD = events(
    delta(),
    delta("A", **timings(1)),
    delta("b", **timings(2, 3, 2, 300)),
    delta("c", **timings(3, 3, 2, 300)),
    delta("d", **timings(4, 3, 2, 300)),
    delta(finish="stop"),
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}, **timings(5, 3, 2, 400)},
)


class Opened:
    """A session with a server, and what it has said."""

    def __init__(self, server: ScriptedServer | str, knobs: Knobs | None = None, end: str = "", **setup: str) -> None:
        """`server`: a scripted one, or the URL of another."""
        url = server if isinstance(server, str) else server.url
        self.events: list[Event] = []
        self.hook: Callable[[Event], None] = lambda event: None
        self.stop = threading.Event()
        self.session = ServerSession(self._listen, self.stop, stall_s=0.05)
        self.session.knobs = knobs or Knobs(seed=1)
        self.loaded = self.session.load(Setup(server=url + end, model=url.partition("//")[2], **setup))

    def _listen(self, event: Event) -> None:
        self.events.append(event)
        self.hook(event)

    def ask(self, *messages: Message) -> Finished:
        return self.session.generate(messages or ASKED)

    def told(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def notices(self) -> list[str]:
        return [notice.message for notice in self.told(Notice)]

    def tokens(self) -> list[Token]:
        return [token for event in self.told(RoundDone) for token in event.round.tokens]

    def text(self) -> str:
        return "".join(token.text for token in self.tokens())


def test_a_reply_has_the_origins_and_the_figures_of_the_server():
    with serving(GOOD) as server:
        opened = Opened(server, Knobs(seed=5, predict=9, temperature=0.5, stop=("x",)))
        finished = opened.ask(Message("system", "be brief"), *ASKED)
    figures = finished.statistics
    assert (finished.text, finished.reason) == ("Abcd", StopReason.EOS)
    assert (figures.emitted, figures.drafted, figures.accepted, figures.decode_s) == (5, 3, 2, 0.4)
    assert (finished.prompt_tokens, finished.prompt_s, finished.knobs.seed) == (7, 0.05, 5)
    assert [type(each) for each in opened.events[1:3]] == [Prompt, RoundDone]
    assert opened.loaded.target.n_ctx == 256 and opened.loaded.setup.model == "tiny"
    (body,) = server.bodies()
    assert body["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    expected = {"model": "tiny", "temperature": 0.5, "seed": 5, "max_tokens": 9, "stop": ["x"], "timings_per_token": True}
    assert {key: body[key] for key in expected} == expected


def test_the_prompt_is_told_while_it_is_read():
    progress = {"total": 900, "cache": 100, "processed": 512, "time_ms": 250}
    with serving(events(delta(prompt_progress=progress), delta("A", **timings(1, prompt=900)), delta(finish="stop"))) as server:
        opened = Opened(server)
        opened.ask()
    assert opened.told(Prompt) == [Prompt(512, 900, 100, 0.25), Prompt(900, 900, 0, 0.05)]


def test_a_server_without_counters_gives_plain_text_and_says_why_there_are_no_colours():
    chat = events(
        delta("one"),
        delta(" two"),
        delta(finish="stop"),
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}},
    )
    with serving(chat, v1__models=as_json({"data": [{"id": "other", "owned_by": "vllm"}]}), props=Answer(404)) as server:
        opened = Opened(server)
        finished = opened.ask()
    (body,) = server.bodies()
    assert "top_k" not in body and "timings_per_token" not in body
    assert (finished.text, finished.prompt_tokens, finished.prompt_s, finished.statistics.emitted) == ("one two", 5, None, 3)
    rounds = [(event.round.reason.kind, event.n_context) for event in opened.told(RoundDone)]
    assert {*rounds} == {("server does not tell", None)}
    fixed = {each.knob: each for each in opened.loaded.fixed}
    assert {"top_k", "draft_max"} < fixed.keys() and "temperature" not in fixed and fixed["draft_max"].flag == ""


def test_what_is_thought_stands_between_marks_and_goes_back_apart():
    chat = events(delta(reasoning_content="hm", **timings(1)), delta("\n\nyes", **timings(2)), delta(finish="stop"), timings(2))
    with serving(chat) as server:
        opened = Opened(server)
        finished = opened.ask()
        tokens = opened.tokens()
        opened.ask(*ASKED, Message("assistant", "yes", thought="hm"), Message("user", "why"))
    assert finished.text == "<think>hm</think>\n\nyes"
    assert [(token.thought, token.text) for token in tokens] == [(True, "<think>hm"), (True, "</think>\n\nyes")]
    assert server.bodies()[1]["messages"][1] == {"role": "assistant", "content": "yes", "reasoning_content": "hm"}


def test_a_reply_is_continued():
    with serving(GOOD) as server:
        Opened(server).ask(*ASKED, Message("assistant", "Once upon", (1, 2)))
    (body,) = server.bodies()
    assert body["messages"][-1] == {"role": "assistant", "content": "Once upon"}
    assert body["continue_final_message"] is True and body["add_generation_prompt"] is False


@pytest.mark.parametrize(
    ("predict", "prompt", "reason"), [(-1, 253, StopReason.CONTEXT), (2, 7, StopReason.LIMIT), (-1, 7, StopReason.SERVER_LIMIT)]
)
def test_a_reply_that_the_length_ended_says_which(predict, prompt, reason):
    """A server may have a limit of its own: the context is full only where it was reached."""
    counted = timings(2, prompt=prompt)
    with serving(events(delta("a", **timings(1, prompt=prompt)), delta("b", **counted), delta(finish="length"))) as server:
        assert Opened(server, Knobs(predict=predict)).ask().reason is reason


@pytest.mark.parametrize("finish", [None, "null"])
def test_the_end_of_the_stream_is_the_end_of_a_reply(finish):
    """Where the server does not say why it ended."""
    with serving(events(delta("a", finish, **timings(1)))) as server:
        finished = Opened(server).ask()
    assert (finished.text, finished.reason) == ("a", StopReason.EOS)


CUT = "ended the stream in the middle of the reply: what came is kept."
NOTHING = "{} ended the stream without a reply: look into the server's log."
NO_ROOM = "exceed_context_size_error"


@pytest.mark.parametrize(
    ("answer", "kept", "sentence"),
    [
        (events(delta("a", **timings(1)), done=False), "a", CUT),
        (events(delta("a", **timings(1)), done=False, cut=True), "a", "The connection to {} broke ("),
        (events(done=False), "", NOTHING),
        (events(delta("a", **timings(1)), b"data: {oops\n\n"), "a", "{} sends something that is no JSON: check --server"),
        (events(delta("a", **timings(1)), {"error": {"message": "out of\x1b[2J memory", "code": 500}}), "a",
         "{} broke off: out of?[2J memory."),
        (events({"error": "plain words"}), "", "{} broke off: plain words."),
        (events(delta("a"), {"object": "error", "message": "out of pages", "code": 500}), "a", "broke off: out of pages."),
        (events({"error_type": "context_length_exceeded", "error_message": "4096 at most"}), "", "broke off: 4096 at most."),
        (events({"detail": "out of memory"}), "", "{} broke off: out of memory."),
        (events(b'error: {"code":400,"message":"exceeds the context"}\n\n'), "", "{} broke off: exceeds the context."),
        (events(delta("a", **timings(1)), b'{"error":{"message":"out of memory"}}\n\n'), "a", "broke off: out of memory."),
        (events(delta("a", **timings(1)), b'event: error\ndata: {"message":"out of memory"}\n\n'), "a", "broke off: out of"),
        (events(delta("a", **timings(1)), delta("x" * 10_000_000, **timings(2))), "a", "sends a line of more than 1 MB"),
        (Answer(200, (b"<!doctype html><title>Welcome</title>\n<p>hi\n",)), "", "{} sends a web page: check --server"),
        (Answer(404, (b"<html>",)), "", "{} has no /v1/chat/completions: check --server"),
        (as_json({"error": {"message": "no such model"}}, 404), "", "error 404 at /v1/chat/completions: no such model."),
        (Answer(503, (b"<html>",), {"Retry-After": "5"}), "", "{} is not ready: try again in 5 seconds."),
        (as_json({"detail": "broken"}, 500), "", "{} answers with error 500: broken."),
        (as_json({"error": {"message": "Invalid API Key"}}, 401), "", "{} asks for a key: Invalid API Key. Put it"),
        (Answer(307, (), {"Location": "http://elsewhere.example/v1/chat/completions"}), "",
         "{} sends to http://elsewhere.example/v1/chat/completions, which is not followed"),
        (as_json([1, 2]), "", NOTHING),
        (Answer(200), "", NOTHING),
        (Answer(429, (), {"Retry-After": "30"}), "", "{} takes no more requests now: try again in 30 seconds."),
        (Answer(429, (), {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), "", "now: try again later."),
        (as_json({"detail": [{"loc": ["seed"], "msg": "no seed"}]}, 500), "", "{} answers with error 500: no seed."),
        (as_json({"error": {"type": NO_ROOM, "message": "too long", "n_prompt_tokens": -5, "n_ctx": 0}}, 400), "",
         "{} answers with error 400: too long."),
        (as_json({"error": {"type": NO_ROOM, "message": "too long", "n_prompt_tokens": 9, "n_ctx": True}}, 400), "",
         "{} answers with error 400: too long."),
    ],
)  # fmt: skip
def test_bad_answers_are_one_sentence_and_the_next_prompt_works(answer, kept, sentence):
    with serving([answer, GOOD]) as server:
        opened = Opened(server)
        with pytest.raises(SpectuiError) as raised:
            opened.ask()
        said = str(raised.value)
        assert sentence.format(server.url) in said and "\n" not in said and said.isprintable()
        assert opened.text() == kept
        assert opened.ask().text == "Abcd"


PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}, 3, {"text": None}]
OTHERS = {"choices": [{"index": 1, "delta": {"content": "other"}}, {"index": 0, "delta": {"content": "first"}}]}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"choices": [{"delta": {"content": PARTS}}]}, "<think>hm</think>\n\na"),
        ({"choices": [{"delta": {"thinking": "hm", "content": "a"}}]}, "<think>hm</think>\n\na"),
        ({"choices": [{"delta": {"refusal": "I will not."}}]}, "I will not."),
        ({"choices": [{"text": "completed", "index": 0}]}, "completed"),
        (b"data: null\n\n", ""),
        (OTHERS, "first"),
        ({"choices": [{"index": 1, "delta": {"content": "other"}}]}, ""),
        (b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n', "a\ufffdb"),
    ],
    ids=["parts", "thinking", "refusal", "completion", "null", "several", "another one", "no UTF-8"],
)
def test_text_is_found_wherever_a_server_puts_it(row, text):
    with serving(events(row, delta(finish="stop"))) as server:
        assert Opened(server).ask().text == text


@pytest.mark.parametrize("why", ["tool_calls", "content_filter", "abort\x1b[2J"])
def test_a_reply_that_ends_for_another_reason_says_so(why):
    with serving(events(delta("a"), delta(finish=why))) as server:
        (opened := Opened(server)).ask()
    (told,) = opened.notices()
    assert told == f"{server.url} has ended the reply and says why: {why}.".replace("\x1b", "?")


def test_an_answer_without_a_stream_is_read_whole():
    whole = {"choices": [{"message": {"content": "all at once"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 3}}
    with serving(Answer(200, (b'{\n "choices":\n', *as_json(whole).pieces[:0], b' [{"message": {"content": "all\\u001b"},\n',
                              b' "finish_reason": "stop"}]}'))) as server:  # fmt: skip
        assert Opened(server).ask().text == "all"
    with serving(as_json(whole)) as server:
        assert Opened(server).ask().text == "all at once"


def test_a_prompt_without_room_says_how_many_turns_to_drop():
    error = {"code": 400, "type": NO_ROOM, "message": "too long", "n_prompt_tokens": 300, "n_ctx": 256}
    turns = [Message(role, "word " * 20) for _ in range(5) for role in ("user", "assistant")]
    with serving(as_json({"error": error}, 400)) as server:
        opened = Opened(server)
        with pytest.raises(NoRoomError, match="300 tokens and the context holds 256") as raised:
            opened.ask(*turns, *ASKED)
        with pytest.raises(NoRoomError, match=r"shorten the prompt, or restart the server with a larger -c\.$"):
            opened.ask()
    assert raised.value.to_drop == 6  # the rest has half of the room
    sentences = {each.knob: each.sentence for each in opened.loaded.fixed}
    assert sentences["ctx_size"].endswith("at its start: for more room restart the server with a larger -c.")


def test_a_server_that_refuses_a_setting_is_asked_without_it():
    """And one that refuses something else is not: its settings stay."""
    refusal = as_json({"error": {"message": "Unrecognized request argument: seed"}}, 400)
    other = as_json({"error": {"message": "the prompt is not allowed"}}, 400)
    with serving([refusal, GOOD, GOOD, other], v1__models=as_json({"data": [{"id": "m"}]}), props=Answer(404)) as server:
        opened = Opened(server)
        assert opened.ask().text == "Abcd" and opened.ask().text == "Abcd"
        with pytest.raises(SpectuiError, match="the prompt is not allowed"):
            opened.ask()
    first, *others = (set(body) for body in server.bodies())
    assert "temperature" in first and others == [first - {"seed"}] * 3
    (notice,) = opened.notices()
    assert "Unrecognized request argument: seed. It is asked without seed from now on" in notice


@pytest.mark.parametrize(
    ("text", "field"),
    [('{"type": "array"}', {"json_schema": {"type": "array"}}), ('root ::= "a"', {"grammar": 'root ::= "a"'})],
)
def test_what_a_reply_must_obey_is_asked_of_llama_server_alone(text, field):
    terms = Terms(grammar=text)
    refusal = as_json({"error": {"message": "grammar, json_schema and seed are unknown"}}, 400)
    with serving([GOOD, refusal, GOOD]) as server:
        opened = Opened(server)
        assert opened.session.generate(ASKED, terms).text == opened.session.generate(ASKED, terms).text == "Abcd"
    assert [field.items() <= body.items() for body in server.bodies()] == [True] * 3
    with serving([GOOD], v1__models=as_json({"data": [{"id": "m"}]}), props=Answer(404)) as server:
        opened = Opened(server)
        with pytest.raises(SpectuiError, match="ask this server without one"):
            opened.session.generate(ASKED, terms)


def test_a_stall_is_named_and_not_ended():
    said = threading.Event()
    with serving(
        events(delta("a", **timings(1)), lambda: said.wait(120) and None, delta("b", **timings(2)), delta(finish="stop"))
    ) as server:
        opened = Opened(server)
        opened.hook = lambda event: said.set() if isinstance(event, Notice) else None
        assert opened.ask().text == "ab"
    assert opened.notices() == [f"{server.url} has sent nothing for 0 seconds; it is waited for on."]


def test_a_reply_that_is_stopped_keeps_what_came():
    ended = threading.Event()
    with serving(events(delta("a", **timings(1)), lambda: ended.wait(120) and None, delta("b", **timings(2)))) as server:
        opened = Opened(server)
        opened.hook = lambda event: opened.stop.set() if isinstance(event, RoundDone) else None
        finished = opened.ask()
        ended.set()
    assert (finished.text, finished.reason) == ("a", StopReason.CANCELLED)


@pytest.mark.parametrize("known", [True, False], ids=["taken", "an-older-server"])
def test_the_thinking_is_ended_where_the_budget_is_turned_to_0_meanwhile(known: bool):
    ended = threading.Event()
    wait = lambda: (None, ended.wait(60))[0]  # noqa: E731
    control = Answer(200, (b'{"success": true}', lambda: ended.set()), {"Content-Type": "application/json"})
    chat = events(
        delta(reasoning_content="we", id="chat-7"), delta(reasoning_content="ll"), wait, delta("four"), delta(finish="stop")
    )
    with serving(chat, v1__chat__completions__control=control if known else Answer(404)) as server:
        opened = Opened(server)

        def hook(event: Event) -> None:
            if isinstance(event, RoundDone):
                opened.session.knobs = Knobs(seed=1, reasoning_budget=0)
            if isinstance(event, Notice) and "thought" in event.message:
                ended.set()

        opened.hook = hook
        assert opened.ask().text == "<think>well</think>\n\nfour"
    assert [body for path, _, body in server.requests if path.endswith("/control")] == [
        {"id": "chat-7", "action": "reasoning_end", "model": "tiny"}
    ]
    assert server.bodies()[0]["reasoning_control"] is True
    assert [each for each in opened.notices() if "thought" in each] == (
        [] if known else ["This llama-server cannot end a thought: use a newer one."]
    )
