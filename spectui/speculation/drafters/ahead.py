"""Drafting ahead: while the target computes, the draft model drafts on from its own guess of the target's next token.

If the guess is right, the next draft has begun already; otherwise it is dropped. Drafting ahead pays only if the draft has
its own device. It cannot change the text, so the text does not depend on which model is faster.
(llama_duo does so; PEARL, Liu et al. 2024, calls it post-verify.)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from time import perf_counter

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import DraftModel, to_the_end
from spectui.speculation.drafters.text import DraftedText
from spectui.speculation.evaluator import Cancelled, Ends, Evaluator, Interrupted
from spectui.speculation.records import Candidate


@dataclass
class Job:
    """Draft at most `most` tokens behind `base`, or fewer once `enough` is set. `done`: the thread has ended it."""

    base: DraftedText
    knobs: Knobs
    most: int
    is_end: Ends
    found: list[Candidate] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)


class AheadDrafter(DraftModel):
    """A draft model that also drafts in a thread of its own, from `draft_ahead` on.

    Each method that uses the model waits for the end of the thread's pass first, so two threads never use it at the same time.
    `take`, `lag` and `draft_ahead` do not use it: a round without a draft does not wait.
    """

    def __init__(self, drafter: DraftModel) -> None:
        self._drafter = drafter
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.job: Job | None = None
        """What the thread drafts, or drafted last."""
        self._next: int | None = None  # index in what it found of the next candidate; None if the guess was wrong
        self._error: Exception | None = None
        threading.Thread(target=self._work, name="spectui-draft", daemon=True).start()

    @property
    def ready(self) -> bool:
        job = self.job
        return job is not None and self._next is not None and self._next < len(job.found)

    @property
    def inner(self) -> DraftModel:
        """The draft model without the thread. Waits until that does not use it."""
        self.settle()
        return self._drafter

    @property
    def model(self) -> Evaluator:  # type: ignore[override]
        """The draft model. Waits until its thread does not use it."""
        return self.inner.model

    def draft_ahead(self, tokens: Sequence[int], sent: Sequence[int], knobs: Knobs, is_end: Ends) -> None:
        """Draft behind these tokens and what was sent, while the target computes that; nothing behind the reply's end.

        The thread begins when the pass that it is in has ended.
        """
        if self.job is not None:
            self.job.enough.set()
        self._next = None
        self.job = Job(DraftedText(tokens, sent), knobs, knobs.draft_max + 1, is_end)
        if is_end(self.job.base[-1]):
            self.job.enough.set()
        self._jobs.put(self.job)

    def take(self, tokens: Sequence[int], knobs: Knobs) -> bool | None:
        """Stop, and keep the tokens drafted behind these. Returns whether the draft was accepted and the next token guessed.

        None: there was no guess.
        """
        self._next = None
        if (job := self.job) is None:
            return None
        job.enough.set()
        candidates, length = job.found[:], len(tokens) - len(job.base)
        if not candidates or knobs != job.knobs:
            return None
        # After a rejected draft the text is shorter than the text before the guess.
        guess = DraftedText(job.base, (candidate.id for candidate in candidates[: max(length, 0)]))
        right = length > 0 and guess.common(tokens) == len(tokens)
        if right:
            self._next = length
        return right

    def drop(self) -> None:
        """Stop, and keep nothing: another reply begins."""
        self.settle()
        self.job = self._next = self._error = None

    def settle(self) -> None:
        """Return when the thread has ended its pass."""
        if (job := self.job) is not None:
            job.enough.set()
            job.done.wait()

    def close(self) -> None:
        """End the thread."""
        self.settle()
        self._jobs.put(None)

    def lag(self, tokens: Sequence[int]) -> int:
        job = self.job
        if job is not None and not job.done.is_set():  # the thread reads what it drafts behind
            return len(tokens) - job.base.common(tokens)
        return self._drafter.lag(tokens)

    def full(self, tokens: Sequence[int]) -> bool:
        job = self.job
        return (job is None or job.done.is_set()) and self._drafter.full(tokens)  # what the thread reads had room

    def catch_up(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        self.settle()
        self._drafter.catch_up(tokens, cancelled)

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        self.take(tokens, knobs)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._candidates(DraftedText(tokens), knobs)

    def _candidates(self, history: DraftedText, knobs: Knobs) -> Iterator[Candidate]:
        while self._next is not None and (candidate := self._found(self._next)) is not None:
            self._next += 1
            history.append(candidate.id)
            yield candidate
        self.settle()
        yield from self._drafter.propose(history, knobs)

    def _found(self, index: int) -> Candidate | None:
        """What the thread has found, or finds in the pass that it is in."""
        assert self.job is not None
        candidates, waited = self.job.found, 0.0
        if index >= len(candidates):
            began = perf_counter()
            self.settle()
            waited = perf_counter() - began
        if index >= len(candidates):
            return None
        return candidates[index]._replace(seconds=max(0.0, candidates[index].seconds - waited))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                if not job.enough.is_set():
                    for candidate in to_the_end(self._drafter.propose(job.base, job.knobs), job.is_end):
                        job.found.append(candidate._replace(ahead=True))
                        if job.enough.is_set() or len(job.found) >= job.most:
                            break
            except Interrupted:
                pass  # a person stopped the reply
            except Exception as error:  # raised where the next draft is asked for
                self._error = error
            finally:
                job.done.set()
