"""Does anything grow? Rounds and reloads on a tiny pair, journalled, with memory, handles and threads before and after.

`python -m tests.benchmarks.soak [--rounds 10000] [--reloads 200]`: half a minute. Memory is compared from where the
conversations' file has outgrown SQLite's cache of its pages, which fills until then and no further.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
import psutil

from spectui.engine.events import Event, Message, RoundDone
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.store.journal import Journal
from tests.llama.ggufs import write_model
from tests.store.journal_helpers import begin_reply, write_prompt

CACHE_BYTES = 2_048_000
"""SQLite keeps so much of a file in memory (its default `cache_size` of -2000)."""

MORE_ROUNDS = 500
"""The warm-up goes on by so many at a time, with ten reloads."""


@dataclass(frozen=True)
class Held:
    """What the process holds: resident bytes, handles, threads."""

    memory: int
    handles: int
    threads: int

    @classmethod
    def now(cls) -> Held:
        process = psutil.Process()
        return cls(process.memory_info().rss, process.num_fds(), process.num_threads())


class Soak:
    """A session whose rounds go to a journal, as the window's do."""

    def __init__(self, directory: Path) -> None:
        self.rounds = 0
        self.file = directory / "conversations.db"
        self.journal = Journal(self.file)
        self.session = Session(self._take)
        target, draft = (str(write_model(directory / f"{name}.gguf")) for name in ("target", "draft"))
        self.setup = Setup(model=target, draft=draft, ctx_size=512, threads=1, no_profile="on")

    def _take(self, event: Event) -> None:
        if isinstance(event, RoundDone):
            self.rounds += 1
            self.journal.add_round(event.round)

    def reload(self, number: int) -> None:
        """Load target and draft anew; what is placed otherwise has to be."""
        self.session.load(Setup(**{**self.setup.__dict__, "no_repack": ("off", "on")[number % 2]}))

    def reply(self, number: int) -> None:
        """One prompt and its reply, in a conversation of its own."""
        self.journal.clear()
        begin_reply(self.journal, write_prompt(self.journal, f"prompt {number}"), self.setup)
        self.session.knobs = Knobs(drafter="model", policy="fixed", draft_max=4, p_min=0.0, predict=300, seed=number)
        finished = self.session.generate([Message("user", f"prompt {number}")])
        self.journal.end_reply(finished.reason.value, finished)

    def go_on(self, rounds: int, reloads: int) -> None:
        """So many rounds more, with so many reloads among them."""
        begun, number = self.rounds, 0
        for reload in range(reloads):
            self.reload(reload)
            while self.rounds - begun < rounds * (reload + 1) / reloads:
                self.reply(number)
                number += 1


@click.command()
@click.option("--rounds", default=10_000, show_default=True)
@click.option("--reloads", default=200, show_default=True)
def main(rounds: int, reloads: int) -> None:
    """Print what is held after the warm-up, and at the end; fail if it grew by 2 % or more."""
    with tempfile.TemporaryDirectory() as directory:
        soak = Soak(Path(directory))
        while not soak.file.exists() or soak.file.stat().st_size < CACHE_BYTES:
            soak.go_on(MORE_ROUNDS, 10)
        warm = soak.rounds
        before = Held.now()
        soak.go_on(rounds, reloads)
        after = Held.now()
        soak.session.close()
        soak.journal.close()
        grown = after.memory / before.memory - 1
        click.echo(f"warm-up: {warm} rounds, until the file outgrew SQLite's cache of its pages")
        click.echo(f"then {soak.rounds - warm} rounds, {reloads} reloads; notices: {list(soak.journal.notices)}")
        click.echo(f"memory {before.memory / 1e6:.1f} -> {after.memory / 1e6:.1f} MB ({grown:+.1%})")
        click.echo(f"handles {before.handles} -> {after.handles}, threads {before.threads} -> {after.threads}")
        if grown >= 0.02 or after.handles > before.handles or after.threads > before.threads:
            raise SystemExit("something grew")


if __name__ == "__main__":
    main()
