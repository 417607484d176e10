"""Figures of a bench from its runs: medians, spreads, gains, and the verdicts on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import comb, log
from statistics import median

from spectui.measure.bench.conditions import difference
from spectui.measure.bench.results import FINALS, Run
from spectui.measure.bench.settings import Setting
from spectui.measure.verdict import Noise, Pairs, Verdict, judge, noise
from spectui.speculation.statistics import Statistics, ratio, total

WIDE = 0.1
"""Spread from which a table says that the runs differ much."""

_NAMED = 8
"""So many ties have their names in a sentence."""

_FAMILIES = 2
"""Verdicts against the target alone, and those of settings against each other: a table speaks both."""


def speed(runs: Sequence[Run]) -> float:
    """Median of runs of one setting and one prompt, in tokens per second of decoding."""
    return median(run.decoding for run in runs)


def spread(runs: Sequence[Run]) -> float | None:
    """(fastest - slowest) / median of such runs; None for a single one."""
    speeds = [run.decoding for run in runs]
    return ratio(max(speeds) - min(speeds), median(speeds)) if len(speeds) > 1 else None


@dataclass
class Row:
    """The runs of one setting, by prompt. `gain`: the verdict on its whole replies against the target alone's, and `decoding`
    on the decoding alone; None where one of them has not been measured on each prompt. `best`: of its temperature.
    `beside_best`: the verdict on it against the best.
    """

    setting: Setting
    cells: dict[str, list[Run]]
    gain: Verdict | None = None
    decoding: Verdict | None = None
    best: bool = False
    beside_best: Verdict | None = None

    @property
    def tie(self) -> bool:
        """It cannot be told from the best."""
        return self.beside_best is not None and not self.beside_best.told

    @property
    def runs(self) -> list[Run]:
        return [run for cell in self.cells.values() for run in cell]

    @property
    def statistics(self) -> Statistics:
        return total(run.statistics for run in self.runs)


@dataclass(frozen=True)
class Summary:
    """All rows in the order of the runs, and the prompts."""

    rows: tuple[Row, ...]
    prompts: tuple[str, ...]
    runs: tuple[Run, ...]
    mixed: bool = False
    """The runs are of different models, prompts, settings, machines or kernels: then nothing is judged."""

    @cached_property
    def temperatures(self) -> list[float]:
        """Those of the runs."""
        return list(dict.fromkeys(run.setting.temperature for run in self.runs))

    def label(self, setting: Setting) -> str:
        """The setting's name here: with its temperature, if there are several."""
        heat = f" temp {setting.temperature:g}" if len(self.temperatures) > 1 else ""
        return f"{setting.label}{heat}"

    @property
    def chosen(self) -> Setting | None:
        """What to use: a draft if one is known to be faster than none, and a fixed setting if it is known to be faster than
        auto, or auto is of no use. None where the target alone was not measured."""
        plain = next((row for row in self.rows if row.gain is not None and row.setting.baseline == "target"), None)
        if plain is None:
            return None
        pay = [row for row in self.rows if row.gain is not None and row.gain.faster and not row.setting.baseline
               and row.setting.temperature == plain.setting.temperature]  # fmt: skip
        auto = next((row for row in pay if row.setting.policy == "auto"), None)
        if auto is not None and not (auto.beside_best is not None and auto.beside_best.slower):
            return auto.setting
        return next((row for row in pay if row.best), plain).setting


def paired(one: Row, other: Row, prompts: Sequence[str], decoding: bool = False) -> Pairs:
    """The ratios of two settings' speeds, of replies to one prompt in one repetition with one draft loaded: for `judge`.

    Empty where one of them has not been measured on every prompt yet, because then they did other work.
    """
    if any(prompt not in row.cells for row in (one, other) for prompt in prompts):
        return {}
    pairs = {}
    for prompt in prompts:
        own, others = (
            {(run.setting.draft, run.repetition): run.decoding if decoding else run.speed
             for run in row.cells[prompt] if run.speed > 0}
            for row in (one, other)
        )  # fmt: skip
        pairs[prompt] = [log(own[key]) - log(others[key]) for key in sorted(own.keys() & others.keys())]
    return pairs


def shown(runs: Sequence[Run]) -> list[Run]:
    """The runs that a table is made of. Of a search those are the finals, and before these the longest replies."""
    finals = [run for run in runs if run.stage == FINALS]
    if judged := finals or [run for run in runs if not run.stage]:
        return judged
    longest: dict[Setting, int] = {}
    for run in runs:
        longest[run.setting] = max(run.predict, longest.get(run.setting, 0))
    return [run for run in runs if run.predict == longest[run.setting]]


