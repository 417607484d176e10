"""llama.cpp's own speculative decoder, run once and read."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from spectui.llama.tokens.chat_template import ChatTemplate


@dataclass(frozen=True)
class Peer:
    """One setting of llama-speculative-simple. `flags` are its own."""

    name: str
    flags: tuple[str, ...]


def drafting(most: int, p_min: float, types: str = "draft-simple") -> Peer:
    """A draft model with draft-max and p-min, perhaps after a draft-free type."""
    flags = ("--spec-type", types, "--spec-draft-n-max", str(most), "--spec-draft-p-min", str(p_min))
    return Peer(f"{types.replace('draft-simple', 'draft')} {most}/{p_min:g}", flags)


def sweep(quick: bool) -> list[Peer]:
    """The settings among which llama.cpp's best is looked for, per prompt."""
    fixed = [(3, 0.0), (8, 0.7), (16, 0.8)] if quick else [(n, p) for n in (3, 8, 16) for p in (0.0, 0.4, 0.8)]
    free = ("ngram-simple", "ngram-mod", "ngram-map-k4v")
    short = ("--spec-ngram-simple-size-n", "4", "--spec-ngram-simple-size-m", "16")
    return [
        *(drafting(most, p_min) for most, p_min in fixed),
        *(Peer(kind, ("--spec-type", kind)) for kind in free),
        Peer("ngram-simple 4/16", ("--spec-type", "ngram-simple", *short)),
        *(drafting(8, 0.7, f"{kind},draft-simple") for kind in (free[:1] if quick else free)),
    ]


def rendered(template: ChatTemplate, prompt: str) -> str:
    """The prompt as the model's chat template writes it."""
    return template.text([("user", prompt)])


def run(
    peers: Path,
    peer: Peer,
    target: Path,
    draft: Path | None,
    prompt: str,
    predict: int,
    threads: int,
    context: int,
    flash_attn: str,
) -> float:
    """Tokens per second of decoding, as the peer prints it."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(prompt + "\n")  # llama.cpp drops the last newline of a file
        file.flush()
        command = [
            str(peers / "bin" / "llama-speculative-simple"), "-m", str(target), "-f", file.name, "-n", str(predict),
            "--temp", "0", "-c", str(context), "-t", str(threads), "-fa", flash_attn,
            *peer.flags,
        ]  # fmt: skip
        if draft is not None and "draft" in peer.name:
            command += ["-md", str(draft), "-td", str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600)
    found = re.search(r"decoded\s+\d+ tokens in\s+[\d.]+ seconds, speed:\s+([\d.]+) t/s", done.stdout + done.stderr)
    if found is None:
        raise SystemExit(f"{peer.name} printed no speed:\n{(done.stdout + done.stderr)[-2000:]}")
    return float(found.group(1))
