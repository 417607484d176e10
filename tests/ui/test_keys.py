"""Sentences name the keys that a person has, and everything that can be done has a key, a command and a mouse target."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding
from textual.dom import DOMNode

import spectui.ui
from spectui.engine.fake import FakeEngine
from spectui.knobs import Knobs, specs, title
from spectui.speculation.records import StopReason
from spectui.ui.keys import key_of, keymap, spoken, written
from spectui.ui.slider import Slider
from spectui.ui.switch import Switch
from tests.terminal import Terminal
from tests.ui.driving import Make, Window, answer, ask, wait_until
from tests.ui.seeing import one_line


@pytest.mark.parametrize(
    ("key", "expected"),
    [("ctrl+l", "Ctrl+L"), ("f5", "F5"), ("escape", "Esc"), ("left_square_bracket", "["), ("alt+pageup", "Alt+PgUp"),
     ("r", "R"), ("enter", "Enter"), ("left", "Left"), ("shift+enter", "Shift+Enter"), ("question_mark", "?")],
)  # fmt: skip
def test_a_key_is_written_as_people_write_it(key: str, expected: str) -> None:
    assert written(key) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [("f9", "f9"), ("Alt+F9, Ctrl+Shift+left", "alt+f9,ctrl+shift+left"), ("shift+ctrl+a", "ctrl+shift+a"), ("?", "?"),
     ("Q", "Q"), ("PgUp", "pageup"), ("Esc", "escape"), ("left_square_bracket", "left_square_bracket"),
     ("ctrl-b", None), ("bananas", None), ("f5,", None), ("", None), ("strg+b", None)],
)  # fmt: skip
def test_a_key_is_mapped_as_it_is_written_or_the_line_is_told(keys: str, expected: str | None) -> None:
    mapped, problems = keymap({"token.before": keys})
    assert mapped == ({"token.before": expected} if expected else {})
    assert problems == ([] if expected else [f"[ui.keys]: token.before cannot be given {keys!r}: write keys such as f5, "
                                             "ctrl+b or alt+pageup."])  # fmt: skip


def test_keys_are_mapped_by_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[ui.keys]\nghosts = "Ctrl+G"\nstopp = "f9"\n')
    with Terminal("chat", "--config", str(file), "-m", "/models/a.gguf", module="tests.scripted") as terminal:
        terminal.wait("what cannot be mapped", lambda: "there is no action 'stopp'" in terminal.text)
        terminal.wait("the mapped key", lambda: "^g Ghosts" in terminal.text and "f3" not in terminal.text)
        terminal.press("ctrl+q")
        assert terminal.end() == 0


async def test_a_sentence_names_the_key_that_a_person_has(make_app: Make) -> None:
    app = make_app(keymap={"compare": "ctrl+b", "load": "f6"})
    async with app.run_test():
        assert (
            spoken(app, "{compare}, {newline} and {stop}; {no such thing}") == "Ctrl+B, Ctrl+J and Esc; {no such thing}"
        )
        assert key_of(app, "panel") == "“Panel” in the palette", "its key was given to another"
        with pytest.raises(LookupError):
            key_of(app, "nonesuch")


async def test_what_the_window_says_names_mapped_keys(window: Window, engine: FakeEngine) -> None:
    async with window(
        keymap={"compare": "ctrl+b", "new-chat": "alt+n", "stop": "f11", "save-preset": "alt+z"},
        size=(120, 40),
        notifications=True,
    ) as (app, pilot):
        await pilot.press("alt+7")
        await wait_until(pilot, lambda: "Ctrl+B decodes the last prompt" in one_line(app))
        await pilot.press("alt+p")
        await wait_until(pilot, lambda: "Alt+Z saves the knobs" in one_line(app))
        await ask(pilot, "go")
        await ask(pilot, "next")
        await wait_until(pilot, lambda: "until the model is free, F11 takes back" in one_line(app))
        await pilot.press("alt+l")
        await wait_until(pilot, lambda: "F11 stops the reply first" in one_line(app))
        await pilot.press("f11")
        await wait_until(pilot, lambda: app.screen.session.state == "ready")  # type: ignore[attr-defined]
        await pilot.press("enter")
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        await answer(pilot, engine, StopReason.CONTEXT)
        await wait_until(pilot, lambda: "is full: Alt+N starts a new chat" in one_line(app))


def classes() -> Iterator[type[DOMNode]]:
    """Every widget, screen and application of the window."""
    for module in pkgutil.iter_modules(spectui.ui.__path__, "spectui.ui."):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and issubclass(kind, DOMNode) and kind.__module__ == module.name:
                yield kind


def test_every_action_can_be_mapped_by_a_name_of_its_own() -> None:
    bindings = [(kind, each) for kind in classes() for each in kind.__dict__.get("BINDINGS", ())]
    assert len(bindings) > 80
    assert not [(kind, each) for kind, each in bindings if not isinstance(each, Binding) or not each.id]
    twice = [name for name, number in Counter(each.id for _, each in bindings).items() if number > 1]
    assert not twice


async def test_every_action_of_the_window_has_a_command(window: Window) -> None:
    async with window(size=(120, 40)) as (app, _):
        own = [
            binding for node in (app.screen, app) for _, binding in node._bindings if binding.id and binding.priority
        ]
        assert len(own) > 15
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert len(titles) == len(set(titles)), "an action with two keys is one command"
        assert all(command.help for command in app.get_system_commands(app.screen))
        hidden = {"Load again", "No draft", "Go on", "Safe way", "Palette"}  # only while they can do something
        assert {binding.description for binding in own} - hidden <= set(titles)


@pytest.mark.parametrize("key", [key for key, _, _ in specs(Knobs)])
async def test_every_knob_has_a_lever_a_command_and_is_moved_by_the_mouse(
    window: Window, engine: FakeEngine, key: str
) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await pilot.press("alt+6")
        commands: dict[str, Any] = {each.title: each.callback for each in app.get_system_commands(app.screen)}
        before = getattr(engine.knobs, key)
        levers = [each for each in app.screen.query("Slider, Switch") if getattr(each, "key", "") == key]
        assert len(levers) == 1
        (lever,) = levers
        await wait_until(pilot, lambda: lever.is_on_screen and lever.size.width)
        # A switch turns on a click anywhere; the middle of a slider's track is no knob's default.
        await pilot.click(lever, offset=(lever.size.width // 2 + 5, 0))
        await wait_until(pilot, lambda: getattr(engine.knobs, key) != before)
        if isinstance(lever, Switch):
            assert all(f"{title(key).capitalize()}: {choice}" in commands for choice in lever.choices)
        else:
            await pilot.press("alt+1")
            commands[f"Knob: {title(key)}"]()
            await wait_until(pilot, lambda: lever.has_focus and lever.is_on_screen)
            now = getattr(engine.knobs, key)
            assert isinstance(lever, Slider)
            await pilot.press("home" if now != lever.low else "end")
            await wait_until(pilot, lambda: getattr(engine.knobs, key) != now)
