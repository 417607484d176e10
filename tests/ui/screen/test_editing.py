"""Edit and resend, branch, go on with a stopped reply, and the system prompt: what the engine gets, what is shown and kept."""

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList, TextArea

from spectui.engine.events import Message
from spectui.speculation.records import StopReason
from spectui.store import library
from spectui.store.journal import Journal
from spectui.ui.app import SpectuiApp
from spectui.ui.dashboard.reply import DetailsPage
from spectui.ui.dialogs.conversations import MessagesScreen
from spectui.ui.dialogs.questions import SystemPromptScreen
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen import controls
from spectui.ui.transcript.transcript import Transcript
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import last
from tests.ui.pilot_helpers import Make, Window, answer, ask, load, notified, wait_until
from tests.ui.screen_text import REPLY, one_line, said, screen_text, shown


async def exchange(pilot: Pilot[None], engine: FakeEngine, prompt: str, reply: str = "") -> None:
    """A prompt and its reply."""
    number = len(engine.generates) + 1
    await ask(pilot, prompt)
    await wait_until(pilot, lambda: len(engine.generates) == number)
    if not reply:
        await answer(pilot, engine)
        return
    engine.read_prompt(7, 7)
    engine.emit_round(plain=reply)
    engine.finish()
    await wait_until(pilot, lambda: not engine.events)


async def test_a_prompt_is_edited_and_sent_anew(window: Window, engine: FakeEngine, file: Path) -> None:
    async with window(journal=Journal(file)) as (app, pilot):
        await exchange(pilot, engine, "one")
        await exchange(pilot, engine, "two", "to be replaced")
        await pilot.press("alt+e")
        box = app.screen.query_one(PromptInput)
        assert box.text == "two" and "editing message 3" in str(box.border_title)
        await exchange(pilot, engine, "!", "replaced")
        assert [message[:2] for message in engine.generates[-1]] == [("user", "one"), ("assistant", REPLY), ("user", "two!")]
        assert "to be replaced" not in said(app) and "two!" in said(app) and "one" in said(app)
        assert not box.border_title
    assert [message.text for message in last(file).messages] == ["one", REPLY, "two!", "replaced"]
    assert last(file).title == "one"


async def test_an_edited_prompt_attaches_its_file_once(
    window: Window, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.txt").write_text("note")
    async with window() as (app, pilot):
        app.screen.prompt.put("see @n.txt")
        await pilot.press("enter")
        await wait_until(pilot, lambda: engine.generates)
        await answer(pilot, engine)
        await pilot.press("alt+e")
        assert app.screen.query_one(PromptInput).text == "see @n.txt"
        await exchange(pilot, engine, "!")
        assert engine.generates[-1] == (Message("user", "see @n.txt!\n\nn.txt:\n```txt\nnote\n```"),)


async def test_earlier_prompts_are_edited_unless_one_was_rewritten_and_an_edit_is_left(
    window: Window, engine: FakeEngine
) -> None:
    async with window() as (app, pilot):
        await exchange(pilot, engine, "one")
        await exchange(pilot, engine, "two")
        box = app.screen.query_one(PromptInput)
        await pilot.press("alt+e", *"ls")
        await pilot.press("alt+e")
        assert box.text == "twols" and "editing message 3" in str(box.border_title)
        box.text = ""
        await pilot.press("alt+e", "alt+e")
        assert box.text == "one", "there was nothing to lose"
        await pilot.press("escape")
        assert box.text == "" and not box.border_title
        await exchange(pilot, engine, "three")
        assert [each.content for each in engine.generates[-1] if each.role == "user"] == ["one", "two", "three"]


def written(app: SpectuiApp) -> tuple[int, ...]:
    """The tokens of the last reply."""
    reply = app.screen.session.messages[-1]  # type: ignore[attr-defined]
    return tuple(token.id for round in reply.rounds for token in round.tokens)


async def turn(pilot: Pilot[None], *keys: str) -> None:
    """Choose a message or a branch, from the last message on."""
    await pilot.press("alt+l")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, MessagesScreen))
    await pilot.press(*keys, "enter")


