"""`spectui bench`: settings times prompts, measured and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from spectui.cli.measure.common import MeasureOptions, columns, make_runs, measurement, progress_text
from spectui.cli.models.server import engine_of
from spectui.cli.options import ENGINE, INTERRUPTED, SPELLED
from spectui.cli.terminal import confirm, prepare_stdout, yes_option
from spectui.errors import UsageError
from spectui.knobs import title
from spectui.measure.bench.settings import SWEPT
from spectui.paths import expanded

if TYPE_CHECKING:
    from spectui.engine.events import Loaded
    from spectui.knobs import Setup
    from spectui.measure.bench.conditions import Conditions
    from spectui.measure.bench.results import Run
    from spectui.measure.bench.runner import PlannedRun
    from spectui.measure.bench.settings import Setting

ASK_S = 300.0
"""A bench that takes longer asks first."""


@measurement("bench", *ENGINE, lists=SWEPT)
@click.option("--runs", default=3, type=click.IntRange(1, 100), metavar="N", help="runs of each cell (default 3)")
@click.option("--no-baselines", is_flag=True, help="leave out the target alone and the draft alone")
@click.option("--show", is_flag=True, help="measure nothing: print what --results, or the newest file, has")
@yes_option
@click.option("--report", is_flag=True, help="print what can be sent to others: no texts, no paths")
def command(
    ctx: click.Context, options: MeasureOptions, runs: int, no_baselines: bool, show: bool, yes: bool, report: bool
) -> None:
    """Compare settings of a pair, or several drafts.

    They answer several prompts, each from cold; --draft a.gguf,b.gguf names several drafts. Every run is written to a file at
    once, so that Ctrl+C, or an error, keeps what was measured. A file that --results names gets the runs that it lacks.
    """
    from spectui.measure.bench import results as stored

    prepare_stdout()
    if show:
        _print(stored.read(options.results or stored.newest_file("bench")), options.as_json, report)
        return
    from spectui.measure.bench.runner import plan, remaining
    from spectui.measure.bench.settings import baselines
    from spectui.measure.progress import ProgressLine, duration

    options, lists = _without_lists(options)
    prompts = options.prompts()
    server = options.server_setup()
    if server is not None:
        setup, settings, alone = server, _served(options, lists, server), list["Setting"]()
    else:
        setup, drafts = _models(options)
        settings, has_draft_model = _settings(options, lists, setup, drafts, len(prompts) * runs)
        alone = [] if no_baselines else list(baselines(settings, has_draft_model))
    knobs = options.knobs(setup.model)
    file = options.results or stored.new_file("bench")
    done = stored.read(file) if file.exists() else []
    todo = remaining(plan(alone, settings, prompts, runs), done)
    line = ProgressLine()

    def measure(loaded: Loaded, conditions: Conditions, make: Callable[[PlannedRun], Run]) -> None:
        stored.check_same(file, done, conditions, prompts)
        for planned in todo:
            make(planned)

    def tell(made: Sequence[Run]) -> None:
        if len(made) == 1:
            line.show("")
            left_s = made[0].wall_s * (len(todo) - 1)
            confirm(f"This would take about {duration(left_s)}", yes or left_s <= ASK_S, ", or compare fewer settings")
        line(len(made) / len(todo), progress_text(made[-1]))

    result = make_runs(engine_of(setup, knobs), setup, knobs, file, line, measure, tell)
    everything = [*done, *result.runs]
    _print(everything, options.as_json, report)
    if everything:
        click.echo(f"spectui: The runs are in {file}; --results adds to them, --show prints them.", err=True)
    if result.problem is not None:
        raise result.problem
    if result.stopped:
        ctx.exit(INTERRUPTED)


def _without_lists(options: MeasureOptions) -> tuple[MeasureOptions, dict[str, str]]:
    """The options without the settings that may be lists, and those of these that were given."""
    lists = {key: text for key in SWEPT if (text := options.values[key]) is not None}
    return replace(options, values={key: text for key, text in options.values.items() if key not in SWEPT}), lists


def _models(options: MeasureOptions) -> tuple[Setup, list[str]]:
    """The set-up, without a draft where several are named, and these. Raises SpectuiError where a file is none."""
    from spectui.gguf_files.check import check_file

    text, drafts = str(options.values["draft"] or ""), list[str]()
    if "," in text and not expanded(text).exists():
        drafts = list(dict.fromkeys(str(expanded(name.strip())) for name in text.split(",") if name.strip()))
        options = replace(options, values={**options.values, "draft": None})
    setup = options.own_setup()
    check_file(setup.model or "", "target")
    for draft in drafts:  # before the first reply
        check_file(draft, "draft")
    return (replace(setup, draft=None) if drafts else setup), drafts


def _served(options: MeasureOptions, lists: Mapping[str, str], setup: Setup) -> list[Setting]:
    """What can be varied on a server: the temperature. Raises UsageError."""
    from spectui.attach.address import address
    from spectui.measure.bench.settings import Setting, values

    spelled = click.get_current_context().meta[SPELLED]
    for key in lists:
        if key != "temperature":
            raise UsageError(f"A server fixes {title(key)} at its start: leave out {spelled[key]}, and bench it once for each.")
    name = f"{address(setup.server).short} {setup.server_model}".strip()
    text = lists.get("temperature", f"{options.settings.knobs.temperature}")
    temperatures = values("temperature", text, f"flag {spelled.get('temperature', '--temp')}")
    return [Setting(temperature=temperature, server=name) for temperature in temperatures]


def _settings(
    options: MeasureOptions, lists: Mapping[str, str], setup: Setup, drafts: Sequence[str], replies: int
) -> tuple[list[Setting], bool]:
    """The settings to compare, each by so many replies, and whether a draft model could also write alone. What is swept without
    a policy is swept under the policy fixed. Raises UsageError.
    """
    from spectui.gguf_files.compatibility import drafting_heads
    from spectui.measure.bench.settings import check_size, sweep, usual, values, with_drafts

    heads = not drafts and drafting_heads(setup.model or "", setup.draft) is not None
    can_draft = bool(drafts) or heads or setup.draft is not None
    spelled = click.get_current_context().meta[SPELLED]
    swept = {key: values(key, text, f"flag {spelled[key]}") for key, text in lists.items()}
    knobs = options.settings.knobs
    temperature = swept.get("temperature", [knobs.temperature])
    if not drafts and not swept.keys() - {"temperature"}:
        return usual(can_draft, temperature), can_draft and not heads
    if swept.keys() & {"draft_max", "draft_min", "p_min"}:
        swept.setdefault("policy", ["fixed"])
        swept.setdefault("drafter", ["model" if can_draft else "suffix"])
    swept = {key: swept.get(key, [getattr(knobs, key)]) for key in SWEPT}
    check_size(swept, replies * max(1, len(drafts)))
    settings, dropped = sweep(swept)
    if not settings:
        raise UsageError("In every combination draft-min is above draft-max: lower draft-min or raise draft-max.")
    if dropped:
        click.echo(f"spectui: {dropped} combinations have a draft-min above their draft-max and are left out.", err=True)
    for setting in settings:
        setting.on(knobs)
    return (with_drafts(settings, drafts) if drafts else settings), can_draft and not heads


def _print(runs: Sequence[Run], as_json: bool, for_others: bool) -> None:
    from spectui.measure import report, shared
    from spectui.measure.bench.summary import summarise

    runs = shared.anonymous(runs) if for_others else runs
    summary = summarise(runs)
    if as_json:
        click.echo(report.as_json(summary, runs))
        return
    for line in shared.text_lines(summary, columns()) if for_others else report.text(summary, columns()):
        click.echo(line)
