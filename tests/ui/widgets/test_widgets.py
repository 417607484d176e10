"""Sliders, rows of choices, lines of figures, and the clipboards that a copied text comes to."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import on
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Label, OptionList

from spectui.knobs import Spec
from spectui.ui import clipboard
from spectui.ui.clipboard import copy
from spectui.ui.textual_patches.app import TerminalApp
from spectui.ui.textual_patches.text_area import SteadyTextArea
from spectui.ui.themes import ORIGIN_DEFAULTS
from spectui.ui.widgets.lines import Line, LineWidget, labelled, wrapped
from spectui.ui.widgets.rows import LABEL, ChoiceRow, KnobRow, Slider
from tests.ui.pilot_helpers import Window, notified, wait_until
from tests.ui.screen_text import screen_text


class KnobApp(App[None]):
    """One row, and what it has told."""

    def __init__(self, row: KnobRow) -> None:
        super().__init__()
        self.row = row
        self.told: list[float | str] = []

    def compose(self) -> ComposeResult:
        yield self.row

    @on(KnobRow.Changed)
    def note(self, event: KnobRow.Changed) -> None:
        assert event.key == self.row.key
        self.told.append(event.value)

    @property
    def drawn(self) -> str:
        return self.row.render_line(0).text


def slider(value: float, default: float = 16, **limits: Any) -> Slider:
    spec = Spec("most tokens drafted", (), **{"low": 0, "high": 48, "step": 1, **limits})
    return Slider("draft_max", "draft-max", value, spec, default=default)


def choices(value: str = "auto") -> ChoiceRow:
    return ChoiceRow("drafter", "drafter", value, choices=("auto", "model", "suffix", "off"), default="auto")


SHARE = {"low": 0.0, "high": 1.0, "step": 0.05, "default": 0.75}
HEAT = {"low": 0.0, "high": 5.0, "step": 0.05, "default": 0.8}
SEED = {"low": -1, "high": 2**31 - 1, "step": 16, "default": -1, "words": {-1: "random"}}


@pytest.mark.parametrize(
    ("make", "keys", "told"),
    [
        *((partial(slider, 16), [key], [value]) for key, value in (
            ("left", 15), ("right", 17), ("shift+left", 6), ("shift+right", 26), ("home", 0), ("end", 48))),
        (partial(slider, 3), ["delete"], [16]), (partial(slider, 0), ["left", "home", "right"], [1]),
        (partial(slider, 0.0, **SHARE), ["right"] * 20, [round(0.05 * turn, 2) for turn in range(1, 21)]),
        (partial(slider, -1, **SEED), [*"256", "enter", "right", "left", *"9999999999", "enter"], [256, 271, 255, 2**31 - 1]),
        (partial(slider, 0.33, **HEAT), ["left", *".33", "enter", "right"], [0.3, 0.33, 0.4]),
        (partial(choices, "model"), ["right"], ["suffix"]), (partial(choices, "model"), ["enter"], ["suffix"]),
        (partial(choices, "model"), ["left"], ["auto"]), (partial(choices, "model"), ["delete"], ["auto"]),
        (partial(choices), ["left", "right", "right"], ["off", "auto", "model"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("width", [60, 6], ids=["wide", "narrow"])
async def test_keys_turn_it(make: Callable[[], KnobRow], keys: Sequence[str], told: list[object], width: int) -> None:
    app = KnobApp(row := make())
    async with app.run_test(size=(width, 3)) as pilot:
        await pilot.press("tab", *keys)
        await wait_until(pilot, lambda: app.told == told)
        assert row.value == told[-1] and [type(value) for value in app.told] == [type(value) for value in told]


async def test_the_mouse_clicks_and_drags_a_slider() -> None:
    app = KnobApp(slider(16))
    async with app.run_test(size=(60, 3)) as pilot:
        first = LABEL + 1
        await pilot.mouse_down(app.row, offset=(first, 0))
        await wait_until(pilot, lambda: app.told == [0])
        await pilot.hover(app.row, offset=(59, 0))
        await wait_until(pilot, lambda: app.told[-1] == 48)
        last = app.drawn.index("●")
        await pilot.hover(app.row, offset=(last - 9, 0))
        await wait_until(pilot, lambda: app.told[-1] < 48)
        await pilot.hover(app.row, offset=(last, 0))
        await wait_until(pilot, lambda: app.told[-1] == 48)
        await pilot.mouse_up(app.row, offset=(59, 0))
        await pilot.hover(app.row, offset=(first, 0))
        await pilot.pause()
        assert app.row.value == 48


async def test_a_click_turns_a_choice_on_and_on_the_left_arrow_back() -> None:
    app = KnobApp(choices())
    async with app.run_test(size=(40, 3)) as pilot:
        await pilot.click(ChoiceRow, offset=(LABEL + 4, 0))
        await wait_until(pilot, lambda: app.told == ["model"])
        await pilot.click(ChoiceRow, offset=(LABEL + 1, 0))
        await wait_until(pilot, lambda: app.told == ["model", "auto"])


@pytest.mark.parametrize(
    ("value", "spec", "figure"),
    [
        (0, {}, "0"), (48, {}, "48"), (200, SEED, "200"), (-1, SEED, "random"), (0.33, HEAT, ".33"), (0.9995, SHARE, ".9995"),
        (0.0, SHARE, "0"), (1.0, SHARE, "1.0"), (1.05, HEAT, "1.05"), (-1, {"low": -1}, "-1"),
        (-0.5, HEAT | {"low": -2.0}, "-.5"),
    ],
)  # fmt: skip
async def test_every_value_of_a_slider_is_drawn_as_it_is(value: float, spec: dict[str, float], figure: str) -> None:
    app = KnobApp(slider(value, **spec))
    async with app.run_test(size=(60, 3)):
        assert app.drawn.startswith("draft-max ") and app.drawn.endswith(f" {figure}")
        assert app.drawn.count("●") == 1 and len(app.drawn) == 60
        assert value != spec.get("low", 0) or app.drawn.index("●") == LABEL + 1
        assert value != 48 or app.drawn.rstrip("48 ").endswith("●")
        assert "┼" in app.drawn or spec is SEED, "the default has a tick"


async def test_what_is_assigned_is_silent_and_within_the_range_or_the_choices() -> None:
    app = KnobApp(slider(16))
    async with app.run_test(size=(60, 3)) as pilot:
        app.row.value = 1000
        assert app.row.value == 48
        app.row.turn_to(-1000)
        await wait_until(pilot, lambda: app.told == [0])
    app = KnobApp(row := choices("suffix"))
    async with app.run_test(size=(40, 3)) as pilot:
        assert app.drawn.rstrip() == "drafter     ‹ suffix ›"
        row.show_choices(("auto", "model"), "suffix")
        await pilot.pause()
        assert app.drawn.rstrip() == "drafter     ‹ auto ›" and app.told == []


@given(st.floats(-10, 10))
def test_no_value_leaves_the_range_and_none_is_moved_within_it(value: float) -> None:
    assert slider(value, **SHARE).value == pytest.approx(min(1, max(0, value)), abs=1e-6)


@pytest.mark.parametrize("width", range(21, 60))
def test_no_line_ends_within_a_number_or_before_its_unit(width: int) -> None:
    lines = ["".join(text for text, _ in line)[12:] for line in wrapped("draft", "Q2_K, 0.1 GB, 4 096 cells", width)]
    assert " ".join(line.strip() for line in lines) == "Q2_K, 0.1 GB, 4 096 cells"
    assert any("0.1 GB" in line for line in lines) and any("4 096" in line for line in lines)


NAME = "a\x1b]52;c;ZXZpbA==\x07\x9b2Jb\u202e"


class Named(LineWidget):
    def build_lines(self) -> list[Line]:
        return [labelled("profile", (NAME, "value"))]


class Everywhere(TerminalApp):
    """The name as every widget takes it."""

    CSS = "Named { height: 1; } OptionList, SteadyTextArea, Vertical { height: 3; } Vertical { border: solid red; }"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return ORIGIN_DEFAULTS

    def compose(self) -> ComposeResult:
        yield Named()
        yield ChoiceRow("profile", "profile", NAME, choices=(NAME,), default=NAME)
        yield Label(NAME, markup=False)
        yield OptionList(NAME)
        yield Input(NAME)
        yield SteadyTextArea(NAME)
        with Vertical() as box:
            box.border_title = NAME


async def test_no_control_character_of_a_name_reaches_the_terminal() -> None:
    app = Everywhere()
    async with app.run_test(size=(80, 40)) as pilot:
        app.query_one(SteadyTextArea).text = NAME
        app.notify(NAME, title=NAME, markup=False)
        await pilot.pause()
        drawn = screen_text(app)
        assert drawn.count("a]52;c;ZXZpbA==2Jb") >= 6
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(drawn)


TEXT = "é\nzwei"


class Machine:
    """Programs in a directory of their own, each keeping what it is given."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def has(self, name: str, script: str = 'cat > "$0.took"') -> None:
        file = self.directory / name
        file.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        file.chmod(0o755)

    def took(self, name: str) -> bytes:
        return (self.directory / f"{name}.took").read_bytes()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path / "state"))
    return Machine(tmp_path)