async def test_what_needs_the_engine_says_why_it_is_not_free(make_app: Make, engine: FakeEngine, file: Path) -> None:
    app = make_app(journal=Journal(file))
    async with app.run_test() as pilot:
        await load(pilot, engine)
        await ask(pilot, "one")
        await answer(pilot, engine, StopReason.CANCELLED)
    app = make_app(journal=Journal(file), conversation=last(file))
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: len(engine.loads) == 2 and said(app))

        async def told(*keys: str) -> list[str]:
            app.clear_notifications()
            await pilot.press(*keys)
            await pilot.pause()
            return notified(app)

        for key in ("alt+g", "f5", "ctrl+r"):
            assert await told(key) == ["The models are being loaded: wait until they are there."]
        await ask(pilot, "two")
        assert await told("alt+e") == ["Esc first removes the waiting prompt."]
        engine.finish_loading()
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        for key in ("alt+g", "f5", "ctrl+r", "alt+e", "alt+l"):
            assert await told(key) == ["Esc stops the reply first."]
        await answer(pilot, engine)
        controls.load(app.screen, app.screen.session.setup)
        engine.fail_loading("No memory.")
        await wait_until(pilot, lambda: not engine.events)
        assert await told("alt+g") == ["No model can answer yet: Alt+M chooses one."]
        assert len(engine.generates) == 2


async def test_without_a_word_said_the_keys_say_so(window: Window) -> None:
    async with window() as (app, pilot):
        await pilot.press("ctrl+r", "f4")
        await pilot.pause()
        answered, inspected = notified(app)
        assert "to answer again" in answered and "to inspect" in inspected


