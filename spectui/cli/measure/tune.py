"""`spectui tune`: the best fixed setting of a pair, found by measuring."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from spectui.cli.measure.common import (
    UNEVEN_SPEEDS,
    chosen_prompts,
    json_option,
    prepare_stdout,
    repeatable,
    tell_if_busy,
)  # fmt: skip
from spectui.cli.measure.live import live_option, progress_line
from spectui.cli.models.hub import fetched, hub_options
from spectui.cli.options import INTERRUPTED, Command, configuration, setting_options
from spectui.errors import SpectuiError

if TYPE_CHECKING:
    from spectui.config import Configuration
    from spectui.engine.events import Loaded
    from spectui.knobs import Setup
    from spectui.measure.live.view import Winner
    from spectui.measure.tune.advice import Weights

_PROMPTS = "python,toaster,story"
_PREDICT, _SEED = 96, 1

_OF_THE_MEASUREMENT = ("seed", "predict")
"""Flags that are the measured replies' own: in a profile they would cut every reply, and make all the same."""


@click.command("tune", cls=Command)
@click.option("--minutes", default=5.0, type=click.FloatRange(0.05, 600), metavar="M", help="time to take (default 5)")
@click.option("--prompts", "names", metavar="NAME,...", help=f"built-in prompts (default {_PROMPTS})")
@click.option(
    "-f", "--file", "prompt_file", type=click.Path(path_type=Path), metavar="FILE", help="your prompts, one a line"
)
@click.option("--save", metavar="NAME", help="write what is fastest as a profile of the configuration file")
@click.option("--replace", "replacing", is_flag=True, help="replace a profile that exists")
@json_option
@live_option
@setting_options()
@hub_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    minutes: float,
    names: str | None,
    prompt_file: Path | None,
    save: str | None,
    replacing: bool,
    as_json: bool,
    live: bool,
    profile: str | None,
    config_path: Path | None,
    hub_target: str | None,
    hub_draft: str | None,
    **values: Any,
) -> None:
    """Find the best fixed setting of a pair, say whether auto beats it, and what no setting gives.

    Ctrl+C ends the search and prints what is known until then.
    """
    from spectui import paths
    from spectui.chat.sentences import kernels_used
    from spectui.cli.run import stopping
    from spectui.engine.demo import default_setup
    from spectui.engine.isolation.process import engine_for
    from spectui.gguf_files.check import check_file
    from spectui.measure.bench.runner import EngineModels
    from spectui.measure.quiet import Others
    from spectui.measure.report.tune import json_object
    from spectui.measure.report.views import tune_view
    from spectui.measure.tune.advice import flags, sentences
    from spectui.measure.tune.search import Reply, Search, candidates
    from spectui.profiles.file import ProfileFile
    from spectui.speculation.policies.cost_model import CostModel
    from spectui.speculation.records import StopReason

    settings = configuration(profile, config_path, values)
    prepare_stdout()
    file = config_path or paths.config_file()
    if save is not None:
        save = save.strip()
        ProfileFile(file).check(save, replace=replacing)
    prompts = chosen_prompts(names, prompt_file, settings.setup.system, _PROMPTS)
    setup = default_setup(fetched(settings, hub_target, hub_draft))
    check_file(setup.model or "", "target")
    messages = {prompt.name: prompt.messages for prompt in prompts}
    base = repeatable(settings.knobs, _SEED, _PREDICT)
    worker = engine_for(setup, base)
    line = progress_line(live, 60 * minutes)
    stopped: list[int] = []
    try:
        with stopping(worker.stop) as stopped:
            models = EngineModels(worker, setup, lambda event: None)
            loaded = models.load(setup)
            other = tell_if_busy(UNEVEN_SPEEDS)
            others = Others()

            def measure(setting: Any, prompt: str, tokens: int, number: int) -> Reply | None:
                knobs = replace(setting, temperature=base.temperature).on(base)
                knobs = replace(knobs, predict=tokens, seed=base.seed + number)
                finished = models.answer(setting, knobs, messages[prompt])
                if finished.reason is StopReason.CANCELLED:
                    return None
                return Reply(finished.statistics.emitted, finished.prompt_s or 0.0, finished.statistics.decode_s)

            def tell(done: float, what: str) -> None:
                line(done, what)
                line.show(lambda: tune_view(search.trials))

            search = Search(
                measure, list(messages), base.predict, 60 * minutes, perf_counter, tell, lambda: bool(stopped)
            )
            found = search.run(candidates(setup.draft is not None))
            other = str(others) or other
    except SpectuiError:
        if stopped:
            ctx.exit(INTERRUPTED)  # Ctrl+C stopped the loading, and the error only says that
        raise
    finally:
        worker.close()
        line.end()
    costs = CostModel.of(loaded.costs) if loaded.costs is not None else None
    advice = [*sentences(found, costs, weights(loaded)), kernels_used(loaded.target, loaded.draft)]
    if other:
        advice.append(f"The machine was busy meanwhile ({other}), so speeds are too low, and uneven.")
    view = tune_view(found.trials, found, advice)
    if live:
        line.show(lambda: view)
        line.end()
    elif as_json:
        report = json_object(found, view.winner, loaded, replace(base, predict=search.predict), prompts, other, advice)
        click.echo(json.dumps(report, allow_nan=False))
    else:
        for sentence in advice:
            click.echo(sentence)
    if save is not None:
        early = bool(stopped or search.problem) and not found.finished
        if early or view.winner is None:
            click.echo(
                f"spectui: Profile {save} was not saved: it ended before the best setting was repeated.", err=True
            )
        else:
            wanted = profile_settings(settings, setup, view.winner)
            ProfileFile(file).write({save: wanted}, replace=replacing)
            click.echo(f"spectui: Profile {save} in {file}: {view.winner.label}.", err=True)
            if view.winner.knobs.get("policy") == "auto" and found.best is not None:
                click.echo(
                    "spectui: For programs that have no automatic length there is the best fixed setting: spectui config "
                    f"export {shlex.quote(save)} --to llama-server {flags(found.best)}",
                    err=True,
                )
    if search.problem is not None and not stopped:
        raise search.problem
    if stopped:
        ctx.exit(INTERRUPTED)


