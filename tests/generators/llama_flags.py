"""Make `spectui/profiles/llama_flags.toml`: the flags of llama.cpp's programs that spectui accepts without using them.

    python -m tests.generators.llama_flags DIR     # DIR holds llama-server and llama-speculative-simple

The table comes from the programs' own `--help`. They must be built from the llama.cpp that llama-cpp-python carries.
"""

import re
import subprocess
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from spectui.config import settings
from spectui.profiles.command_line import HUB_DRAFT, HUB_TARGET
from spectui.profiles.imported import ESCAPES

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "spectui" / "profiles" / "llama_flags.toml"
PROGRAMS = ("llama-server", "llama-speculative-simple")

LEFT_OUT = """
    --help --version --list-devices --completion-bash --cache-list
    --prompt --file --binary-file
"""
"""Options that print something and exit, and prompts, which a chat would ignore: these are mistakes here."""

OLDER = "--mlock --mmap --no-mmap -dio --direct-io -ndio --no-direct-io"
"""Flags without a value that earlier versions had, and that many written lines still have."""

MODELS = re.compile(r"--(model-url|docker-repo|hf-file|(fim|gpt-oss|vision|embd)-.*-?(default|spec))$")
TEXT = re.compile(
    r"--(lora|control-vector|rope|yarn|override-kv|mmproj|chat-template|reasoning|no-jinja|context-shift|spm-infill"
    r"|embedding|rerank|pooling|no-prefill-assistant|skip-chat-parsing)"
)
SAME_TEXT = re.compile(
    r"--(backend-sampling|lora-init-without-apply|reasoning-format|mmproj-device|(no-)?mmproj-(auto|offload)|no-mmproj"
    r"|no-context-shift|jinja|prefill-assistant|no-skip-chat-parsing)$|-bs$"
)
_FLAGS = re.compile(r"(-[\w.-]+(?:, +-[\w.-]+)*)(?: (\S.*?))?(?: {2,}.*)?$")

HEAD = """\
# Flags of llama-server and llama-speculative-simple that spectui accepts without using them.
# Generated from the programs' `--help` by `python -m tests.generators.llama_flags`. Do not edit.

# The llama-cpp-python that carries these programs' source.
version = "{version}"
"""


class Option(NamedTuple):
    """One option of llama.cpp: its flags, how many values it takes, and the heading it is listed under."""

    flags: tuple[str, ...]
    arity: int
    section: str


def parse(help_text: str) -> list[Option]:
    """The options that a program's `--help` lists."""
    options, section = [], ""
    for line in help_text.splitlines():
        if line.startswith("-----"):
            section = line.strip("- ")
        elif found := _FLAGS.match(line):
            values = found[2] or ""
            arity = 2 if re.fullmatch(r"[A-Z]+ [A-Z]+", values) else int(bool(values))
            options.append(Option(tuple(re.split(", +", found[1])), arity, section))
    return options


def variables(help_text: str) -> dict[str, str]:
    """The long flag that each environment variable of a program's `--help` stands for."""
    found, flags = {}, ("",)
    for line in help_text.splitlines():
        if option := _FLAGS.match(line):
            flags = tuple(flag for flag in re.split(", +", option[1]) if flag.startswith("--"))
        elif (variable := re.fullmatch(r" +\(env: (LLAMA_ARG_\w+)\)", line)) and flags:
            found[variable[1]] = flags[0]
    return found


def source(help_texts: list[str]) -> str:
    """The text of the generated table."""
    ours = {flag for row in settings() if row.spec.section != "ui" for flag in row.spec.flags}
    ours |= {*HUB_TARGET, *HUB_DRAFT, *ESCAPES}
    groups: dict[str, set[str]] = {name: set() for name in ("switches", "values", "pairs", "models", "text")}
    groups["switches"].update(OLDER.split())
    left_out = set(LEFT_OUT.split())
    for option in (each for text in help_texts for each in parse(text)):
        if left_out.intersection(option.flags):
            continue
        # A switch of ours may have an opposite that is llama.cpp's alone: --repack beside --no-repack.
        flags = set(option.flags) - ours
        if any(MODELS.match(flag) for flag in flags):
            groups["models"] |= flags
            continue
        groups[("switches", "values", "pairs")[option.arity]] |= flags
        changes_text = option.section == "sampling params" or any(TEXT.match(flag) for flag in flags)
        if changes_text:
            same = {flag for flag in flags if SAME_TEXT.match(flag)}
            groups["text"] |= flags - (flags if same and option.arity else same)
    explained = {
        "switches": "Flags without a value.",
        "values": "Flags with one value.",
        "pairs": "Flags with two values.",
        "models": "Flags that choose a model in a way that spectui does not have: refused.",
        "text": "Those of the first three groups that can change what llama.cpp writes.",
        "variables": "Environment variables, each with the flag that it stands for.",
    }
    found = {name: flag for text in help_texts for name, flag in variables(text).items()}
    groups["variables"] = {f"{name}={flag}" for name, flag in found.items()}
    return HEAD.format(version=version("llama-cpp-python")) + "".join(
        f'\n# {explained[name]}\n{name} = """\n{_wrapped(flags)}\n"""\n' for name, flags in groups.items()
    )


def _wrapped(flags: set[str]) -> str:
    words = " ".join(sorted(flags, key=lambda flag: (flag.lstrip("-"), flag)))
    return textwrap.fill(
        words, 118, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
    )


def help_texts(directory: Path) -> list[str]:
    """What each program prints for `--help`."""
    return [
        subprocess.run([directory / name, "--help"], capture_output=True, text=True, check=True).stdout for name in PROGRAMS
    ]


if __name__ == "__main__":
    TABLE.write_text(source(help_texts(Path(sys.argv[1]))), encoding="utf-8")
