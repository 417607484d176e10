"""Sentences that both front ends say."""

from __future__ import annotations

import pytest

from spectui.chat.sentences import load_advice


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({}, "{load} tries again, {placement} with other flags, {models} chooses other models."),
        (
            {"without_draft": True},
            "{without-draft} goes on without the draft. {load} tries again, {placement} with other flags, {models} chooses "
            "other models.",
        ),
        (
            {"without_servers": True},
            "{load} loads the models on this machine alone, {placement} with other flags, {models} chooses other models.",
        ),
    ],
)
def test_what_can_be_done_after_models_could_not_be_loaded(flags: dict[str, bool], says: str):
    assert load_advice(**{"without_draft": False, "without_servers": False, **flags}) == says
