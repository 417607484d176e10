"""The window: widgets, screens and what they have in common."""

import os

# What changed is drawn at the next turn of a timer that runs so often: at Textual's 60, a typed letter waits for up to 17 ms.
# Nothing is drawn oftener for it where nothing changed, and animations have a pace of their own.
os.environ.setdefault("TEXTUAL_FPS", "240")