async def copied(environment: dict[str, str]) -> tuple[str, bool]:
    """What is known, and whether the terminal was told."""
    sent: list[bool] = []
    known, _ = await copy(TEXT, lambda: sent.append(True), environment)
    return known, bool(sent)


async def test_tmux_and_a_display(machine: Machine) -> None:
    machine.has("tmux", 'echo "$@" > "$0.args"; cat > "$0.took"')
    assert await copied({"TMUX": "x"}) == ("tmux", False)
    assert machine.took("tmux") == TEXT.encode()
    assert (machine.directory / "tmux.args").read_text() == "load-buffer -w -\n"
    machine.has("xclip")
    assert await copied({"TMUX": "x", "DISPLAY": ":0"}) == ("copied", False)
    assert machine.took("xclip") == TEXT.encode()


async def test_an_old_tmux_and_a_display_that_is_missing_windows_and_a_machine_behind_ssh(machine: Machine) -> None:
    machine.has("tmux", "exit 1")
    machine.has("xclip", "echo no display >&2; exit 1")
    assert await copied({"TMUX": "x", "DISPLAY": ":0"}) == ("sent", True)
    machine.has("clip.exe")
    assert await copied({"WSL_DISTRO_NAME": "x"}) == ("copied", False)
    assert machine.took("clip.exe").decode("utf-16") == TEXT
    machine.has("wl-copy")
    assert await copied({"SSH_TTY": "/dev/pts/1", "WAYLAND_DISPLAY": "w", "TERM": "xterm"}) == ("sent", True)


async def test_a_program_that_hangs_is_given_up(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipboard, "PATIENCE_S", 0.5)
    machine.has("wl-copy", "exec sleep 60")
    machine.has("xsel")
    assert await copied({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}) == ("copied", False)


async def test_a_console_without_any_gets_a_file(machine: Machine) -> None:
    known, file = await copy(TEXT, lambda: None, {"TERM": "linux"})
    assert known == "file" and file is not None and file.read_text() == TEXT and os.stat(file).st_mode & 0o77 == 0


async def test_what_is_said(window: Window, engine: object) -> None:
    async with window(notifications=True) as (app, pilot):
        app.copy_to_clipboard("x", "code block 1 of 1, 1 line")
        await pilot.pause()
        assert notified(app)[-1] == "Sent to the terminal's clipboard: code block 1 of 1, 1 line."
        app.copy_to_clipboard("y")
        await pilot.pause()
        assert app.clipboard == "y" and len(notified(app)) == 1
