"""llama.cpp's own server, where it is built: what it makes of a conversation is what spectui must make of it."""

import json
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.error import URLError

import pytest

from tests.helpers import smollm2
from tests.helpers.peers import BIN, NOT_THERE

PROGRAM = BIN / "llama-server"

needs_llama_server = pytest.mark.skipif(not PROGRAM.exists(), reason=NOT_THERE)

_PATIENCE_S = 120.0


class LlamaServer:
    """A running server."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.process = process

    def prompt(self, messages: Sequence[tuple[str, str]]) -> str:
        """The text of its prompt for these (role, content) messages."""
        rows = [{"role": role, "content": content} for role, content in messages]
        return str(self._ask("/apply-template", {"messages": rows})["prompt"])

    def tokens(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """The tokens of that prompt, as its chat endpoint makes them."""
        found = self._ask("/tokenize", {"content": self.prompt(messages), "add_special": True, "parse_special": True})
        return [int(token) for token in found["tokens"]]

    def complete(self, prompt: str, **options: Any) -> dict[str, Any]:
        """Its answer to a prompt for the bare model, with the timings of speculation."""
        return self._ask("/completion", {"prompt": prompt, **options})

    def models(self) -> list[dict[str, Any]]:
        """The models that a server with several offers."""
        with urllib.request.urlopen(f"{self.address}/models", timeout=_PATIENCE_S) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]
            return found

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def is_ready(self) -> bool:
        """Has it loaded its model?"""
        try:
            with urllib.request.urlopen(f"{self.address}/health", timeout=_PATIENCE_S):
                return True
        except (URLError, OSError):
            return False


@contextmanager
def llama_server(model: Path) -> Iterator[LlamaServer]:
    """A server with this model."""
    with serving(["-m", str(model), "--port", "${PORT}", "-c", "256", "-t", "1", "--no-warmup", "-fit", "off"]) as server:
        yield server


def serving(arguments: Sequence[str]) -> AbstractContextManager[LlamaServer]:
    """A server with these arguments, in which ${PORT} stands for a free port."""
    return started([str(PROGRAM), *arguments])


@contextmanager
def started(
    command: Sequence[str], end: signal.Signals = signal.SIGKILL, env: Mapping[str, str] | None = None
) -> Iterator[LlamaServer]:
    """A server that is started with this command, in which ${PORT} stands for a free port, and answers. `end`: ends it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [word.replace("${PORT}", str(port)) for word in command]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    server = LlamaServer(port, process)
    given_up = monotonic() + _PATIENCE_S
    try:
        while not server.is_ready():
            with suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"{command[0]} ended with {process.wait(0.05)}")
            assert monotonic() < given_up, f"{command[0]} does not answer"
        yield server
    finally:
        process.send_signal(end)
        process.wait()


QUESTION = "Repeat this sentence ten times: The quick brown fox jumps over the lazy dog near the river bank."

SHARED = ("-c", "1024", "-t", "1", "--no-warmup", "-fit", "off", "--parallel", "1", "--metrics")

KINDS: dict[str, Callable[[], tuple[str | None, ...]]] = {
    "draft-simple": lambda: ("-md", smollm2.whole().draft, "--spec-type", "draft-simple", "--spec-draft-n-max", "6"),
    "ngram-mod": lambda: ("--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", "4", "--spec-ngram-mod-n-min", "2"),
    "": lambda: (),
}
"""Name -> flags; "" has none."""

MORE: dict[str, Callable[[], tuple[str | None, ...]]] = {
    "ngram-simple": lambda: (
        "--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4", "--spec-ngram-simple-size-m", "8",
    ),
    "ngram-map-k": lambda: (
        "--spec-type", "ngram-map-k", "--spec-ngram-map-k-size-n", "4", "--spec-ngram-map-k-size-m", "8",
    ),
    "ngram-cache": lambda: ("--spec-type", "ngram-cache"),
    "draft-simple + ngram-mod": lambda: (
        "-md", smollm2.whole().draft, "--spec-type", "draft-simple,ngram-mod", "--spec-ngram-mod-n-match", "4",
        "--spec-ngram-mod-n-min", "2",
    ),
}  # fmt: skip
"""The same of kinds whose streams are not recorded."""
