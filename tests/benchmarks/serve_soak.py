"""50 clients that come, stall, cut off and send rubbish: `python -m tests.benchmarks.serve_soak [SECONDS [OPTIONS of serve]]`.

Each asks for a word of its own, which a grammar forces.
"""

import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from time import monotonic, sleep
from typing import Any

import psutil

PORT = 8099
RUBBISH: tuple[Any, ...] = ("", None, True, -1, 2.5, 1e300, [], {}, [[]], "x" * 5000, {"type": "object"}, ["\ud800", 0])
WAYS = ("ask", "ask", "stall", "cut", "half", "mutated", "rubbish", "headers")


def valid(word: str, rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A path, and a body that asks for the word."""
    talk = {"messages": [{"role": "user", "content": "Say a word."}], "max_tokens": 40, "stream": rng.random() < 0.5}
    form = {"format": {"type": "json_schema", "schema": {"const": word}}}
    bodies = {
        "/v1/chat/completions": {**talk, "grammar": f'root ::= "{word}"'},
        "/v1/messages": {**talk, "output_config": form},
        "/v1/responses": {"input": "Say a word.", "max_output_tokens": 40, "text": form},
    }
    return rng.choice(list(bodies.items()))


def mutated(value: Any, rng: random.Random) -> Any:
    """The value with something in it changed."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.2:
        return rng.choice(RUBBISH)
    key: Any = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    return {**value, key: mutated(value[key], rng)} if isinstance(value, dict) else [mutated(value[key], rng)]


async def client(number: int, until: float, seen: Counter[str], faults: list[str]) -> None:
    """Ask in one way after the other."""
    rng, word = random.Random(number), f"word{number:03}w"
    while monotonic() < until:
        way, (path, body) = rng.choice(WAYS), valid(word, rng)
        data = rng.randbytes(150) if way == "rubbish" else json.dumps(mutated(body, rng) if way == "mutated" else body).encode()
        long = "x-long: " + "y" * 200_000 + "\r\n" if way == "headers" else ""
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{long}User-Agent: {word}\r\nConnection: close\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        status, half = "cut", len(data) // 2
        try:
            writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data[:half])
            await asyncio.sleep(rng.random() * 3 if way == "stall" else 0)
            writer.write(b"" if way == "half" else data[half:])
            patience = {"cut": 1.0, "half": 1.0, "mutated": 10.0}.get(way, 120.0)
            answer = (await asyncio.wait_for(reader.read(-1), patience)).decode("utf-8", "replace")
            status, texts = answer[9:12] or "closed", re.findall(r'"(?:content|text|delta)": ?"((?:[^"\\]|\\.)*)"', answer)
            wrong = set(re.findall(r"word\d{3}w", answer)) - {word} or status == "500"
            if wrong or (way in ("ask", "stall") and status != "503" and (status != "200" or word not in "".join(texts))):
                faults.append(f"{way} of {word}: {data[:300]!r} {answer[:500]} {answer[-300:]}")
        except (TimeoutError, ConnectionError) as error:
            faults += [f"{way} of {word} had no answer: {error!r}"] * (way in ("ask", "stall"))
        writer.close()
        seen[f"{way} {status}"] += 1


async def soak(seconds: float, server: psutil.Process) -> list[str]:
    """Returns what was wrong."""
    seen, faults, begin = Counter[str](), list[str](), monotonic()
    running = asyncio.gather(*(client(number, begin + seconds, seen, faults) for number in range(50)))
    await asyncio.sleep(seconds / 3)
    warm = server.memory_info().rss >> 20
    await running
    grown = (server.memory_info().rss >> 20) - warm
    print(json.dumps(dict(sorted(seen.items())), indent=1), f"\nthe memory grew by {grown} MiB from {warm} MiB")
    return faults + [f"the memory grew by {grown} MiB"] * (grown > 64)


def main() -> int:
    """Returns 1 if anything was wrong."""
    seconds, *options = sys.argv[1:] or ["180"]
    command = [sys.executable, "-m", "spectui", "serve", f"--port={PORT}", "-n64", "-c2048", "--no-history", *options]
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) as server:
        sleep(15)  # it listens before it has loaded
        faults = asyncio.run(soak(float(seconds), psutil.Process(server.pid)))
        server.terminate()
        server.wait()
        log.seek(0)
        faults += [line for line in log.read().split("\n") if "Traceback" in line or "Error" in line]
    print("\n".join(faults) or "nothing wrong")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
