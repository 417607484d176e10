"""A server that answers as a test says, over real connections."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

LISTED = {"data": [{"id": "tiny", "owned_by": "llamacpp", "meta": {"n_ctx": 256, "n_params": 1000, "size": 2000}}]}
PROPS = {"default_generation_settings": {"n_ctx": 256}, "build_info": "b1-test", "total_slots": 1}


class Answer(NamedTuple):
    """`pieces`: what is sent one after the other; one that is callable is called and sent if it gives bytes. With `cut` the
    connection ends before the announced end."""

    status: int = 200
    pieces: Sequence[bytes | Callable[[], bytes | None]] = ()
    headers: dict[str, str] = {}  # noqa: RUF012
    cut: bool = False


def as_json(table: Any, status: int = 200) -> Answer:
    """An answer with an object."""
    return Answer(status, (json.dumps(table).encode(),), {"Content-Type": "application/json"})


def events(*rows: Any, done: bool = True, cut: bool = False) -> Answer:
    """An answer with a stream of objects, or of bytes as they are."""
    pieces = [
        row if isinstance(row, bytes) or callable(row) else b"data: " + json.dumps(row).encode() + b"\n\n" for row in rows
    ]
    return Answer(200, (*pieces, *([b"data: [DONE]\n\n"] if done else [])), {"Content-Type": "text/event-stream"}, cut)


def delta(text: str | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk; what begins with `reasoning` stands beside its text."""
    inner = {key: more.pop(key) for key in list(more) if key.startswith("reasoning")}
    if text is not None:
        inner["content"] = text
    return {"choices": [{"delta": inner, "finish_reason": finish}], **more}


def timings(predicted: int, drafted: int = 0, accepted: int = 0, ms: float = 0.0, prompt: int = 7) -> dict[str, Any]:
    """llama-server's counters."""
    drafts = {"draft_n": drafted, "draft_n_accepted": accepted} if drafted else {}
    return {"timings": {"cache_n": 0, "prompt_n": prompt, "prompt_ms": 50.0, "predicted_n": predicted, "predicted_ms": ms,
                        **drafts}}  # fmt: skip


class ScriptedServer:
    """`answers`: by path, in order; the last is given again and again. `requests`: (path, headers, body)."""

    def __init__(self, answers: dict[str, list[Answer]]) -> None:
        self.answers = answers
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.url = ""

    def bodies(self) -> list[Any]:
        """The bodies that were sent to the chat."""
        return [body for path, _, body in self.requests if path.endswith("/chat/completions")]


@contextmanager
def serving(chat: Answer | Iterable[Answer], **paths: Answer | list[Answer]) -> Iterator[ScriptedServer]:
    """A server whose chat gives these answers, and llama-server's facts unless `paths` (with _ for /) say otherwise."""
    answers: dict[str, list[Answer]] = {"/v1/models": [as_json(LISTED)], "/props": [as_json(PROPS)]}
    answers["/v1/chat/completions"] = [chat] if isinstance(chat, Answer) else list(chat)
    for name, answer in paths.items():
        path = "/" + name.replace("__", "/")
        answers[path] = answer if isinstance(answer, list) else [answer]
    server = ScriptedServer(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._answer(json.loads(data))

        def _answer(self, body: Any) -> None:
            path = self.path.partition("?")[0]
            server.requests.append((path, {key.lower(): value for key, value in self.headers.items()}, body))
            left = server.answers.get(path, [Answer(404)])
            answer = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(answer.status)
            for key, value in answer.headers.items():
                self.send_header(key, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):
                for piece in answer.pieces:
                    data = piece() if callable(piece) else piece
                    if data:
                        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                        self.wfile.flush()
                if not answer.cut:
                    self.wfile.write(b"0\r\n\r\n")
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
