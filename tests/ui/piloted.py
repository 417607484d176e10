"""Running a test that drives a Textual application, and waiting for what it should bring about."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from textual.pilot import Pilot


def piloted(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test out of a coroutine function; no plugin needed."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def until(pilot: Pilot[None], true: Callable[[], object], turns: int = 300) -> None:
    """Let the application run until a condition holds."""
    for _ in range(turns):
        if true():
            return
        await pilot.pause(0.01)
    raise AssertionError("that did not come true")
