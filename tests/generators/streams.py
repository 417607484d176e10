"""Records what llama-server streams, for tests on machines without it: `python -m tests.generators.streams`.

It needs the built llama-server of tests/helpers/llama_server.py, and the demo pair.
"""

import json
import os
import re
import urllib.request
from pathlib import Path

from spectui import paths
from tests.helpers import smollm2
from tests.helpers.llama_server import KINDS, QUESTION, SHARED, serving

RECORDED = Path(__file__).parents[1] / "attach" / "recorded"

BODY = {
    "messages": [{"role": "user", "content": f"{QUESTION} \N{SNOWMAN}"}],
    "stream": True, "stream_options": {"include_usage": True}, "timings_per_token": True, "return_progress": True,
    "temperature": 0.0, "max_tokens": 60,
}  # fmt: skip


def record(name: str, arguments: list[str]) -> None:
    """Write the stream of one kind of speculation, and below it what the server has counted by itself."""
    model = str(smollm2.whole().model)
    with serving(["-m", model, "--port", "${PORT}", *SHARED, *arguments]) as server:
        request = urllib.request.Request(f"{server.address}/v1/chat/completions", json.dumps(BODY).encode())
        with urllib.request.urlopen(request) as answer:
            stream = answer.read().decode()
        with urllib.request.urlopen(f"{server.address}/metrics") as answer:
            counted = re.findall(r"^llamacpp:(\S+) (\S+)$", answer.read().decode(), re.MULTILINE)
    table = {name: float(value) for name, value in counted if name.startswith(("spec_decode", "tokens_predicted"))}
    stream = stream.replace(model, Path(model).name)  # no path of this machine
    (RECORDED / f"{name or 'plain'}.sse").write_text(f"{stream}: counted {json.dumps(table)}\n")


if __name__ == "__main__":
    os.environ.setdefault("DEMO_DRAFT_DIR", str(paths.cache_directory()))
    RECORDED.mkdir(exist_ok=True)
    for kind, arguments in KINDS.items():
        record(kind, [str(each) for each in arguments()])
