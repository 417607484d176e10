"""`spectui chat` as a person has it: in a terminal, on the demo pair, with the keyboard."""

import re
from pathlib import Path

import pytest

from spectui.ui.themes import ORIGIN_DEFAULTS
from tests.helpers.terminal import Terminal

(DEMO,) = re.findall(r"^\t\$\(BIN\)/spectui (chat.*)$", Path("Makefile").read_text(), re.MULTILINE)
CHAT = (
    *DEMO.split(),  # what `make demo` runs
    "-t", "1", "--temp", "0", "-c", "1024", "--drafter", "model", "--policy", "fixed", "--draft-max", "16",
    "--p-min", "0.4",
)  # fmt: skip
SNAKE = "write snake game in python"
COLOURS = {name: colour.removeprefix("#").lower() for name, colour in ORIGIN_DEFAULTS.items()}


def slider(terminal: Terminal, name: str) -> str:
    """The value that a slider shows."""
    found = re.search(rf"{name} +[─┼]*●[─┼]* +(\S+)", terminal.text)
    return found[1] if found else ""


def counted(terminal: Terminal, origin: str) -> int:
    """The legend's count of an origin's tokens."""
    found = re.search(rf"▌{origin} +(\d+)", terminal.text)
    return int(found[1]) if found else 0


def transcript(terminal: Terminal) -> str:
    """What stands left of the panel."""
    return "\n".join(line[:69] for line in terminal.screen.display)


@pytest.mark.xdist_group("demo pair")
def test_alone_it_opens_the_chat_where_enter_takes_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # with no other models
    with Terminal(columns=80, rows=24) as terminal:
        terminal.wait("the ways to a model", lambda: re.search(r"2  fetch the pair .* GB", terminal.text))
        terminal.wait("that there are no files", lambda: "none where other programs keep theirs" in terminal.text)
        assert "t/s" not in terminal.text, "there is no panel yet"
        terminal.press("enter")
        terminal.wait("the demo pair", lambda: re.search(r"SmolLM2\S* +⟵", terminal.text) and "t/s" in terminal.text)
        terminal.leave()


@pytest.mark.xdist_group("demo pair")
def test_ask_see_steer_stop_ask_again_and_quit() -> None:
    with Terminal(*CHAT, "-n", "400") as terminal:
        terminal.wait_for_window()
        terminal.ask(SNAKE)
        terminal.wait("a reply that grows", lambda: counted(terminal, "accepted"))

        assert slider(terminal, "draft-max") == "16"
        terminal.press("alt+5", "left", "left", "left")
        terminal.wait("draft-max at 13", lambda: slider(terminal, "draft-max") == "13")

        def worn() -> bool:
            legend = next((row for row, line in enumerate(terminal.screen.display) if "▌accepted" in line), 0)
            styles = terminal.styles(columns=68, rows=legend)
            accepted = len(styles.get((COLOURS["origin-accepted"], False, False), ""))
            return accepted > 9 and (COLOURS["origin-correction"], True, True) in styles

        terminal.wait("both origins", lambda: counted(terminal, "accepted") > 9 and counted(terminal, "correction") > 0)
        terminal.wait("both in their colours, and a correction bold and underlined besides", worn)

        terminal.press("escape", "escape")  # from the slider to the prompt, and stop
        terminal.wait("the stop", lambda: "stopped" in transcript(terminal))
        before = counted(terminal, "accepted")
        assert before < 400

        terminal.ask("again, shorter")
        # It may have ended before anybody looked, and what it says depends on where the first was stopped.
        second = r"again, shorter\s+SmolLM2\S+[^\w▌]+\w"
        terminal.wait("the second reply", lambda: re.search(second, transcript(terminal)))
        terminal.leave()


@pytest.mark.xdist_group("demo pair")
def test_a_small_terminal_typing_while_it_loads_and_the_overlay() -> None:
    with Terminal(*CHAT, "-n", "16", columns=80, rows=24) as terminal:
        terminal.wait_for_window()
        # Text and Enter at once, as a script does it: no key may overtake another.
        terminal.type(f"{SNAKE}\r")
        terminal.wait("the prompt", lambda: f"   {SNAKE}" in terminal.text)
        terminal.type("next")
        terminal.wait("the prompt behind the one that was sent", lambda: " next" in terminal.text.splitlines()[-2])
        terminal.wait("the reply, in its own time", lambda: "the limit of -n" in terminal.text)
        assert f"   {SNAKE}" in terminal.text, "what was typed before the models were there is answered"
        origins = ("accepted", "bonus", "plain")
        terminal.wait("its tokens counted", lambda: sum(counted(terminal, each) for each in origins) > 9)
        terminal.wait("the figures", lambda: " a pass" in terminal.text)
        terminal.press("f6")
        terminal.wait("the overlay", lambda: slider(terminal, "draft-max") == "16")
        terminal.leave()


@pytest.mark.xdist_group("demo pair")
def test_a_token_is_inspected_and_the_reply_decoded_again_without_drafts() -> None:
    with Terminal(*CHAT, "-n", "24") as terminal:
        terminal.wait_for_window()
        terminal.ask(SNAKE)
        terminal.wait("the reply", lambda: "the limit of -n" in terminal.text)
        terminal.press("f4")

        def shares() -> list[float]:
            five = terminal.text.partition("likeliest")[2].partition("accepted")[0]
            return [float(share) for share in re.findall(r'" +(<?\.\d+|1\.00)', five.replace("<", ""))]

        terminal.wait("the inspector", lambda: len(shares()) == 5 and " verify " in terminal.text)
        assert shares() == sorted(shares(), reverse=True)
        terminal.press("f5")
        terminal.wait("the end of the race", lambda: "same text, token for token" in terminal.text)
        assert re.search(r"as fast, same text|which is faster cannot be told \(within \d+ %\), same text", terminal.text)
        terminal.press("escape")
        terminal.leave()


HOSTILE = "\x1b]0;title\x07 \x1b[31mred \x9b32m\x1b]52;c;eA==\x07 end"


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
def test_no_escape_sequence_of_others_reaches_the_terminal(tmp_path: object, size: tuple[int, int]) -> None:
    name = f"{tmp_path}/mod\x1b]0;title\x07\x1b[31mel.gguf"
    with Terminal("chat", "-m", name, columns=size[0], rows=size[1]) as terminal:
        terminal.wait("that the model is not there", lambda: "Ctrl+L" in terminal.text)
        terminal.wait("its name, as text", lambda: "[31mel" in terminal.text)
        terminal.paste(HOSTILE)
        terminal.wait("the pasted text", lambda: "red" in terminal.text and " end" in terminal.text)
        terminal.press("enter")
        terminal.wait("the answer that there is no model", lambda: "No model can answer" in terminal.text)
        terminal.leave()
        written = re.sub("\x1b]22;\\w+\x07", "", terminal.raw.decode())  # Textual's own: the mouse pointer's shape
        assert not re.search("\x1b]|\x1b\\[31m|[\x07\x80-\x9f]", written)
