"""The pictures in docs/: `python -m tests.generators.pictures` draws them.

The window is the real one. The moving picture is of the recorded chat that ships. In the others the reply comes from a script,
on the fake engine. Every figure follows from the script's rounds as it would from real ones, and what a round costs follows
from the costs below, which are typed in.
"""

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from textual.pilot import Pilot

from spectui.attach.catalogue import ServedModels
from spectui.attach.session import ServerSession
from spectui.chat.player import DEMO, ConversationPlayer, demo_file
from spectui.engine.worker import Worker
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import Reason
from spectui.store.library import open_conversation
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen.chat import ChatScreen
from tests.attach.scripted_server import as_json, delta, events, serving, timings
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.generators.moving import moving
from tests.ui.dialogs.catalogues import HEADERS, Known, listed
from tests.ui.pilot_helpers import ask, hold_cursor, load, raced, wait_until, window_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAIR = Setup(model=HEADERS[0].path, draft=HEADERS[1].path)
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
        self.debug = 0
```"""

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
    ("suffix", 3, ()),
)
"""Who drafts, how many of the tokens are accepted, and the rejected draft behind them."""

MIDDLE = 13
"""After so many rounds the reply is seen while it is written."""

DRAFT_S, SUFFIX_S, PASS_S, MORE_S, REST_S = 0.011, 0.0001, 0.062, 0.004, 0.002
"""Seconds for a token of the draft model, one of the suffix lookup, a target pass over one token, each further token in
it, and what is left of a round."""

SIZE = 120, 40
"""Columns and rows."""

MOVING_SIZE, MOVING_S, SLOWED, TYPED, PAUSE_S = (120, 36), 0.05, 2, 6, 1.0
"""Of the moving picture: columns and rows; seconds of the chat from frame to frame, and how many times as long they are shown;
letters that are typed from frame to frame; seconds at the end of a prompt and of a reply."""

CHANCE = {"model": 0.8, "suffix": 0.9}
"""Of a drafted token to be accepted, as the policy sees it: its words about a round follow from it and the costs."""


Scene = Callable[[Pilot[None], FakeEngine], Awaitable[None]]


class Step(NamedTuple):
    """A round of the script."""

    source: str
    accepted: tuple[str, ...]
    own: str
    rejected: tuple[str, ...]


def script() -> list[Step]:
    """The reply's tokens, dealt out to the rounds."""
    tokens = re.findall(r"\n *| ?\w+| ?[^\w\s]+| +", REPLY)
    steps: list[Step] = []
    for source, accepted, rejected in ROUNDS:
        steps.append(Step(source, tuple(tokens[:accepted]), tokens[accepted], rejected))
        tokens = tokens[accepted + 1 :]
    assert not tokens
    return steps


async def play(pilot: Pilot[None], engine: FakeEngine, steps: Sequence[Step]) -> None:
    """Write these rounds."""
    for source, accepted, own, rejected in steps:
        size = len(accepted) + len(rejected)
        draft_s = size * (DRAFT_S if source == "model" else SUFFIX_S)
        verify_s = PASS_S + MORE_S * size
        expected = sum(CHANCE.get(source, 0) ** place for place in range(size + 1))
        engine.emit_round(
            *accepted,
            correction=own if rejected else None,
            bonus=own if size and not rejected else None,
            plain=None if size else own,
            rejected=rejected,
            seconds=draft_s + verify_s + REST_S,
            draft_s=draft_s,
            source=source,
            plain_s=PASS_S + REST_S,
            reason=Reason("draft", size, engine.knobs.draft_max, expected * PASS_S / (draft_s + verify_s))
            if size
            else Reason("measuring"),
        )
    await shown(pilot, engine)


async def shown(pilot: Pilot[None], engine: FakeEngine) -> None:
    """Wait until the window has taken and drawn everything."""
    await wait_until(pilot, lambda: not engine.events)
    chat = pilot.app.screen_stack[0]
    assert isinstance(chat, ChatScreen)
    chat.show_figures()  # not when its timer happens to come round
    await pilot.pause()


async def asked(pilot: Pilot[None], engine: FakeEngine) -> None:
    """Load, and send the prompt."""
    await load(pilot, engine)
    prompt = pilot.app.screen.query_one(PromptInput)
    hold_cursor(pilot.app)
    prompt.text = PROMPT
    await pilot.press("enter")
    await wait_until(pilot, lambda: engine.generates)
    engine.read_prompt(118, 118, seconds=1.4)


async def middle(pilot: Pilot[None], engine: FakeEngine) -> None:
    """In the middle of the reply."""
    await asked(pilot, engine)
    await play(pilot, engine, script()[:MIDDLE])


async def finished(pilot: Pilot[None], engine: FakeEngine) -> None:
    """The whole reply."""
    await asked(pilot, engine)
    await play(pilot, engine, script())
    engine.finish()
    await shown(pilot, engine)


async def rejected(pilot: Pilot[None], engine: FakeEngine) -> None:
    """What was rejected."""
    await middle(pilot, engine)
    await pilot.press("f3")


async def inspect(pilot: Pilot[None], engine: FakeEngine) -> None:
    """A token, and its round on the page of rounds."""
    await middle(pilot, engine)
    await pilot.press("alt+2", "f4", "left", "up", "up", "left")


async def details(pilot: Pilot[None], engine: FakeEngine) -> None:
    """The page of details."""
    await finished(pilot, engine)
    await pilot.press("f10", "f10")


async def compare(pilot: Pilot[None], engine: FakeEngine) -> None:
    """The reply again without drafts, at the end of the race."""
    await finished(pilot, engine)
    await pilot.press("f5")
    await wait_until(pilot, lambda: len(engine.generates) == 2)
    words = [word for step in script() for word in (*step.accepted, step.own)]
    await play(pilot, engine, [Step("", (), word, ()) for word in words])
    engine.finish()
    await raced(pilot, 60.0)


async def models(pilot: Pilot[None], engine: FakeEngine) -> None:
    """The target is chosen; who drafts for it?"""
    await finished(pilot, engine)
    await pilot.press("alt+m")
    await listed(pilot)
    await pilot.press("enter")


async def demo() -> str:
    """The moving picture: the recorded chat that ships, slowed down, so that a guess is seen before its verdict."""
    player = ConversationPlayer(open_conversation(demo_file(), DEMO))
    app = window_of(player, player.setup, player.knobs)
    frames: list[str] = []
    seconds: list[float] = []
    async with app.run_test(size=MOVING_SIZE) as pilot:
        chat = app.screen
        assert isinstance(chat, ChatScreen)

        async def shoot(lasts: float) -> None:
            chat._tick()
            chat.show_figures()
            chat.panel.show_knobs()
            await pilot.pause()
            frames.append(app.export_screenshot(title="spectui chat", simplify=True))
            seconds.append(lasts)

        await wait_until(pilot, lambda: chat.session.state == "ready" and player.turn)
        hold_cursor(app)
        while player.turn is not None:
            prompt = player.turn.prompt
            for typed in range(0, len(prompt), TYPED):
                chat.prompt.text = prompt[:typed]
                await shoot(MOVING_S * SLOWED)
            chat.prompt.text = prompt
            await shoot(PAUSE_S)
            await pilot.press("enter")
            await wait_until(pilot, lambda: chat.session.replying)
            while chat.session.replying:
                await shoot(MOVING_S * SLOWED)
                player.advance(MOVING_S)
                if player.turn is not None or player.ended:
                    seconds[-1] = PAUSE_S  # the last round, in its colours
                    chat._tick()
            await shoot(PAUSE_S)
    return moving(frames, seconds)


async def draw(file: Path, scene: Scene) -> None:
    """Play a scene in a window, and write its picture."""
    engine = FakeEngine(devices=(CPU, GPU))
    app = window_of(engine, PAIR, Knobs(temperature=0.0), catalogue=Known(HEADERS))
    async with app.run_test(size=SIZE) as pilot:
        await scene(pilot, engine)
        await shown(pilot, engine)
        file.write_text(app.export_screenshot(title="spectui chat", simplify=True), "utf-8")


def streamed(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """What llama-server sends of these rounds: its counts jump at the first token of each."""
    rows, tokens, drafted, accepted, ms = list[dict[str, Any]](), 0, 0, 0, 0.0
    for step in steps:
        size = len(step.accepted) + len(step.rejected)
        drafted, accepted = drafted + size, accepted + len(step.accepted)
        ms += 1000 * (PASS_S + size * (DRAFT_S + MORE_S))
        for token in (*step.accepted, step.own):
            tokens += 1
            rows.append(delta(token, **timings(tokens, drafted, accepted, ms, prompt=118)))
    return rows


async def server(file: Path) -> None:
    """The middle of the reply on somebody's llama-server."""
    listed = {"id": "qwen2.5-coder-32b-instruct", "owned_by": "llamacpp", "meta": {"n_params": 32_760_000_000}}
    slot = {"id": 0, "n_ctx": 32_768, "speculative": True, "params": {"speculative.types": "draft-simple"}}
    facts = {"slots": [slot], "v1__models": {"data": [listed]}, "props": {"default_generation_settings": {"n_ctx": 32_768}}}
    answers = {path: as_json(table) for path, table in facts.items()}
    rows, drawn = streamed(script()[:MIDDLE]), threading.Event()
    with (
        serving(events(*rows, lambda: drawn.wait(60) and None), **answers) as scripted,
        closing(Worker(Knobs(), open_session=ServerSession)) as worker,
    ):
        setup = Setup(server=scripted.url, model=scripted.url.partition("//")[2])
        app = window_of(worker, setup, Knobs(temperature=0.0), catalogue=ServedModels(setup.server, ""))
        async with app.run_test(size=SIZE) as pilot:
            chat = app.screen
            assert isinstance(chat, ChatScreen)
            await wait_until(pilot, lambda: chat.session.state == "ready")
            hold_cursor(app)
            await ask(pilot, PROMPT)
            texts = "".join(row["choices"][0]["delta"]["content"] for row in rows[:-1])
            await wait_until(pilot, lambda: chat.session.writing and chat.session.writing.content.startswith(texts))
            await pilot.press("f2")  # also the blocks that have ended, as tokens
            chat.show_figures()
            await pilot.pause()
            file.write_text(app.export_screenshot(title="spectui chat --server gpu-box", simplify=True), "utf-8")
        drawn.set()


SCENES: tuple[Scene, ...] = (rejected, inspect, details, compare, models)
"""Each has a picture of its name in docs/."""


def main() -> None:
    """Draw them all."""
    asyncio.run(server(DOCS / "server.svg"))
    (DOCS / "demo.svg").write_text(asyncio.run(demo()), "utf-8")
    for scene in SCENES:
        asyncio.run(draw(DOCS / f"{scene.__name__}.svg", scene))


if __name__ == "__main__":
    main()
