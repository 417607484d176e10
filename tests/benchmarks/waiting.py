"""How long a person waits for a reply to a long prompt, the reading of it included.

    python -m tests.benchmarks.waiting -m TARGET -md DRAFT

Three ways in alternation: without a draft; with drafts of a fixed length, before which the draft model reads every prompt;
and auto, which has it read where that is expected to pay. A short reply of each comes first, as in a chat that has gone on
for a while, so that auto knows what the draft is worth.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import median

from spectui.engine.events import Message
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.measure.quiet import Stolen, busy
from tests.benchmarks.prompts import PROMPTS, QUESTION

_BEFORE = Message("user", PROMPTS["story"])

_ASKED = {"a question about a file": QUESTION} | {name: PROMPTS[name] for name in ("summary", "edit")}

_WAYS = {
    "off": Knobs(drafter="off", policy="fixed", temperature=0.0),
    "fixed": Knobs(drafter="auto", policy="fixed", temperature=0.0),
    "auto": Knobs(drafter="auto", policy="auto", temperature=0.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-md", "--draft", required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--predict", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    setup = Setup(model=args.model, draft=args.draft, ctx_size=4096, threads=args.threads)
    session = Session(lambda _: None)
    session.load(setup)
    pair = session.pair
    assert pair is not None
    print(
        "| prompt | tokens | drafts | first token | whole reply | tokens of it |\n| --- | --- | --- | --- | --- | --- |"
    )
    stolen = Stolen()
    for name, prompt in _ASKED.items():
        first: dict[str, list[float]] = {way: [] for way in _WAYS}
        whole: dict[str, list[float]] = {way: [] for way in _WAYS}
        for _ in range(args.runs):
            for way, knobs in _WAYS.items():
                if other := busy():
                    raise SystemExit(f"The machine is not quiet ({other}): run again when it is.")
                pair.clear_caches()
                session.load(setup)
                session.knobs = replace(knobs, predict=args.predict // 2)
                session.generate([_BEFORE])
                session.knobs = replace(knobs, predict=args.predict)
                reply = session.generate([Message("user", prompt)])
                assert reply.time_to_first_token_s is not None and reply.prompt_s is not None
                first[way].append(reply.time_to_first_token_s)
                whole[way].append(reply.prompt_s + reply.statistics.decode_s)
        for way in _WAYS:
            print(
                f"| {name} | {reply.prompt_tokens} | {way} | {median(first[way]):.1f} s | {median(whole[way]):.1f} s "
                f"| {reply.statistics.emitted} |"
            )
    print(f"\nthe host took {100 * stolen.share:.0f} % of the cores")


if __name__ == "__main__":
    main()