def weights(loaded: Loaded) -> Weights:
    """The types of the loaded pair's weights, and the types whose kernels compute several rows at once on this CPU."""
    from spectui.engine.isolation.process import needs_process
    from spectui.engine.loading.placement import target_on_cpu
    from spectui.kernels.plugin import LLAMA_CPP
    from spectui.llama import library, selftest
    from spectui.llama.cpu import plugin
    from spectui.llama.cpu.kernels import features_of, several_rows, weight_type
    from spectui.measure.tune.advice import Weights

    setup = loaded.setup
    known: frozenset[str] = frozenset()
    if not needs_process(setup) and target_on_cpu(setup):  # with a GPU, another process alone may ask for devices
        fast_kernels = setup.no_repack == "off" and selftest.run().extra_buffers
        known = several_rows(features_of(library.system_info()), fast_kernels)
        if loaded.target.kernels != LLAMA_CPP.name:
            known |= plugin.types().keys()
    draft = loaded.draft.description if loaded.draft is not None else ""
    return Weights(weight_type(loaded.target.description), weight_type(draft), known)


def profile_settings(settings: Configuration, setup: Setup, winner: Winner) -> dict[str, Any]:
    """The pair, its whole set-up and the sampling as the person gave them, and what won.

    The seed and the length of the measured replies are left out where flags gave them.
    """
    from spectui.config import SETTINGS, rooted
    from spectui.knobs import Knobs, Setup

    holders: dict[type, Setup | Knobs] = {Setup: setup, Knobs: settings.knobs}
    given: dict[str, Any] = {}
    for key, row in SETTINGS.items():
        holder = holders.get(row.owner)
        origin = settings.origins[key]
        if holder is None or (key in _OF_THE_MEASUREMENT and origin.startswith("flag ")):
            continue
        value = getattr(holder, key)
        if value is not None and (origin != "default" or key in ("model", "draft")):
            given[key] = rooted(row.spec, value, Path.cwd())
    return {**given, **winner.knobs}
