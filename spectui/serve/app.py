"""`spectui serve`: who may ask, the paths of the server, and a reply's way to its client."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from operator import methodcaller
from pathlib import Path
from time import time
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from spectui.engine.events import Event, Failed, ModelInfo
from spectui.engine.protocol import SessionEngine, also
from spectui.engine.requests import Request, Requests, TooManyError
from spectui.errors import SpectuiError
from spectui.serve import asking
from spectui.serve.answer import Answer
from spectui.serve.anthropic import Messages
from spectui.serve.dialects import Chat, Completion, Dialect, LlamaCompletion
from spectui.serve.fields import Asked, BadRequestError, Body, asked, read, rows
from spectui.serve.responses import Responses
from spectui.serve.tools import form_of
from spectui.speculation.statistics import Statistics, total

QUIET_S = 5.0
"""Seconds without news after which a stream says that it waits: clients give up on silence."""

_REMEMBERED = 256
"""Replies whose tokens are known again when a client sends them back."""

Said = Response | dict[str, Any] | list[Any]
"""An answer: JSON, but for a Response."""

LARGEST_BODY = 32 << 20
BODY_S = 30.0
"""Bytes and seconds that a request's body may take."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Access:
    """Who may ask. `host`: the address that is listened on. `key`: what clients must send; "" for nothing. `cors`: the origin
    of web pages that may ask; "" for none."""

    host: str = "127.0.0.1"
    key: str = ""
    cors: str = ""

    def check(self, request: HttpRequest) -> None:
        """Raises BadRequestError."""
        host = re.sub(r":\d*$", "", request.headers.get("host", "")).strip("[]").casefold()
        if self.host in LOOPBACK and host not in (*LOOPBACK, self.host):
            raise BadRequestError("The Host of the request is not this machine.", 403, "permission_error")
        origin = request.headers.get("origin")
        if origin is not None and origin != self.cors:
            raise BadRequestError("Web pages may not ask this server: --cors names the origin of one.", 403, "permission_error")
        given = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key and not hmac.compare_digest(given.encode(), self.key.encode()):
            raise BadRequestError("The key is missing or wrong.", 401, "authentication_error")


class Metrics:
    """What was done since the start, as llama-server names it for Prometheus."""

    def __init__(self) -> None:
        self.started = int(time())
        self.written = Statistics()
        self._read = self._reused = self._longest = 0
        self._read_s = 0.0

    def add(self, ended: Request) -> None:
        """Count a request."""
        self.written = total((self.written, ended.figures))
        if (prompt := ended.prompt) is not None:
            self._read += max(0, prompt.done - prompt.reused)
            self._reused += prompt.reused
            self._read_s += prompt.seconds
            self._longest = max(self._longest, prompt.done + ended.figures.emitted)

    def text(self, processing: int, deferred: int) -> str:
        """Prometheus' text. `processing`, `deferred`: requests that are answered, and that wait."""
        written = self.written
        read_speed = self._read / self._read_s if self._read_s else 0.0
        speed = written.emitted / written.decode_s if written.decode_s else 0.0
        figures: Mapping[str, tuple[str, float, str]] = {
            "prompt_tokens_total": ("counter", self._read, "Tokens of prompts that were read."),
            "prompt_tokens_cached_total": ("counter", self._reused, "Tokens of prompts that had been read before."),
            "prompt_seconds_total": ("counter", self._read_s, "Seconds of reading prompts."),
            "tokens_predicted_total": ("counter", written.emitted, "Tokens written."),
            "tokens_predicted_seconds_total": ("counter", written.decode_s, "Seconds of writing."),
            "n_decode_total": ("counter", written.rounds, "Passes of the target that wrote."),
            "n_tokens_max": ("counter", self._longest, "Most tokens in the context."),
            "spec_decode_num_drafts_total": ("counter", sum(written.reached[:1]), "Drafts."),
            "spec_decode_num_draft_tokens_total": ("counter", written.drafted, "Drafted tokens."),
            "spec_decode_num_accepted_tokens_total": ("counter", written.accepted, "Drafted tokens that were accepted."),
            "prompt_tokens_seconds": ("gauge", read_speed, "Tokens read a second."),
            "predicted_tokens_seconds": ("gauge", speed, "Tokens written a second."),
            "requests_processing": ("gauge", processing, "Requests that are answered."),
            "requests_deferred": ("gauge", deferred, "Requests that wait."),
            "n_busy_slots_per_decode": ("gauge", min(1, written.rounds), "Replies that a pass writes on."),
        }
        return "".join(
            f"# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}\n"
            for name, (kind, value, help) in figures.items()
        )


