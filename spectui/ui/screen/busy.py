"""Why the engine cannot be asked just now: told to whoever presses a key that needs it."""

from __future__ import annotations

from spectui.chat.session import State


def why_not_now(state: State) -> str:
    """A sentence with {keys} to fill in; "" where the engine is free."""
    match state:
        case "ready":
            return ""
        case "loading":
            return "The models are being loaded: wait until they are there."
        case "no model" | "failed":
            return "No model can answer yet: {models} chooses one."
        case "comparing":
            return "{stop} stops the comparison first."
    return "{stop} stops the reply first."
