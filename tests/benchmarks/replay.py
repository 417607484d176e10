"""What automatic drafting gains on machines of known costs, without noise: recorded replies, decoded again on a made-up clock.

    python -m tests.benchmarks.replay

prints, for each pair and machine, auto / plain of every prompt as the first reply of a pair, the worst of them, and their mean.
One draft more or less that fails in the beginning changes such a reply much, so that policies are better compared by the last
columns: means of the first replies and of the later ones of 24 chats of six, each begun at a random place of its recording.
*of fixed* is auto against the best of ten fixed settings, found for each prompt afterwards: the mean, and the worst prompt.
A second table has heads (MTP) whose tokens are right by chance. It takes two minutes, and what it says is the same everywhere.

    python -m tests.benchmarks.replay --record q8 --models DIR

makes the recordings (16 drafted tokens at each position of twelve replies: a quarter of an hour for a 0.5B on two
cores).
"""

import argparse
import json
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from random import Random
from statistics import geometric_mean

from spectui.engine.events import Event, RoundDone
from spectui.knobs import Knobs, Setup
from spectui.speculation.choice import choose
from spectui.speculation.evaluator import Evaluator, feed
from tests.benchmarks.prompts import PROMPTS, SHORT
from tests.benchmarks.versus_llama_cpp import PAIRS, PLAIN, Spectui
from tests.speculation.replaying import ACCEPTANCES, HEADS, KNOBS, MACHINES, RECORDED, begun_at, recorded, replay, with_heads
from tests.speculation.simulation import Machine, Recording, Simulator

_LONGEST = 16
"""Tokens drafted at each position."""

_HOPELESS = 0.01
"""Where the whole draft is as unlikely as this, nothing is recorded any more: no policy drafts as far."""


_CHATS = 24

_FIXED = [
    replace(KNOBS, policy="fixed", drafter=drafter, draft_max=most, p_min=p_min)
    for drafter, most, p_min in (
        ("model", 1, 0.0), ("model", 2, 0.0), ("model", 3, 0.0), ("model", 4, 0.0), ("model", 8, 0.7), ("model", 16, 0.8),
        ("suffix", 4, 0.0), ("suffix", 16, 0.0), ("auto", 3, 0.0), ("auto", 16, 0.7),
    )
]  # fmt: skip


def record(pair: str, models: Path, predict: int, names: list[str], folder: Path) -> None:
    """Write a recording of the reply to each of these prompts into the folder, with what was drafted at each position."""
    target, draft, flash_attn = PAIRS[pair]
    spectui = Spectui(
        Setup(model=str(models / target), draft=str(models / draft) if draft else None, ctx_size=4096, flash_attn=flash_attn),
        predict,
    )
    folder.mkdir(exist_ok=True)
    for name in names:
        events: list[Event] = []
        spectui.listen = events.append
        spectui.run(PLAIN, {**PROMPTS, **SHORT}[name])
        rounds = [event.round for event in events if isinstance(event, RoundDone)]
        text, begin = [token.id for round in rounds for token in round.tokens], rounds[0].position
        context, model = spectui.pair.context, spectui.pair.draft_context
        assert context is not None
        prompt = context.tokens[:begin]
        chains = [_chain(model, [*prompt, *text[:at]], PLAIN) for at in range(len(text))] if model is not None else None
        confidences = [round.likeliest.at(0)[0][2] for round in rounds if round.likeliest is not None]
        recording = Recording([*prompt, *text], len(prompt), confidences, chains, ends=name in SHORT)
        (folder / f"{name}.json").write_text(json.dumps(asdict(recording), separators=(",", ":")) + "\n")
        print(f"{name}: {len(text)} tokens", flush=True)


def _chain(model: Evaluator, text: list[int], knobs: Knobs) -> list[tuple[int, float]]:
    """What the model drafts behind this text, with its confidence."""
    feed(model, text[:-1], lambda: False)
    chain: list[tuple[int, float]] = []
    history, likely = list(text), 1.0
    while len(chain) < _LONGEST and likely > _HOPELESS:
        token, p = choose(model.evaluate(history[-1:], 1)[0], knobs, len(history), history)
        likely *= p
        history.append(token)
        chain.append((token, round(p, 3)))
    return chain


def chats(recordings: list[Recording], costs: Machine) -> tuple[list[float], list[float]]:
    """auto / plain of the first replies of chats, and of the later ones."""
    first, later = [], []
    for seed in range(_CHATS):
        chance = Random(seed)
        simulator = Simulator(recordings, costs)
        chosen = chance.sample(recordings, min(6, len(recordings)))
        begins = ((each, chance.randrange(0, min(each.length - 48, 65))) for each in chosen)
        pays = [replay(begun_at(each, place), costs, KNOBS, simulator) for each, place in begins]
        first.append(pays[0])
        later += pays[1:]
    return first, later


def report() -> None:
    """The table."""
    for pair, machines in MACHINES.items():
        recordings = recorded(RECORDED / pair)
        print(f"\n{pair}, auto / plain\n")
        columns = "worst | mean | of fixed: mean | worst | of chats: first | later | of those below 1"
        print(f"| machine | {' | '.join(recordings)} | {columns} |")
        print("| --- " * (len(recordings) + 8) + "|")
        for name, costs in machines.items():
            pays = [replay(each, costs, KNOBS) for each in recordings.values()]
            first, later = chats(list(recordings.values()), costs)
            best = [max(replay(each, costs, knobs) for knobs in _FIXED) for each in recordings.values()]
            of_fixed = [auto / fixed for auto, fixed in zip(pays, best, strict=True)]
            figures = [*pays, min(pays), geometric_mean(pays), geometric_mean(of_fixed), min(of_fixed)]
            figures += map(geometric_mean, (first, later))
            lost = sum(each < 1 for each in later) / len(later)
            print(f"| {name} | {' | '.join(f'{each:.2f}' for each in figures)} | {100 * lost:.0f} % |", flush=True)


def report_heads() -> None:
    """The table of heads that foresee so many tokens: lengths that auto chooses, and what fixed ones reach."""
    print("\nheads, / plain\n")
    print(f"| machine | accepted | auto | drafted a round | {' | '.join(f'fixed {n}' for n in range(1, 9))} |")
    print("| --- " * 12 + "|")
    for name, acceptance in product(HEADS, ACCEPTANCES):
        found = with_heads(name, acceptance)
        fixed = " | ".join(f"{each:.2f}" for each in found.fixed)
        print(f"| {name} | {acceptance:.0%} | {found.auto:.2f} | {found.drafted:.1f} | {fixed} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", choices=sorted(PAIRS), help="record replies of this pair; those to other prompts are kept")
    parser.add_argument("--models", type=Path, help="directory of the GGUF files")
    parser.add_argument("--prompts", nargs="+", choices=sorted({**PROMPTS, **SHORT}), default=[*PROMPTS, *SHORT])
    parser.add_argument("--predict", type=int, default=129)
    args = parser.parse_args()
    if args.record is None:
        report()
        report_heads()
        return
    record(args.record, args.models, args.predict, args.prompts, RECORDED / args.record)


if __name__ == "__main__":
    main()
