"""The lines of a bench: one JSON object for each run, appended as soon as it is made, so that nothing done is lost."""

from __future__ import annotations

import json
import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any

from spectui import paths
from spectui.errors import SpectuiError, UsageError
from spectui.measure.bench.conditions import SERVERS, Conditions, difference
from spectui.measure.bench.prompt_files import Prompt
from spectui.measure.bench.settings import Setting
from spectui.speculation.statistics import Statistics

SCHEMA = "spectui.bench/1"

_BEGIN = '{"target": '
"""Begins each line."""

_KINDS: dict[str, Any] = {"str": str, "int": int, "float": (int, float), "Mapping[str, str]": dict}
"""What a field of these types may have."""

_FAULTS = (KeyError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError)
"""What a line raises that has no run."""

FINALS = "finals"
"""The stage of the replies that a plan which adapts is judged by."""


class _OtherVersion(ValueError):
    """A run is of another version of spectui."""


class ResultsError(SpectuiError):
    """Results cannot be written."""


@dataclass(frozen=True, kw_only=True)
class Run(Conditions):
    """One reply of one setting to one prompt: a line of the file. Times in seconds.

    `text`, `prompt_text`: digests of the reply and of the prompt. `prompt_s`: until it was read, by the draft model too; a
    server may not tell that and `prompt_tokens`. `stolen`: the share of the cores, in 0..1, that a shared host gave to others
    meanwhile. `busy`: the busiest other process, "" on a quiet machine. `kernels`: what multiplied the pair's weights, in a
    sentence. `models`: what was loaded, and where its layers are; `devices`: all there are. `stage`: of a plan that adapts,
    what the run was for; in "finals", the only ones that are judged there, the seed is that many `repetition`s higher.
    `length`: tokens of the reply that a person wants, if it is another than this one's; 0: as long as this one.
    """

    setting: Setting
    prompt: str
    prompt_text: str
    repetition: int
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
    kernels: str = ""
    models: str = ""
    devices: str = ""
    stage: str = ""
    length: int = 0
    schema: str = field(default=SCHEMA)

    @property
    def decoding(self) -> float:
        """Tokens per second of decoding; 0 for an empty reply."""
        return self.statistics.tokens_per_s or 0.0

    @property
    def speed(self) -> float:
        """Tokens per second of a whole reply, with the time in which the prompt was read, by the draft model too; 0 if that
        is not known."""
        if self.prompt_s is None or not self.decoding:
            return 0.0
        return 1 / (self.prompt_s / (self.length or self.statistics.emitted) + 1 / self.decoding)

    def line(self) -> str:
        """As JSON, in one line."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)


def facts(run: Run) -> dict[str, str]:
    """What is known once the models are loaded, and has to be the same in runs that are compared; nothing of servers'."""
    known = {"kernels": run.kernels, "models": run.models, "devices": run.devices}
    return {} if run.target == SERVERS else known


def parsed(value: Mapping[str, Any]) -> Run:
    """The run that a JSON object says. Raises KeyError, TypeError or ValueError."""
    if value["schema"] != SCHEMA:
        if str(value["schema"]).startswith(SCHEMA.partition("/")[0]):
            raise _OtherVersion(f"this run is of another version of spectui ({value['schema']}): show it with that one")
        raise ValueError(value["schema"])
    known = {each.name for each in fields(Run)}
    records = {
        "setting": Setting(**value["setting"]),
        "statistics": Statistics(**value["statistics"]),
        "settings": {key: tuple(each) if isinstance(each, list) else each for key, each in value["settings"].items()},
    }
    run = Run(**{name: part for name, part in {**value, **records}.items() if name in known})
    for record in (run, run.setting):
        for each in fields(record):
            if not isinstance(getattr(record, each.name), _KINDS.get(str(each.type), object)):
                raise TypeError(each.name)
    times = (run.prompt_s or 0.0, run.time_to_first_token_s or 0.0, run.wall_s, run.stolen, run.decoding, run.speed)
    counts = (run.predict, run.repetition, run.length, run.prompt_tokens or 0, *vars(run.statistics).values())
    numbers = [number for each in (*times, *counts) for number in (each if isinstance(each, list) else [each])]
    if not all(0 <= number < inf for number in numbers):
        raise ValueError("a number that no run has")
    return run


