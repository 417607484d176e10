"""A search for the best setting as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from spectui.engine.events import Loaded
from spectui.knobs import Knobs
from spectui.measure.bench.prompt_files import Prompt
from spectui.measure.live.view import Winner
from spectui.measure.tune.search import AUTO, PLAIN, Tuned
from spectui.speculation.policies.cost_model import CostModel
from spectui.store.export import finite, model_table

SCHEMA = "spectui.tune/1"

_MOST_ROWS = 17
"""Largest pass whose cost is told: a draft of 16 tokens."""


def json_object(
    found: Tuned,
    winner: Winner | None,
    loaded: Loaded,
    knobs: Knobs,
    prompts: Sequence[Prompt],
    busy: str,
    sentences: Sequence[str],
) -> dict[str, Any]:
    """The object that `spectui tune --json` prints. Every figure of the text can be computed from its `trials` and `costs`.

    `knobs`: what no setting changes, with the seed and the longest reply. `busy`: the process that used the machine, "" for
    none.
    """
    best = found.best
    report: dict[str, Any] = finite(
        {
            "schema": SCHEMA,
            "model": model_table(loaded.target),
            "draft": model_table(loaded.draft) if loaded.draft else None,
            "settings": asdict(loaded.setup),
            "sampling": {
                key: getattr(knobs, key)
                for key in (
                    "temperature",
                    "top_k",
                    "top_p",
                    "min_p",
                    "repeat_penalty",
                    "presence_penalty",
                    "frequency_penalty",
                    "seed",
                    "predict",
                )
            },
            "prompts": [{"name": prompt.name, "digest": prompt.digest} for prompt in prompts],
            "busy": busy,
            "complete": found.finished,
            "best": asdict(best) if best is not None else None,
            "winner": winner.knobs if winner is not None else None,
            "verdicts": [
                {
                    "of": asdict(one),
                    "against": asdict(other),
                    **found.verdict(one, other)._asdict(),
                    "decoding": found.verdict(one, other, True)._asdict(),
                }
                for one, other in ([(best, PLAIN), (AUTO, PLAIN), (best, AUTO)] if best is not None else [])
            ],
            "leaders": [{**each._asdict(), "setting": asdict(each.setting)} for each in found.leaders],
            "tried": found.tried,
            "replies": len(found.trials),
            "seconds": found.seconds,
            "trials": [{**each._asdict(), "setting": asdict(each.setting)} for each in found.trials],
            "costs": _costs(loaded),
            "sentences": list(sentences),
        }
    )
    return report


def _costs(loaded: Loaded) -> dict[str, Any] | None:
    """What was measured at load: seconds of a pass over n rows, and of a drafted token after the first."""
    costs = CostModel.of(loaded.costs) if loaded.costs is not None else None
    if costs is None or not costs.verify.known:
        return None
    passes = [{"rows": rows, "seconds": costs.verify(rows, 0)} for rows in range(1, _MOST_ROWS + 1)]
    return {"passes": passes, "draft_token_s": costs.drafting(2) - costs.drafting(1) if costs.draft.next else None}
