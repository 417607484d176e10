"""The dashboard as a person has it: inspector, A/B and the choice of models, in a terminal, on the demo pair."""

from __future__ import annotations

import re

import pytest

from tests.helpers.terminal import Terminal

CHAT = (
    "chat", "--demo", "-t", "1", "--temp", "0", "-c", "512", "--drafter", "model", "--policy", "fixed", "--draft-max", "8",
    "--p-min", "0.4", "-n", "16", "--no-history",
)  # fmt: skip
ALT_M = "\x1bm"


def inspected(terminal: Terminal) -> str:
    """The lines of the inspector from the first that tells of a token on."""
    lines = terminal.text.splitlines()
    first = next((at for at, line in enumerate(lines) if "likeliest" in line), len(lines))
    return "\n".join(line[:68] for line in lines[max(0, first - 3) : first + 2])


@pytest.mark.xdist_group("demo pair")
def test_inspector_compare_and_models_by_their_keys() -> None:
    with Terminal(*CHAT) as terminal:
        terminal.wait("the window", lambda: "Ask something" in terminal.text)
        terminal.type("count to ten\r")
        terminal.wait("the reply", lambda: "the limit of -n" in terminal.text)

        terminal.press("f4")
        terminal.wait("the inspector", lambda: "likeliest" in terminal.text)
        last = inspected(terminal)
        terminal.press("left")
        terminal.wait("the token before", lambda: inspected(terminal) not in (last, ""))
        terminal.press("escape")
        terminal.wait("the end of it", lambda: "likeliest" not in terminal.text)

        terminal.press("f5")
        terminal.wait("the verdict", lambda: re.search(r"identical text +yes, over 16 tokens", terminal.text))
        terminal.wait("the speed", lambda: re.search(r"measured +\d+\.\d\dx as fast", terminal.text))

        terminal.type(ALT_M)
        terminal.wait(
            "the list", lambda: "Filter by name" in terminal.text and "SmolLM2-135M-Instruct" in terminal.text
        )
        terminal.type("no such model")
        terminal.wait("an empty list", lambda: "No model has these words" in terminal.text)
        terminal.press("escape")
        terminal.wait("the chat", lambda: "no such model" not in terminal.text and "count to ten" in terminal.text)

        terminal.press("ctrl+q")
        assert terminal.end() == 0
        assert b"Traceback" not in terminal.raw
