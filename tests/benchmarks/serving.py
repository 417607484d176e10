"""spectui serve against llama-server: what agents and editors wait for, with the same files.

    python -m tests.benchmarks.serving --models DIR --peers DIR [--repeat N] [--only edits,json]

Both servers run one after the other, in turn, each with all cores; the other is ended meanwhile. Every request is greedy and
streamed. Printed are seconds, and llama-server's over spectui's: of the whole answers, of the first token of the first turn and
of later ones. llama-server drafts with `--llama` (several settings with commas in turn; its best counts).
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any

from tests.helpers.llama_server import LlamaServer, started

TARGET, DRAFT = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"

LLAMA = (
    "--spec-type draft-simple --spec-draft-n-max 8 --spec-draft-p-min 0.7",
    "--spec-type ngram-simple,draft-simple --spec-draft-n-max 8 --spec-draft-p-min 0.7",
    "",
)

NAMES = ("total", "index", "count", "items", "result", "value", "buffer", "cache", "width", "label")
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "language": {"enum": ["en", "de", "fr"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string", "maxLength": 30}, "city": {"type": "string", "maxLength": 30}},
            "required": ["street", "city"],
        },
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 2, "maxItems": 3},
    },
    "required": ["name", "language", "age", "address", "tags"],
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name.replace('_', ' ')} in the workspace",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, field: {"type": "string"}},
                "required": ["path", field],
            },
        },
    }
    for name, field in (("search_text", "pattern"), ("replace_text", "with"), ("run_command", "command"))
]


def source(seed: int, functions: int = 8) -> str:
    """A file to be edited."""
    parts = [
        f"def {NAMES[(seed + n) % 10]}_{n}(items: list[int], width: int = {n + seed}) -> int:\n"
        f'    """Add up the {NAMES[(seed + 2 * n) % 10]} of the items that are wider than {n}."""\n'
        f"    {NAMES[(seed + n) % 10]} = 0\n    for item in items:\n        if item > width:\n"
        f"            {NAMES[(seed + n) % 10]} += item * {n + 1}\n    return {NAMES[(seed + n) % 10]}\n"
        for n in range(functions)
    ]
    return "\n\n".join(parts)


class Client:
    """Asks one server, and notes when what came."""

    def __init__(self, server: LlamaServer) -> None:
        self._url = f"{server.address}/v1/chat/completions"

    def ask(self, messages: list[dict[str, Any]], predict: int, **others: Any) -> tuple[float, float, str]:
        """Seconds to the first token and to the end, and the text or the call."""
        body = {"messages": messages, "max_tokens": predict, "temperature": 0, "stream": True, **others}
        request = urllib.request.Request(self._url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        since, first, said = time.perf_counter(), 0.0, ""
        with urllib.request.urlopen(request, timeout=600) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                for choice in json.loads(line[6:]).get("choices", ()):
                    delta = choice["delta"]
                    calls = "".join(call["function"].get("arguments") or "" for call in delta.get("tool_calls") or ())
                    if text := (delta.get("content") or "") + calls:
                        first = first or time.perf_counter() - since
                        said += text
        return first or time.perf_counter() - since, time.perf_counter() - since, said


Times = list[tuple[float, float]]


def edits(client: Client, turns: int) -> Times:
    """Edits of one file, in one conversation."""
    talk: list[dict[str, Any]] = [{"role": "user", "content": f"Here is a file:\n```python\n{source(0, 5)}```\nSay ok."}]
    times = [client.ask(talk, 3)]
    talk.append({"role": "assistant", "content": times[0][2]})
    for turn in range(turns):
        talk.append(
            {
                "role": "user",
                "content": f"Rename the parameter width to width{turn} in the whole file, and write only the file.",
            }
        )
        times.append(client.ask(talk, 320))
        talk.append({"role": "assistant", "content": times[-1][2]})
        del talk[2:-2]  # as editors do: the file, and the last edit
    return [time[:2] for time in times]


def two_files(client: Client, turns: int) -> Times:
    """Two conversations in turn."""
    talks: list[list[dict[str, Any]]] = [
        [{"role": "system", "content": f"You know this file:\n{source(n, 10)}"}] for n in (1, 2)
    ]
    times = []
    for turn in range(turns):
        for talk in talks:
            talk.append({"role": "user", "content": f"What does function number {turn} do, in one sentence?"})
            times.append(client.ask(talk, 40))
            talk.append({"role": "assistant", "content": times[-1][2]})
    return [times[n][:2] for n in (0, *range(2, len(times)))]


def agent(client: Client, turns: int) -> Times:
    """An agent that must call tools."""
    talk: list[dict[str, Any]] = [
        {"role": "system", "content": f"You edit files by tools. This is src/main.py:\n{source(3, 10)}"},
        {"role": "user", "content": "Replace the word items by elements everywhere."},
    ]
    times = []
    for turn in range(turns):
        times.append(client.ask(talk, 120, tools=TOOLS, tool_choice="required"))
        given = json.dumps({"path": "src/main.py", "with": f"elements{turn}"})  # the same to both
        call = {"id": f"call0000{turn}", "type": "function", "function": {"name": "replace_text", "arguments": given}}
        talk.append({"role": "assistant", "content": "", "tool_calls": [call]})
        talk.append({"role": "tool", "tool_call_id": call["id"], "content": f"done: {turn + 3} places left in src/main.py"})
    return [time[:2] for time in times]


def objects(client: Client, turns: int) -> Times:
    """JSON by a schema."""
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
    asks = (f"Invent a person who likes {name}; reply as JSON." for name in NAMES[:turns])
    return [client.ask([{"role": "user", "content": ask}], 200, response_format=form)[:2] for ask in asks]


def long_prompt(client: Client, turns: int) -> Times:
    """One question about a long text: asked once more after a restart."""
    text = "\n".join(source(n, 10) for n in range(turns))
    return [client.ask([{"role": "user", "content": f"{text}\nWhich function is the last?"}], 8)[:2]]


SCENES = {"edits": edits, "files": two_files, "tools": agent, "json": objects, "restart": long_prompt}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default=",".join(SCENES))
    parser.add_argument("--llama", action="append")
    args = parser.parse_args()
    files = ["-m", str(args.models / TARGET), "-md", str(args.models / DRAFT), "-c", "16384"]
    threads = str(len(os.sched_getaffinity(0)))
    theirs = {}
    for settings in args.llama or LLAMA:
        alone = files if settings else [*files[:2], *files[4:]]
        theirs[settings or "no drafts"] = [
            str(args.peers / "bin" / "llama-server"), *alone, "-t", threads, "-np", "1", *settings.split(),
        ]  # fmt: skip
    ours = [sys.executable, "-m", "spectui", "serve", *files, "--plain"]
    programs = {"spectui": ours, "spectui, drafter off": [*ours, "--drafter", "off"]}
    programs |= {f"llama-server {name}": command for name, command in theirs.items()}
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"SPECTUI_CACHE_DIR": folder, "SPECTUI_STATE_DIR": folder}
        kept = Path(folder, "conversations")
        for scene in args.only.split(","):
            found: dict[str, list[Times]] = {name: [] for name in programs}
            for _ in range(args.repeat):
                for name, command in programs.items():
                    shutil.rmtree(kept, ignore_errors=True)  # what passes cost stays
                    times: Times = []
                    for _ in range(2 if scene == "restart" else 1):
                        with started([*command, "--port", "${PORT}"], signal.SIGINT, env) as server:
                            times += SCENES[scene](Client(server), args.turns)
                    found[name].append(times)
            report(scene, found)


def report(scene: str, found: dict[str, list[Times]]) -> None:
    """A row for each server, and the ratios."""
    print(f"## {scene}\n\n| server | first token, turn 1 | later turns | whole | by spectui's |\n|" + " --- |" * 5)

    def figures(runs: list[Times]) -> tuple[float, float, float]:
        return (
            mean(run[0][0] for run in runs), mean(time[0] for run in runs for time in run[1:]),
            mean(sum(time[1] for time in run) for run in runs),
        )  # fmt: skip

    own = figures(found["spectui"])
    for name, runs in found.items():
        first, later, whole = figures(runs)
        ratios = [sum(t[1] for t in run) / sum(t[1] for t in mine) for run, mine in zip(runs, found["spectui"], strict=True)]
        ratio = f"{geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"| {name} | {first:.2f} | {later:.2f} ({later / own[1]:.2f}) | {whole:.1f} | {ratio} |")
    print(flush=True)


if __name__ == "__main__":
    main()
