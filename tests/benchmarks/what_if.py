"""Estimates of `spectui replay --what-if` beside real runs: traces of a few settings, and what each says of the others.

    python -m tests.benchmarks.what_if --models DIR --traces DIR

The pair is SmolLM2-135M-Instruct Q8_0 with its Q2_K copy; greedy, 96 tokens a reply, in alternation. Traces that are in the
directory already are not made again. Keep the machine free: what passes take must not change in between.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from spectui.engine.events import Event, Message
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.measure.traces.format import Encoder
from spectui.measure.traces.reader import Trace
from spectui.measure.traces.what_if import KEYS, LITTLE, WhatIf, WhatIfError, parse, what_if
from tests.benchmarks.prompts import PROMPTS

RECORDED = ("policy=auto", "policy=fixed,draft-max=8,p-min=.75", "policy=fixed,drafter=model,draft-max=16,p-min=0")
"""Settings from whose traces others are estimated: the defaults, llama.cpp's usual ones, and those that tell most."""

ASKED = (
    "drafter=off",
    *RECORDED,
    "policy=fixed,drafter=model,draft-max=2,p-min=0",
    "policy=fixed,drafter=model,draft-max=4,p-min=.5",
    "policy=fixed,drafter=suffix,draft-max=8,p-min=0",
)


class Chats:
    """Chats of the same prompts, each prompt a new conversation, by a pair that has learned nothing yet."""

    def __init__(self, setup: Setup, prompts: list[str], predict: int) -> None:
        self._setup, self._prompts = setup, prompts
        self._usual = Knobs(temperature=0.0, predict=predict)
        self._session: Session | None = None

    def trace(self, settings: str, file: Path) -> Trace:
        """The trace of a chat under these settings, which is made where it is not there."""
        if not file.exists():
            knobs = replace(self._usual, **parse(settings))
            events = self._events(knobs)
            encoder = Encoder(knobs)
            file.write_bytes(b"".join([encoder.header(), *(encoder.line(event) or b"" for event in events)]))
        return Trace(file)

    def _events(self, knobs: Knobs) -> list[Event]:
        if self._session is None:
            self._session = Session(lambda _: None)
            self._session.load(self._setup)
        session, events = self._session, list[Event]()
        with session.listening(events.append):
            assert session.pair is not None
            session.pair.clear_caches()
            session.load(self._setup)
            session.knobs = knobs
            for prompt in self._prompts:
                session.generate([Message("user", prompt)])
        return events


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, help="directory of the GGUF files")
    parser.add_argument("--traces", type=Path, required=True, help="directory of the traces")
    parser.add_argument("--target", default="SmolLM2-135M-Instruct.Q8_0.gguf")
    parser.add_argument("--draft", default="SmolLM2-135M-Instruct.Q2_K.gguf")
    parser.add_argument("--prompts", nargs="+", choices=sorted(PROMPTS), default=["python", "table"])
    parser.add_argument("--predict", type=int, default=96)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    setup = Setup(model=str(args.models / args.target), draft=str(args.models / args.draft), requantise_draft="off")
    chats = Chats(setup, [PROMPTS[name] for name in args.prompts], args.predict)
    args.traces.mkdir(parents=True, exist_ok=True)
    made = {
        (settings, run): chats.trace(settings, args.traces / f"{settings}.{run}.jsonl")
        for run in range(args.runs)
        for settings in ASKED
    }
    report(made, args.runs)


def whole(settings: str) -> dict[str, Any]:
    """These settings, and the defaults of the others: what was recorded under others must not stay."""
    return {key: getattr(Knobs(), key) for key in KEYS} | parse(settings)


def report(made: dict[tuple[str, int], Trace], runs: int) -> None:
    """The table. An estimate is compared with the median of the real runs."""
    found: dict[tuple[str, str], list[WhatIf]] = {}
    for recorded in RECORDED:
        for asked in ASKED:
            with suppress(WhatIfError):
                found[recorded, asked] = [what_if(made[recorded, run], [whole(asked)]) for run in range(runs)]
    for number, recorded in enumerate(RECORDED, 1):
        first = found[recorded, ASKED[0]][0]
        share = f"known at {first.positions / first.text_positions:.0%} of the positions"
        print(f"{number}: {recorded}; what the draft model drafts is {share}")
    head = " ".join(f"{f'from {number}':>9} {'off':>6} " for number, _ in enumerate(RECORDED, 1))
    print(f"\n{'tokens per second':50} {'measured':>9} {head}")
    worst = 0.0
    for asked in ASKED:
        speeds = [what_if(made[asked, run], []).measured.tokens_per_s or 0.0 for run in range(runs)]
        measured, cells = median(speeds), []
        for recorded in RECORDED:
            estimates = found.get((recorded, asked))
            if estimates is None:
                cells.append(f"{'unknown':>9} {'':7}")
                continue
            estimate = median(each.tokens_per_s(each.estimates[0]) for each in estimates)
            off, told = estimate / measured - 1, median(e.estimates[0].recorded or 1.0 for e in estimates)
            if told > LITTLE:
                worst = max(worst, abs(off))
            cells.append(f"{estimate:9.1f} {off:+6.1%}{' ' if told > LITTLE else '*'}")
        print(f"{asked:50} {measured:9.1f} {' '.join(cells)}", flush=True)
    print(
        f"\n* less than {LITTLE:.0%} of the drafted tokens were recorded; the largest difference of the others: {worst:.1%}"
    )


if __name__ == "__main__":
    main()
