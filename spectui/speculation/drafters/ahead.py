"""Drafting ahead: while the target computes, the draft model drafts on from its own guess of the target's next token.

If the guess is right, the next draft has begun already; otherwise it is dropped. Drafting ahead pays only if the draft has
its own device. It cannot change the text, so the text does not depend on which model is faster.
(llama_duo does so; PEARL, Liu et al. 2024, calls it post-verify.)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from queue import SimpleQueue

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import DraftModel
from spectui.speculation.evaluator import Cancelled, Evaluator, Interrupted
from spectui.speculation.records import Candidate

_Job = tuple[list[int], Knobs, int]


class AheadDrafter:
    """A draft model that also drafts in a thread of its own, from `go_on` until the next call of any other method here.

    So two threads never use the model at the same time.
    """

    def __init__(self, drafter: DraftModel) -> None:
        self._drafter = drafter
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._enough, self._idle = threading.Event(), threading.Event()
        self._idle.set()
        self._base: list[int] = []
        self._knobs: Knobs | None = None
        self._found: list[Candidate] = []  # behind `_base`
        self._ready: list[Candidate] = []  # behind what was asked for last
        self._error: Exception | None = None
        threading.Thread(target=self._work, name="spectui-draft", daemon=True).start()

    @property
    def upcoming(self) -> str:
        """ "ready": the next candidate has been drafted."""
        return "ready" if self._ready else self._drafter.upcoming

    @property
    def model(self) -> Evaluator:
        """The draft model. Waits until its thread does not use it."""
        self.settle()
        return self._drafter.model

    def go_on(self, tokens: Sequence[int], knobs: Knobs, most: int) -> None:
        """Draft at most `most` tokens behind these, while the target computes the last of these."""
        self.settle()
        self._base, self._knobs, self._found, self._ready = list(tokens), knobs, [], []
        self._enough.clear()
        self._idle.clear()
        self._jobs.put((self._base, knobs, most))

    def take(self, tokens: Sequence[int], knobs: Knobs) -> bool | None:
        """Stop, and keep the tokens drafted behind these. Returns whether the draft was accepted and the next token guessed.

        None: there was no guess.
        """
        self.settle()
        found, length = self._found, len(tokens) - len(self._base)
        self._ready = []
        if not found or knobs != self._knobs:
            return None
        # After a rejected draft the text is shorter than the text before the guess.
        guess = self._base + [each.id for each in found[: max(length, 0)]]
        right = length > 0 and guess == list(tokens)
        if right:
            self._ready = found[length:]
        return right

    def drop(self) -> None:
        """Stop, and keep nothing: another reply begins."""
        self.settle()
        self._base, self._found, self._ready, self._error = [], [], [], None

    def settle(self) -> None:
        """Return when the thread has ended its pass."""
        self._enough.set()
        self._idle.wait()

    def close(self) -> None:
        """End the thread."""
        self.settle()
        self._jobs.put(None)

    def lag(self, tokens: Sequence[int]) -> int:
        self.settle()
        return self._drafter.lag(tokens)

    def prepare(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        self.settle()
        self._drafter.prepare(tokens, cancelled)

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        self.take(tokens, knobs)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._candidates(list(tokens), knobs)

    def _candidates(self, history: list[int], knobs: Knobs) -> Iterator[Candidate]:
        while self._ready:
            candidate = self._ready.pop(0)
            history.append(candidate.id)
            yield candidate
        yield from self._drafter.propose(history, knobs)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            tokens, knobs, most = job
            try:
                if not self._enough.is_set():
                    for candidate in self._drafter.propose(tokens, knobs):
                        self._found.append(candidate._replace(ahead=True))
                        if self._enough.is_set() or len(self._found) >= most:
                            break
            except Interrupted:
                pass  # a person stopped the reply
            except Exception as error:  # raised where the next draft is asked for
                self._error = error
            finally:
                self._idle.set()
