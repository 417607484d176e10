"""Sentences name the keys that a person has, and everything that can be done has a key, a command and a mouse target."""

import importlib
import pkgutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase, digits
from typing import Any

import pytest
from textual.binding import Binding
from textual.dom import DOMNode
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import OptionList

import spectui.ui
from spectui.knobs import Knobs, Setup, specs, title
from spectui.profiles.file import ProfileFile
from spectui.speculation.records import StopReason
from spectui.store.journal import Journal
from spectui.ui.app import SpectuiApp
from spectui.ui.dashboard.machine import DevicePane
from spectui.ui.dashboard.rounds import RoundsPage
from spectui.ui.dialogs.compare import CompareScreen
from spectui.ui.dialogs.conversations import ConversationsScreen, MessagesScreen
from spectui.ui.dialogs.lists import KEYLESS, HelpScreen
from spectui.ui.dialogs.models import ModelsScreen
from spectui.ui.dialogs.questions import ConfirmScreen, LineScreen, SystemPromptScreen
from spectui.ui.keys import format_key, key_of, keymap, with_keys
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.screen.replay import ReplayScreen
from spectui.ui.screen.serve import ServeScreen
from spectui.ui.screen.welcome import Choices
from spectui.ui.transcript.reader import FindLine, Reader
from spectui.ui.widgets.rows import ActionLine, ChoiceRow, KnobRow, Slider
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.helpers.terminal import Terminal
from tests.ui.pilot_helpers import PAIR, Make, Window, answer, ask, click_key, wait_until
from tests.ui.screen_text import one_line, screen_text
from tests.ui.textual_patches.test_driver import events_of


@pytest.mark.parametrize(
    ("key", "expected"),
    [("ctrl+l", "Ctrl+L"), ("f5", "F5"), ("escape", "Esc"), ("left_square_bracket", "["), ("alt+pageup", "Alt+PgUp"),
     ("r", "R"), ("enter", "Enter"), ("left", "Left"), ("shift+enter", "Shift+Enter"), ("question_mark", "?"),
     ("ctrl+underscore", "Ctrl+_")],
)  # fmt: skip
def test_a_key_is_written_as_people_write_it(key: str, expected: str) -> None:
    assert format_key(key) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [("f9", "f9"), ("Alt+F9, Ctrl+Shift+left", "alt+f9,ctrl+shift+left"), ("shift+ctrl+a", "ctrl+shift+a"),
     ("?", "question_mark"), ("Alt+[", "alt+left_square_bracket"), ("Q", "Q"), ("PgUp", "pageup"), ("Esc", "escape"),
     ("ctrl-b", None), ("bananas", None), ("f5,", None), ("", None), ("strg+b", None)],
)  # fmt: skip
def test_a_key_is_mapped_as_it_is_written_or_the_line_is_told(keys: str, expected: str | None) -> None:
    mapped, problems = keymap({"token.before": keys})
    assert mapped == ({"token.before": expected} if expected else {})
    assert problems == ([] if expected else [f"[ui.keys]: token.before cannot be given {keys!r}: write keys such as f5, "
                                             "ctrl+b or alt+pageup."])  # fmt: skip


def test_keys_are_mapped_by_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[ui.keys]\nhelp = "Ctrl+G"\nstopp = "f9"\n')
    with Terminal("chat", "--config", str(file), "-m", "/models/a.gguf", module="tests.helpers.scripted") as terminal:
        terminal.wait("what cannot be mapped", lambda: "there is no action 'stopp'" in terminal.text)
        terminal.wait("the mapped key", lambda: "^g Help" in terminal.text and "f1" not in terminal.text)
        terminal.type("\x1b5")
        terminal.wait("the page of settings, by Alt+5", lambda: "reset all" in terminal.text)
        terminal.leave()


