"""A slash lists the commands and an @ the files, filtered as one types; no Alt and no mouse is needed."""

from pathlib import Path

import pytest

from spectui.chat.commands import SLASH
from spectui.chat.text.attachments import LISTED, PasteFolds, named_files
from spectui.knobs import Knobs
from spectui.paths import config_directory
from spectui.ui.dialogs.lists import HelpScreen
from spectui.ui.prompt.suggestions import Chips, Suggestions
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Window, answer, ask, burst, notified, paste, wait_until
from tests.ui.screen.test_editing import exchange
from tests.ui.screen_text import one_line, said, screen_text


def listed(app: object) -> list[str]:
    """What is suggested, without what stands beside it."""
    options = app.screen.query_one(Suggestions).options  # type: ignore[attr-defined]
    return [str(each.prompt).split()[0] for each in options]


async def test_a_slash_lists_the_commands_and_letters_filter_them(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        await exchange(pilot, engine, "one", "first reply")
        await pilot.press("/")
        await wait_until(pilot, lambda: listed(app))
        assert {*listed(app)} == {f"/{each}" for each in SLASH} - {"/nodraft", "/load", "/safe"}, "that are possible now"
        await pilot.press(*"re")
        assert {*listed(app)[:3]} == {"/rename", "/regenerate", "/reset"}, "those that begin so come first"
        await pilot.press(*"gen", "enter")
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        assert app.screen.prompt.text == "" and not listed(app)


async def test_fast_keys_choose_the_command_that_was_typed(window: Window) -> None:
    async with window() as (app, pilot):
        burst(app, *"/help", "enter")
        await wait_until(pilot, lambda: isinstance(app.screen, HelpScreen))


async def test_arrows_tab_and_escape(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        box = app.screen.prompt
        await pilot.press(*"/und", "down", "tab")
        assert box.text == "/undrop"
        await pilot.press("escape")
        assert not listed(app) and box.text == "/undrop" and engine.stops == 0
        await pilot.press("enter")
        assert box.text == "" and not engine.generates


async def test_a_prompt_can_begin_with_a_slash(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        prompts = (("/usr/bin", "/usr/bin"), ("//new", "/new"), ("/new idea", "/new idea"))
        for number, (typed, sent) in enumerate(prompts, 1):
            await ask(pilot, typed)
            if typed == "/new idea":
                assert len(engine.generates) == 2 and app.screen.prompt.text == typed, "it asks first"
                await pilot.press("enter")
            await wait_until(pilot, lambda number=number: len(engine.generates) == number)
            assert engine.generates[-1][-1].content == sent and sent in said(app)
            await answer(pilot, engine)


async def test_a_command_takes_the_words_behind_it(window: Window, engine: FakeEngine) -> None:
    async with window(notifications=True) as (app, pilot):
        await ask(pilot, "/set context-full drop-oldest")
        assert app.screen.session.knobs.context_full == "drop-oldest" and "drop-oldest" in one_line(app)
        await ask(pilot, "/system You are a pirate.")
        assert app.screen.session.setup.system == "You are a pirate."
        await ask(pilot, "/sett draft-max 3")
        assert "did you mean set?" in notified(app)[-1]
        assert app.screen.prompt.text and not engine.generates


async def test_a_named_system_prompt_is_chosen_with_the_knobs_of_its_head(
    window: Window, engine: FakeEngine, fresh_directories: None
) -> None:
    folder = config_directory() / "prompts"
    async with window(notifications=True, size=(120, 40)) as (app, pilot):
        await ask(pilot, "/as")
        assert "prompts/NAME.md" in notified(app)[-1]
        folder.mkdir(parents=True)
        (folder / "poet.md").write_text("Rhyme.")
        (folder / "reviewer.md").write_text("---\ndescription: finds faults\ntop-k: 3\nseed: random\n---\nName faults.\n")
        await ask(pilot, "/as")
        await wait_until(pilot, lambda: listed(app) == ["/as", "/as"])
        assert "/as reviewer  finds faults" in screen_text(app) and "/as poet      Rhyme." in screen_text(app)
        await pilot.press("r", "enter")
        await wait_until(pilot, lambda: app.screen.session.setup.system == "Name faults.")
        assert app.screen.prompt.text == "" and engine.knobs == Knobs(top_k=3)


async def test_a_pasted_name_attaches_nothing_until_tab(
    window: Window, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("secret")
    async with window() as (app, pilot):
        await ask(pilot, "cannot open @notes.txt at line 3")
        await wait_until(pilot, lambda: engine.generates)
        assert engine.generates[0][0].content == "cannot open @notes.txt at line 3"
        await answer(pilot, engine)
        await paste(pilot, "cannot open @notes.txt")
        await pilot.press(".", "enter")
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        assert "secret" not in engine.generates[1][-1].content
        await answer(pilot, engine)
        await paste(pilot, "open @notes.txt")
        await wait_until(pilot, lambda: listed(app))
        await pilot.press("tab", "enter")
        await wait_until(pilot, lambda: len(engine.generates) == 3)
        assert "secret" in engine.generates[2][-1].content
        await answer(pilot, engine)
        await pilot.press(*"@notes.txt", "escape", "enter")
        await wait_until(pilot, lambda: len(engine.generates) == 4)
        assert "secret" in engine.generates[3][-1].content


async def test_a_file_is_completed_with_its_size(
    window: Window, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "my notes.txt").write_text("note" * 1000)
    async with window() as (app, pilot):
        box = app.screen.prompt
        await paste(pilot, "see @")
        await wait_until(pilot, lambda: listed(app) == ["@docs/"])
        await pilot.press("tab")
        await wait_until(pilot, lambda: listed(app) == ['@"docs/my'])
        assert "4 kB, about 1 001 tokens" in str(app.screen.query_one(Suggestions).options[0].prompt)
        await pilot.press("enter")
        assert box.text == 'see @"docs/my notes.txt" '
        await pilot.press("enter")
        await wait_until(pilot, lambda: engine.generates)
        assert engine.generates[0][0].content.count("note") > 1000


@pytest.mark.parametrize(
    ("text", "attaches"),
    [("看@n.txt，谢谢", True), ("看@n.txt的第一行", True), ("'@n.txt'", True), ('"@n.txt"', True), ("(see @n.txt).", True),
     ("[@n.txt](x)", True), ("@n.txt:12:3 fails", True), ("@n.txt#L3", True), ("@my\\ notes.txt and", True),
     ("@n.txt.bak", False), ("@n.txt/x", False), ("@n.txt-old", False), ("me@n.txt", False), ("\\@n.txt", False)],
)  # fmt: skip
def test_the_longest_name_that_a_file_has_is_attached(
    text: str, attaches: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("n.txt", "my notes.txt", "n"):
        (tmp_path / name).write_text("secret" if name != "n" else "another")
    sent = PasteFolds().expanded(text)
    assert ("secret" in sent) is attaches and "another" not in sent
    assert PasteFolds().typed(sent) == text, "it comes back as it was typed"


async def test_what_is_attached_and_what_is_not_stands_below_the_box(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("note" * 1000)
    async with window() as (app, pilot):
        await pilot.press(*"@notez.txt ")
        await wait_until(pilot, lambda: "@notez.txt names no file: it is text" in one_line(app))
        await pilot.press(*["left"] * 5, "backspace", "s", "end")  # a name that is corrected counts as typed
        await wait_until(pilot, lambda: "+ notes.txt: 4 kB, about 1 001 tokens" in one_line(app))
        await paste(pilot, "line\n" * 2000)
        await wait_until(pilot, lambda: "+ pasted 2001 lines, 10000 characters: 10 kB, about 2 501 tokens" in one_line(app))
        await pilot.press("ctrl+u", *["backspace"] * 20)
        await wait_until(pilot, lambda: not app.screen.query_one(Chips).has_class("-open"))
        await paste(pilot, "cannot open @notes.txt and @property")
        await wait_until(pilot, lambda: "@notes.txt was pasted: Tab behind it attaches that file" in one_line(app))
        assert "@property names" not in one_line(app)


def test_files_are_listed_by_what_is_typed(tmp_path: Path) -> None:
    for name in ("b.txt", "Bee.md", ".hidden", "a\nb", 'quo"te', *(f"many{at:03}" for at in range(60))):
        (tmp_path / name).write_text("x")
    assert named_files(f"{tmp_path}/b") == [(f"{tmp_path}/b.txt", 1), (f"{tmp_path}/Bee.md", 1)]
    assert named_files(f"{tmp_path}/.h") == [(f"{tmp_path}/.hidden", 1)]
    assert len(named_files(f"{tmp_path}/")) == LISTED and named_files(f"{tmp_path}/none/x") == []
    assert not [name for name, _ in named_files(f"{tmp_path}/a") + named_files(f"{tmp_path}/q")]
