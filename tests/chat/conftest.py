"""The engine of a chat without a window."""

import pytest

from tests.fake_engine import FakeEngine


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()
