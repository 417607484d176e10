"""What the shared noise is worth: acceptance of a draft that chooses with the target's noise, against its likeliest token.

    python -m tests.benchmarks.coupling -m TARGET -md DRAFT

At temperature 1 the target writes a story; at every position of it the draft's row is asked both ways, with the same text
before it: the coupled choice (`choose` with the same seed and position), and the argmax that llama.cpp drafts. The expected
shares follow from the same rows: sum_i p_target(i) * [argmax draft = i] for the latter, and sum_i min(p_target, p_draft),
which no rule exceeds. The second choice is the draft's without its first one: what a branch of a tree of drafts would hold.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from spectui.engine.events import Message
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.speculation.choice import choose
from spectui.speculation.sampling import distribution
from spectui.speculation.top_k import Row
from tests.benchmarks.prompts import PROMPTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-md", "--draft", required=True)
    parser.add_argument("--prompt", choices=sorted(PROMPTS), default="story")
    parser.add_argument("--predict", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=1.0)
    args = parser.parse_args()
    session = Session(lambda _: None)
    session.load(Setup(model=args.model, draft=args.draft, no_profile="on"))
    counts = np.zeros(5)
    positions = 0
    for seed in range(args.seeds):
        knobs = Knobs(drafter="off", policy="fixed", temperature=args.temperature, seed=seed, predict=args.predict)
        shares = _reply(session, knobs, PROMPTS[args.prompt])
        counts += shares.sum(axis=0)
        positions += len(shares)
    coupled, second, likeliest, expected, bound = counts / positions
    print(f"{args.prompt}, temperature {args.temperature:g}, {positions} positions:")
    print(f"  coupled choice              {coupled:.3f}")
    print(f"  its second choice           {second:.3f}")
    print(f"  argmax of the draft         {likeliest:.3f}   (expected from the rows: {expected:.3f})")
    print(f"  most that any rule reaches  {bound:.3f}")
    print(f"  coupled / argmax            {coupled / expected:.3f}")


def _reply(session: Session, knobs: Knobs, prompt: str) -> np.ndarray:
    """[positions, 5]: coupled, its second choice and argmax agreed (0 or 1), the chance that argmax does, and the overlap."""
    session.knobs = knobs
    session.generate([Message("user", prompt)])
    pair = session.pair
    assert pair is not None and pair.context is not None and pair.draft_context is not None
    target, draft = pair.context, pair.draft_context
    _, begun = session.context_and_prompt([Message("user", prompt)])
    text = list(target.tokens)
    target.truncate(0)
    draft.truncate(0)
    target.evaluate(text[: len(begun) - 1], 0)
    draft.evaluate(text[: len(begun) - 1], 0)
    found = []
    for place in range(len(begun), len(text)):
        history = text[:place]
        ours = target.evaluate(history[-1:], 1)[0].copy()
        theirs = draft.evaluate(history[-1:], 1)[0, : len(ours)].copy()
        token = choose(ours, knobs, place, history)
        likeliest = choose(theirs, replace(knobs, temperature=0.0), place, history)
        p, q = _dense(ours, knobs), _dense(theirs, knobs)
        first = choose(theirs, knobs, place, history)
        theirs[first] = -np.inf
        second = choose(theirs, knobs, place, history)
        found.append((first == token, second == token, likeliest == token, p[likeliest], np.minimum(p, q).sum()))
    return np.array(found, float)


def _dense(row: Row, knobs: Knobs) -> np.ndarray:
    """Probabilities over the vocabulary, as the sampler chain leaves them."""
    p = np.zeros(len(row))
    if not knobs.temperature:
        p[np.argmax(row)] = 1.0
        return p
    ids, log_p = distribution(row, knobs)
    p[ids] = np.exp(log_p)
    return p


if __name__ == "__main__":
    main()
