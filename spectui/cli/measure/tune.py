"""`spectui tune`: the best fixed setting of a pair, found by measuring."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import click

from spectui.cli.hub import fetched, hub_options
from spectui.cli.measure.live import live_option, progress_line
from spectui.cli.options import INTERRUPTED, Command, configuration, setting_options
from spectui.errors import SpectuiError, UsageError

_PROMPTS = "python,toaster,story"
_PREDICT, _SEED = 96, 1


@click.command("tune", cls=Command)
@click.option("--minutes", default=5.0, type=click.FloatRange(0.05, 600), metavar="M", help="time to take (default 5)")
@click.option("--prompts", "names", metavar="NAME,...", help=f"built-in prompts (default {_PROMPTS})")
@click.option(
    "-f", "--file", "prompt_file", type=click.Path(path_type=Path), metavar="FILE", help="your prompts, one a line"
)
@click.option("--save", metavar="NAME", help="write the best fixed setting as a profile of the configuration file")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object instead of the text")
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
    as_json: bool,
    live: bool,
    profile: str | None,
    config_path: Path | None,
    hub_target: str | None,
    hub_draft: str | None,
    **values: Any,
) -> None:
    """Find the best fixed setting of a pair, say whether auto beats it, and what no setting gives."""
    from io import TextIOWrapper

    from spectui import paths
    from spectui.cli.run import stopping
    from spectui.engine.demo import default_setup
    from spectui.engine.isolation.process import EngineProcess, needs_process
    from spectui.engine.worker import Worker
    from spectui.gguf_files.check import check_file
    from spectui.measure.bench import prompt_files
    from spectui.measure.bench.runner import EngineModels
    from spectui.measure.quiet import busy
    from spectui.measure.report.views import Trial, tune_view
    from spectui.measure.tune.advice import flags, sentences
    from spectui.measure.tune.search import AUTO, PLAIN, Reply, Search, candidates
    from spectui.profiles.file import ProfileFile
    from spectui.speculation.policies.cost_model import CostModel
    from spectui.speculation.records import StopReason

    settings = configuration(profile, config_path, values)
    if prompt_file is not None and names is not None:
        raise UsageError("Give the prompts with --prompts or with -f, not with both.")
    if sys.stdout is None:
        raise SpectuiError("Standard output is closed, so there is nowhere to write the figures.")
    cast(TextIOWrapper, sys.stdout).reconfigure(errors="replace")
    setup = default_setup(fetched(settings, hub_target, hub_draft))
    check_file(setup.model or "", "target")
    chosen = (names or _PROMPTS).split(",")
    prompts = (
        prompt_files.built_in([name.strip() for name in chosen], setup.system)
        if prompt_file is None
        else prompt_files.read(prompt_file, setup.system)
    )
    messages = {prompt.name: prompt.messages for prompt in prompts}
    temperature = settings.knobs.temperature if settings.origins["temperature"] != "default" else 0.0
    base = replace(settings.knobs, seed=settings.knobs.seed if settings.knobs.seed >= 0 else _SEED)
    predict = base.predict if base.predict > 0 else _PREDICT
    worker = EngineProcess(base, servers=setup.rpc) if needs_process(setup) else Worker(base)
    line = progress_line(live, 60 * minutes)
    trials: list[Trial] = []
    stopped: list[int] = []
    problems: list[SpectuiError] = []
    try:
        with stopping(worker.stop) as stopped:
            models = EngineModels(worker, setup, lambda event: None)
            loaded = models.load(setup)
            if other := busy():
                click.echo(f"spectui: The machine is busy ({other}): speeds will be too low, and uneven.", err=True)

            def measure(setting: Any, prompt: str, tokens: int) -> Reply:
                began = perf_counter()
                knobs = replace(setting, temperature=temperature).on(replace(base, predict=tokens))
                try:
                    finished = models.answer(setting, knobs, messages[prompt])
                except SpectuiError as error:
                    problems.append(error)
                    return Reply(0.0, perf_counter() - began)
                whole = finished.reason is not StopReason.CANCELLED
                speed = (finished.statistics.tokens_per_s or 0.0) if whole else 0.0
                if whole:
                    trials.append(Trial(setting, prompt, tokens, speed))
                    line.show(lambda: tune_view(trials))
                return Reply(speed, perf_counter() - began)

            search = Search(measure, list(messages), predict, 60 * minutes, perf_counter, line,
                            lambda: bool(stopped or problems))  # fmt: skip
            found = search.run(candidates(setup.draft is not None))
    except SpectuiError as error:
        if stopped:
            ctx.exit(INTERRUPTED)
        if not problems:
            raise
        if search.plain_and_auto:
            plain, auto = search.plain_and_auto
            click.echo(f"Until then plain decoding had {plain:.1f} tokens per second and auto {auto:.1f}.")
        raise problems[0] from error
    finally:
        worker.close()
        line.end()
    costs = CostModel.of(loaded.costs) if loaded.costs is not None else None
    advice = list(sentences(found, costs))
    if live:
        line.show(lambda: tune_view(trials, found, advice))
        line.end()
    elif as_json:
        report = {
            "schema": "spectui.tune/1",
            "best": asdict(found.best),
            "finals": [{"setting": asdict(each), "ln_speed": logs} for each, logs in found.finals.items()],
            "best_over_plain": found.ratio(found.best, PLAIN)._asdict(),
            "auto_over_best": found.ratio(AUTO, found.best)._asdict(),
            "tried": found.tried,
            "replies": found.replies,
            "seconds": found.seconds,
            "sentences": advice,
        }
        click.echo(json.dumps(report, ensure_ascii=False, allow_nan=False))
    else:
        for sentence in advice:
            click.echo(sentence)
    if save is not None:
        tuned = replace(found.best, temperature=settings.knobs.temperature).on(settings.knobs)
        file = config_path or paths.config_file()
        files = {"model": setup.model, "draft": setup.draft}  # what was found holds for this pair
        ProfileFile(file).save(save, tuned, {key: str(Path(each).absolute()) for key, each in files.items() if each})
        click.echo(f"spectui: Profile {save} in {file}: {flags(found.best)}.", err=True)
    if problems and not stopped:
        raise problems[0]
    if stopped:
        ctx.exit(INTERRUPTED)