def summarise(runs: Sequence[Run]) -> Summary:
    """The figures of these runs. The target alone is one row, beside whichever draft it was measured."""
    runs = shown(runs)
    grouped: dict[Setting, dict[str, list[Run]]] = {}
    for run in runs:
        setting = replace(run.setting, draft="") if run.setting.baseline else run.setting
        grouped.setdefault(setting, {}).setdefault(run.prompt, []).append(run)
    prompts = tuple(dict.fromkeys(run.prompt for run in runs))
    rows = [Row(setting, cells) for setting, cells in grouped.items()]
    if _mixed(runs):
        return Summary(tuple(rows), prompts, tuple(runs), True)
    among = _FAMILIES * max(1, sum(not row.setting.baseline for row in rows))
    # The draft alone writes faster, and so scatters more.
    beside = [(row, _plain(rows, row.setting.temperature)) for row in rows if not row.setting.baseline]
    usual = noise([paired(row, plain, prompts) for row, plain in beside if plain is not None])
    for row in rows:
        _compare_with_plain(row, rows, prompts, among, usual)
    _mark_best(rows, prompts, usual)
    return Summary(tuple(rows), prompts, tuple(runs))


def _plain(rows: Sequence[Row], heat: float) -> Row | None:
    """The target alone at this temperature."""
    return next((row for row in rows if row.setting.baseline == "target" and row.setting.temperature == heat), None)


def _compare_with_plain(row: Row, rows: Sequence[Row], prompts: Sequence[str], among: int, usual: Mapping[str, Noise]) -> None:
    plain = _plain(rows, row.setting.temperature)
    whole = paired(row, plain, prompts) if plain is not None else {}
    if plain is None or not whole or not all(whole.values()):
        return
    if row is plain:  # by definition, not by measurement: it has no bounds
        row.gain = row.decoding = Verdict(1.0)
        return
    row.gain = judge(whole, among, usual)
    row.decoding = judge(paired(row, plain, prompts, decoding=True), among, usual)


def _mark_best(rows: Sequence[Row], prompts: Sequence[str], usual: Mapping[str, Noise]) -> None:
    """Mark the best of each temperature, and judge the others against it. The draft alone takes no part: its text is
    another."""
    groups = [
        [row for row in rows if row.setting.temperature == heat and row.setting.baseline != "draft"]
        for heat in {row.setting.temperature for row in rows}
    ]
    counts = [sum(not row.setting.baseline for row in group) for group in groups]
    among = _FAMILIES * sum(max(1, comb(count, 2)) for count in counts)  # each against each other
    for group in groups:
        gains = any(row.gain is not None for row in group)
        order = {row.setting: (row.gain is not None and row.gain.faster,
                               (row.gain.ratio if row.gain else 0.0) if gains else _speed(row, prompts))
                 for row in group}  # fmt: skip
        top = max(group, key=lambda row: order[row.setting], default=None)
        if top is None or order[top.setting][1] <= 0 or len(group) == 1:
            continue
        top.best = True
        for row in (other for other in group if other is not top):
            pairs = _beside(row, top, group, prompts)
            if row.setting.baseline and top.gain is not None:
                # One verdict on these two is spoken, and it is that of the gain; also if the target alone is the best.
                gain = top.gain
                row.beside_best = Verdict(1 / gain.ratio, gain.high and 1 / gain.high, gain.low and 1 / gain.low, *gain[3:])
            elif top.setting.baseline and row.gain is not None:
                row.beside_best = row.gain
            elif all(pairs.values()) and pairs:
                row.beside_best = judge(pairs, among, usual)


def _beside(row: Row, other: Row, group: Sequence[Row], prompts: Sequence[str]) -> Pairs:
    """Pairs of the replies of both; where they were never measured together, of what they gain over the target alone."""
    pairs = paired(row, other, prompts)
    plain = _plain(group, row.setting.temperature)
    if plain is None or any(pairs.values()):
        return pairs
    own, its = (paired(one, plain, prompts) for one in (row, other))
    return {prompt: [a - b for a, b in zip(own[prompt], its[prompt], strict=False)] for prompt in own if prompt in its}


def _speed(row: Row, prompts: Sequence[str]) -> float:
    """Tokens a second, the mean over the prompts; 0 if it misses one."""
    speeds = {prompt: [log(run.speed) for run in row.cells[prompt] if run.speed > 0] for prompt in prompts
              if prompt in row.cells}  # fmt: skip
    return judge(speeds).ratio if len(speeds) == len(prompts) and all(speeds.values()) else 0.0


