"""Themes: those that ship can be read by everyone, and one that is broken harms nobody."""

from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.color import Color
from textual.theme import Theme
from textual.widgets import Input, OptionList

from spectui.knobs import Knobs
from spectui.paths import shipped
from spectui.ui.dialogs.lists import HelpScreen
from spectui.ui.themes import DEFAULT_THEME, MAX_BYTES, ORIGIN_DEFAULTS, read_themes
from spectui.ui.transcript.transcript import Transcript
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import PAIR, click_key, paste, wait_until, window_of

SHIPPED, PROBLEMS = read_themes([shipped("themes")])
GOOD = 'name = "mine"\nprimary = "#123456"\n'


def contrast(first: str, second: str) -> float:
    """The ratio of WCAG 2, 1 to 21."""

    def luminance(colour: str) -> float:
        channels = (channel / 255 for channel in Color.parse(colour).rgb)
        linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_shipped_themes() -> None:
    assert PROBLEMS == []
    assert {theme.name for theme in SHIPPED} == {"spectui-dark", "spectui-light", "spectui-high-contrast", "spectui-mono"}
    assert DEFAULT_THEME in {theme.name for theme in SHIPPED}


@pytest.mark.parametrize("theme", SHIPPED, ids=lambda theme: theme.name)
def test_each_origin_has_a_colour_that_can_be_read(theme: Theme) -> None:
    assert set(ORIGIN_DEFAULTS) <= set(theme.variables)
    assert theme.background
    ratios = {name: contrast(theme.variables[name], theme.background) for name in ORIGIN_DEFAULTS}
    assert min(ratios.values()) >= 3
    assert min(ratio for name, ratio in ratios.items() if name != "origin-rejected") >= 4.5
    assert contrast(theme.foreground or "", theme.background) >= 7


@pytest.mark.parametrize("theme", SHIPPED, ids=lambda theme: theme.name)
def test_the_accent_is_no_origins_colour(theme: Theme) -> None:
    """Else what is merely pointed out would look like a correction."""
    accent = Color.parse(theme.accent or "")
    assert contrast(theme.accent or "", theme.background or "") >= 4.5
    for name in ORIGIN_DEFAULTS:
        origin = Color.parse(theme.variables[name])
        apart = max(abs(one - other) for one, other in zip(accent.rgb, origin.rgb, strict=True))
        assert apart >= (8 if theme.name == "spectui-mono" else 60), name


def test_high_contrast_is_higher_and_mono_is_grey() -> None:
    themes = {theme.name: theme for theme in SHIPPED}
    high = themes["spectui-high-contrast"]
    assert min(contrast(high.variables[name], high.background or "") for name in ORIGIN_DEFAULTS) >= 7
    mono = themes["spectui-mono"]
    fields = (mono.primary, mono.secondary, mono.accent, mono.warning, mono.error, mono.success, mono.foreground)
    for colour in (*fields, mono.background, mono.surface, mono.panel, *mono.variables.values()):
        assert colour is not None
        assert len(set(Color.parse(colour).rgb)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "", "name = ", 'name = "x"', 'primary = "red"', "[[[", "\x00", 'name = 7\nprimary = "red"',
        'name = "a b"\nprimary = "red"', GOOD + 'primray = "red"', GOOD + 'accent = "no such colour"',
        GOOD + "accent = 3", GOOD + 'dark = "yes"', GOOD + "variables = 3", GOOD + "[variables]\norigin-plain = 1",
        GOOD + '[variables]\norigin-plain = "bold"', GOOD + '[variables]\n"a; b" = "red"',
        GOOD + '[variables]\nborder = "red; } * { display: none"', GOOD + '[variables]\nborder = "bold"',
        GOOD + '[variables]\nbutton-focus-text-style = "#ffffff"', GOOD + '[variables]\nlink-style = "sparkling"',
        *(GOOD + f'[variables]\nlink-style = "{style}"' for style in ("not", "not not", "bold none", "not none", "")),
        "a=" + "[" * 5000, GOOD + "#" * MAX_BYTES, GOOD + 'accent = "\x1b[31m"', GOOD + 'accent = "auto 87%"',
        'name = "bad\\u001b[31m"\nprimary = "red"', GOOD + "accent = " + "9" * 5000,
    ],
)  # fmt: skip
def test_a_broken_theme_is_left_out_with_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken.toml").write_text(text)
    (tmp_path / "good.toml").write_text(GOOD)
    themes, problems = read_themes([tmp_path])
    assert [theme.name for theme in themes] == ["mine"]
    assert len(problems) == 1
    assert problems[0].startswith("The theme broken.toml is left out: ")
    assert problems[0].isprintable()
    assert len(problems[0]) < 300


