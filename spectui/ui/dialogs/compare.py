"""Compares a reply with its plain decoding: both run side by side, in the seconds that their rounds took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer

from spectui.chat.comparison import Comparison
from spectui.chat.figures.format import count, decimal, duration
from spectui.chat.figures.lines import comparison_facts
from spectui.chat.player import Lane
from spectui.speculation.statistics import Statistics
from spectui.store.rounds.packed import PackedRounds
from spectui.ui.screen.window import Window
from spectui.ui.textual_patches.screen import DirectScreen, LeftOnce
from spectui.ui.transcript.transcript import Transcript
from spectui.ui.widgets.lines import Line, LineWidget, bar_of, large, wrapped

FRAME_S = 1 / 20
"""Seconds between two frames."""

NAME = 15


class Head(LineWidget):
    """Above a lane: who runs there, how fast, and how far."""

    DEFAULT_CSS = "Head { height: 3; }"

    def __init__(self, name: str, figures: Statistics, tokens: int) -> None:
        """`figures`: of what was run so far, of this many `tokens`."""
        super().__init__()
        self._says, self.figures, self._tokens = name, figures, tokens

    def build_lines(self) -> list[Line]:
        """Its name with its speed, its counts, and a bar."""
        figures = self.figures
        counts = f"{count(figures.emitted)} of {count(self._tokens)} tokens, {count(figures.rounds)} steps, "
        return [
            [(self._says, "value"), (f"   {decimal(figures.tokens_per_s)}", "big"), (" t/s", "label")],
            [(counts + duration(figures.decode_s), "label")],
            bar_of(figures.emitted / max(1, self._tokens), self.size.width - 1),
        ]


class Verdict(LineWidget):
    """Below: what is going on, and at the end how many times as fast the reply was, and whether the text is the same."""

    DEFAULT_CSS = "Verdict { height: 4; padding: 0 1; }"

    def __init__(self, comparison: Comparison) -> None:
        super().__init__()
        self._comparison = comparison
        self.ended = False
        """Both have been run to their end."""

    def build_lines(self) -> list[Line]:
        """A line, or the verdict with the speed-up three rows high."""
        comparison, width = self._comparison, self.size.width
        if comparison.problem:
            lines = wrapped("", f"nothing to compare: {comparison.problem}", width, "big", 0)
        elif comparison.running:
            lines = wrapped("", "decoding the same prompt without drafts; then both run side by side", width, "label", 0)
        else:
            lines = verdict(comparison, width) if self.ended else [[("as fast as they were decoded", "label")]]
        self.styles.height = 1 + max(3, len(lines))
        return lines


def verdict(comparison: Comparison, width: int) -> list[Line]:
    """`2.3x as fast, same text, token for token`: the factor three rows high where it is known, and what else is known."""
    measured = comparison.measured
    same = "same text, token for token" if comparison.identical else "not the same text"
    if measured is None:
        return wrapped("", same, width, "big", 0)
    if not measured.told:
        lines = wrapped("", f"which is faster cannot be told (within {measured.within} %), {same}", width, "big", 0)
    else:
        words = ("", f"  as fast, {same}", f"  between {measured.low:.1f}x and {measured.high:.1f}x")
        digits = large(f"{measured.ratio:.1f}x")
        styles = ("label", "big", "label")
        lines = [[(row, "big"), (said, style)] for row, said, style in zip(digits, words, styles, strict=True)]
    for name, fact in () if comparison.identical else list(comparison_facts(comparison))[1:]:
        lines += wrapped(name, fact, width, "value", NAME)
    return lines


class CompareScreen(LeftOnce, DirectScreen):
    """Over the whole window. While the plain decoding goes on it shows that; then it runs both as often as a person wants."""

    HELP = """\
## Compare