def remarks(summary: Summary) -> list[str]:
    """Sentences that say what the figures mean, and what makes them doubtful."""
    kernels = dict.fromkeys(run.conditions.kernels for run in summary.runs if run.conditions.kernels)
    return [*_verdicts(summary), *kernels, *_gaps(summary), *_disturbances(summary)]


def _gaps(summary: Summary) -> Iterator[str]:
    """What was not measured, or not often enough."""
    if summary.mixed:
        yield "These runs are of different models, prompts, settings, machines or kernels, so they cannot be compared."
    short = [run.prompt for run in summary.runs if not run.decoding]
    if short:
        yield (
            f"{len(short)} of {len(summary.runs)} replies, the first to {short[0]}, are too short to have a speed, and a "
            "setting without any other reply to a prompt has no gain: take other prompts."
        )
    if summary.rows and not any(row.setting.baseline == "target" for row in summary.rows):
        yield "The target alone was not measured, so no gain is known."
    counts = [len(cell) for row in summary.rows if not row.setting.baseline for cell in row.cells.values()]
    if max(counts, default=0) == 1:
        yield "One run of each: a prompt counts as a draw from all prompts. With --runs 3 these prompts are judged."


def _disturbances(summary: Summary) -> Iterator[str]:
    """What else the machine did, and texts that should have been one."""
    wide = [cell for row in summary.rows for cell in row.cells.values() if (spread(cell) or 0) > WIDE]
    if wide:
        worst = max(wide, key=lambda cell: spread(cell) or 0)
        yield (
            f"The runs of {len(wide)} cell{'s' if len(wide) > 1 else ''} differ by more than {WIDE:.0%}, those of "
            f"{summary.label(worst[0].setting)} on {worst[0].prompt} by {spread(worst):.0%}: the machine was not steady."
        )
    busy = [run.busy for run in summary.runs if run.busy]
    if busy:
        yield f"The machine was busy in {len(busy)} of {len(summary.runs)} runs ({busy[-1]})."
    stolen = max((run.stolen for run in summary.runs), default=0)
    if stolen > 0.02:
        yield f"The host took up to {stolen:.0%} of the cores during a run."
    texts: dict[tuple[str, float, int, int], set[str]] = {}
    for run in summary.runs:
        if run.setting.baseline != "draft":
            own = (run.predict, run.repetition) if run.stage else (0, 0)  # a search has several lengths and seeds
            texts.setdefault((run.prompt, run.setting.temperature, *own), set()).add(run.text)
    prompts = dict.fromkeys(prompt for (prompt, *_), different in texts.items() if len(different) > 1)
    if prompts:
        yield f"The texts differ on {', '.join(prompts)}: see docs/exactness.md, or add --strict."


def _verdicts(summary: Summary) -> Iterator[str]:
    """What is known of the best of each temperature: against the target alone, and against the others."""
    for best in (row for row in summary.rows if row.best):
        name = summary.label(best.setting)
        if best.setting.baseline:
            yield f"The best is the {name}."
        elif best.gain is not None:
            yield f"The best, {best.gain.of(f'{name},', 'the target alone')}."
        else:
            yield f"The best is {name}."
        ties = [row for row in summary.rows if row.tie and row.setting.temperature == best.setting.temperature]
        if ties and all(row.beside_best is not None and row.beside_best.pairs == 1 for row in ties):
            yield "One pair of replies tells nothing of what is marked =."
        elif ties:
            names = "; ".join(f"{summary.label(row.setting)} ({_more(row.beside_best)})" for row in ties)
            if len(ties) > _NAMED:
                names = f"{len(ties)} settings"
            yield f"It cannot be told from what is marked =: {names}."


def _more(verdict: Verdict | None) -> str:
    """What would tell them apart."""
    assert verdict is not None
    if verdict.enough:
        return f"some {verdict.enough} pairs would"
    return "one pair tells nothing" if verdict.pairs == 1 else f"{verdict.pairs} pairs are far too few"


def _mixed(runs: Sequence[Run]) -> bool:
    prompts = {run.prompt: run.prompt_text for run in runs}
    conditions = list({id(run.conditions): run.conditions for run in runs}.values())
    return any(run.prompt_text != prompts[run.prompt] for run in runs) or any(
        difference(one, other) for one, other in pairwise(conditions)
    )