def test_a_byte_order_mark_and_windows_line_ends_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(("\ufeff" + GOOD).replace("\n", "\r\n").encode())
    themes, problems = read_themes([tmp_path])
    assert ([theme.name for theme in themes], problems) == (["mine"], [])


def test_what_is_no_readable_file_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "directory.toml").mkdir()
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    (tmp_path / "nowhere.toml").symlink_to(tmp_path / "missing")
    (tmp_path / "endless.toml").symlink_to("/dev/zero")
    (tmp_path / "notes.txt").write_text("not a theme")
    themes, problems = read_themes([tmp_path, tmp_path / "absent"])
    assert themes == []
    assert len(problems) == 4
    assert "The theme endless.toml is left out: it is not a file." in problems


def test_the_later_directory_wins(tmp_path: Path) -> None:
    for name, colour in (("a", "#111111"), ("b", "#222222")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.toml").write_text(f'name = "mine"\nprimary = "{colour}"')
    themes, _ = read_themes([tmp_path / "a", tmp_path / "b"])
    assert [theme.primary for theme in themes] == ["#222222"]


async def test_whatever_is_accepted_can_be_worn(tmp_path: Path) -> None:
    """A theme is parsed again when it is put on: a value that passes here and fails there would end the program."""
    colours = ("red", "rgb(1, 2, 3)", "rgba(1,2,3,0.5)", "hsl(20, 50%, 50%)", "#fff8", "transparent", "#123")
    names = ("primary", "secondary", "background", "surface", "panel", "foreground", "accent", "boost")
    for number, colour in enumerate(colours):
        fields = "".join(f'{name} = "{colour}"\n' for name in names)
        (tmp_path / f"{number}.toml").write_text(
            f'name = "t{number}"\n{fields}[variables]\n"border" = "{colour}"\n"origin-plain" = "{colour} 50%"\n'
            f'"scrollbar" = "{colour} 10%"\n"link-style" = "bold not underline"\n"button-focus-text-style" = "none"\n'
            '"block-cursor-blurred-text-style" = "blink overline uu"\n'
        )
    themes, problems = read_themes([tmp_path])
    assert problems == []
    assert len(themes) == len(colours)

    class Wearer(App[None]):
        CSS = "Input { color: $origin-plain; border: solid $border; scrollbar-color: $scrollbar; }"

        def get_theme_variable_defaults(self) -> dict[str, str]:
            return ORIGIN_DEFAULTS

        def compose(self) -> ComposeResult:
            yield Input()

    app = Wearer()
    async with app.run_test() as pilot:
        for theme in [*themes, *SHIPPED]:
            app.register_theme(theme)
            app.theme = theme.name
            await wait_until(pilot, lambda theme=theme: app.current_theme.name == theme.name)
            await pilot.pause()


async def test_a_theme_is_chosen_and_worn_at_once(engine: FakeEngine) -> None:
    app = window_of(engine, PAIR, Knobs())
    async with app.run_test(size=(120, 40)) as pilot:
        ways = {"key": "spectui-light", "command": "spectui-mono", "mouse": "spectui-light", "key in the list": "spectui-mono"}
        for by, theme in ways.items():
            before = background(app)
            if by == "key":
                await pilot.press("alt+a")
            else:
                await (click_key(pilot, "f1") if by == "mouse" else pilot.press("ctrl+p"))
                await wait_until(pilot, lambda: isinstance(app.screen, HelpScreen) and app.screen.focused)
                if by == "key in the list":
                    await pilot.press("alt+a")
                else:
                    await paste(pilot, "theme")
                    await pilot.press("enter")
            await wait_until(pilot, lambda: app.screen.query(Input) and app.screen.query_one(Input).value == "theme: ")
            await paste(pilot, theme)
            await wait_until(pilot, lambda: app.screen.query_one(OptionList).option_count == 2)
            await pilot.press("enter")
            await wait_until(pilot, lambda theme=theme: app.theme == theme and len(app.screen_stack) == 1)
            await wait_until(pilot, lambda before=before: background(app) != before)


def background(app: App[None]) -> object:
    """What the transcript is drawn on."""
    drawn = next(iter(app.screen_stack[0].query_one(Transcript).render_line(0))).style
    return drawn.bgcolor if drawn is not None else None