**{compare}** decodes the last prompt again without drafts, with the same seed: how many times as fast the reply was is
measured, not estimated, and the texts are compared token by token. It is of decoding alone: the second time the prompt has
been read. The plain text is forgotten; the conversation keeps the first.
"""

    BINDING_GROUP_TITLE = "compare"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", id="compare.leave", tooltip="Back to the chat; a plain decoding is stopped"),
        Binding("enter", "run", "Run again", id="compare.run", tooltip="Run both once more"),
        Binding("f5", "measure", "Compare anew", id="compare.anew", tooltip="Decode without drafts once more"),
    ]
    DEFAULT_CSS = """
    CompareScreen {
        & > Horizontal { height: 1fr; }
        & Horizontal > Vertical { width: 1fr; padding: 0 1; }
        & Horizontal > Vertical:last-of-type { border-left: solid $foreground 20%; }
        & Transcript { height: 1fr; margin-top: 1; }
        & Verdict { border-top: solid $foreground 20%; }
    }
    """

    def __init__(self, window: Window, comparison: Comparison, measure: Callable[[], object]) -> None:
        """`window`: the chat. `measure` begins another plain decoding."""
        super().__init__()
        self.comparison = comparison
        self._window, self._measure = window, measure
        tokens = comparison.with_drafts.emitted
        self._heads = Head("with drafts", comparison.with_drafts, tokens), Head("without", comparison.plain, tokens)
        self._texts = Transcript(), Transcript()
        self.verdict = Verdict(comparison)
        self.lanes: Sequence[Lane] = ()
        self._since: float | None = None  # when they began to run; None while they do not

    def compose(self) -> ComposeResult:
        """Both lanes, and the verdict below."""
        with Horizontal():
            for head, text in zip(self._heads, self._texts, strict=True):
                with Vertical():
                    yield head
                    yield text
        yield self.verdict
        yield Footer()

    def on_mount(self) -> None:
        """Show both texts as their tokens, and run if the plain decoding has ended."""
        for text in self._texts:
            text.show_tokens = True
        reply = Lane(self.comparison.first)
        reply.advance(inf)
        self._show(reply.rounds, self.comparison.rounds)
        self.set_interval(FRAME_S, self._tick)
        self.call_after_refresh(self.action_run)

    def _show(self, *rounds: PackedRounds) -> None:
        for text, of_lane in zip(self._texts, rounds, strict=True):
            text.clear()
            text.start_reply("", 0, of_lane)
            text.grow()

    def update(self) -> None:
        """Show what the plain decoding has written; run both when it has ended."""
        if self.is_mounted:
            self._texts[1].grow()
            self._heads[1].rewrite()
            self.verdict.rewrite()
            if not self.comparison.running:
                self.action_run()

    def action_run(self) -> None:
        """Run both from their start."""
        if self.comparison.running or self.comparison.problem:
            return
        self.lanes = [Lane(self.comparison.first), Lane(self.comparison.rounds)]
        self._show(*(lane.rounds for lane in self.lanes))
        for head, lane in zip(self._heads, self.lanes, strict=True):
            head.figures = lane.figures
        self._since, self.verdict.ended = monotonic(), False
        self.advance(0.0)

    def _tick(self) -> None:
        if self._since is not None:
            self.advance(monotonic() - self._since)

    def advance(self, seconds: float) -> None:
        """Show what both had written so many seconds after their start."""
        for lane, head, text in zip(self.lanes, self._heads, self._texts, strict=True):
            lane.advance(seconds)
            text.grow()
            head.rewrite()
        if all(lane.ended for lane in self.lanes):
            self._since, self.verdict.ended = None, True
        self.verdict.rewrite()

    def action_measure(self) -> None:
        """Decode without drafts once more."""
        self.dismiss()
        self._measure()

    def action_leave(self) -> None:
        """Leave, and stop a plain decoding."""
        if self.comparison.running:
            self._window.session.stop()
        self.dismiss()

    def on_key(self, event: events.Key) -> None:
        """Text belongs to the prompt, wherever it is typed."""
        if event.is_printable:
            event.stop()
            self._leave_with(events.Key(event.key, event.character))

    def on_paste(self, event: events.Paste) -> None:
        """The same for a paste."""
        self._leave_with(events.Paste(event.text))

    def _leave_with(self, event: events.Key | events.Paste) -> None:
        self.dismiss()
        self._window.set_focus(self._window.prompt)
        self._window.prompt.post_message(event)
