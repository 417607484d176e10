"""Plots of speed and acceptance, over the reply and over the conversation."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.chat.figures.format import UNKNOWN, decimal, share
from spectui.ui.dashboard.pages.page import Page
from spectui.ui.dashboard.plot import columns, nice_top, resampled
from spectui.ui.widgets.line_widget import Line

AXIS = 5


class TrendsPage(Page):
    """Four plots: t/s and acceptance, over the reply and over the conversation."""

    HELP = """\
## Time

**t/s**: tokens per second. **acceptance**: in 0..1. The upper plots are of this reply, the lower ones of the whole
conversation. The axis is the time spent decoding, without pauses and prompts.
"""

    DEFAULT_CSS = """
    TrendsPage { height: 1fr; }
    """

    def build_lines(self) -> list[Line]:
        """The four plots, as high as the room allows."""
        width, room = self.size.width, self.size.height
        speed, rate = max(2, (room - 10) * 3 // 10), max(2, (room - 10) * 2 // 10)
        lines: list[Line] = []
        for name, history in (("this reply", self.figures.reply_history), ("conversation", self.figures.chat_history)):
            lines += plot(f"{name}: t/s", history.speeds, width, speed)
            lines += plot("acceptance", history.acceptances, width, rate, top=1.0)
            lines += [_time_axis(history.seconds, width), []]
        return lines[:-1]


def plot(name: str, values: Sequence[float | None], width: int, height: int, top: float | None = None) -> list[Line]:
    """A heading with the latest value, and `height` rows with the ends of the axis beside them."""
    known = [value for value in values if value is not None]
    high = top or nice_top(max(known, default=0.0))
    say = share if top else decimal
    last = say(known[-1]) if known else UNKNOWN
    shares = [None if value is None else value / high for value in resampled(values, width - AXIS - 1)]
    rows = columns(shares, height)
    lines: list[Line] = [[(name, "label"), (f"{last:>{max(1, width - len(name))}}", "value")]]
    for row, text in enumerate(rows):
        axis = say(high) if row == 0 else "0" if row == height - 1 else ""
        lines.append([(f"{axis:>{AXIS}}│", "label"), (text, "accepted" if top else "big")])
    return lines


def _time_axis(seconds: float, width: int) -> Line:
    end = f"{seconds:.0f} s of decoding" if seconds < 600 else f"{seconds / 60:.0f} min of decoding"
    return [(" " * AXIS + "└" + "─" * max(0, width - AXIS - 2 - len(end)) + " " + end, "label")]
