"""A chat window over the fake engine."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

from spectui.knobs import Knobs, Setup
from spectui.store.prompts import prompts_file
from spectui.ui.app import SpectuiApp
from spectui.ui.screen import chat
from spectui.ui.textual_patches import refresh_rate
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import PAIR, Make, Window, load, window_of


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test in an event loop of its own; that is all a pilot test needs."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}), 300))
    return True


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> FakeEngine:
    return FakeEngine(late=getattr(request, "param", False))


@pytest.fixture
def make_app(engine: FakeEngine) -> Make:
    def make(setup: Setup = PAIR, **arguments: object) -> SpectuiApp:
        return window_of(engine, setup, Knobs(), **arguments)

    return make


@pytest.fixture
def window(make_app: Make, engine: FakeEngine) -> Window:
    """Opens the window of an application that `make_app` makes, and loads its models."""

    @asynccontextmanager
    async def opened(
        setup: Setup = PAIR, *, size: tuple[int, int] = (80, 24), notifications: bool = False, **arguments: object
    ) -> AsyncIterator[tuple[SpectuiApp, Pilot[None]]]:
        app = make_app(setup, **arguments)
        async with app.run_test(size=size, notifications=notifications) as pilot:
            await load(pilot, engine)
            yield app, pilot

    return opened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where chats can be kept."""
    return tmp_path / "conversations.db"


@pytest.fixture(autouse=True)
def nothing_unsent() -> None:
    """What the test before left in its box is not in the box of this one."""
    prompts_file().with_name("unsent.json").unlink(missing_ok=True)


@pytest.fixture(scope="session", autouse=True)
def css_parsed_once() -> Iterator[None]:
    """Parse a style sheet once for each theme: in each window, it would be a tenth of what a test computes."""
    parse = Stylesheet._parse_rules
    parsed: dict[object, list[RuleSet]] = {}
    themes: dict[object, int] = {}
    of_sheet: WeakKeyDictionary[Stylesheet, tuple[dict[str, str], int]] = WeakKeyDictionary()

    def theme(sheet: Stylesheet) -> int:
        """A number for the variables, which are sorted once for a style sheet that keeps them."""
        variables, known = sheet._variables, of_sheet.get(sheet)
        if known is None or known[0] is not variables:
            known = of_sheet[sheet] = (variables, themes.setdefault(tuple(sorted(variables.items())), len(themes)))
        return known[1]

    def parse_once(sheet: Stylesheet, *arguments: Any, **named: Any) -> list[RuleSet]:
        key = (arguments, *sorted(named.items()), theme(sheet))
        if key not in parsed:
            parsed[key] = parse(sheet, *arguments, **named)
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        patch.setattr(RuleSet, "__hash__", object.__hash__)  # by identity too, but without a call of Python's
        yield


CLOCK_S = 0.02


@pytest.fixture(autouse=True)
def quick_clocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window looks for events and figures often: a test waits for what is seen, and not for how often.

    What tests how often the window is drawn keeps the real clocks.
    """
    tests = request.module.__name__.rpartition(".")[2]
    if tests not in ("test_refresh_rate", "test_controls"):
        for module, names in ((refresh_rate, ("SLOW_S", "FAST_S")), (chat, ("FIGURES_S",))):
            for name in names:
                monkeypatch.setattr(module, name, CLOCK_S)
