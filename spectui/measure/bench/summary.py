"""Figures of a bench from its runs: medians, spreads, gains, and which settings can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import geometric_mean, median

from spectui.measure.bench.results import Run
from spectui.measure.bench.settings import Setting
from spectui.speculation.statistics import Statistics, ratio

WIDE = 0.1
"""Spread from which a table says that the runs differ much."""


def total(runs: Sequence[Run]) -> Statistics:
    """The sums of the runs' figures."""
    whole = Statistics()
    for each in (run.statistics for run in runs):
        for name in (
            "emitted",
            "rounds",
            "accepted",
            "rejected",
            "ignored",
            "draft_s",
            "verify_s",
            "choose_s",
            "decode_s",
        ):
            setattr(whole, name, getattr(whole, name) + getattr(each, name))
        whole.reached = [a + b for a, b in zip_longest(whole.reached, each.reached, fillvalue=0)]
        whole.kept = [a + b for a, b in zip_longest(whole.kept, each.kept, fillvalue=0)]
    return whole


@dataclass(frozen=True)
class Cell:
    """The runs of one setting and one prompt."""

    setting: Setting
    prompt: str
    runs: tuple[Run, ...]

    @property
    def speed(self) -> float:
        """Median of the runs, in tokens per second."""
        return median(run.speed for run in self.runs)

    @property
    def spread(self) -> float | None:
        """(fastest - slowest) / median; None for a single run."""
        speeds = [run.speed for run in self.runs]
        return ratio(max(speeds) - min(speeds), self.speed) if len(speeds) > 1 else None


@dataclass(frozen=True)
class Row:
    """The runs of one setting. `speeds`: by repetition, the geometric mean over the prompts; empty where the setting has
    not been measured on each of them. `gains`: the same of its speed over the target alone's in the same repetition,
    because minutes later the machine may be slower; empty also where the target alone has not been measured on each.
    """

    setting: Setting
    cells: dict[str, Cell]
    gains: tuple[float, ...]
    speeds: tuple[float, ...]
    best: bool = False
    tie: bool = False
    """It cannot be told from the best: in some repetition it was as fast as the best was in some other."""

    @property
    def gain(self) -> float | None:
        """Median over the repetitions; 1 is the target alone's speed."""
        return median(self.gains) if self.gains else None

    @property
    def order(self) -> tuple[float, float]:
        """The sort key, larger is better: the gain, or the speed if no gain is known."""
        return self.gain or 0.0, median(self.speeds) if self.speeds else 0.0

    @property
    def runs(self) -> list[Run]:
        return [run for cell in self.cells.values() for run in cell.runs]

    @property
    def statistics(self) -> Statistics:
        return total(self.runs)


@dataclass(frozen=True)
class Summary:
    """All rows in the order of the runs, and the prompts."""

    rows: tuple[Row, ...]
    prompts: tuple[str, ...]
    runs: tuple[Run, ...]


def summarise(runs: Sequence[Run]) -> Summary:
    """The figures of these runs."""
    grouped: dict[Setting, dict[str, list[Run]]] = {}
    for run in runs:
        grouped.setdefault(run.setting, {}).setdefault(run.prompt, []).append(run)
    cells = {
        setting: {prompt: Cell(setting, prompt, tuple(each)) for prompt, each in by_prompt.items()}
        for setting, by_prompt in grouped.items()
    }
    prompts = tuple(dict.fromkeys(run.prompt for run in runs))
    rows = [
        Row(setting, by_prompt, _gains(by_prompt, cells, prompts), _means(by_prompt, None, prompts))
        for setting, by_prompt in cells.items()
    ]
    return Summary(_ranked(rows), prompts, tuple(runs))


def _gains(row: dict[str, Cell], cells: dict[Setting, dict[str, Cell]], prompts: Sequence[str]) -> tuple[float, ...]:
    """See `Row`."""
    temperature = next(iter(row.values())).setting.temperature
    alone = next((each for each in cells if each.baseline == "target" and each.temperature == temperature), None)
    return () if alone is None else _means(row, cells[alone], prompts)