async def test_a_sentence_names_the_key_that_a_person_has(make_app: Make) -> None:
    app = make_app(keymap={"compare": "ctrl+b", "load": "f6"})
    async with app.run_test():
        assert (
            with_keys(app, "{compare}, {newline} and {stop}; {no such thing} of {x}.gguf")
            == "Ctrl+B, Ctrl+J and Esc; {no such thing} of {x}.gguf"
        )
        assert key_of(app, "panel") == "“Panel” in the list of commands", "its key was given to another"
        assert "Panel" in [entry.title for entry in HelpScreen(app.screen).entries]
        with pytest.raises(LookupError):
            key_of(app, "nonesuch")


async def test_what_the_window_says_names_mapped_keys(window: Window, engine: FakeEngine) -> None:
    async with window(
        keymap={"compare": "f9", "policy": "f5", "new-chat": "alt+n", "stop": "f11", "save-profile": "alt+z"},
        size=(120, 40),
        notifications=True,
    ) as (app, pilot):
        await ask(pilot, "go")
        engine.emit_round(*"abc", bonus="d", seconds=0.2, plain_s=0.1)
        engine.finish()
        await wait_until(pilot, lambda: "as without guesses; F9 compares" in one_line(app))
        await pilot.press("alt+p")
        await wait_until(pilot, lambda: "Alt+Z saves the knobs" in one_line(app))
        await ask(pilot, "go")
        await ask(pilot, "next")
        await wait_until(pilot, lambda: "until the model is free, F11 takes back" in one_line(app))
        await pilot.press("alt+l")
        await wait_until(pilot, lambda: "F11 stops the reply first" in one_line(app))
        await pilot.press("f11")
        await wait_until(pilot, lambda: not app.screen.session.waiting)  # type: ignore[attr-defined]
        await pilot.press("f11")
        await wait_until(pilot, lambda: app.screen.session.state == "ready")  # type: ignore[attr-defined]
        await pilot.press("enter")
        await wait_until(pilot, lambda: len(engine.generates) == 3)
        await answer(pilot, engine, StopReason.CONTEXT)
        await wait_until(pilot, lambda: "is full: Alt+N starts a new chat" in one_line(app))


def classes() -> Iterator[type[DOMNode]]:
    """Every widget, screen and application of the window."""
    for module in pkgutil.walk_packages(spectui.ui.__path__, "spectui.ui."):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and issubclass(kind, DOMNode) and kind.__module__ == module.name:
                yield kind


def test_every_action_can_be_mapped_by_a_name_of_its_own() -> None:
    bindings = [(kind, each) for kind in classes() for each in kind.__dict__.get("BINDINGS", ())]
    assert len(bindings) > 80
    assert not [(kind, each) for kind, each in bindings if not isinstance(each, Binding) or not each.id]
    twice = [name for name, number in Counter(each.id for _, each in bindings).items() if number > 1]
    assert not twice


def test_keys_of_what_is_imported_late_can_be_mapped_before() -> None:
    every = sorted(each.id for kind in classes() for each in kind.__dict__.get("BINDINGS", ()))
    code = f"import spectui.ui.app; from spectui.ui.keys import keymap; print(keymap(dict.fromkeys({every!r}, 'f5'))[1])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


