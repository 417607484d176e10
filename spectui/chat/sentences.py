"""Sentences that both front ends show. They name actions as {ids}: the window inserts its keys, the plain chat its commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from spectui.chat.figures.activity import State
from spectui.chat.figures.format import count, percent, share
from spectui.engine.events import Counted, Counts
from spectui.gguf_files.ollama import name_of
from spectui.knobs import Setup
from spectui.llama.devices.records import ModelInfo
from spectui.speculation.records import StopReason
from spectui.speculation.statistics import ratio
from spectui.store.recovery.crash import safe_setup
from spectui.text import printable

POSITIONS = 8
"""The first positions of a draft, whose acceptance is told in a line."""

CUT_OFF = "spectui ended here, before the reply did"
UNANSWERED = "The last prompt has no answer: {regenerate} asks it again, {edit} changes it, and the next prompt takes it along."
NOT_SAVED = "Chats are not saved: --no-history is on."
NOTHING_SAID = "Nothing was said yet."
NO_TEXT = "The new reply ended without text: everything is as it was before."
NOTHING_TO_EDIT = "There is no prompt to edit."
NO_NAMED_PROMPT = (
    "There is no system prompt to choose: write one as prompts/NAME.md beside the configuration file (spectui config path)."
)
SETUP_CHANGED = (
    "The last reply used another model, device or system prompt, or turns were dropped in it. {regenerate} answers again."
)
LARGER = ", {placement} with -c sets a larger one"


def short_name(path: str | None) -> str:
    """What Ollama calls a model file, or its name without directory and ending, safe to show."""
    return printable(name_of(Path(path)) or Path(path).name.removesuffix(".gguf")) if path else ""


def kernels_used(target: ModelInfo, draft: ModelInfo | None) -> str:
    """What multiplies the weights of a loaded pair."""
    of_target = target.kernels_in_words
    of_draft = "" if draft is None or draft.kernels_in_words == of_target else f"; of the draft: {draft.kernels_in_words}"
    return f"Kernels: {of_target}{of_draft}."


def nothing_found(words: str) -> str:
    """The message where no conversation has these words."""
    return "Nothing has these words." if words else "Nothing is saved yet."


_BUSY: Mapping[State, str] = {
    "ready": "",
    "loading": "The models are being loaded: wait until they are there.",
    "no model": "No model can answer yet: {models} chooses one.",
    "failed": "No model can answer yet: {models} chooses one.",
    "measuring": "The models are being measured: wait until that has ended.",
    "comparing": "{stop} stops the comparison first.",
    "leaving": "The reply of the chat before is being stopped: wait until it has ended.",
}


def busy_reason(state: State) -> str:
    """Why the engine cannot answer just now; "" if it is free."""
    return _BUSY.get(state, "{stop} stops the reply first.")


_STOPS: Mapping[str | None, str] = {
    None: CUT_OFF,
    StopReason.CANCELLED.value: "stopped",
    StopReason.STOP.value: "a stop text (-r) ended it",
    StopReason.LIMIT.value: "the limit of -n/--predict is reached",
    StopReason.SERVER_LIMIT.value: "the server ended it at a limit of its own: {continue} goes on",
}


def stop_note(stop: str | None, n_ctx: int | None, *, to_drop: bool = False, larger: str = LARGER) -> str:
    """The line below a reply that ended for this reason; "" if the model ended it, or if it failed.

    `to_drop`: there are older turns, which a full context can do without. `larger`: the way to a larger one, which ends the
    line.
    """
    if stop != StopReason.CONTEXT.value:
        return _STOPS.get(stop, "")
    drop = "{drop} drops the oldest turns and goes on, " if to_drop else ""
    return f"{context_full(n_ctx)}: {drop}{{new-chat}} starts a new chat{larger}"


def counted_lines(counted: Counted | None) -> Iterator[str]:
    """A server's own counts, over all its clients; nothing before its first draft."""
    if counted is None or not counted.since_start.drafted:
        return
    yield f"since its start {_counts(counted.since_start)}"
    if (latest := counted.latest) is not None and latest.drafted:
        shares = " ".join(share(ratio(accepted, latest.drafts)) for accepted in latest.by_position[:POSITIONS])
        yield f"since the reply before {_counts(latest)}" + (f", by position {shares}" if shares else "")


def _counts(counts: Counts) -> str:
    return f"{count(counts.drafted)} drafted, {count(counts.accepted)} accepted ({percent(counts.accepted / counts.drafted)})"


def context_full(n_ctx: int | None) -> str:
    """Half a sentence on a context without room for more tokens. None: its size is not known."""
    return f"the context of {n_ctx} tokens is full" if n_ctx else "the context is full"


def crash_advice(setup: Setup, *, offer: bool, held: bool, details: bool) -> str:
    """Advice after spectui crashed. `offer`: a conversation can be resumed; `held`: the models of `setup` are not loaded
    automatically; `details`: say what loading safely changes.
    """
    safe = f" (weights as they are, no flash attention, f16 cells, context {safe_setup(setup).ctx_size})"
    ways = [
        "{last-chat} opens the conversation again." if offer else "",
        f"{{safe-mode}} loads the models in safe mode{safe if details else ''}." if setup.model and not setup.server else "",
        "{load} loads them as before." if held else "",
    ]
    return " ".join(filter(None, ways))
