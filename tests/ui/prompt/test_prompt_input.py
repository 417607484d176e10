"""The prompt box: which keys send, which begin a line, what is recalled and what is pasted."""

import os
import sys
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path

import pytest
from textual import events
from textual.app import App, ComposeResult

from spectui.chat.text.attachments import AttachmentError, PasteFolds
from spectui.knobs import Setup
from spectui.store.prompts import PromptHistory
from spectui.text import printable
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.transcript.transcript import Transcript
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Make, Window, answer, ask, burst, load, notified, paste, wait_until
from tests.ui.screen_text import one_line


class Box(App[None]):
    """A box that accepts everything."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def compose(self) -> ComposeResult:
        yield PromptInput()

    def on_mount(self) -> None:
        self.query_one(PromptInput).send = self.send

    def send(self, text: str) -> bool:
        self.sent.append(text)
        return True


async def test_enter_sends_and_others_begin_a_line() -> None:
    app = Box()
    async with app.run_test() as pilot:
        box = app.query_one(PromptInput)
        for key in ("shift+enter", "ctrl+j", "alt+enter"):
            await pilot.press("a", key, "b")
            assert box.text == "a\nb" and box.size.height == 2, key
            await pilot.press("enter")
            assert app.sent.pop() == "a\nb" and box.text == ""
        await pilot.press("space", "enter")
        assert app.sent == [] and box.text == " ", "white space is not sent"


@pytest.mark.parametrize(("width", "says"), [(120, "ctx – + 3 000 / 4 096"), (80, "ctx – → 73 %")])
async def test_what_is_written_is_counted_before_enter_and_the_bar_says_where_it_does_not_fit(
    window: Window, width: int, says: str
) -> None:
    async with window(size=(width, 30)) as (app, pilot):
        await paste(pilot, "one " * 3000)
        await wait_until(pilot, lambda: says in one_line(app))
        await paste(pilot, "two " * 2000)
        await wait_until(pilot, lambda: "the prompt does not fit" in one_line(app))
        await pilot.press("ctrl+u")
        await wait_until(pilot, lambda: "does not fit" not in one_line(app) and app.screen.session.typed == 0)


async def test_what_was_written_while_the_models_were_loaded_is_counted_then(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 30)) as pilot:
        await paste(pilot, "one two")
        await load(pilot, engine)
        await wait_until(pilot, lambda: "ctx – + 2 / 4 096" in one_line(app))


async def test_a_count_that_comes_late_is_not_of_the_text_that_stands_there_then(window: Window, engine: FakeEngine) -> None:
    """As where a reply is written meanwhile: the engine answers between two passes."""
    asked: list[Future[int | None]] = []
    engine.count = lambda text: asked.append(Future()) or asked[-1]  # type: ignore[method-assign,assignment,func-returns-value]
    async with window(size=(120, 30)) as (app, pilot):
        for number, text in enumerate(("one", " two"), 1):
            await paste(pilot, text)
            await wait_until(pilot, lambda number=number: len(asked) == number)
        asked[1].set_result(2)
        await wait_until(pilot, lambda: app.screen.session.typed == 2)
        if not asked[0].cancelled():
            asked[0].set_result(1)
            await pilot.pause()
            await pilot.pause()
        assert app.screen.session.typed == 2


async def test_enter_that_comes_twice_at_once_sends_once(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        box = app.screen.query_one(PromptInput)
        await pilot.press("a")
        box.action_submit()
        box.action_submit()
        await wait_until(pilot, lambda: engine.generates)
        await answer(pilot, engine)
        await pilot.press("b", "enter")
        await wait_until(pilot, lambda: len(engine.generates) > 1)
        assert [messages[-1].content for messages in engine.generates] == ["a", "b"]


async def test_prompts_that_are_sent_at_once_come_whole_and_in_order(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        burst(app, *"ab", "enter", *"cd", "enter", *"ef", "enter", "g")
        for number, _ in enumerate("abc", 1):
            await wait_until(pilot, lambda number=number: len(engine.generates) == number)
            await answer(pilot, engine)
        assert [messages[-1].content for messages in engine.generates] == ["ab", "cd", "ef"]
        assert app.screen.query_one(PromptInput).text == "g"


async def test_prompts_that_cannot_be_taken_are_kept(make_app: Make) -> None:
    app = make_app(Setup())
    async with app.run_test() as pilot:
        burst(app, *"ab", "enter", *"cd", "enter", "e")
        box = app.screen.query_one(PromptInput)
        await wait_until(pilot, lambda: "e" in box.text and "a" in box.text)
        await pilot.pause()
        assert [each for each in box.text if each != "\n"] == [*"abcde"]


async def test_what_was_sent_pasted_or_changed_comes_back() -> None:
    app = Box()
    async with app.run_test() as pilot:
        box = app.query_one(PromptInput)
        await pilot.press("a", "enter", "b", "enter", "up")
        assert box.text == "b"
        await pilot.press("up")
        assert box.text == "a"
        await pilot.press("x", "up")
        assert box.text == "ax", "what is being written stays"
        box.text = ""
        box.post_message(events.Paste("one\r\ntwo\rthree\x1b]52;c;eA==\x07"))
        await pilot.pause()
        assert box.text == "one\ntwo\nthree]52;c;eA==", "lines stay, control characters go"
        assert app.sent == ["a", "b"]
        await pilot.press("ctrl+underscore")  # readline's key
        await wait_until(pilot, lambda: box.text == "")


async def test_undo_where_the_scrollbar_goes_with_the_lines() -> None:
    app = Box()
    async with app.run_test(size=(40, 12)) as pilot:
        box = app.query_one(PromptInput)
        box.insert("one\n" * 3)
        box.history.checkpoint()
        box.insert("two\n" * 8)
        await pilot.pause()
        assert box.show_vertical_scrollbar and box.cursor_location == (11, 0)
        box.undo()
        await pilot.pause()
        assert box.text == "one\n" * 3 and box.cursor_location == (3, 0)
        box.redo()
        await pilot.pause()
        assert box.text == "one\n" * 3 + "two\n" * 8


async def test_a_large_paste_is_folded_and_sent_whole() -> None:
    app = Box()
    async with app.run_test() as pilot:
        box = app.query_one(PromptInput)
        await pilot.press("a", "space")
        for letter in "xyx":
            box.post_message(events.Paste("\n".join([letter] * 20)))
            await pilot.pause()
        assert box.text.count("[pasted 20 lines") == 3 and "x\nx" not in box.text and box.size.height <= 3
        await pilot.press("enter")
        await pilot.pause()
        assert app.sent == ["a " + "".join("\n".join([letter] * 20) for letter in "xyx")]
        await pilot.press("up")
        assert box.text.startswith("a [pasted 20 lines") and box.size.height <= 3, "folded as it was when it comes back"
        await pilot.press("enter")
        await pilot.pause()
        assert app.sent[1] == app.sent[0]


async def test_a_file_is_attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b.py").write_text("x = '```'\x1b\n")
    (tmp_path / "n.txt").write_text("note")
    app = Box()
    async with app.run_test() as pilot:
        box = app.query_one(PromptInput)
        box.put('see @"a b.py" and @n.txt, @n.txt; me@n.txt \\@n.txt @property')
        await pilot.press("enter")
        await pilot.pause()
        assert app.sent == [
            'see @"a b.py" and @n.txt, @n.txt; me@n.txt @n.txt @property'
            "\n\na b.py:\n````py\nx = '```'\n````\n\nn.txt:\n```txt\nnote\n```"
        ]
        assert box.text == ""


async def test_what_was_sent_comes_back_as_it_was_typed_and_attaches_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.txt").write_text("note\n" * 20)
    app = Box()
    async with app.run_test() as pilot:
        box = app.query_one(PromptInput)

        async def again(typed: str) -> str:
            """Send what was sent once more; how it stands in the box."""
            box.put(typed)
            await pilot.press("enter")
            await pilot.pause()
            box.give_back(app.sent[-1])
            shown = box.text
            await pilot.press("enter")
            await pilot.pause()
            assert app.sent[-1] == app.sent[-2]
            return shown

        assert await again("see @n.txt, me@n.txt") == "see @n.txt, me@n.txt"
        assert await again("not \\@n.txt") == "not \\@n.txt"
        assert await again("//help") == "//help" and app.sent[-1] == "/help"
        assert await again("// TODO\nint x;") == "// TODO\nint x;" == app.sent[-1]
        box.give_back("see @n.txt\n\nn.txt:\n```txt\nanother\n```")
        assert box.text == "see \\@n.txt\n\nn.txt:\n```txt\nanother\n```", "the file has changed: what was sent stays"


def pdf(page: str) -> bytes:
    """A file with one page, with this text."""
    written = f"BT /F 9 Tf ({page}) Tj ET"
    return f"""%PDF-1.4