def read(path: Path) -> list[Run]:
    """The runs of a file. A last line that was cut off is left out. Raises UsageError."""
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")  # what was cut off may end within a character
    except OSError as error:
        raise UsageError(f"The results {path} cannot be read: {error.strerror}.") from None
    runs: list[Run] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            runs.append(parsed(json.loads(line)))
        except _FAULTS as error:
            is_cut = isinstance(error, json.JSONDecodeError) and _BEGIN.startswith(line[: len(_BEGIN)])
            if is_cut and number == len(lines):
                break
            why = "this is no line of spectui bench: take another file"
            if is_cut:
                why = "this line was cut off, or damaged: delete it"
            elif isinstance(error, _OtherVersion):
                why = str(error)
            raise UsageError(f"{path}, line {number}: {why}.") from None
    return runs


def check_same(file: Path, done: Sequence[Run], now: Conditions, prompts: Sequence[Prompt]) -> None:
    """Raise UsageError if a run that was made before cannot stand in a table with those to be made."""
    texts = {prompt.name: prompt.digest for prompt in prompts}
    for run in done:
        different = "another command" if run.stage or run.setting.draft else difference(run, now)
        if not different and texts.get(run.prompt, run.prompt_text) != run.prompt_text:
            different = f"another text of the prompt {run.prompt!r}"
        if different:
            raise UsageError(f"The runs in {file} were made with {different}: repeat that, or leave out --resume.")


class ResultsFile:
    """Appends runs to a file that `read` can read, or to a new one, which no other process may write to meanwhile.

    Raises ResultsError where that fails; then the file has every run before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
            weakref.finalize(self, os.close, handle)  # which ends the lock
            if not _locked(handle):
                raise ResultsError(
                    f"Another spectui writes its runs to {path}: wait until it has ended, or name another file with --results."
                )
            self._end = self._mended()
        except OSError as error:
            raise ResultsError(f"The results cannot be written to {path}: {error.strerror}.") from None

    def _mended(self) -> int:
        """The size of the file after its last line was ended, or taken back if it was cut off. Raises OSError."""
        data = self.path.read_bytes()
        last = data[data.rfind(b"\n") + 1 :]
        try:
            parsed(json.loads(last))
        except _FAULTS:
            os.truncate(self.path, len(data) - len(last))
        else:
            with self.path.open("ab") as file:
                file.write(b"\n")
        return self.path.stat().st_size

    def append(self, run: Run) -> None:
        """Write the run's line, all of it or nothing."""
        data = (run.line() + "\n").encode()
        try:
            with self.path.open("ab") as file:
                file.write(data)
        except OSError as error:
            with suppress(OSError):  # no part of a line stays
                os.truncate(self.path, self._end)
            raise ResultsError(f"The results cannot be written to {self.path}: {error.strerror}.") from None
        self._end += len(data)


def _locked(handle: int) -> bool:
    """Whether this process alone has the file from now on; also where files cannot be locked."""
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # the file system has no locks
    return True


def new_file(command: str) -> Path:
    """Where this command writes its runs unless a person names a file."""
    return paths.state_directory() / command / f"{datetime.now():%Y%m%d-%H%M%S-%f}.jsonl"


def newest_file(command: str) -> Path:
    """The file of its last runs. Raises UsageError if there is none."""
    found = max((paths.state_directory() / command).glob("*.jsonl"), default=None)
    if found is None:
        raise UsageError("No bench was saved yet: run spectui bench first, or name a file with --results.")
    return found
