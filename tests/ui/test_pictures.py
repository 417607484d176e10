"""Pictures of the main states at the two sizes that must look good. `pytest --snapshot-update` takes them anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from spectui.engine.fake import CPU, GPU, FakeEngine
from spectui.ui.app import SpectuiApp
from spectui.ui.prompt_input import PromptInput
from tests.ui.driving import ask, load, wait_until, write_reply

SIZES = [(80, 24), (120, 40)]
Scene = Callable[[Pilot[None], FakeEngine], Any]


async def empty(pilot: Pilot[None], engine: FakeEngine) -> None:
    await load(pilot, engine)


async def streaming(pilot: Pilot[None], engine: FakeEngine) -> None:
    await load(pilot, engine)
    await ask(pilot, "Write add.")
    write_reply(engine)
    await wait_until(pilot, lambda: not engine.events)


async def inspecting(pilot: Pilot[None], engine: FakeEngine) -> None:
    await streaming(pilot, engine)
    await pilot.press("alt+2", "f4", "left")


async def comparing(pilot: Pilot[None], engine: FakeEngine) -> None:
    await streaming(pilot, engine)
    engine.finish()
    await wait_until(pilot, lambda: not engine.events)
    await pilot.press("f5")
    engine.emit_round(plain="def", seconds=0.1)
    engine.emit_round(plain=" sub", seconds=0.1)
    await wait_until(pilot, lambda: not engine.events)


async def load_failed(pilot: Pilot[None], engine: FakeEngine) -> None:
    await wait_until(pilot, lambda: engine.loads)
    engine.fail_loading("The vocabularies differ at token 151643: '<|endoftext|>' is not '<s>'.", without_draft=True)
    await wait_until(pilot, lambda: not engine.events)


@pytest.mark.parametrize(
    "scene", [empty, streaming, inspecting, comparing, load_failed], ids=lambda scene: scene.__name__
)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_picture(
    snap_compare: Callable[..., bool], make_app: Callable[..., SpectuiApp], engine: FakeEngine, size: tuple[int, int],
    scene: Scene,
) -> None:  # fmt: skip
    engine.devices = (CPU, GPU)

    async def play(pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: pilot.app.screen.query(PromptInput))
        pilot.app.screen.query_one(PromptInput).cursor_blink = False
        await scene(pilot, engine)
        pilot.app.screen._show_figures()  # not when its timer happens to come round
        await pilot.pause()

    assert snap_compare(make_app(), terminal_size=size, run_before=play)