1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj
2 0 obj <</Type /Pages /Kids [3 0 R] /Count 1>> endobj
3 0 obj <</Type /Page /Parent 2 0 R /Contents 4 0 R /Resources <</Font <</F 5 0 R>>>>>> endobj
4 0 obj <</Length {len(written)}>> stream
{written}
endstream endobj
5 0 obj <</Type /Font /Subtype /Type1 /BaseFont /Helvetica>> endobj
trailer <</Root 1 0 R /Size 6>>
startxref
0
%%EOF""".encode()


def test_of_a_pdf_its_text_is_attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pypdf")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paper").write_bytes(pdf("Attention heads"))
    message = PasteFolds().expanded("read @paper")
    assert message == "read @paper\n\npaper:\n```\nAttention heads\n```"
    assert PasteFolds().typed(message) == "read @paper"
    for content, problem in ((pdf(""), "paper has no text"), (b"%PDF-1.4", "paper cannot be read"),
                             (pdf("a" * 256_001), "more text than 256 kB")):  # fmt: skip
        (tmp_path / "paper").write_bytes(content)
        with pytest.raises(AttachmentError, match=problem):
            PasteFolds().expanded("read @paper")


@pytest.mark.parametrize(("name", "problem"), [("binary", "not text"), ("null", "not text"), ("large", "larger than 256 kB"),
                                               ("big.png", "larger than 20 MB"),
                                               ("a.pdf", "pip install 'spectui[pdf]'")])  # fmt: skip
async def test_a_file_that_cannot_be_attached_keeps_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "null").write_bytes(b"a\0b")
    (tmp_path / "large").write_bytes(b"a" * 256_001)
    (tmp_path / "big.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20_000_000))
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7")
    monkeypatch.setitem(sys.modules, "pypdf", None)
    app = Box()
    async with app.run_test() as pilot:
        box = app.query_one(PromptInput)
        box.put(f"read @{name}")
        await pilot.press("enter")
        await pilot.pause()
        assert app.sent == [] and box.text == f"read @{name}"
        assert [problem in each for each in notified(app)] == [True]


async def test_what_names_no_file_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    texts = ("@numba.njit", "import @angular/core", "@gone.txt", "see @./gone, @pipe and @.", "@~nobody/x",
             f"@{'x' * 300}/y", "@a\0b")  # fmt: skip
    app = Box()
    async with app.run_test() as pilot:
        box = app.query_one(PromptInput)
        for text in texts:
            box.text = text
            await pilot.press("enter")
            await wait_until(pilot, lambda text=text: app.sent[-1:] == [printable(text)])
            box.give_back(text)
            assert box.text == printable(text) and not notified(app)


async def test_up_and_down_go_through_what_was_sent_in_other_chats(tmp_path: Path) -> None:
    file = tmp_path / "state" / "prompts.jsonl"
    for texts in (["one", "two\nlines"], ["three"]):
        app = Box()
        async with app.run_test() as pilot:
            box = app.query_one(PromptInput)
            history = PromptHistory(file)
            box.remember(history.load(), history.add)
            for text in texts:
                box.text = text
                await pilot.press("enter")
                await pilot.pause()
            seen = []
            for key in ("up", "up", "up", "down", "down", "down"):
                await pilot.press(key)
                seen.append(box.text)
    assert seen == ["three", "two\nlines", "one", "two\nlines", "three", ""]
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("size", [50, 5000])
async def test_a_question_behind_a_paste_is_not_in_its_fold_in_another_chat(tmp_path: Path, size: int) -> None:
    history, pasted = PromptHistory(tmp_path / "prompts.jsonl"), "a line\n" * size
    for which in ("first", "second"):
        app = Box()
        async with app.run_test() as pilot:
            box = app.query_one(PromptInput)
            box.remember(history.load(), history.add)
            if which == "first":
                await paste(pilot, pasted)
                await pilot.press("w", "h", "y")
                history.keep_unsent(box.unsent)
                await pilot.press("enter")
                await wait_until(pilot, lambda app=app: app.sent)
            await pilot.press("up")
            assert box.text == f"[pasted {size + 1} lines, {len(pasted)} characters]why"
            assert box.unsent == f"{pasted}why"
    async with (other := Box()).run_test():
        other.query_one(PromptInput).give_back(history.take_unsent(), sent=False)
        assert other.query_one(PromptInput).text == f"[pasted {size + 1} lines, {len(pasted)} characters]why"


async def test_the_editor_writes_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "edit"
    script.write_text("#!/bin/sh\nprintf ' and more\\033\\n' >> \"$1\"\n")
    script.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(script))
    app = Box()
    async with app.run_test() as pilot:
        box = app.query_one(PromptInput)
        box.text = "some"
        await pilot.press("alt+o")
        await pilot.pause()
        (told,) = notified(app)
        assert "no terminal of its own" in told and box.text == "some"
        app.clear_notifications()
        monkeypatch.setattr(App, "suspend", lambda self: nullcontext())
        await pilot.press("alt+o")
        await pilot.pause()
        assert box.text == "some and more"
        for broken in ("false", str(tmp_path / "nowhere")):
            monkeypatch.setenv("VISUAL", broken)
            await pilot.press("alt+o")
            await pilot.pause()
        assert box.text == "some and more" and len(notified(app)) == 2


async def test_what_is_typed_after_a_click_into_the_transcript_is_for_the_prompt(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "add")
        await answer(pilot, engine)
        box, transcript = app.screen.query_one(PromptInput), app.screen.query_one("#transcript", Transcript)
        for keys, text in ((["h", "i", "space"], "hi "), ([], "pasted")):
            box.clear()
            await pilot.click(transcript, offset=(4, 5))
            await wait_until(pilot, lambda: transcript.has_focus)
            await pilot.press(*keys)
            if not keys:
                await paste(pilot, text)
            await wait_until(pilot, lambda text=text: box.text == text and box.has_focus)
