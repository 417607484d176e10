"""Settings that a bench compares, and the lists and ranges that people write for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

from spectui.config import SETTINGS, convert
from spectui.errors import UsageError
from spectui.knobs import Knobs

Baseline = Literal["", "target", "draft"]

NO_DRAFT = "suffix lookup"
"""`Setting.draft` of the row without a draft model, where drafts are compared."""

MOST_VALUES = 200
"""Values in one list or range."""

MOST_RUNS = 100_000
"""Runs of one sweep: they take days, and their plan under a second."""


@dataclass(frozen=True)
class Setting:
    """One combination of the swept knobs. `baseline`: a model alone, without any drafts. `server`: the name of a server, which
    fixes all but the temperature. `draft`: the file of the draft where several are compared, or `NO_DRAFT`."""

    drafter: str = "auto"
    policy: str = "auto"
    draft_max: int = 16
    draft_min: int = 0
    p_min: float = 0.0
    temperature: float = 0.0
    baseline: Baseline = ""
    server: str = ""
    draft: str = ""

    def on(self, knobs: Knobs) -> Knobs:
        """`knobs` with these values. Raises UsageError if they do not fit together."""
        return replace(knobs, **{key: getattr(self, key) for key in SWEPT}).checked()

    @property
    def knobs(self) -> dict[str, Any]:
        """What it turns in a chat. The temperature is a person's own, and so is p-min where it has no meaning."""
        others = ("temperature",) if self.policy == "fixed" else ("temperature", "p_min")
        return {"drafter": "off"} if self.baseline else {key: getattr(self, key) for key in SWEPT if key not in others}

    @property
    def label(self) -> str:
        """As a person names it, in one short line, without its temperature."""
        if self.server:
            return self.server
        if self.baseline:
            return f"{self.baseline} alone"
        # auto is the name of a drafter and of a policy.
        if self.policy == "fixed":
            drafter = "auto drafter" if self.drafter == "auto" else self.drafter
            label = f"{drafter} {self.draft_max}/{self.draft_min}/{self.p_min:g}"
        else:
            least = f", draft-min {self.draft_min}" if self.draft_min else ""
            drafter = "" if self.drafter == "auto" else f", drafter {self.drafter}"
            label = f"{self.policy} policy, draft-max {self.draft_max}{least}{drafter}"
        if not self.draft:
            return label
        name = Path(self.draft).name
        return name if (self.policy, self.draft_max, self.draft_min) == ("auto", Setting.draft_max, 0) else f"{name}, {label}"


SWEPT = tuple(field.name for field in fields(Setting) if field.name not in ("baseline", "server", "draft"))
"""The keys that can be lists."""


def values(key: str, text: str, origin: str) -> list[Any]:
    """The values that a list or a range means, each once: `4,8,16`, or `4:16` and `0:0.9:0.3` with both ends.

    Raises UsageError with a sentence that names `origin`.
    """
    converted: list[Any] = []
    for part in text.split(","):
        if not part.strip():
            raise UsageError(f"{origin}: {text!r} has an empty value: write a list such as 4,8,16, or a range such as 4:16:4.")
        converted += _range(key, part, origin) if ":" in part else [convert(key, part.strip(), origin)]
        if len(converted) > MOST_VALUES:
            raise UsageError(f"{origin}: {text!r} means more than {MOST_VALUES} values: take a larger step.")
    return list(dict.fromkeys(converted))


def _range(key: str, part: str, origin: str) -> list[Any]:
    kind, ends = SETTINGS[key].kind, list[float]()
    with suppress(ValueError):
        ends = [float(end) for end in part.split(":")]
    if kind is str or len(ends) not in (2, 3) or not all(abs(end) < 1e9 for end in ends):
        raise UsageError(f"{origin}: {part!r} is no range: write FIRST:LAST or FIRST:LAST:STEP with numbers.")
    first, last, step = (*ends, 1.0)[:3]
    if last < first or step <= 0 or (len(ends) == 2 and kind is float):
        raise UsageError(
            f"{origin}: the range {part!r} has no values: the last must not be below the first, and the step must be above 0."
        )
    count = (last - first) / step + 1e-9
    if count >= MOST_VALUES:
        raise UsageError(f"{origin}: {part!r} means more than {MOST_VALUES} values: take a larger step.")
    numbers = [first + number * step for number in range(int(count) + 1)]
    return [convert(key, f"{number:.6g}", origin) for number in numbers]


def check_size(lists: Mapping[str, Sequence[Any]], replies: int) -> None:
    """Raise UsageError if the combinations of these lists, with `replies` runs of each, are too many to be made."""
    combinations = prod(len(choices) for choices in lists.values())
    if combinations * replies > MOST_RUNS:
        raise UsageError(
            f"These lists mean {combinations:,} combinations, {combinations * replies:,} runs, and a bench makes at most "
            f"{MOST_RUNS:,}: write shorter lists or larger steps."
        )


def sweep(lists: Mapping[str, Sequence[Any]]) -> tuple[list[Setting], int]:
    """Every combination that is a setting of its own, and how many were left out because draft-min is above draft-max.

    A list for each key of `SWEPT`. p-min means nothing to the policies auto and expected, nor draft-min to expected, nor the
    knobs of drafts to the drafter off: combinations that only differ in those are one.
    """
    combined: dict[Setting, None] = {}
    dropped = 0
    for combination in product(*(lists[key] for key in SWEPT)):
        setting = Setting(*combination)
        if setting.drafter == "off":
            setting = Setting("off", "fixed", temperature=setting.temperature, baseline="target")
        elif setting.policy != "fixed":
            setting = replace(setting, draft_min=setting.draft_min if setting.policy == "auto" else 0, p_min=0.0)
        if setting.draft_min > setting.draft_max:
            dropped += 1
        else:
            combined[setting] = None
    return list(combined), dropped


def usual(drafts: bool, temperature: Sequence[float]) -> list[Setting]:
    """The default settings: auto, and a few fixed settings of the draft model (or of repetitions)."""
    drafter, lengths, thresholds = ("model", (4, 8, 16), (0.4, 0.75)) if drafts else ("suffix", (4, 8, 16), (0.5,))
    return [
        setting
        for value in temperature
        for setting in (
            Setting(temperature=value),
            *(Setting(drafter, "fixed", most, 0, p_min, value) for most in lengths for p_min in thresholds),
        )
    ]


def with_drafts(settings: Sequence[Setting], drafts: Sequence[str]) -> list[Setting]:
    """These settings with each of the drafts, and the automatic policy with none, which finds repetitions alone."""
    none = [Setting("suffix", temperature=heat, draft=NO_DRAFT) for heat in dict.fromkeys(s.temperature for s in settings)]
    return [*none, *(replace(setting, draft=draft) for draft in drafts for setting in settings)]


def baselines(settings: Sequence[Setting], drafts: bool) -> Iterator[Setting]:
    """The target alone, and the draft model (if it `drafts`) alone, at each temperature of the settings; where these name
    drafts, the target alone beside each of them."""
    if named := list(dict.fromkeys((setting.draft, setting.temperature) for setting in settings if setting.draft)):
        for draft, temperature in named:
            yield Setting("off", "fixed", temperature=temperature, baseline="target", draft=draft)
        return
    for temperature in dict.fromkeys(setting.temperature for setting in settings):
        yield Setting("off", "fixed", temperature=temperature, baseline="target")
        if drafts:
            yield Setting("off", "fixed", temperature=temperature, baseline="draft")
