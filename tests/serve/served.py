"""A server on the real pair, on a port of this machine, and what a client sends it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from operator import methodcaller
from typing import Any

import httpx2
import uvicorn

from spectui.engine.protocol import SessionEngine
from spectui.engine.requests import Requests
from spectui.engine.worker import Worker
from spectui.knobs import Knobs, Setup
from spectui.serve.app import Access, Server
from tests.engine.waiting import PATIENCE

LOCAL = Access()
KNOBS = Knobs(temperature=0.0, predict=24)


class Client(httpx2.Client):
    """Asks the server."""

    server: Server

    def ask(self, path: str, **body: Any) -> Any:
        """The body of an answer."""
        return self.post(path, json=body).json()

    def chat(self, content: str, **body: Any) -> Any:
        """A chat completion's choice."""
        said = self.ask("/v1/chat/completions", messages=[{"role": "user", "content": content}], **body)
        return said["choices"][0] if "choices" in said else said

    def events(self, path: str, **body: Any) -> list[dict[str, Any]]:
        """The events of a stream."""
        with self.stream("POST", path, json={**body, "stream": True}) as answer:
            lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


@contextmanager
def serving(
    setup: Setup, access: Access = LOCAL, knobs: Knobs = KNOBS, engine: SessionEngine | None = None
) -> Iterator[Client]:
    """A client of a server that runs. `engine`: None for one in this process."""
    engine = engine or Worker(knobs)
    loaded = engine.call(methodcaller("load", setup)).result(PATIENCE)
    requests = Requests(engine)
    server = Server(requests, engine, loaded.target, access)
    listening = socket.create_server(("127.0.0.1", 0))
    http = uvicorn.Server(uvicorn.Config(server.app, lifespan="off", log_level="critical"))
    thread = threading.Thread(target=http.run, args=([listening],))
    thread.start()
    try:
        with Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=PATIENCE) as client:
            client.server = server
            yield client
    finally:
        http.should_exit = True
        thread.join()
        requests.close()
        engine.close()


def until(holds: Any) -> None:
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
