"""Drafters that draft ahead, closed at the end of a test."""

from collections.abc import Callable, Iterator

import pytest

from spectui.speculation.drafters.ahead import AheadDrafter
from spectui.speculation.drafters.model import ModelDrafter
from tests.toys import ToyModel


@pytest.fixture
def ahead() -> Iterator[Callable[[ToyModel], AheadDrafter]]:
    """Makes one of a model that has the target's vocabulary."""
    made: list[AheadDrafter] = []

    def make(model: ToyModel) -> AheadDrafter:
        made.append(AheadDrafter(ModelDrafter(model, model.n_vocab)))
        return made[-1]

    yield make
    for drafter in made:
        drafter.close()
