"""What automatic drafting gains on machines of known costs, without noise: recorded replies, decoded again on a made-up clock.

    python -m tests.benchmarks.replay

prints, for each pair and machine, auto / plain of every prompt as the first reply of a pair, the worst of them, and their mean.
One draft more or less that fails in the beginning changes such a reply much, so that policies are better compared by the last
columns: means of the first replies and of the later ones of 24 chats of six, each begun at a random place of its recording.
It takes a minute, and what it says is the same everywhere.

    python -m tests.benchmarks.replay --record q8 --models DIR

makes the recordings (16 drafted tokens at each of the places of nine replies: a quarter of an hour for a 0.5B on two cores).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import geometric_mean

from spectui.engine.events import Message
from spectui.knobs import Setup
from spectui.speculation.evaluator import Evaluator, feed
from spectui.speculation.sampling import confidence, probability
from spectui.speculation.strategy import Strategy
from tests.benchmarks.prompts import PROMPTS
from tests.benchmarks.versus_llama_cpp import PAIRS, PLAIN, Spectui
from tests.speculation.replaying import KNOBS, MACHINES, RECORDED, Costs, Recording, recorded, replay

_LONGEST = 16
"""Tokens drafted at each place."""

_HOPELESS = 0.01
"""Where the whole draft is as unlikely as this, nothing is recorded any more: no policy drafts as far."""


_CHATS = 24


def record(pair: str, models: Path, predict: int, names: list[str]) -> Iterator[tuple[str, dict[str, object]]]:
    """The recordings of a pair, by the names of the prompts."""
    target, draft, flash_attn = PAIRS[pair]
    spectui = Spectui(
        Setup(
            model=str(models / target),
            draft=str(models / draft) if draft else None,
            ctx_size=4096,
            flash_attn=flash_attn,
        ),
        predict,
    )
    for name in names:
        prompt = PROMPTS[name]
        spectui.run(PLAIN, prompt)
        memory, begun = spectui._session.context_and_prompt([Message("user", prompt)])
        model = spectui._pair.draft_context
        text, begin = list(memory.tokens), len(begun)
        chains = None if model is None else [_chain(model, text[:end]) for end in range(begin, len(text))]
        print(f"{name}: {len(text) - begin} tokens", flush=True)
        yield name, {"tokens": text, "prompt": begin, "sure": _sure(memory, text, begin), "chains": chains}


def _sure(target: Evaluator, text: list[int], begin: int) -> list[float]:
    """The target's probability of each token of the reply."""
    feed(target, text[: begin - 1], lambda: False)
    rows = (target.evaluate([before], 1)[0] for before in text[begin - 1 : -1])
    return [round(probability(row, token), 3) for row, token in zip(rows, text[begin:], strict=True)]


def _chain(model: Evaluator, text: list[int]) -> list[tuple[int, float]]:
    """What the model drafts behind this text, with its confidence."""
    feed(model, text[:-1], lambda: False)
    chain: list[tuple[int, float]] = []
    pending, likely = text[-1], 1.0
    while len(chain) < _LONGEST and likely > _HOPELESS:
        row = model.evaluate([pending], 1)[0]
        pending = int(row.argmax())
        p = round(confidence(row, pending), 3)
        likely *= p
        chain.append((pending, p))
    return chain


def chats(recordings: list[Recording], costs: Costs) -> tuple[list[float], list[float]]:
    """auto / plain of the first replies of chats, and of the later ones."""
    first, later = [], []
    for seed in range(_CHATS):
        chance = Random(seed)
        strategy = Strategy(None, costs.model(recordings[0].chains is not None))
        begins = ((each, chance.randrange(0, min(each.length - 48, 65))) for each in chance.sample(recordings, 6))
        pays = [replay(each.begun_at(place), costs, KNOBS, strategy) for each, place in begins]
        first.append(pays[0])
        later += pays[1:]
    return first, later


def report() -> None:
    """The table."""
    for pair, machines in MACHINES.items():
        recordings = recorded(RECORDED / f"{pair}.json")
        print(f"\n{pair}, auto / plain\n")
        print(f"| machine | {' | '.join(recordings)} | worst | mean | of chats: first | later | of those below 1 |")
        print("| --- " * (len(recordings) + 6) + "|")
        for name, costs in machines.items():
            pays = [replay(each, costs, KNOBS) for each in recordings.values()]
            first, later = chats(list(recordings.values()), costs)
            figures = [*pays, min(pays), *map(geometric_mean, (pays, first, later))]
            lost = sum(each < 1 for each in later) / len(later)
            print(f"| {name} | {' | '.join(f'{each:.2f}' for each in figures)} | {100 * lost:.0f} % |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--record", choices=sorted(PAIRS), help="record replies of this pair; those to other prompts are kept"
    )
    parser.add_argument("--models", type=Path, help="directory of the GGUF files")
    parser.add_argument("--prompts", nargs="+", choices=sorted(PROMPTS), default=list(PROMPTS))
    parser.add_argument("--predict", type=int, default=129)
    args = parser.parse_args()
    if args.record is None:
        report()
        return
    file = RECORDED / f"{args.record}.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    for name, recording in record(args.record, args.models, args.predict, args.prompts):
        found[name] = recording
        lines = (f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in found.items())
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