SENT = {
    "escape": "\x1b", "enter": "\r", "space": " ", "delete": "\x1b[3~", "left_square_bracket": "[", "right_square_bracket": "]",
    "tab": "\t", "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "end": "\x1b[F", "home": "\x1b[H",
    "pageup": "\x1b[5~", "pagedown": "\x1b[6~", "shift+right": "\x1b[1;2C", "shift+left": "\x1b[1;2D",
    **{f"f{number}": f"\x1bO{letter}" for number, letter in enumerate("PQRS", 1)},
    **{f"f{number}": f"\x1b[{code}~" for number, code in enumerate((15, 17, 18, 19, 20, 21, 23, 24), 5)},
    **{f"ctrl+{letter}": chr(ord(letter) & 31) for letter in ascii_lowercase},
    **{f"alt+{sign}": f"\x1b{sign}" for sign in ascii_lowercase + digits},
    **{sign: sign for sign in ascii_lowercase + digits}, "plus": "+", "minus": "-", "equals_sign": "=", "full_stop": ".",
    "ctrl+underscore": "\x1f",
}  # fmt: skip
"""What xterm sends, and tmux and all who follow them: kitty's protocol is nobody's duty."""


@pytest.mark.parametrize("slow", [True, False])
def test_every_key_is_understood_from_any_terminal(slow: bool) -> None:
    bound = {key for kind in classes() for each in kind.__dict__.get("BINDINGS", ()) for key in each.key.split(",")}
    for key in sorted(bound - {"shift+enter", "alt+enter", "escape"} | ({"escape"} if slow else set())):
        # Twice, as one that is held sends it.
        assert [getattr(each, "key", each) for each in events_of([SENT[key], SENT[key]], slow=slow)] == [key, key]


WITHOUT_REPLY: dict[type[DOMNode], Setup] = {ChatScreen: PAIR, Choices: Setup()}
"""Places in a window whose models did not load, or that has none."""

PLACES: dict[type[DOMNode], tuple[str, ...]] = {
    PromptInput: (), Reader: ("#transcript",), FindLine: ("ctrl+f",), Slider: ("#slider-draft-max",),
    ChoiceRow: ("#choice-policy",), DevicePane: ("#devices",), RoundsPage: ("alt+2", "#rounds"),
    ModelsScreen: ("alt+m",), MessagesScreen: ("alt+l",),
    ConversationsScreen: ("alt+c",), LineScreen: ("alt+x",), ConfirmScreen: ("alt+c", "ctrl+d"),
    SystemPromptScreen: ("alt+y",), HelpScreen: ("f1",), CompareScreen: ("f5",),
}  # fmt: skip
"""Where a person can be after a reply: the keys that lead there, and the widget that takes the focus."""


def test_all_that_has_keys_is_among_the_places() -> None:
    places = {part for kind in (SpectuiApp, ReplayScreen, ServeScreen, *WITHOUT_REPLY, *PLACES) for part in kind.__mro__}
    assert not [kind for kind in classes() if kind.__dict__.get("BINDINGS") and kind not in places]  # replays: test_replay.py


async def go(pilot: Pilot[None], steps: tuple[str, ...]) -> None:
    """Press keys that open pages or screens, and give a widget the focus."""
    for step in steps:
        if step.startswith("#"):
            part = pilot.app.screen.query_one(step)
            await wait_until(pilot, lambda part=part: part.is_on_screen and part.focusable)  # type: ignore[misc]
            part.focus()
            continue
        depth = len(pilot.app.screen_stack)
        await pilot.press(step)
        if step not in ("alt+2", "ctrl+f"):
            await wait_until(pilot, lambda depth=depth: len(pilot.app.screen_stack) == depth + 1)  # type: ignore[misc]
        if isinstance(screen := pilot.app.screen, ConversationsScreen):  # it is filled beside the window
            await wait_until(pilot, lambda screen=screen: screen.query_one(OptionList).option_count)  # type: ignore[misc]


async def has_ways(app: SpectuiApp, pilot: Pilot[None], place: type[DOMNode]) -> None:
    """Every action of this place has a command and a place to click."""
    screen = app.screen
    await wait_until(pilot, lambda: type(screen) is place or type(screen.focused) is place)
    # What has no tooltip moves a cursor or a bar.
    actions = [active for active in screen.active_bindings.values() if active.enabled and active.binding.tooltip]
    entries = HelpScreen(screen).entries
    names = [entry.id for entry in entries if entry.id]
    assert len(names) == len(set(names)), "an action with two keys is one entry"
    assert all(entry.help for entry in entries if entry.group == KEYLESS or entry.id.startswith("prompt."))
    assert {active.binding.id for active in actions if active.binding.id} <= {*names}
    if isinstance(screen, ModalScreen):
        (line,) = screen.query(ActionLine)
        clicked = {action for _, action in line.actions}
        assert {active.binding.action for active in actions if active.node is screen} <= clicked
        return
    await click_key(pilot, "f1")
    await wait_until(pilot, lambda: isinstance(app.screen, HelpScreen))
    assert {*names} <= {entry.id for entry in app.screen.entries}  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", WITHOUT_REPLY, ids=lambda place: place.__name__)
async def test_every_action_has_a_command_and_a_place_to_click_before_models_are_there(
    make_app: Make, engine: FakeEngine, place: type[DOMNode]
) -> None:
    app = make_app(WITHOUT_REPLY[place])
    async with app.run_test(size=(120, 40)) as pilot:
        if place is ChatScreen:
            await wait_until(pilot, lambda: engine.loads)
            engine.fail_loading("No.", without_draft=True)
            await wait_until(pilot, lambda: not engine.events)
        await has_ways(app, pilot, place)


async def test_every_action_has_a_command_and_a_place_to_click(window: Window, engine: FakeEngine, file: Path) -> None:
    profiles = ProfileFile(file.parent / "config.toml")
    async with window(journal=Journal(file), profiles=profiles, size=(120, 40)) as (app, pilot):
        await ask(pilot, "go")
        await answer(pilot, engine)
        for place, steps in PLACES.items():
            await go(pilot, steps)
            await has_ways(app, pilot, place)
            while len(app.screen_stack) > 1:
                depth = len(app.screen_stack)
                await pilot.press("escape")
                await wait_until(pilot, lambda depth=depth: len(app.screen_stack) < depth)  # type: ignore[misc]
            app.screen.prompt.focus()  # type: ignore[attr-defined]


async def test_every_knob_has_a_control_and_a_command_and_is_moved_by_the_mouse(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await pilot.press("alt+5")
        commands: dict[str, Any] = {entry.title: entry.act for entry in HelpScreen(app.screen).entries}
        rows = {row.key: row for row in app.screen.query(KnobRow)}
        knobs = {key: spec for key, _, spec in specs(Knobs) if spec.choices or spec.step is not None}
        assert {*knobs} == {*rows} - {"profile", "ctx_size"} and len(rows) == len(app.screen.query(KnobRow))
        for key in knobs:
            assert f"Knob: {title(key)}" in commands
        for key in ("context_full", "seed"):
            before, row = getattr(engine.knobs, key), rows[key]
            row.scroll_visible(animate=False)
            await wait_until(pilot, lambda row=row: row.is_on_screen and row.size.width)
            # A choice turns on a click anywhere; the middle of a slider's track is no knob's default.
            await pilot.click(row, offset=(row.size.width // 2 + 5, 0))
            await wait_until(pilot, lambda key=key, before=before: getattr(engine.knobs, key) != before)
        await pilot.press("alt+1")
        commands["Knob: seed"]()
        await wait_until(pilot, lambda: rows["seed"].has_focus and rows["seed"].is_on_screen)
        await pilot.press("home")
        await wait_until(pilot, lambda: engine.knobs.seed == -1)


@pytest.mark.parametrize("width", [120, 200])
async def test_the_devices_are_read_whole_and_clicked_where_they_stand(window: Window, engine: FakeEngine, width: int) -> None:
    engine.devices = (CPU, GPU)
    async with window(size=(width, 40)) as (app, pilot):
        await pilot.press("f7")
        await wait_until(pilot, lambda: "○" in screen_text(app))
        pane = app.screen.query_one(DevicePane)
        heading, host, _ = (
            row[pane.region.x : pane.region.right] for row in screen_text(app).splitlines()[pane.region.y :][:3]
        )
        assert heading.endswith("use") and heading.split() == ["device", "target", "draft", "memory", "GB", "use"]
        assert host.endswith("–") and "3.6/24" in host
        await pilot.click(DevicePane, offset=(host.rindex("○"), 1))
        await pilot.press("alt+d", "enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
        assert (engine.loads[1].device, engine.loads[1].device_draft) == ("", "none")
