"""Sentences that both front ends say."""

import pytest

from spectui.chat.figures.lines import said_of
from spectui.chat.session import ChatSession
from spectui.engine.events import LoadFailed
from spectui.knobs import Setup
from tests.fake_engine import FakeEngine

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
