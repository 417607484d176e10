"""What Python adds to a round, in milliseconds, where a pass takes 8 ms as on a graphics card.

    python -m tests.benchmarks.overhead
    python -m tests.benchmarks.overhead -m TARGET

The two models are toys of 151,936 tokens whose passes take 8 ms and 2 ms, and .1 ms for each row, on a clock of their own. They
return whole rows of logits, as on CPUs, and then the 104 likeliest tokens of each, as on GPUs.
They have the rows of a made-up text; filling a row is not counted. A figure is the median of rounds; run it on a
quiet machine. (The processor time of the thread would leave other processes out, but to read that clock takes .6 us, ten times
for each drafted token.) Parts: *choose* (the target's tokens, their probabilities, the likeliest five),
*policy* (how long to draft, and learning), *draft* (repetitions, and choosing the draft model's tokens), *rest*, and *record*:
the round's record.

With `-m`, a real model on this machine instead, in milliseconds of a token of plain decoding: llama.cpp alone (its passes over
the same tokens, one after the other, with nothing between them), and replies of spectui, in alternating blocks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from statistics import fmean, median
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from spectui.engine.events import Message, RoundDone
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.speculation import decoder
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.drafters.suffix import SuffixDrafter
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import Round
from spectui.speculation.top_k import TopK, top_k
from tests.benchmarks.prompts import PROMPTS

VOCABULARY = 151_936
PASS_S, DRAFT_S, ROW_S = 8e-3, 2e-3, 1e-4
_PARTS = ("choose", "policy", "draft", "rest", "record")
_PROMPT = 200


class Stopwatch:
    """Seconds by part, each without the parts within it; and the models' clock."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((*_PARTS, "model"), 0.0)
        self.passes_s = 0.0
        self._stack = ["rest"]
        self._since = perf_counter()

    def now(self) -> float:
        """Seconds as the decoder sees them: those of passes, and Python's own."""
        return self.passes_s + perf_counter() - self.seconds["model"]

    def switch(self, part: str | None) -> None:
        """A part begins; None: the last one ends."""
        now = perf_counter()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now
        if part is None:
            self._stack.pop()
        else:
            self._stack.append(part)

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time counted for this part."""

        def call(*args: Any, **named: Any) -> Any:
            self.switch(part)
            try:
                return function(*args, **named)
            finally:
                self.switch(None)

        return call

    def lap(self) -> dict[str, float]:
        """Milliseconds by part since the last call."""
        self.switch("rest")
        self.switch(None)
        found = {part: 1e3 * self.seconds[part] for part in _PARTS}
        for part in _PARTS:
            self.seconds[part] = 0.0
        return found


class Toy:
    """A model that likes what a fixed text has next, but for the positions in `wrong`."""

    n_vocab, n_ctx, chunk = VOCABULARY, 1 << 20, 512
    asynchronous = False

    def __init__(self, watch: Stopwatch, seconds: float, wrong: frozenset[int], rows: int = 40) -> None:
        self.tokens: list[int] = []
        self._watch, self._seconds, self._wrong = watch, seconds, wrong
        self._source = np.random.default_rng(1).normal(0, 2.5, VOCABULARY + 64 * rows).astype(np.float32)
        self._out = np.empty((rows, VOCABULARY), np.float32)

    def truncate(self, length: int) -> None:
        del self.tokens[length:]

    def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        self._watch.switch("model")
        self._watch.passes_s += self._seconds + ROW_S * len(tokens)
        self.tokens += tokens
        out = self._out[:rows]
        for row, position in zip(out, range(len(self.tokens) - rows + 1, len(self.tokens) + 1), strict=True):
            row[:] = self._source[64 * (position % 32) :][:VOCABULARY]
            row[text(position) + (position in self._wrong)] = 18.0
        self._watch.switch(None)
        return out


class KeepingToy(Toy):
    """One whose device keeps the likeliest tokens of each row; finding them is not counted, putting them in order is."""

    asynchronous = True

    def submit(self, tokens: Sequence[int], rows: int, k: int) -> Callable[[], TopK]:
        out = self.evaluate(tokens, rows)
        self._watch.switch("model")
        found = top_k(out, k)
        ids, logits = found.ids[:, ::-1].astype(np.int32), found.logits[:, ::-1]
        p = np.exp(logits - np.array([total() for total in found.sums])[:, None]).astype(np.float32)
        self._watch.switch(None)
        return lambda: TopK.kept(ids, logits, p)


def text(position: int) -> int:
    """The token at this position: it repeats nothing."""
    return 1000 + position * 7919 % 150_000


@contextmanager
def timing(watch: Stopwatch) -> Iterator[None]:
    """Count the decoder's parts."""
    parts = {
        decoder.Decoder: {"_verify": "choose", "_record": "record"},
        Strategy: {"draft": "policy", "learn": "policy"},
        ModelDrafter: {"propose": "draft"},
        SuffixDrafter: {"cursor": "draft"},
    }
    with ExitStack() as stack:
        for owner, names in parts.items():
            for name, part in names.items():
                original = vars(owner).get(name)
                if original is None:
                    continue
                steps = name in ("propose", "_record")
                made = _steps(watch, part, original) if steps else watch.timed(part, original)
                stack.enter_context(patch.object(owner, name, made))
        yield


