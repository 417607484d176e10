"""`spectui serve`: the paths of the server, who may use them, and a reply's way to its client."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from spectui.engine.events import Event, Failed, Loaded, Prompt, RoundDone
from spectui.engine.protocol import SessionEngine
from spectui.engine.requests import Request, Requests, TooManyError
from spectui.errors import SpectuiError
from spectui.serve import anthropic, asking, fields, responses
from spectui.serve.answer import Answer
from spectui.serve.dialects import Chat, Completion, Dialect, LlamaCompletion
from spectui.serve.fields import Asked, BadRequestError, Body, read
from spectui.serve.http import Access, Stream, body_of, closed
from spectui.serve.tools import Delta, form_of
from spectui.speculation.statistics import Statistics

QUIET_S = 5.0
"""Seconds without news after which a stream says that it waits: clients give up on silence."""

_REMEMBERED = 256
"""Replies whose tokens are known again when a client sends them back."""

Handler = Callable[[HttpRequest], Awaitable[Response]]


class Server:
    """Answers with one engine's models."""

    def __init__(
        self,
        requests: Requests,
        engine: SessionEngine,
        loaded: Loaded,
        access: Access,
        name: str = "",
        tell: Callable[[Request, Answer], None] = lambda request, answer: None,
    ) -> None:
        """`engine`: has loaded these models. `name`: what the model is called; "": as its file. `tell`: of each reply's end."""
        self.requests, self.loaded, self._engine, self._access, self._tell = requests, loaded, engine, access, tell
        self.name = name or Path(loaded.target.path).stem
        found = engine.call(asking.about).result()
        self._template, self._marks, self.form = found.template, found.marks, form_of(found.template)
        self._written: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self.total = Statistics()
        self.counts = dict.fromkeys(("read", "reused", "read_s", "longest"), 0.0)
        self._started = int(time())
        self.app = Starlette(routes=self._routes(), exception_handlers={HTTPException: _not_found})

    def _routes(self) -> list[Route]:
        gets: Mapping[str, Callable[[], Any]] = {
            "/models": self._models, "/props": self._props, "/slots": self._slots,
            "/health": lambda: {"status": "ok"}, "/metrics": self._metrics,
            "/models/{name:path}": lambda: self._models()["data"][0],
        }  # fmt: skip
        posts: Mapping[str, Callable[[HttpRequest, Body], Awaitable[Response]]] = {
            "/chat/completions": self._chat, "/messages": self._messages, "/responses": self._responses,
            "/messages/count_tokens": self._count, "/completion": self._completion, "/infill": self._infill,
            "/completions": self._completion, "/tokenize": self._tokenize, "/detokenize": self._detokenize,
            "/apply-template": self._apply, "/chat/completions/input_tokens": self._count,
        }  # fmt: skip
        routes: list[Route] = []
        for prefix in ("", "/v1"):
            routes += [Route(prefix + path, self._guarded(_told(tell)), methods=["GET"]) for path, tell in gets.items()]
            routes += [
                Route(prefix + path, self._guarded(self._posted(answer)), methods=["POST", "OPTIONS"])
                for path, answer in posts.items()
            ]
        return routes

    def _guarded(self, handler: Handler) -> Handler:
        """The handler behind the checks. What it refuses is answered as an error."""

        async def answered(request: HttpRequest) -> Response:
            try:
                if request.method == "OPTIONS" and self._access.cors:
                    response: Response = PlainTextResponse("")
                else:
                    if request.url.path.removeprefix("/v1") != "/health":
                        self._access.check(request)
                    response = await handler(request)
            except BadRequestError as error:
                form = anthropic.error if "/messages" in request.url.path else _error
                response = JSONResponse(form(error), error.status)
            if self._access.cors:
                response.headers["access-control-allow-origin"] = self._access.cors
                response.headers["access-control-allow-headers"] = "*"
                response.headers["access-control-allow-methods"] = "GET, POST, DELETE, OPTIONS"
                response.headers["access-control-allow-credentials"] = "true"
            return response

        return answered

    def _posted(self, answer: Callable[[HttpRequest, Body], Awaitable[Response]]) -> Handler:
        async def read_and_answered(request: HttpRequest) -> Response:
            try:
                return await answer(request, await body_of(request))
            except BadRequestError:
                raise
            except SpectuiError as error:  # a grammar, a template
                raise BadRequestError(str(error)) from error

        return read_and_answered

    async def _chat(self, request: HttpRequest, body: Body) -> Response:
        return await self._answer(request, Chat(body, self.name), self._choices(body, self._asked(body)))

    async def _messages(self, request: HttpRequest, body: Body) -> Response:
        return await self._answer(request, anthropic.Messages(body, self.name), [self._asked(anthropic.as_chat(body))])

    async def _responses(self, request: HttpRequest, body: Body) -> Response:
        return await self._answer(request, responses.Responses(body, self.name), [self._asked(responses.as_chat(body))])

    async def _completion(self, request: HttpRequest, body: Body) -> Response:
        kind = Completion if request.url.path == "/v1/completions" else LlamaCompletion
        prompt = body.get("prompt")
        if isinstance(prompt, list) and {int, str} == set(map(type, prompt)):
            body = {**body, "prompt": await self._call(asking.joined, prompt)}
        asked = [choice for one in fields.completions(body, _grammar) for choice in self._choices(body, one)]
        return await self._answer(request, kind(body, self.name), asked)

    async def _infill(self, request: HttpRequest, body: Body) -> Response:
        texts = [read(body, name, str, "") for name in ("input_prefix", "input_suffix", "prompt")]
        others = [
            (read(file, "filename", str, ""), fields.needed(file, "text", str)) for file in fields.rows(body, "input_extra")
        ]
        tokens = await self._call(asking.infill, *texts, others, self.loaded.target.n_ctx)
        asked = fields.completions({**body, "prompt": tokens}, _grammar)
        return await self._answer(request, LlamaCompletion(body, self.name), asked)

    def _choices(self, body: Body, asked: Asked) -> list[Asked]:
        """The same `n` times, with seeds that follow each other."""
        seed = asked.knobs.get("seed", self.requests.knobs.seed)
        seeds = [{} if seed < 0 else {"seed": (seed + index) & 0xFFFFFFFF} for index in range(max(1, read(body, "n", int, 1)))]
        return [replace(asked, knobs={**asked.knobs, **own}) for own in seeds]

    async def _count(self, request: HttpRequest, body: Body) -> Response:
        asked = self._asked(anthropic.as_chat(body) if "/messages" in request.url.path else body)
        return JSONResponse({"input_tokens": len(await self._call(asking.prompt, asked.messages, asked.terms))})

    async def _apply(self, request: HttpRequest, body: Body) -> Response:
        asked = self._asked(body)
        return JSONResponse({"prompt": await self._call(asking.prompt_text, asked.messages, asked.terms)})

    async def _tokenize(self, request: HttpRequest, body: Body) -> Response:
        text, special = read(body, "content", str, ""), read(body, "parse_special", bool, True)
        tokens = await self._call(asking.tokens, text, special, read(body, "add_special", bool, False))
        if not read(body, "with_pieces", bool, False):
            return JSONResponse({"tokens": tokens})
        named = zip(tokens, await self._call(asking.pieces, tokens), strict=True)
        return JSONResponse({"tokens": [{"id": token, "piece": _piece(piece)} for token, piece in named]})

    async def _detokenize(self, request: HttpRequest, body: Body) -> Response:
        tokens = read(body, "tokens", list, [])
        if not all(isinstance(token, int) for token in tokens):
            raise BadRequestError("tokens is a list of whole numbers.")
        return JSONResponse({"content": b"".join(await self._call(asking.pieces, tokens)).decode("utf-8", "replace")})

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns, called with the engine's session: behind the reply that is being written."""
        future: Future[Any] = self._engine.call(function, *arguments)
        return await asyncio.wrap_future(future)

    def _asked(self, body: Body) -> Asked:
        return fields.chat(body, self.form, lambda text: self._written.get(text, ()), _grammar)

    async def _answer(self, http: HttpRequest, dialect: Dialect, asked: Sequence[Asked]) -> Response:
        """Put it into the queue, and answer with what comes."""
        if len(asked) > 1 and asked[0].stream:
            raise BadRequestError("Several prompts, or several choices, are not streamed: ask for one, or without stream.")
        begun: list[tuple[Request, Answer, asyncio.Queue[Event]]] = []

        def cancel() -> None:
            for request, _, _ in begun:
                self.requests.cancel(request)

        watch = asyncio.create_task(closed(http.receive, cancel))
        try:
            for one in asked:
                begun.append(self._submitted(http, one))
            if asked[0].stream:  # what fails at once is answered with a status of its own
                first = await _next(begun[0][2])
                if isinstance(first, Failed):
                    raise self._refusal(first)
                return Stream(self._streamed(*begun[0][:2], dialect, begun[0][2], first), cancel)
            for request, answer, events in begun:
                while answer.ended is None:
                    self._take(request, answer, await events.get())
                if isinstance(answer.ended, Failed):
                    raise self._refusal(answer.ended)
        except (asyncio.CancelledError, BadRequestError):
            cancel()
            raise
        finally:
            watch.cancel()
        answers = [answer for _, answer, _ in begun]
        return JSONResponse(dialect.whole(answers[0]) if len(answers) == 1 else dialect.several(answers))

    def _submitted(self, http: HttpRequest, asked: Asked) -> tuple[Request, Answer, asyncio.Queue[Event]]:
        """A request that waits, and what it will bring. Raises BadRequestError."""
        loop, events = asyncio.get_running_loop(), asyncio.Queue[Event]()

        def listen(event: Event) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        agent = http.headers.get("user-agent", "").partition(" ")[0] or (http.client.host if http.client else "")
        request = Request(asked.messages, listen, agent[:40], asked.terms, asked.knobs)
        try:
            self.requests.submit(request)
        except TooManyError as error:
            raise BadRequestError(str(error), 503, "unavailable_error") from None
        return request, Answer(self.form, asked.tools, self._marks), events

    async def _streamed(
        self, request: Request, answer: Answer, dialect: Dialect, events: asyncio.Queue[Event], event: Event | None
    ) -> AsyncIterator[str]:
        begun = False
        while True:
            if event is None:
                yield ": waiting\n\n"
            elif isinstance(event, Prompt):
                self._take(request, answer, event)
                if not begun:
                    begun = True
                    for piece in dialect.begin(answer):
                        yield piece
                yield dialect.progress(answer, event)
            elif isinstance(event, Failed):
                self._take(request, answer, event)
                yield dialect.error(_error(self._refusal(event))["error"])
                return
            else:
                for piece in self._pieces(request, dialect, answer, event):
                    yield piece
            if answer.ended is not None:
                for piece in dialect.end(answer):
                    yield piece
                yield dialect.done
                return
            event = await _next(events)

    def _pieces(self, request: Request, dialect: Dialect, answer: Answer, event: Event) -> list[str]:
        """What a round, or the end, adds to a stream."""
        new = self._take(request, answer, event)
        if not dialect.by_token:
            new = [(range(new[0][0].start, new[-1][0].stop), [delta for _, deltas in new for delta in deltas])] if new else []
        shown = [(at, deltas) for at, deltas in new if deltas or (at and dialect.by_token)]
        return [piece for at, deltas in shown for piece in dialect.piece(answer, at, deltas)]

    def _take(self, request: Request, answer: Answer, event: Event) -> list[tuple[range, list[Delta]]]:
        if isinstance(event, RoundDone):
            self.total.add(event.round)
        new = list(answer.take(event))
        if answer.ended is not None:
            self._tell(request, answer)
            timings, counts = answer.figures()["timings"], self.counts
            counts["read"] += timings["prompt_n"]
            counts["reused"] += timings["cache_n"]
            counts["read_s"] += timings["prompt_ms"] / 1000
            counts["longest"] = max(counts["longest"], answer.read[0] + len(answer.tokens))
            if text := answer.text():
                self._written[text] = tuple(token.id for token in answer.tokens)
                if len(self._written) > _REMEMBERED:
                    self._written.popitem(last=False)
        return new

    def _refusal(self, failed: Failed) -> BadRequestError:
        if failed.no_room:
            numbers = {"n_prompt_tokens": failed.tokens, "n_ctx": self.loaded.target.n_ctx}
            return BadRequestError(failed.message, 400, "exceed_context_size_error", **numbers)
        return BadRequestError(failed.message) if failed.refused else BadRequestError(failed.message, 500, "server_error")

    def _models(self) -> dict[str, Any]:
        target = self.loaded.target
        meta = {
            "n_ctx": target.n_ctx, "n_ctx_train": target.trained_ctx, "n_vocab": target.n_vocab,
            "n_params": target.parameters, "size": target.bytes,
        }  # fmt: skip
        row = {"id": self.name, "object": "model", "created": 0, "owned_by": "spectui", "aliases": [], "tags": [], "meta": meta}
        return {"object": "list", "data": [row], "models": [{"name": self.name, "model": self.name}]}

    def _props(self) -> dict[str, Any]:
        tools = self.form.name if self.form is not None else "The template has no form of calls that is read back."
        settings = {"n_ctx": self.loaded.target.n_ctx, "params": fields.settings({}, self.requests.knobs)}
        return {
            "default_generation_settings": settings, "total_slots": 1, "model_path": self.loaded.target.path,
            "model_alias": self.name, "chat_template": self._template, "tools": tools, "endpoint_metrics": True,
            "endpoint_slots": True, "modalities": {"vision": False, "audio": False}, "build_info": "spectui",
        }  # fmt: skip

    def _slots(self) -> list[dict[str, Any]]:
        running, drafts = self.requests.running, self.requests.knobs.drafter != "off"
        slot: dict[str, Any] = {
            "id": 0,
            "n_ctx": self.loaded.target.n_ctx,
            "speculative": drafts,
            "is_processing": running is not None,
        }
        if running is not None:
            slot |= {"client": running.client, "params": {"speculative.types": ["spectui"]}}
        return [slot]

    def _metrics(self) -> Response:
        total, counts = self.total, self.counts
        speeds = [
            tokens / seconds if seconds else 0.0
            for tokens, seconds in ((counts["read"], counts["read_s"]), (total.emitted, total.decode_s))
        ]
        figures: Mapping[str, tuple[str, float, str]] = {
            "prompt_tokens_total": ("counter", counts["read"], "Tokens of prompts that were read."),
            "prompt_tokens_cached_total": ("counter", counts["reused"], "Tokens of prompts that had been read before."),
            "prompt_seconds_total": ("counter", counts["read_s"], "Seconds of reading prompts."),
            "tokens_predicted_total": ("counter", total.emitted, "Tokens written."),
            "tokens_predicted_seconds_total": ("counter", total.decode_s, "Seconds of writing."),
            "n_decode_total": ("counter", total.rounds, "Passes of the target that wrote."),
            "n_tokens_max": ("counter", counts["longest"], "Most tokens in the context."),
            "spec_decode_num_drafts_total": ("counter", sum(total.reached[:1]), "Drafts."),
            "spec_decode_num_draft_tokens_total": ("counter", total.drafted, "Drafted tokens."),
            "spec_decode_num_accepted_tokens_total": ("counter", total.accepted, "Drafted tokens that were accepted."),
            "prompt_tokens_seconds": ("gauge", speeds[0], "Tokens read a second."),
            "predicted_tokens_seconds": ("gauge", speeds[1], "Tokens written a second."),
            "requests_processing": ("gauge", int(self.requests.running is not None), "Requests that are answered."),
            "requests_deferred": ("gauge", len(self.requests.waiting), "Requests that wait."),
            "n_busy_slots_per_decode": ("gauge", min(1, total.rounds), "Replies that a pass writes on."),
        }
        said = "".join(
            f"# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}\n"
            for name, (kind, value, help) in figures.items()
        )
        return PlainTextResponse(said, headers={"Process-Start-Time-Unix": str(self._started)})


async def _next(events: asyncio.Queue[Event]) -> Event | None:
    """The next event; None if none comes for long."""
    try:
        return await asyncio.wait_for(events.get(), QUIET_S)
    except TimeoutError:
        return None


def _told(tell: Callable[[], Any]) -> Handler:
    async def told(request: HttpRequest) -> Response:
        said = tell()
        return said if isinstance(said, Response) else JSONResponse(said)

    return told


def _grammar(schema: str) -> str:
    from spectui.llama.grammar import of_schema

    return of_schema(schema)


def _piece(piece: bytes) -> str | list[int]:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


def _error(error: BadRequestError) -> dict[str, Any]:
    return {"error": {"code": error.status, "message": str(error), "type": error.kind, **error.others}}


async def _not_found(request: HttpRequest, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return JSONResponse(_error(BadRequestError("This server has no such path.", status, "not_found_error")), status)