class Server:
    """Answers with one engine's models."""

    def __init__(self, requests: Requests, engine: SessionEngine, target: ModelInfo, access: Access, name: str = "") -> None:
        """`engine`: has loaded this target. `name`: what the model is called; "": as its file."""
        self.requests, self._target, self._engine, self._access = requests, target, engine, access
        self.name = name or Path(self._target.path).stem
        self._template, self._marks = engine.call(asking.about).result()
        self.form = form_of(self._template)
        self._written: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self.metrics = Metrics()
        requests.ended = also(requests.ended, self.metrics.add)
        cors = Middleware(
            CORSMiddleware,
            allow_origins=[access.cors],
            allow_methods=["GET", "POST", "DELETE", "OPTIONS"],
            allow_headers=["*"],
            allow_credentials=True,
        )
        self.app = Starlette(
            routes=self._routes(),
            middleware=[cors] if access.cors else [],
            exception_handlers={SpectuiError: _refuse, HTTPException: _refuse},
        )

    def _routes(self) -> list[Route]:
        gets: Mapping[str, Callable[[HttpRequest, Body], Said]] = {
            "/models": self._models, "/models/{name:path}": lambda *_: self._models()["data"][0], "/props": self._props,
            "/slots": self._slots, "/metrics": self._metrics, "/health": lambda *_: {"status": "ok"},
        }  # fmt: skip
        posts: Mapping[str, Callable[[HttpRequest, Body], Awaitable[Said]]] = {
            "/chat/completions": partial(self._answer, Chat), "/completions": partial(self._answer, Completion),
            "/messages": partial(self._answer, Messages), "/responses": partial(self._answer, Responses),
            "/completion": partial(self._answer, LlamaCompletion), "/infill": self._infill,
            "/messages/count_tokens": partial(self._count, Messages),
            "/chat/completions/input_tokens": partial(self._count, Chat),
            "/tokenize": self._tokenize, "/detokenize": self._detokenize, "/apply-template": self._apply,
        }  # fmt: skip
        return [
            Route(prefix + path, self._checked(answer, method), methods=[method])
            for method, answers in (("GET", gets), ("POST", posts))
            for path, answer in answers.items()
            for prefix in ("", "/v1")
        ]

    def _checked(self, answer: Callable[[HttpRequest, Body], Any], method: str) -> Callable[[HttpRequest], Awaitable[Response]]:
        """The endpoint of a path: who may ask is asked first."""

        async def endpoint(http: HttpRequest) -> Response:
            if http.url.path not in ("/health", "/v1/health"):
                self._access.check(http)
            said = answer(http, await _body_of(http) if method == "POST" else {})
            said = await said if isawaitable(said) else said
            return said if isinstance(said, Response) else JSONResponse(said)

        return endpoint

    # Replies

    def _asked(self, kind: type[Dialect], body: Body) -> Asked:
        return asked(kind.as_chat(body), self.form, self._written, kind.raw)

    async def _answer(self, kind: type[Dialect], http: HttpRequest, body: Body) -> Response:
        """Put what is asked into the queue, and answer with what comes, in this dialect."""
        loop, events, asked = asyncio.get_running_loop(), asyncio.Queue[Event](), self._asked(kind, body)
        agent = http.headers.get("user-agent", "").partition(" ")[0] or (http.client.host if http.client else "")
        answer = Answer(self.form, asked.tools, self._marks)
        dialect = kind(body, self.name, answer)

        def listen(event: Event) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        request = Request(asked.messages, listen, agent[:40], asked.terms, asked.knobs)
        try:
            self.requests.submit(request)
        except TooManyError as error:
            raise BadRequestError(str(error), 503, "unavailable_error") from None
        first = await _next(events)
        if isinstance(first, Failed):  # what fails at once is answered with a status of its own
            raise BadRequestError.of(first)
        pieces = self._streamed(dialect, events, first)
        if asked.stream:
            gone = BackgroundTask(self.requests.cancel, request)  # at the end, and when the client has closed its socket
            return StreamingResponse(pieces, 200, {"cache-control": "no-cache"}, "text/event-stream", gone)
        async for _ in pieces:
            if await http.is_disconnected():
                self.requests.cancel(request)
        if isinstance(answer.ended, Failed):
            raise BadRequestError.of(answer.ended)
        return JSONResponse(dialect.whole())

    async def _streamed(self, dialect: Dialect, events: asyncio.Queue[Event], event: Event | None) -> AsyncIterator[str]:
        while dialect.answer.ended is None:
            yield "".join(dialect.stream(event)) if event is not None else ": waiting\n\n"
            event = await _next(events) if dialect.answer.ended is None else None
        self._remember(dialect.answer)

    def _remember(self, answer: Answer) -> None:
        """The reply has ended: its tokens are known again when it comes back."""
        if text := answer.text():
            self._written[text] = tuple(token.id for token, _ in answer.tokens)
            if len(self._written) > _REMEMBERED:
                self._written.popitem(last=False)

    async def _infill(self, http: HttpRequest, body: Body) -> Response:
        texts = [read(body, name, str, "") for name in ("input_prefix", "input_suffix", "prompt")]
        others = [(read(file, "filename", str, ""), read(file, "text", str, "")) for file in rows(body, "input_extra")]
        if not all("text" in file for file in rows(body, "input_extra")):
            raise BadRequestError("text is missing in a file of input_extra.")
        tokens = await self._call(asking.infill, *texts, others, self._target.n_ctx)
        # llama.vim names samplers that only shape what is filled in.
        return await self._answer(LlamaCompletion, http, {**body, "prompt": tokens, "samplers": None})

    # What else can be asked

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns, called with the engine's session between two passes."""
        future: Future[Any] = self._engine.ask(function, *arguments)
        return await asyncio.wrap_future(future)

    async def _count(self, kind: type[Dialect], http: HttpRequest, body: Body) -> Said:
        return {"input_tokens": len(await self._prompt(kind, body))}

    async def _apply(self, http: HttpRequest, body: Body) -> Said:
        return {"prompt": await self._text(await self._prompt(Chat, body))}

    async def _prompt(self, kind: type[Dialect], body: Body) -> list[int]:
        asked = self._asked(kind, body)
        prompt, begun = await self._call(methodcaller("prompt", asked.messages, asked.terms))
        return [*prompt, *begun]

    async def _text(self, tokens: Sequence[int]) -> str:
        return b"".join(await self._call(asking.pieces, tokens)).decode("utf-8", "replace")

    async def _tokenize(self, http: HttpRequest, body: Body) -> Said:
        text, special = read(body, "content", str, ""), read(body, "parse_special", bool, True)
        tokens = await self._call(asking.tokens, text, special, read(body, "add_special", bool, False))
        if not read(body, "with_pieces", bool, False):
            return {"tokens": tokens}
        named = zip(tokens, await self._call(asking.pieces, tokens), strict=True)
        return {"tokens": [{"id": token, "piece": _piece(piece)} for token, piece in named]}

    async def _detokenize(self, http: HttpRequest, body: Body) -> Said:
        tokens = read(body, "tokens", list, [])
        if not all(isinstance(token, int) for token in tokens):
            raise BadRequestError("tokens is a list of whole numbers.")
        return {"content": await self._text(tokens)}

    def _models(self, *_: Any) -> dict[str, Any]:
        target = self._target
        meta = {
            "n_ctx": target.n_ctx, "n_ctx_train": target.trained_ctx, "n_vocab": target.n_vocab,
            "n_params": target.parameters, "size": target.bytes,
        }  # fmt: skip
        row = {"id": self.name, "object": "model", "created": 0, "owned_by": "spectui", "meta": meta}
        return {"object": "list", "data": [row], "models": [{"name": self.name, "model": self.name}]}

    def _props(self, *_: Any) -> Said:
        tools = self.form.name if self.form is not None else "The template has no form of calls that is read back."
        return {
            "default_generation_settings": {"n_ctx": self._target.n_ctx}, "total_slots": 1, "build_info": "spectui",
            "model_path": self._target.path, "model_alias": self.name, "chat_template": self._template, "tools": tools,
            "endpoint_metrics": True, "endpoint_slots": True, "modalities": {"vision": False, "audio": False},
        }  # fmt: skip

    def _slots(self, *_: Any) -> Said:
        running, drafts = self.requests.running, self.requests.knobs.drafter != "off"
        slot = {"id": 0, "n_ctx": self._target.n_ctx, "speculative": drafts, "is_processing": running is not None}
        own = {"client": running.client, "params": {"speculative.types": ["spectui"]}} if running is not None else {}
        return [slot | own]

    def _metrics(self, *_: Any) -> Said:
        text = self.metrics.text(int(self.requests.running is not None), len(self.requests.waiting))
        return PlainTextResponse(text, headers={"Process-Start-Time-Unix": str(self.metrics.started)})


