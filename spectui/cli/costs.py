"""`spectui costs`: what speculation with this pair costs on this machine, and from which acceptance it pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spectui.cli.hub import fetched, hub_options
from spectui.cli.options import Command, configuration, setting_options

if TYPE_CHECKING:
    from spectui.engine.events import Loaded
    from spectui.speculation.policies.cost_model import CostModel

_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
_ACCEPTANCES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@click.command("costs", cls=Command)
@setting_options("models", "devices", "speculation")
@hub_options
def command(
    profile: str | None, config_path: Path | None, hub_target: str | None, hub_draft: str | None, **values: Any
) -> None:
    """Say what speculation with a pair costs on this machine, and when it pays.

    Loads the pair, measures it as a chat does, and prints for each length of a draft what a round costs in passes of the
    target, the acceptance from which it pays, and how many times faster than plain decoding it is at some acceptances.
    """
    from spectui.cli.run import Printer
    from spectui.engine.demo import default_setup
    from spectui.engine.session import Session

    settings = configuration(profile, config_path, values)
    setup = default_setup(fetched(settings, hub_target, hub_draft))
    session = Session(Printer(text=False, colours=False))
    try:
        loaded = session.load(setup)
        for line in lines(loaded, session.strategy.costs):
            click.echo(line)
    finally:
        session.close()


def lines(loaded: Loaded, costs: CostModel) -> Iterator[str]:
    """The figures as text, for an empty context."""
    from spectui.speculation.policies.value import break_even, break_even_at, expected_tokens

    if not costs.verify.known:
        yield "Nothing was measured: leave out --no-profile."
        return
    plain = costs.verify(1, 0)
    speed = f"{plain * 1e3:.1f} ms a token without speculation, {1 / plain:.1f} tokens a second"
    yield f"target  {loaded.target.description}: {speed}"
    if loaded.draft is None:
        yield "draft   none: repetitions of the conversation are drafted, at no cost but the pass over them"
    else:
        first, each = costs.drafting(1), costs.drafting(2) - costs.drafting(1)
        yield (
            f"draft   {loaded.draft.description}: {each * 1e3:.1f} ms a token, {each / plain:.2f} of a pass; the first of a "
            f"draft, which catches up, {first * 1e3:.1f} ms"
        )
    yield ""
    yield _row("drafted", "pass", "round", "pays from", [f"at {acceptance:.0%}" for acceptance in _ACCEPTANCES])
    longest = max(_LENGTHS)
    passes = [costs.verify.least(length + 1, 0) / plain for length in range(longest + 1)]
    times = [time + costs.drafting(length) / plain for length, time in enumerate(passes)]
    for length in _LENGTHS:
        needed = break_even_at(length, times[length], 1.0)
        yield _row(
            str(length),
            f"{passes[length]:.2f}",
            f"{times[length]:.2f}",
            "never" if needed is None else f"{needed:.0%}",
            [f"{expected_tokens(acceptance, length) / times[length]:.2f}x" for acceptance in _ACCEPTANCES],
        )
    yield ""
    lowest = break_even(times, 1.0)
    if lowest is None:
        yield (
            "Pass and round are in plain passes. Drafting by this model cannot pay here: take a smaller one, or one with fewer "
            "bits a weight. Repetitions cost the pass alone, and can (--drafter suffix)."
        )
    else:
        yield f"Pass and round are in plain passes. It pays where more than {lowest:.0%} of the drafted tokens are accepted."
    if loaded.target.remark:
        yield f"Of the target: {loaded.target.remark}."


def _row(drafted: str, verify: str, round: str, needed: str, speeds: Sequence[str]) -> str:
    return f"{drafted:>7}  {verify:>5}  {round:>5}  {needed:>9}" + "".join(f"{speed:>9}" for speed in speeds)
