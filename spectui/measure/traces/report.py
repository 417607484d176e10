"""What-if estimates in words and as an object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spectui.knobs import title
from spectui.measure.traces.what_if import LITTLE, Estimate, WhatIf

SCHEMA = "spectui.what-if/1"


def lines(found: WhatIf) -> Iterator[str]:
    """A table of the estimates beside the measured figures, and the limits of the method."""
    measured = found.measured
    replies = "1 reply" if found.replies == 1 else f"{found.replies} replies"
    yield f"{replies}, {measured.emitted} tokens. Measured and estimated tokens a second of decoding:"
    yield ""
    names = ["measured", *(settings_text(each) or "as recorded" for each in found.estimates)]
    width = max(map(len, names))
    yield f"{'':{width}}  tokens/s   of measured  acceptance  tokens/pass  known  range"
    speed = measured.tokens_per_s or 0.0
    yield f"{names[0]:{width}}  {speed:8.1f}  {1:12.2f}  {_ratios(measured.acceptance, measured.tokens_per_pass)}"
    for name, each in zip(names[1:], found.estimates, strict=True):
        estimate = found.tokens_per_s(each)
        known = "-" if each.recorded is None else f"{each.recorded:.0%}"
        row = (
            f"{name:{width}}  {estimate:8.1f}  {estimate / speed:12.2f}  "
            f"{_ratios(each.acceptance, each.tokens_per_pass)}  {known:>5}"
        )
        if each.slowest_s > each.fastest_s:
            row += f"  {found.tokens_per_s(each, each.slowest_s):.1f} to {found.tokens_per_s(each, each.fastest_s):.1f}"
        yield row
    yield ""
    yield from remarks(found)


def remarks(found: WhatIf) -> Iterator[str]:
    """What the figures are, and what they do not show."""
    again = found.measured.emitted / found.again.seconds
    yield (
        "All but the first row are estimates, from the drafts, probabilities and times of the trace; reading prompts is not in "
        f"them. Computed in the same way, what was measured is {again:.1f} ({-found.error / (1 + found.error):+.1%}), by which "
        "the estimates are corrected."
    )
    if any(each.recorded is not None for each in found.estimates):
        yield (
            "known: the share of the draft model's tokens that the trace tells. The others were drawn several times, from "
            "recorded ones at positions where the target was about as confident; the range is that of the draws."
        )
    if any(each.recorded is not None and each.recorded < LITTLE for each in found.estimates):
        yield (
            f"Where less than {LITTLE:.0%} is known, the estimate is a guess. A trace tells most when it is recorded with "
            "--policy fixed --drafter model --draft-max 16 --p-min 0."
        )
    unseen = sorted({size for each in found.estimates for size in each.unseen})
    if unseen:
        yield (
            f"Passes over {', '.join(map(str, unseen))} tokens hardly occur in the trace: their times come from the table that "
            "was measured at load."
        )


def table(found: WhatIf) -> dict[str, Any]:
    """The object that `spectui replay --what-if --json` prints. Durations are in seconds."""
    measured = found.measured
    return {
        "schema": SCHEMA,
        "replies": found.replies,
        "tokens": measured.emitted,
        "measured": {
            "seconds": measured.decode_s,
            "tokens_per_s": measured.tokens_per_s,
            "acceptance": measured.acceptance,
            "tokens_per_pass": measured.tokens_per_pass,
        },
        "measured_as_estimated": found.measured.emitted / found.again.seconds,
        "estimates": [
            {
                "settings": dict(each.settings),
                "tokens_per_s": found.tokens_per_s(each),
                "lowest": found.tokens_per_s(each, each.slowest_s),
                "highest": found.tokens_per_s(each, each.fastest_s),
                "acceptance": each.acceptance,
                "tokens_per_pass": each.tokens_per_pass,
                "known": each.recorded,
                "pass_sizes_not_recorded": list(each.unseen),
            }
            for each in found.estimates
        ],
    }


def settings_text(each: Estimate) -> str:
    """The settings as they were written."""
    return ",".join(
        f"{title(key)}={value:g}" if isinstance(value, float) else f"{title(key)}={value}"
        for key, value in each.settings.items()
    )


def _ratios(acceptance: float | None, tokens_per_pass: float | None) -> str:
    first = "-" if acceptance is None else f"{acceptance:.0%}"
    return f"{first:>10}  {'-' if tokens_per_pass is None else f'{tokens_per_pass:.2f}':>11}"
