"""Sentences that both front ends say."""

from __future__ import annotations

import pytest

from spectui.chat.sentences import load_advice

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
    assert load_advice(without_draft=draft, without_servers=servers) == f"{says}{OTHERWISE}"
