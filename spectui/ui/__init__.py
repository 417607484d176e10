"""The window: widgets, screens and what they have in common."""

import os

# Changes are drawn at the next tick of a timer. At Textual's 60 a second a typed letter waits up to 17 ms. More ticks do
# not draw more, since only changes are drawn, and animations have their own rate.
os.environ.setdefault("TEXTUAL_FPS", "240")
