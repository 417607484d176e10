"""The file of a bench: a line with the conditions, and a line for each run as soon as it is made, so that nothing done is
lost."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from spectui import paths
from spectui.errors import SpectuiError, UsageError
from spectui.measure.bench.conditions import Conditions, difference
from spectui.measure.bench.prompt_files import Prompt
from spectui.measure.bench.settings import Setting
from spectui.speculation.statistics import Statistics

SCHEMA = "spectui.bench/2"

_FAULTS = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
"""What a line raises that is none of this file's."""

FINALS = "finals"
"""The stage of the replies that a search is judged by."""


class ResultsError(SpectuiError):
    """Results cannot be written."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One reply of one setting to one prompt. Times in seconds.

    `predict`: most tokens of this reply. `text`, `prompt_text`: digests of the reply and of the prompt. `prompt_s`: until it
    was read, by the draft model too; a server may not tell that and `prompt_tokens`. `stolen`: the share of the cores, in
    0..1, that a shared host gave to others meanwhile. `busy`: the busiest other process, "" on a quiet machine. `stage`: of a
    search, what the run was for; in "finals", the only ones that are judged there, the seed is that many `repetition`s
    higher. `divergence`: of the setting's draft from the target, in nats; None where it was not measured.
    """

    conditions: Conditions
    setting: Setting
    prompt: str
    prompt_text: str
    repetition: int
    predict: int
    prompt_tokens: int | None
    prompt_s: float | None
    time_to_first_token_s: float | None
    stop_reason: str
    text: str
    statistics: Statistics
    wall_s: float = 0.0
    stolen: float = 0.0
    busy: str = ""
    when: str = ""
    stage: str = ""
    divergence: float | None = None

    @property
    def decoding(self) -> float:
        """Tokens per second of decoding; 0 for an empty reply."""
        return self.statistics.tokens_per_s or 0.0

    @property
    def speed(self) -> float:
        """Tokens per second of a whole reply, with the time in which the prompt was read, by the draft model too; 0 if that
        is not known. In a search, of a reply that is as long as the wanted ones."""
        if self.prompt_s is None or not self.decoding:
            return 0.0
        length = self.conditions.predict if self.stage else self.statistics.emitted
        return 1 / (self.prompt_s / length + 1 / self.decoding)

    def line(self) -> str:
        """As JSON, in one line, without its conditions."""
        values = asdict(self)
        del values["conditions"]
        return json.dumps(values, ensure_ascii=False, allow_nan=False)


def header(conditions: Conditions) -> str:
    """The line before the runs that were made under these conditions."""
    return json.dumps({"schema": SCHEMA, "conditions": asdict(conditions)}, ensure_ascii=False)


def parsed_conditions(value: Mapping[str, Any]) -> Conditions:
    """The conditions that a JSON object says. Raises one of `_FAULTS`."""
    settings = {key: tuple(setting) if isinstance(setting, list) else setting for key, setting in value["settings"].items()}
    return Conditions(**{**value, "settings": settings})


def parsed(value: Mapping[str, Any], conditions: Conditions) -> Run:
    """The run that a JSON object says. Raises one of `_FAULTS`."""
    records = {"setting": Setting(**value["setting"]), "statistics": Statistics(**value["statistics"])}
    return Run(**{**value, "conditions": conditions, **records})


def read(path: Path) -> list[Run]:
    """The runs of a file. A last line that was cut off is left out. Raises UsageError."""
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")  # what was cut off may end within a character
    except OSError as error:
        raise UsageError(f"The results {path} cannot be read: {error.strerror}.") from None
    runs: list[Run] = []
    conditions: Conditions | None = None
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if "conditions" in value:
                conditions = parsed_conditions(value["conditions"])
            elif conditions is None:
                raise KeyError("conditions")
            else:
                runs.append(parsed(value, conditions))
        except _FAULTS as error:
            if number == len(lines) and line.startswith("{") and isinstance(error, json.JSONDecodeError):
                break
            raise UsageError(
                f"{path}, line {number}: this is no line of spectui bench: delete it, or take another file."
            ) from None
    return runs


def check_same(file: Path, done: Sequence[Run], now: Conditions, prompts: Sequence[Prompt]) -> None:
    """Raise UsageError if a run that was made before cannot stand in a table with those to be made."""
    texts = {prompt.name: prompt.digest for prompt in prompts}
    for run in done:
        different = "another command" if run.stage else difference(run.conditions, now)
        if not different and texts.get(run.prompt, run.prompt_text) != run.prompt_text:
            different = f"another text of the prompt {run.prompt!r}"
        if different:
            raise UsageError(f"The runs in {file} were made with {different}: repeat that, or name another file.")


class ResultsFile:
    """Appends runs to a file that `read` can read, or to a new one.

    Raises ResultsError where that fails, or another process writes to the file too; then the file has every run before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._conditions: Conditions | None = None  # of the runs that were written last
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            self._end = self._mended()
        except OSError as error:
            raise ResultsError(f"The results cannot be written to {path}: {error.strerror}.") from None

    def _mended(self) -> int:
        """The size of the file after its last line was ended, or taken back if it was cut off. Raises OSError."""
        data = self.path.read_bytes()
        last = data[data.rfind(b"\n") + 1 :]
        try:
            json.loads(last)
        except ValueError:
            os.truncate(self.path, len(data) - len(last))
        else:
            with self.path.open("ab") as file:
                file.write(b"\n")
        return self.path.stat().st_size

    def append(self, run: Run) -> None:
        """Write the run's line, all of it or nothing, after a line of its conditions where they are new."""
        lines = [run.line()] if run.conditions == self._conditions else [header(run.conditions), run.line()]
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            with self.path.open("ab") as file:
                # A run behind another process's conditions would be read as one made under those.
                if file.tell() != self._end:
                    raise ResultsError(
                        f"Another spectui writes its runs to {self.path}: wait for its end, or name another --results."
                    )
                file.write(data)
        except OSError as error:
            with suppress(OSError):  # no part of a line stays
                os.truncate(self.path, self._end)
            raise ResultsError(f"The results cannot be written to {self.path}: {error.strerror}.") from None
        self._end += len(data)
        self._conditions = run.conditions


def new_file(command: str) -> Path:
    """Where this command writes its runs unless a person names a file."""
    return paths.state_directory() / command / f"{datetime.now():%Y%m%d-%H%M%S-%f}.jsonl"


def newest_file(command: str) -> Path:
    """The file of its last runs. Raises UsageError if there is none."""
    file = max((paths.state_directory() / command).glob("*.jsonl"), default=None)
    if file is None:
        raise UsageError("No bench was saved yet: run spectui bench first, or name a file with --results.")
    return file
