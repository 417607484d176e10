"""Whatever is pressed, clicked, pasted or sent by the engine, in whatever order: the window stands.

`TEST_EVENTS` is how many; by hand: `TEST_EVENTS=10000 pytest tests/ui/test_random_keys.py`.
"""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from textual import events
from textual.pilot import OutOfBounds

from spectui.profiles.file import ProfileFile
from spectui.speculation.records import StopReason
from spectui.store.journal import Journal
from spectui.ui.app import SpectuiApp
from spectui.ui.dialogs import questions
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.ui.dialogs.catalogues import HEADERS, Known
from tests.ui.pilot_helpers import write_reply

EVENTS = int(os.environ.get("TEST_EVENTS", "120"))
RUNS = max(2, EVENTS // 500)
KEYS = [
    "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "escape", "enter", "tab", "shift+tab", "up", "down", "left",
    "right", "home", "end", "pageup", "pagedown", "backspace", "delete", "space", "a", "Z", "0", "ß", "ctrl+a", "ctrl+b",
    "ctrl+c", "ctrl+d", "ctrl+e", "ctrl+f", "ctrl+g", "ctrl+k", "ctrl+l", "ctrl+n", "ctrl+o", "ctrl+p", "ctrl+r", "ctrl+s",
    "ctrl+t", "ctrl+u", "ctrl+v", "ctrl+w", "ctrl+x", "ctrl+y", "ctrl+j", "shift+left", "ctrl+left", "shift+enter", "f12",
    "alt+a", "alt+c", "alt+d", "alt+l", "alt+m", "alt+s", "alt+x", "alt+y",
]  # fmt: skip
HOSTILE = "\x1b]0;x\x07[red]{{ 7*7 }}\u202e\n" * 3
SIZES = [(120, 40), (80, 24), (30, 8), (200, 60)]


def engine_does(chance: random.Random, engine: FakeEngine) -> None:
    """Something that an engine may do in its present state."""
    if engine.loading:
        chance.choice([engine.finish_loading, lambda: engine.fail_loading("It does not load.", without_draft=True),
                       lambda: engine.report_loading("target", chance.random(), 10**9)])()  # fmt: skip
    elif engine.replying:
        chance.choice([lambda: write_reply(engine), lambda: engine.emit_round(plain=HOSTILE), engine.finish,
                       lambda: engine.finish(StopReason.LIMIT), lambda: engine.fail("It broke.")])()  # fmt: skip
    else:
        chance.choice([lambda: engine.notify(HOSTILE), lambda: engine.report_devices(CPU, GPU),
                       lambda: engine.report_devices(CPU)])()  # fmt: skip


@pytest.mark.parametrize("seed", range(RUNS))
async def test_the_window_stands(
    make_app: Callable[..., SpectuiApp], engine: FakeEngine, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    engine.late = seed % 2 == 1
    monkeypatch.setattr(questions, "PLAN_AFTER_S", 0.002)
    app = make_app(
        journal=Journal(tmp_path / "conversations.db"), catalogue=Known(HEADERS), plan=lambda setup, loaded: "It fits.",
        profiles=ProfileFile(tmp_path / "config.toml"),
    )  # fmt: skip
    monkeypatch.setattr(app, "exit", lambda *_, **__: None)  # "Quit" stands in the list of commands
    monkeypatch.chdir(tmp_path)  # conversations are exported there
    monkeypatch.setenv("EDITOR", "true")
    done: list[str] = []
    async with app.run_test(size=SIZES[0]) as pilot:
        for number in range(EVENTS // RUNS):
            match chance.randrange(12):
                case 0 | 1 | 2:
                    engine_does(chance, engine)
                    done.append("engine")
                case 3:
                    width, height = app.size
                    at = (chance.randrange(width), chance.randrange(height))
                    done.append(f"click {at}")
                    with suppress(OutOfBounds):
                        await pilot.click(offset=at)
                case 4:
                    done.append("paste")
                    app.screen.post_message(events.Paste(HOSTILE))
                case 5 if number % 10 == 0:
                    done.append("resize")
                    await pilot.resize_terminal(*chance.choice(SIZES))
                case _:
                    # Half of them are keys that do something where the window is now.
                    key = chance.choice(chance.choice([KEYS, sorted(app.screen.active_bindings)]) or KEYS)
                    done.append(key)
                    app.simulate_key(key)
            if number % 5 == 0:
                await pilot.pause()
            assert app.is_running, done[-12:]
        await pilot.pause()  # what was pressed last comes before the end
        assert app.is_running, done[-12:]
