"""A chat window over the fake engine."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from spectui.engine.fake import FakeEngine
from spectui.knobs import Knobs, Setup
from spectui.ui.app import SpectuiApp
from tests.ui.driving import PAIR, THEMES


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test in an event loop of its own; that is all a pilot test needs."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}), 60))
    return True


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def make_app(engine: FakeEngine) -> Callable[..., SpectuiApp]:
    def make(setup: Setup = PAIR, **arguments: object) -> SpectuiApp:
        return SpectuiApp(engine, setup, Knobs(), theme_directories=(THEMES,), **arguments)  # type: ignore[arg-type]

    return make


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where chats can be kept."""
    return tmp_path / "conversations.db"