async def test_figures_and_comparison_are_of_the_reply_that_is_gone_back_to(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await exchange(pilot, engine, "one")
        await exchange(pilot, engine, "two", "another")
        await pilot.press("f5")
        await wait_until(pilot, lambda: len(engine.generates) == 3)
        engine.finish()
        await wait_until(pilot, lambda: not engine.events)
        assert app.screen_stack[0].session.comparison is not None
        await pilot.press("escape")
        await pilot.press("alt+3")
        await turn(pilot, "up", "up")
        await wait_until(pilot, lambda: "two" not in said(app))
        figures = app.screen.session.figures()
        assert (figures.reply.emitted, figures.reply.origins["accepted"], len(figures.rounds)) == (11, 7, 4)
        assert figures.n_context is None and figures.reply.sources == {"model": 4, "suffix": 3}
        assert "accepted 7" in one_line(app)
        assert app.screen.session.comparison is None
        reply, conversation = str(app.screen.query_one(DetailsPage).build_lines()).split("conversation: t/s")
        assert "acceptance" in reply and "─ 1 s of decoding" in reply, "of four rounds, not of the one that was left"
        assert "─ 1 s of decoding" in conversation


async def test_a_click_on_a_heading_lists_the_messages(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await exchange(pilot, engine, "one")
        transcript = app.screen.query_one(Transcript)
        row = next(y for y in range(20) if (head := transcript.document.heading_at(y)) is not None and head.message == 1)
        await pilot.click(Transcript, offset=(3, row))
        await wait_until(pilot, lambda: isinstance(app.screen, MessagesScreen))
        assert app.screen.query_one(OptionList).highlighted == 1
        await pilot.press("up", "enter")
        await wait_until(pilot, lambda: app.screen.query(PromptInput))
        assert app.screen.query_one(PromptInput).text == "one"


async def test_a_message_with_branches_says_which_is_read_and_turns_to_the_others(
    window: Window, engine: FakeEngine, file: Path
) -> None:
    async with window(size=(60, 30), journal=Journal(file)) as (app, pilot):
        await exchange(pilot, engine, "one", "first")
        assert "‹" not in shown(app)
        for number, text in enumerate(("second", "third"), 2):
            await pilot.press("ctrl+r")
            await wait_until(pilot, lambda number=number: len(engine.generates) == number)
            engine.emit_round(plain=text)
            engine.finish()
            await wait_until(pilot, lambda: not engine.events)
        await exchange(pilot, engine, "more", "further")
        assert "target  ‹ 3/3 ›\nthird\n" in shown(app)
        await pilot.press("shift+tab", "right")
        await wait_until(pilot, lambda: "‹ 1/3 ›\nfirst" in shown(app))
        assert "more" not in shown(app), "it came after the third"
        await pilot.press("left")
        await wait_until(pilot, lambda: "‹ 3/3 ›\nthird" in shown(app) and said(app).endswith("further"))
        for sign, number in (("‹", 2), ("›", 3), ("‹", 2)):
            at = next((row.index(sign), y) for y, row in enumerate(screen_text(app).split("\n")) if sign in row)
            await pilot.click(offset=at)
            await wait_until(pilot, lambda number=number: f"‹ {number}/3 ›" in shown(app))
    again = window(size=(60, 30), journal=Journal(file), conversation=last(file))
    async with again as (app, pilot):
        await wait_until(pilot, lambda: "‹ 2/3 ›\nsecond" in shown(app))


async def test_a_stopped_reply_goes_on(make_app: Make, engine: FakeEngine, file: Path) -> None:
    app = make_app(journal=Journal(file))
    async with app.run_test() as pilot:
        await load(pilot, engine)
        await ask(pilot, "add")
        await wait_until(pilot, lambda: engine.generates)
        await answer(pilot, engine, StopReason.LIMIT)
        begun = written(app)
        await pilot.press("alt+g")
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        assert engine.generates[1] == (Message("user", "add"), Message("assistant", REPLY, begun))
        engine.read_prompt(20, 20)
        engine.emit_round(plain="# mo")
        engine.emit_round("re", correction="!", rejected=["x"])
        engine.finish()
        await wait_until(pilot, lambda: not engine.events)
        assert said(app).endswith(REPLY + "# more!"), "the text goes on in its own line"
        await pilot.press("f4", "left")
        token = app.screen.query_one(Transcript).inspected  # type: ignore[attr-defined]
        assert token.text == "re" and token.round == 5
        await pilot.press("escape", "alt+g")
        assert len(engine.generates) == 2, "the model ended it"
    (_, reply) = last(file).messages
    assert reply.text == REPLY + "# more!" and reply.reply is not None and reply.reply.stop == "eos"
    assert [round.index for round in reply.reply.rounds] == [0, 1, 2, 3, 4, 5]
    again = make_app(journal=Journal(file), conversation=last(file))
    async with again.run_test() as pilot:
        await wait_until(pilot, lambda: "# more!" in said(again))


async def test_the_system_prompt_belongs_to_the_conversation_and_is_kept_at_once(
    window: Window, engine: FakeEngine, file: Path
) -> None:
    async with window(journal=Journal(file)) as (app, pilot):
        await exchange(pilot, engine, "one")
        await pilot.press("alt+y")
        await wait_until(pilot, lambda: isinstance(app.screen, SystemPromptScreen))
        app.screen.query_one(TextArea).text = "Be brief."
        await pilot.press("ctrl+s")
        await wait_until(pilot, lambda: not isinstance(app.screen, SystemPromptScreen))
        app.screen.session.journal.flush()
        assert last(file).system == "Be brief."
        await pilot.press("ctrl+r")
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        assert engine.generates[1] == (Message("system", "Be brief."), Message("user", "one"))
        await answer(pilot, engine)
        await pilot.press("ctrl+n")
        await exchange(pilot, engine, "two")
        assert engine.generates[-1] == (Message("user", "two"),)
    assert [library.open_conversation(file, each.id).system for each in library.summaries(file)] == ["", "Be brief."]