async def _body_of(request: HttpRequest) -> Body:
    """The request's object. Raises BadRequestError."""
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.stream():
                data.extend(piece)
                if len(data) > LARGEST_BODY:
                    raise BadRequestError(f"The body is larger than {LARGEST_BODY >> 20} MiB.", 413)
        body = json.loads(data or b"{}")
    except TimeoutError:
        raise BadRequestError("The body took too long to come.", 408) from None
    except (ValueError, RecursionError):
        raise BadRequestError("The body is no JSON.") from None
    if not isinstance(body, dict):
        raise BadRequestError("The body is a JSON object.")
    return body


async def _next(events: asyncio.Queue[Event]) -> Event | None:
    """The next event; None if none comes for long."""
    try:
        return await asyncio.wait_for(events.get(), QUIET_S)
    except TimeoutError:
        return None


def _piece(piece: bytes) -> str | list[int]:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


async def _refuse(http: HttpRequest, error: Exception) -> Response:
    """What is answered where a request is wrong: a path, a grammar, a template too."""
    if isinstance(error, HTTPException):
        error = BadRequestError("This server has no such path.", error.status_code, "not_found_error")
    refused = error if isinstance(error, BadRequestError) else BadRequestError(str(error))
    kind = Messages if "/messages" in http.url.path else Chat
    return JSONResponse(kind.refusal(refused), refused.status)
