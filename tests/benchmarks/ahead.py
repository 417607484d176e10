"""Does drafting ahead pay? The target on one core, the draft behind an RPC server that has another.

    python -m tests.benchmarks.ahead TARGET DRAFT

Delays stand for other machines: of each pass of the target, as if it ran elsewhere, and of each pass of the draft, as a
network adds them. Each row is the median of three replies without and three with it, in turn.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from spectui.knobs import Knobs, Setup
from tests.helpers.rpc_server import LIBRARIES, Server

DELAYS_MS = ((0, 0), (200, 20))
POLICIES = (Knobs(temperature=0, predict=64, drafter="model", policy="fixed", draft_max=4, p_min=0.0),
            Knobs(temperature=0, predict=64, drafter="model"))  # fmt: skip
QUESTION = "write snake game in python"
REPLIES = 3


def delayed(context: Any, seconds: float) -> None:
    """Let each pass of this context take so much longer, without a core."""
    evaluate, submit = type(context).evaluate, type(context).submit

    def slow(tokens: Sequence[int], rows: int) -> Any:
        result = evaluate(context, tokens, rows)
        time.sleep(seconds)
        return result

    def slow_submit(tokens: Sequence[int], rows: int, k: int | None) -> Callable[[], Any]:
        computed = submit(context, tokens, rows, k)

        def result() -> Any:
            time.sleep(seconds)
            return computed()

        return result

    context.evaluate, context.submit = slow, slow_submit


def main(target: str, draft: str, server: str) -> None:
    """Print the table."""
    from spectui.engine.events import Message
    from spectui.engine.session import Session
    from spectui.speculation.policies.cost_model import CostModel
    from spectui.speculation.policies.strategy import Strategy

    setup = Setup(model=target, draft=draft, rpc=server, device="none", device_draft="RPC0", async_draft="on", threads=1,
                  ctx_size=1024, no_profile="on")  # fmt: skip
    session = Session(lambda event: None)
    session.load(setup)
    pair: Any = session.pair
    ahead = pair.drafter
    print(
        "| target's delay | draft's delay | policy | one after the other, t/s | ahead, t/s | | guesses right | saved a round |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for of_target, of_draft in DELAYS_MS:
        delayed(pair.context, of_target / 1000)
        delayed(pair.draft_context, of_draft / 1000)
        for session.knobs in POLICIES:
            found: dict[bool, list[Any]] = {False: [], True: []}
            for go in (False, True) * REPLIES:
                # What passes cost is learned anew, because the delays have changed it.
                pair.strategy = Strategy(ahead if go else ahead._drafter, CostModel())
                pair.clear_caches()
                found[go].append(session.generate([Message("user", QUESTION)]).statistics)
            assert len({tuple([each.emitted for each in found[go]]) for go in found}) == 1
            off, on = (median(each.tokens_per_s for each in found[go]) for go in (False, True))
            last = found[True][-1]
            print(
                f"| {of_target} ms | {of_draft} ms | {session.knobs.policy} | {off:.1f} | {on:.1f} | {on / off:.2f}x "
                f"| {last.right_guesses} of {last.guesses} | {last.saved_s / last.rounds * 1000:.0f} ms |",
                flush=True,
            )
    session.close()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(*sys.argv[1:])
    else:
        server = Server()
        try:
            libraries = {"LLAMA_CPP_LIB_PATH": str(LIBRARIES), "LD_LIBRARY_PATH": str(LIBRARIES)}
            command = [sys.executable, "-m", "tests.benchmarks.ahead", *sys.argv[1:], server.address]
            sys.exit(subprocess.run(command, env={**os.environ, **libraries}, check=False).returncode)
        finally:
            server.kill()