def _steps(watch: Stopwatch, part: str, generator: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """The generator, its steps counted for this part."""

    def steps(*args: Any) -> Iterator[Any]:
        begun = watch.timed(part, generator)(*args)
        step = watch.timed(part, next)
        while (found := step(begun, None)) is not None:
            yield found

    return steps


def measure(knobs: Knobs, rounds: int, toy: type[Toy] = Toy) -> tuple[dict[str, float], float, float]:
    """Median milliseconds of a round by part, and tokens and milliseconds of passes per round."""
    watch = Stopwatch()
    numbers = np.random.default_rng(3)
    wrong = frozenset(np.flatnonzero(numbers.random(100_000) < 0.08).tolist())
    target, draft = toy(watch, PASS_S, frozenset()), ModelDrafter(toy(watch, DRAFT_S, wrong), VOCABULARY, watch.now)
    verify = {n: PASS_S + ROW_S * n for n in (1, 2, 4, 8, 9, 16, 17)}
    costs = CostModel(verify, first=DRAFT_S + 2 * ROW_S, next=DRAFT_S + ROW_S)
    reply = decoder.Decoder(
        target, Strategy(draft, costs, clock=watch.now), text=str, piece=str, is_end=lambda token: False,
        cancelled=lambda: False, notice=print, clock=watch.now,
    )  # fmt: skip
    laps, emitted = [], 0
    with timing(watch):
        reply.prompt([text(position) for position in range(_PROMPT)], knobs)
        watch.lap()
        watch.passes_s = 0.0
        for round in reply.rounds(lambda: knobs):
            laps.append(watch.lap())
            emitted += len(round.tokens)
            if len(laps) == rounds:
                break
    laps = laps[5:]
    return {part: median(lap[part] for lap in laps) for part in _PARTS}, emitted / rounds, 1e3 * watch.passes_s / rounds


SETTINGS = {
    "plain": Knobs(drafter="off", policy="fixed"),
    **{f"fixed {n}": Knobs(drafter="model", policy="fixed", draft_max=n, p_min=0.0) for n in (2, 4, 8, 16)},
    "auto, at most 16": Knobs(drafter="auto", policy="auto", draft_max=16),
}


TOYS = {Toy: "whole rows of logits (CPUs)", KeepingToy: "the likeliest tokens of each row (GPUs)"}


def measure_model(path: str, blocks: int, predict: int) -> None:
    """Print what a token of plain decoding takes with llama.cpp alone, and in spectui's replies."""
    rounds: list[Round] = []
    session = Session(lambda event: rounds.append(event.round) if isinstance(event, RoundDone) else None)
    session.load(Setup(model=path))
    session.knobs = Knobs(drafter="off", temperature=0.0, predict=predict)
    question = [Message("user", PROMPTS["story"])]

    def reply() -> Sequence[float]:
        rounds.clear()
        session.generate(question)
        parts = "seconds", "verify_s", "draft_s", "choose_s", "rest_s"
        return [1e3 * fmean(getattr(round, part) for round in rounds[4:]) for part in parts]

    reply()
    context = session.target_context
    assert context is not None
    tokens, begin = list(context.tokens), len(context.tokens) - predict + 5

    def alone() -> float:
        context.truncate(begin)
        began = perf_counter()
        for token in tokens[begin:]:
            context.evaluate([token], 1)
        return 1e3 * (perf_counter() - began) / (len(tokens) - begin)

    pairs = [(alone(), *reply()) for _ in range(blocks)]
    print(
        "| llama.cpp alone | spectui | of it | pass | policy | choose | rest |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    figures = [median(column) for column in zip(*pairs, strict=True)]
    share = median(pair[0] / pair[1] for pair in pairs)
    print(
        f"| {figures[0]:.2f} | {figures[1]:.2f} | {share:.3f} | {' | '.join(f'{each:.2f}' for each in figures[2:])} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.0, 0.8])
    parser.add_argument("-m", "--model", help="a GGUF file")
    args = parser.parse_args()
    if args.model:
        measure_model(args.model, args.rounds // 5, predict=100)
        return
    for temperature, (toy, what) in product(args.temperature, TOYS.items()):
        print(f"\ntemperature {temperature:g}, {what}, milliseconds of Python per round\n")
        print(f"| draft | {' | '.join(_PARTS)} | together | of 8 ms | of all passes | tokens per round |")
        print("| --- " * (len(_PARTS) + 5) + "|")
        for name, knobs in SETTINGS.items():
            parts, tokens, passes_ms = measure(replace(knobs, temperature=temperature), args.rounds, toy)
            whole = sum(parts.values())
            shown = " | ".join(f"{parts[part]:.2f}" for part in _PARTS)
            shares = f"{0.1 * whole / PASS_S:.0f} % | {100 * whole / passes_ms:.0f} %"
            print(f"| {name} | {shown} | {whole:.2f} | {shares} | {tokens:.1f} |", flush=True)


if __name__ == "__main__":
    main()
