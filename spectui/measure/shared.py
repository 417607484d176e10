"""A report of runs that a person can send to others: no text, address or path of theirs is in it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath, PureWindowsPath
from textwrap import wrap
from typing import Any

from spectui.config import SETTINGS, shown
from spectui.knobs import title
from spectui.measure.bench.conditions import Conditions
from spectui.measure.bench.results import Run
from spectui.measure.bench.summary import Summary
from spectui.measure.prompts import PROMPTS
from spectui.measure.report import text
from spectui.text import printable

_GIVEN = "given"
"""In place of a value that can be a person's own text."""

_TECHNICAL = ("", "N", "NAMES", "N,N,...", "PATTERN=BUFFER,...")
"""What values are called that say nothing of a person: numbers, choices, devices, shares and tensors."""

_PATH = re.compile(r"(?<![\w.])(?:~|[A-Za-z]:)?[/\\]{1,2}(?:[^\s,;:'\"()/\\]+[/\\])*(?=[^\s/\\])")
_ADDRESS = re.compile(r"\w+://[^\s,;'\")\]]+|\[[^\]]*\]|\b[\w.-]+:\d{2,5}\b|\b\d+\.\d+\.\d+\.\d+\b")


def anonymous(runs: Sequence[Run]) -> list[Run]:
    """The runs without what is a person's own. What was equal, as prompts and texts, is equal still."""
    prompts = _names((run.prompt for run in runs), lambda name: name if name in PROMPTS else "own prompt")
    digests = _names((run.prompt_text for run in runs), lambda digest: "prompt")
    texts = _names((run.text for run in runs), lambda digest: "text")
    servers = _names((run.setting.server for run in runs), lambda name: name and "server")
    drafts = _names((run.setting.draft for run in runs), _file)
    conditions = {id(run.conditions): _anonymous(run.conditions) for run in runs}
    return [
        replace(
            run,
            conditions=conditions[id(run.conditions)],
            setting=replace(run.setting, server=servers[run.setting.server], draft=drafts[run.setting.draft]),
            prompt=prompts[run.prompt],
            prompt_text=digests[run.prompt_text],
            text=texts[run.text],
            busy=re.sub(r"^.* uses ", "another program uses ", run.busy),
        )
        for run in runs
    ]


def _anonymous(conditions: Conditions) -> Conditions:
    return replace(
        conditions,
        target=_file(conditions.target),
        draft=_file(conditions.draft),
        settings={key: _value(key, value) for key, value in conditions.settings.items()},
        kernels=_bare(conditions.kernels),
        models=_bare(conditions.models),
        devices=_bare(conditions.devices),
    )


def text_lines(summary: Summary, width: int) -> Iterator[str]:
    """What was measured with what, and the table; of runs that are `anonymous`."""
    if summary.runs:
        run = summary.runs[-1]
        conditions = run.conditions
        settings = ", ".join(f"{title(key)} {shown(value)}" for key, value in conditions.settings.items())
        facts = {
            "models": conditions.models,
            "devices": conditions.devices,
            "settings": settings or "the defaults",
            **conditions.machine,
            "measured": run.when,
        }
        yield from (line for name, fact in facts.items() if fact for line in wrap(printable(f"{name}: {fact}"), width))
        yield ""
    yield from text(summary, width)


def _names(values: Iterable[str], name_of: Callable[[str], str]) -> Mapping[str, str]:
    """A name for each value, which no other one has."""
    names: dict[str, str] = {}
    for value in dict.fromkeys(values):
        name, number = name_of(value), 1
        while name and name in names.values():
            number += 1
            name = f"{name_of(value)} {number}"
        names[value] = name
    return names


def _file(path: str) -> str:
    return PureWindowsPath(PurePath(path).name).name


def _value(key: str, value: Any) -> Any:
    spec = SETTINGS[key].spec if key in SETTINGS else None
    if spec is None or spec.metavar not in _TECHNICAL:
        return _GIVEN
    return _bare(value) if isinstance(value, str) else value


def _bare(words: str) -> str:
    """Without the directories of paths, and without addresses."""
    home = os.path.expanduser("~")  # it may have spaces
    return _PATH.sub("", _ADDRESS.sub("[address]", words.replace(home, "~") if len(home) > 1 else words))