def _means(row: dict[str, Cell], plain: dict[str, Cell] | None, prompts: Sequence[str]) -> tuple[float, ...]:
    """By repetition, the geometric mean over all prompts of the speeds, or of their ratios to those of `plain`.

    None where one has not been measured on every prompt yet, because others' are not comparable.
    """
    if any(prompt not in row or (plain is not None and prompt not in plain) for prompt in prompts):
        return ()
    speeds = [_by_repetition(row[prompt]) for prompt in prompts]
    if plain is not None:
        others = [_by_repetition(plain[prompt]) for prompt in prompts]
        speeds = [
            {number: speed / other[number] for number, speed in own.items() if number in other}
            for own, other in zip(speeds, others, strict=True)
        ]
    common = sorted(set[int].intersection(*(set(each) for each in speeds)))
    return tuple(geometric_mean(each[number] for each in speeds) for number in common)


def _by_repetition(cell: Cell) -> dict[int, float]:
    return {run.repetition: run.speed for run in cell.runs if run.speed > 0}


def _ranked(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with the best of each temperature and its ties marked: by gain, or by speed where the target alone was not
    measured. The draft alone takes no part: its text is another."""
    marked = {}
    for temperature in {row.setting.temperature for row in rows}:
        those = [row for row in rows if row.setting.temperature == temperature and row.setting.baseline != "draft"]
        by_gain = any(row.gains for row in those)
        values = {row.setting: row.gains if by_gain else row.speeds for row in those}
        top = max(those, key=lambda row: median(values[row.setting] or (0.0,)), default=None)
        if top is None or not values[top.setting]:
            continue
        worst = min(values[top.setting])
        for row in those:
            tie = row is not top and max(values[row.setting], default=0.0) >= worst
            marked[row.setting] = replace(row, best=row is top, tie=tie)
    return tuple(marked.get(row.setting, row) for row in rows)


def remarks(summary: Summary) -> list[str]:
    """Sentences that explain the figures."""
    found = []
    if _mixed(summary.runs):
        found.append(
            "These runs are of different models, prompts or settings, or had other kernels, so they cannot be compared."
        )
    found += dict.fromkeys(run.kernels for run in summary.runs if run.kernels)
    if summary.rows and not any(row.setting.baseline == "target" for row in summary.rows):
        found.append(
            "The target alone was not measured, so no gain is known: the best (*) has the highest geometric mean of its speeds."
        )
    counts = {len(cell.runs) for row in summary.rows for cell in row.cells.values()}
    ties = [row.setting.label for row in summary.rows if row.tie]
    if max(counts, default=0) < 2:
        found.append("One run of each: no spread is known, so close settings cannot be ranked (--runs 3).")
    elif ties:
        found.append(
            f"Cannot be told from the best (=), because their runs overlap: {'; '.join(ties)}. More --runs may tell them apart."
        )
    wide = [cell for row in summary.rows for cell in row.cells.values() if (cell.spread or 0) > WIDE]
    if wide:
        worst = max(wide, key=lambda cell: cell.spread or 0)
        found.append(
            f"The runs of {len(wide)} cells differ by more than {WIDE:.0%}, those of "
            f"{worst.setting.label} on {worst.prompt} by {worst.spread:.0%}: the machine was not steady."
        )
    busy = [run.busy for run in summary.runs if run.busy]
    if busy:
        found.append(f"The machine was busy in {len(busy)} of {len(summary.runs)} runs ({busy[-1]}).")
    stolen = max((run.stolen for run in summary.runs), default=0)
    if stolen > 0.02:
        found.append(f"The host took up to {stolen:.0%} of the cores during a run.")
    texts: dict[tuple[str, float], set[str]] = {}
    for run in summary.runs:
        if run.setting.baseline != "draft":
            texts.setdefault((run.prompt, run.setting.temperature), set()).add(run.text)
    different = [prompt for (prompt, _), each in texts.items() if len(each) > 1]
    if different:
        found.append(
            f"The texts differ on {', '.join(dict.fromkeys(different))}: see docs/exactness.md, or add --strict."
        )
    return found


def _mixed(runs: Sequence[Run]) -> bool:
    prompts = {run.prompt: run.prompt_text for run in runs}
    return any(
        (run.conditions, run.kernels) != (runs[0].conditions, runs[0].kernels) or run.prompt_text != prompts[run.prompt]
        for run in runs
    )
