"""What a server has done since it started, as llama-server names it for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from time import time

from spectui.engine.events import Event, Failed, Finished, Prompt, RoundDone
from spectui.speculation.statistics import Statistics


class Metrics:
    """Counts the events of an engine, in its thread."""

    def __init__(self) -> None:
        self.started = int(time())
        self.written = Statistics()
        self._read = self._reused = self._longest = 0
        self._read_s = 0.0
        self._prompt: Prompt | None = None

    def take(self, event: Event) -> None:
        """One more event."""
        if isinstance(event, Prompt):
            self._prompt = event
        elif isinstance(event, RoundDone):
            self.written.add(event.round)
            self._longest = max(self._longest, event.n_context or 0)
        elif isinstance(event, Finished | Failed) and (prompt := self._prompt) is not None:
            self._prompt = None
            self._read += max(0, prompt.done - prompt.reused)
            self._reused += prompt.reused
            self._read_s += prompt.seconds

    def text(self, processing: int, deferred: int) -> str:
        """Prometheus' text. `processing`, `deferred`: requests that are answered, and that wait."""
        written = self.written
        read_speed = self._read / self._read_s if self._read_s else 0.0
        speed = written.emitted / written.decode_s if written.decode_s else 0.0
        figures: Mapping[str, tuple[str, float, str]] = {
            "prompt_tokens_total": ("counter", self._read, "Tokens of prompts that were read."),
            "prompt_tokens_cached_total": ("counter", self._reused, "Tokens of prompts that had been read before."),
            "prompt_seconds_total": ("counter", self._read_s, "Seconds of reading prompts."),
            "tokens_predicted_total": ("counter", written.emitted, "Tokens written."),
            "tokens_predicted_seconds_total": ("counter", written.decode_s, "Seconds of writing."),
            "n_decode_total": ("counter", written.rounds, "Passes of the target that wrote."),
            "n_tokens_max": ("counter", self._longest, "Most tokens in the context."),
            "spec_decode_num_drafts_total": ("counter", sum(written.reached[:1]), "Drafts."),
            "spec_decode_num_draft_tokens_total": ("counter", written.drafted, "Drafted tokens."),
            "spec_decode_num_accepted_tokens_total": ("counter", written.accepted, "Drafted tokens that were accepted."),
            "prompt_tokens_seconds": ("gauge", read_speed, "Tokens read a second."),
            "predicted_tokens_seconds": ("gauge", speed, "Tokens written a second."),
            "requests_processing": ("gauge", processing, "Requests that are answered."),
            "requests_deferred": ("gauge", deferred, "Requests that wait."),
            "n_busy_slots_per_decode": ("gauge", min(1, written.rounds), "Replies that a pass writes on."),
        }
        return "".join(
            f"# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}\n"
            for name, (kind, value, help) in figures.items()
        )
