"""The README's pictures: `python -m tests.pictures` draws them into docs/.

The window is the real one; the reply comes from a script, on the fake engine. Every figure follows from the script's rounds
as it would from real ones, and what a round costs follows from the costs below, which are typed in.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from textual.pilot import Pilot

from spectui.engine.fake import CPU, GPU, FakeEngine
from spectui.knobs import Knobs, Setup
from spectui.ui.app import SpectuiApp
from spectui.ui.prompt_input import PromptInput
from tests.ui.driving import THEMES, load, wait_until

DOCS = Path(__file__).resolve().parents[1] / "docs"
SIZES = {"chat": (120, 40), "chat-80x24": (80, 24)}
PAIR = Setup(
    model="/models/qwen2.5-coder-1.5b-instruct-q8_0.gguf", draft="/models/qwen2.5-coder-0.5b-instruct-q4_0.gguf"
)
PROMPT = """\
Rename `lineno` to `line_number` and return the code:
class shlex:
    def __init__(self, instream=None, infile=None):
        if isinstance(instream, str):
            instream = StringIO(instream)
        self.instream = instream
        self.infile = infile
        self.lineno = 1
        self.debug = 0"""

REPLY = """\
Here is the class, with `lineno` renamed:

```python
class shlex:
    def __init__(self, instream=None, infile=None):
        if isinstance(instream, str):
            instream = StringIO(instream)
        self.instream = instream
        self.infile = infile
        self.line_number = 1
        self.debug"""

ROUNDS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("", 0, ()),
    ("model", 2, (" code",)),
    ("model", 3, ()),
    ("model", 1, (" replaced", " by")),
    ("model", 3, ()),
    ("model", 1, ()),
    ("model", 1, (" Lexer",)),
    ("suffix", 15, ()),
    ("suffix", 14, ()),
    ("suffix", 12, ()),
    ("suffix", 1, ("lineno", " =", " 1")),
    ("model", 1, ()),
    ("suffix", 3, ()),
)
"""Who drafts, how many of the reply's tokens are accepted, and what was drafted behind them in vain."""

DRAFT_S, SUFFIX_S, PASS_S, MORE_S, REST_S = 0.011, 0.0001, 0.062, 0.004, 0.002
"""Seconds for a token of the draft model, one of the suffix lookup, a target pass over one token, each further token in
it, and what is left of a round."""

CHANCE = {"model": 0.8, "suffix": 0.9}
"""Of a drafted token to be accepted, as the policy sees it: its words about a round follow from it and the costs."""


def write_reply(engine: FakeEngine) -> None:
    """Play the script."""
    engine.read_prompt(118, 118, seconds=1.4)
    tokens = re.findall(r"\n *| ?\w+| ?[^\w\s]+| +", REPLY)
    for source, accepted, rejected in ROUNDS:
        kept, own, tokens = tokens[:accepted], tokens[accepted], tokens[accepted + 1 :]
        size = accepted + len(rejected)
        draft_s = size * (DRAFT_S if source == "model" else SUFFIX_S)
        verify_s = PASS_S + MORE_S * size
        expected = sum(CHANCE.get(source, 0) ** place for place in range(size + 1))
        engine.emit_round(
            *kept,
            correction=own if rejected else None,
            bonus=own if size and not rejected else None,
            plain=None if size else own,
            rejected=rejected,
            seconds=draft_s + verify_s + REST_S,
            draft_s=draft_s,
            source=source,
            plain_s=PASS_S + REST_S,
            note=f"drafting {size} of 16: pays {expected * PASS_S / (draft_s + verify_s):.1f}x"
            if size
            else "measuring what a plain pass costs",
        )


async def stream(pilot: Pilot[None], engine: FakeEngine) -> None:
    """Load, ask, and stop in the middle of the reply."""
    await load(pilot, engine)
    prompt = pilot.app.screen.query_one(PromptInput)
    prompt.cursor_blink = False
    prompt.text = PROMPT
    await pilot.press("enter")
    await wait_until(pilot, lambda: engine.generates)
    write_reply(engine)
    await wait_until(pilot, lambda: not engine.events)
    pilot.app.screen._show_figures()  # not when its timer happens to come round
    await pilot.pause()


async def draw(name: str, size: tuple[int, int], keys: Sequence[str] = ()) -> None:
    """Draw one picture, after pressing these keys."""
    engine = FakeEngine(devices=(CPU, GPU))
    app = SpectuiApp(engine, PAIR, Knobs(temperature=0.0), theme_directories=(THEMES,))
    async with app.run_test(size=size) as pilot:
        await stream(pilot, engine)
        await pilot.press(*keys)
        await pilot.pause()
        (DOCS / f"{name}.svg").write_text(app.export_screenshot(title="spectui chat", simplify=True), "utf-8")


def main() -> None:
    """Draw all."""
    DOCS.mkdir(exist_ok=True)
    for name, size in SIZES.items():
        asyncio.run(draw(name, size))
    asyncio.run(draw("inspect", (120, 40), ("alt+2", "f4", "left", "up", "up", "left")))


if __name__ == "__main__":
    main()
