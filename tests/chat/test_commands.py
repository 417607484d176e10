"""The one table of commands, which the window and the plain chat do and nothing else; and sentences that both say."""

import pytest

from spectui.chat.commands import COMMANDS, GROUPS, LAST_LINE, SLASH, Command
from spectui.chat.figures.lines import said_of
from spectui.chat.session import ChatSession
from spectui.engine.events import LoadFailed
from spectui.knobs import Setup
from spectui.ui.screen.commands import ON_SCREEN
from tests.fake_engine import FakeEngine

ELSEWHERE = {"send", "newline", "suspend", "theme"}
"""What the prompt and the window do by themselves."""


def test_each_command_is_there_once_and_is_done_by_both_front_ends() -> None:
    every = [each for group in GROUPS.values() for each in group]
    assert len(every) == len(COMMANDS) and len(SLASH) == sum(bool(each.slash) for each in every)
    assert ON_SCREEN.keys() | {each.id for each in every if each.do is not None} == COMMANDS.keys() - ELSEWHERE
    assert {command.slash for command in SLASH.values() if command.do is None} == {"help", "quit", "models"}
    assert {*LAST_LINE} <= COMMANDS.keys()


def test_no_two_commands_that_can_be_done_at_once_have_one_key() -> None:
    always = [each for each in COMMANDS.values() if each.possible is Command._field_defaults["possible"]]
    keys = [key for each in always for key in each.keys.split(",") if key]
    assert sorted({*keys}) == sorted(keys)


OTHERWISE = "{placement} with other flags, {models} chooses other models."


@pytest.mark.parametrize(
    ("draft", "servers", "says"),
    [
        (False, False, "{load} tries again, "),
        (True, False, "{without-draft} goes on without the draft. {load} tries again, "),
        (False, True, "{load} loads the models on this machine alone, "),
    ],
)
def test_what_can_be_done_after_models_could_not_be_loaded(draft: bool, servers: bool, says: str) -> None:
    failed = LoadFailed("No.", without_draft=draft, without_servers=servers)
    assert said_of(failed, ChatSession(FakeEngine(), Setup())) == f"No. {says}{OTHERWISE}"
