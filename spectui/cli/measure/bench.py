"""`spectui bench`: settings times prompts, measured and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spectui.cli.measure.common import (
    UNEVEN_SPEEDS,
    chosen_prompts,
    prepare_stdout,
    prompt_options,
    repeatable,
    tell_if_busy,
)
from spectui.cli.measure.runs import columns, make_runs, results_file, results_option, told
from spectui.cli.models.hub import fetched, hub_options
from spectui.cli.models.server import server_engine, server_setup
from spectui.cli.options import ENGINE, INTERRUPTED, SPELLED, Command, configuration, setting_options
from spectui.cli.terminal import confirm, yes_option
from spectui.errors import UsageError
from spectui.knobs import title
from spectui.measure.bench.settings import SWEPT

if TYPE_CHECKING:
    from spectui.cli.measure.runs import Made
    from spectui.config import Configuration
    from spectui.engine.protocol import SessionEngine
    from spectui.knobs import Knobs, Setup
    from spectui.measure.bench.results import Run
    from spectui.measure.bench.runner import Cell
    from spectui.measure.bench.settings import Setting
    from spectui.measure.progress import ProgressLine

ASK_S = 300.0
"""A bench that takes longer asks first."""

_PROMPTS = "python,toaster,table,story"
_PREDICT, _SEED = 80, 1


@click.command("bench", cls=Command)
@prompt_options(_PROMPTS)
@click.option("--runs", default=3, type=click.IntRange(1, 100), metavar="N", help="runs of each cell (default 3)")
@click.option("--no-baselines", is_flag=True, help="leave out the target alone and the draft alone")
@results_option
@click.option("--resume", is_flag=True, help="go on with the runs in --results, or with the newest file of runs")
@click.option("--show", is_flag=True, help="measure nothing: print what --results, or the newest file, has")
@yes_option
@click.option("--csv", "form", flag_value="csv", help="print a line of CSV for each setting and prompt")
@click.option("--json", "form", flag_value="json", help="print one JSON object: every run, and what the table says")
@click.option(
    "--report", is_flag=True, help="print Markdown that can be sent to others (with --json, JSON): no texts, no paths"
)
@hub_options
@setting_options(*ENGINE, lists=SWEPT, defaults={"predict": _PREDICT, "seed": _SEED})
@click.pass_context
def command(
    ctx: click.Context,
    /,
    names: str | None,
    prompt_file: Path | None,
    runs: int,
    no_baselines: bool,
    results: Path | None,
    resume: bool,
    show: bool,
    yes: bool,
    form: str | None,
    report: bool,
    profile: str | None,
    config_path: Path | None,
    hub_target: str | None,
    hub_draft: str | None,
    **values: Any,
) -> None:
    """Compare settings of a pair on several prompts.

    Each reply begins from cold. Every run is written to a file at once, so that Ctrl+C, or an error, keeps what was measured.
    """
    from spectui.measure.bench import results as stored

    prepare_stdout()
    if report and form == "csv":
        raise UsageError("--report is Markdown, or JSON with --json: leave out --csv.")
    old = resume or show
    file = (results or stored.newest_file("bench")) if old else results_file("bench", results)
    if show:
        _print(stored.read(file), form, report)
        return
    from spectui.gguf_files.compatibility import drafting_heads
    from spectui.measure.bench.conditions import conditions
    from spectui.measure.bench.runner import plan

    lists = {key: values.pop(key) for key in SWEPT}
    settings = configuration(profile, config_path, values)
    setup = _pair(settings, hub_target, hub_draft)
    prompts = chosen_prompts(names, prompt_file, setup.system, _PROMPTS)
    knobs = repeatable(settings.knobs, _SEED, _PREDICT)
    heads = drafting_heads(setup.model, setup.draft) is not None if setup.model else False
    drafts, replies = heads or setup.draft is not None, len(prompts) * runs
    chosen = _served(lists, settings, setup) if setup.server else _settings(lists, settings, drafts, replies)
    from spectui.measure.bench.settings import baselines

    alone = [] if no_baselines or setup.server else list(baselines(chosen, drafts and not heads))
    cells = plan(alone, chosen, prompts, runs)
    done = stored.read(file) if resume else []
    stored.check_same(file, done, conditions(setup, knobs), prompts)
    from spectui.measure.progress import ProgressLine

    made = _measure(setup, knobs, cells, done, file, yes, ProgressLine())
    _print(made.runs, form, report)
    if made.runs:
        click.echo(f"spectui: The runs are in {file}; --resume goes on with them, --show prints them.", err=True)
    if made.problem is not None:
        raise made.problem
    if made.stopped:
        ctx.exit(INTERRUPTED)


def _pair(settings: Configuration, hub_target: str | None, hub_draft: str | None) -> Any:
    if (server := server_setup(settings, hub_target, hub_draft)) is not None:
        return server
    from spectui.engine.demo import default_setup
    from spectui.gguf_files.check import check_file

    setup = default_setup(fetched(settings, hub_target, hub_draft))
    check_file(setup.model or "", "target")
    return setup


def _served(lists: Mapping[str, str | None], settings: Configuration, setup: Setup) -> list[Setting]:
    """What can be varied on a server: the temperature. Raises UsageError."""
    from spectui.attach.address import address
    from spectui.measure.bench.settings import Setting, values

    spelled = click.get_current_context().meta[SPELLED]
    given = {key: text for key, text in lists.items() if text is not None}
    for key in given:
        if key != "temperature":
            raise UsageError(
                f"A server fixes {title(key)} at its start: leave out {spelled[key]}, and bench it once for each."
            )
    name = f"{address(setup.server).short} {setup.server_model}".strip()
    text = given.get("temperature", f"{settings.knobs.temperature}")
    temperatures = values("temperature", text, f"flag {spelled.get('temperature', '--temp')}")
    return [Setting(temperature=each, server=name) for each in temperatures]


def _settings(lists: Mapping[str, str | None], settings: Configuration, drafts: bool, replies: int) -> list[Setting]:
    """The settings to compare, each by so many replies. What is swept without a policy is swept under the policy fixed.

    Raises UsageError.
    """
    from spectui.measure.bench.settings import check_size, sweep, usual, values

    spelled = click.get_current_context().meta[SPELLED]
    given = {key: values(key, text, f"flag {spelled[key]}") for key, text in lists.items() if text is not None}
    temperature = given.get("temperature", [settings.knobs.temperature])
    if not given.keys() - {"temperature"}:
        return usual(drafts, temperature)
    fixed = bool(given.keys() & {"draft_max", "draft_min", "p_min"})
    if fixed:
        given.setdefault("policy", ["fixed"])
        given.setdefault("drafter", ["model" if drafts else "suffix"])
    knobs = settings.knobs
    given.setdefault("temperature", temperature)
    swept = {key: given.get(key, [getattr(knobs, key)]) for key in SWEPT}
    check_size(swept, replies)
    chosen, dropped = sweep(swept)
    if not chosen:
        raise UsageError("In every combination draft-min is above draft-max: lower draft-min or raise draft-max.")
    if dropped:
        click.echo(
            f"spectui: {dropped} combinations have a draft-min above their draft-max and are left out.", err=True
        )
    for setting in chosen:
        setting.on(knobs)
    return chosen


def _measure(
    setup: Any, knobs: Knobs, cells: Sequence[Cell], done: list[Run], file: Path, yes: bool, line: ProgressLine
) -> Made:
    """Make the runs that are not done."""
    from spectui.measure.bench import results as stored
    from spectui.measure.bench import runner

    worker: SessionEngine
    if setup.server:
        worker = server_engine(knobs)
    else:
        from spectui.engine.isolation.process import engine_for

        worker = engine_for(setup, knobs)
    models = runner.EngineModels(worker, setup)
    todo = runner.left(cells, done)

    def plan() -> runner.Plan:
        models.load(setup)
        tell_if_busy(UNEVEN_SPEEDS)
        for run in done:
            if other := next((key for key, value in stored.facts(run).items() if models.facts[key] != value), None):
                raise UsageError(
                    f"The runs in {file} were made with other {other} ({stored.facts(run)[other]}): repeat that, or leave out "
                    "--resume."
                )
        return runner.fixed(todo)

    def tell(made: list[Run]) -> None:
        if len(made) == 1:
            line.end()
            _ask(made[0].wall_s * (len(todo) - 1), len(todo), yes)
        line(len(made) / len(todo), told(made))

    return make_runs(worker, models, plan, knobs, file, line, tell, done)


def _ask(left_s: float, runs: int, yes: bool) -> None:
    """Say how long it will take, and ask if that is long. Raises UsageError where nobody can be asked, Abort on a no."""
    from spectui.measure.progress import duration

    click.echo(f"spectui: {runs} run{'s' if runs > 1 else ''}, about {duration(left_s)}.", err=True)
    confirm(f"This would take about {duration(left_s)}", yes or left_s <= ASK_S, ", or compare fewer settings")


def _print(runs: Sequence[Run], form: str | None, report: bool) -> None:
    from spectui.measure.bench.summary import summarise
    from spectui.measure.report import shared, tables

    runs = shared.anonymous(runs) if report else runs
    summary = summarise(runs)
    if report and form is None:
        click.echo(shared.as_markdown(summary), nl=False)
    elif form == "json":
        click.echo(tables.as_json(summary, runs))
    elif form == "csv":
        click.echo(tables.as_csv(summary).rstrip("\n"))
    else:
        for line in tables.text(summary, columns()):
            click.echo(line)
