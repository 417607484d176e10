"""The window on a server: nothing in it knows that there is one."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from spectui.attach.catalogue import ServedModels
from spectui.attach.session import ServerSession
from spectui.engine.worker import Worker
from spectui.knobs import Knobs, Setup
from spectui.ui.app import SpectuiApp
from spectui.ui.dashboard.reply import NowPage
from spectui.ui.dialogs.models import ModelsScreen
from spectui.ui.screen import reading
from spectui.ui.widgets.rows import Slider
from tests.attach.scripted_server import PROPS, Answer, ScriptedServer, as_json, delta, events, serving, timings
from tests.ui.dashboard.rounds import seen_of
from tests.ui.pilot_helpers import ask, notified, wait_until, window_of
from tests.ui.screen_text import one_line, screen_text

Scenario = Callable[[SpectuiApp, Pilot[None], ScriptedServer], Awaitable[None]]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one red pixel
SLOTS = as_json([{"id": 0, "n_ctx": 256, "speculative": True, "params": {"speculative.types": "draft-simple"}}])


def long_reply(rounds: int = 30) -> Answer:
    """Every second round has a draft of 3 tokens, 2 of them accepted, and takes three times as long."""
    rows, predicted, drafted, accepted, ms = [delta("w ", **timings(1))], 1, 0, 0, 0.0
    for number in range(rounds):
        plain = number % 2 == 0
        drafted, accepted, ms = (drafted, accepted, ms + 20) if plain else (drafted + 3, accepted + 2, ms + 26)
        for _ in range(1 if plain else 3):
            predicted += 1
            rows.append(delta("w ", **timings(predicted, drafted, accepted, ms)))
    return events(*rows, delta(finish="stop"), timings(predicted, drafted, accepted, ms))


@contextmanager
def worker_for(server: ScriptedServer) -> Iterator[tuple[Worker, Setup]]:
    with closing(Worker(Knobs(), open_session=ServerSession)) as worker:
        yield worker, Setup(server=server.url, model=server.url.partition("//")[2])


def in_window(scenario: Scenario, server: ScriptedServer, size: tuple[int, int] = (120, 44)) -> None:
    """Run the scenario in a window that has loaded the server's model."""

    async def run(worker: Worker, setup: Setup) -> None:
        catalogue = ServedModels(setup.server, "")
        app = window_of(worker, setup, Knobs(), catalogue=catalogue)
        async with app.run_test(size=size, notifications=True) as pilot:
            await wait_until(pilot, lambda: app.screen.session.state == "ready")
            await scenario(app, pilot, server)

    with worker_for(server) as (worker, setup):
        asyncio.run(asyncio.wait_for(run(worker, setup), 120))


def test_colours_figures_and_the_flag_for_draft_max_are_shown():
    async def scenario(app: SpectuiApp, pilot: Pilot[None], server: ScriptedServer) -> None:
        assert "tiny  ⟵ drafted by  draft-simple" in screen_text(app)
        await ask(pilot, "hello")
        await wait_until(pilot, lambda: app.screen.session.state == "ready" and app.screen.session.last_reply)
        app.screen.show_figures()
        await pilot.pause()
        text = screen_text(app)
        assert "accepted 30" in text and "correction 15" in text and "plain 16" in text
        await pilot.press("alt+3")
        await wait_until(pilot, lambda: "drafted by  draft-simple 30" in screen_text(app))
        details = seen_of(app.screen.panel.query_one("#details"))
        assert "a server does not tell what the time of a round went into" in details and "– ms" not in details
        await pilot.press("alt+2")
        await wait_until(pilot, lambda: "the server  --spec-draft-n-max 2" in screen_text(app))
        await pilot.press("alt+1")
        await wait_until(pilot, lambda: "drafted in 4 of the last 8 rounds" in seen_of(app.screen.query_one(NowPage)))
        await pilot.press("alt+4")
        await wait_until(pilot, lambda: "target" in seen_of(app.screen.panel.machine))
        assert "processor" not in screen_text(app) and "no GPU" not in screen_text(app)
        assert not app.screen.panel.devices.display

    with serving(long_reply(), slots=SLOTS) as server:
        in_window(scenario, server)


def test_what_the_server_fixes_is_dimmed_and_says_what_to_do():
    async def scenario(app: SpectuiApp, pilot: Pilot[None], server: ScriptedServer) -> None:
        slider = app.screen.query_one("#slider-draft-max", Slider)
        await wait_until(pilot, lambda: slider.has_class("-idle"))
        assert not app.screen.query_one("#slider-temperature", Slider).has_class("-idle")
        app.screen.panel.open_knob("draft_max")  # where it is seen: a hidden one loses the focus
        await pilot.press("left")
        await wait_until(pilot, lambda: any("restart it with another --spec-draft-n-max" in each for each in notified(app)))
        assert app.screen.session.knobs.draft_max == slider.value == 16
        app.screen.set_focus(app.screen.prompt)
        await ask(pilot, "hello")
        await wait_until(pilot, lambda: app.screen.session.last_reply)
        offered = {active.binding.id for active in app.screen.active_bindings.values()}
        assert "regenerate" in offered and not offered & {"compare", "tune", "drafter", "policy"}

    with serving(long_reply(4), slots=SLOTS) as server:
        in_window(scenario, server)


def test_the_list_of_models_is_the_servers_and_choosing_one_loads_it():
    def row(name: str, value: str) -> dict[str, object]:
        return {"id": name, "owned_by": "llamacpp", "status": {"value": value}}

    both = [as_json({"data": [row("one", "loaded"), row("two", "unloaded")]})] * 3
    then = as_json({"data": [row("one", "unloaded"), row("two", "loaded")]})

    async def scenario(app: SpectuiApp, pilot: Pilot[None], server: ScriptedServer) -> None:
        await pilot.press("ctrl+l")
        await wait_until(pilot, lambda: isinstance(app.screen, ModelsScreen))
        await wait_until(pilot, lambda: len(app.screen.query_one(OptionList).options) == 2)
        assert "type a path" not in screen_text(app), "which does nothing here"
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ModelsScreen) and app.screen.session.name == "two")
        await wait_until(pilot, lambda: app.screen.session.state == "ready")
        assert ("/models/load", {"model": "two"}) in [(path, body) for path, _, body in server.requests]

    with serving(long_reply(), v1__models=[*both, then], models__load=as_json({"success": True})) as server:
        in_window(scenario, server)


def test_the_machine_page_shows_what_the_server_counts_and_a_failed_reply_can_be_asked_again():
    def page(drafts: int) -> Answer:
        names = {"drafts": drafts, "draft_tokens": 4 * drafts, "accepted_tokens": 3 * drafts}
        return Answer(200, ("".join(f"vllm:spec_decode_num_{name}_total {n}\n" for name, n in names.items()).encode(),))

    chat = events(delta("half"), done=False)
    listed = as_json({"data": [{"id": "tiny", "owned_by": "vllm"}]})

    async def scenario(app: SpectuiApp, pilot: Pilot[None], server: ScriptedServer) -> None:
        await ask(pilot, "hello")
        await wait_until(pilot, lambda: "what came is kept. Ctrl+R asks again." in one_line(app))
        assert "half" in screen_text(app)
        await pilot.press("ctrl+r")
        await wait_until(pilot, lambda: app.screen.session.last_reply and app.screen.session.last_reply.reply.stop == "eos")
        assert "half" not in screen_text(app)
        await pilot.press("alt+4")
        shown = ("since its start 160 drafted, 120", "since the reply before 120", "drafted, 90 accepted (75 %)")
        await wait_until(pilot, lambda: all(each in screen_text(app) for each in shown))

    good = events(delta("one"), delta(" two"), delta(finish="stop"))
    with serving([chat, good], v1__models=listed, props=Answer(404), metrics=[page(10), page(40)]) as server:
        in_window(scenario, server)


def test_probabilities_are_asked_for_while_rejected_drafts_or_the_inspector_are_shown():
    async def scenario(app: SpectuiApp, pilot: Pilot[None], server: ScriptedServer) -> None:
        def asked() -> list[bool]:
            return ["logprobs" in body for body in server.bodies()]

        async def reply(number: int) -> None:
            await ask(pilot, "hello")
            await wait_until(pilot, lambda: len(asked()) == number and app.screen.session.state == "ready")

        await reply(1)
        reading.toggle(app.screen, "show_rejected")
        await reply(2)
        reading.toggle(app.screen, "show_rejected")
        await reply(3)
        reading.toggle_inspection(app.screen)
        await wait_until(pilot, lambda: app.screen.session.engine.wants_probabilities)
        await pilot.press("ctrl+r")
        await wait_until(pilot, lambda: len(asked()) == 4)
        assert asked() == [False, True, False, True]

    with serving(long_reply(4)) as server:
        in_window(scenario, server)


def test_an_image_goes_along_as_long_as_it_is_there_and_its_prompt_can_be_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a dot [1].png"
    file.write_bytes(base64.b64decode(PNG))
    monkeypatch.chdir(tmp_path)
    typed = 'what is @"a dot [1].png"'
    sent = [{"type": "text", "text": typed}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]

    async def scenario(app: SpectuiApp, pilot: Pilot[None], server: ScriptedServer) -> None:
        async def replied(number: int) -> None:
            await wait_until(pilot, lambda: len(server.bodies()) == number and app.screen.session.state == "ready")

        app.screen.prompt.put(typed)
        await wait_until(pilot, lambda: app.screen.prompt.chips.display)
        assert "+ a dot [1].png: 1 kB\n" in f"{app.screen.prompt.chips.content}\n"
        await pilot.press("enter")
        await replied(1)
        stored = app.screen.session.messages[0].content
        assert stored.startswith(f'{typed}\n\n![a dot 1.png]({tmp_path}/a%20dot%20%5B1%5D.png "sha256 ') and len(stored) < 400
        await pilot.press("alt+e")
        assert app.screen.prompt.text == typed
        await pilot.press("enter")
        await replied(2)
        await ask(pilot, "and now?")
        await replied(3)
        assert [body["messages"][0]["content"] for body in server.bodies()] == [sent] * 3
        file.write_bytes(file.read_bytes() + b"another one")
        await pilot.press("ctrl+r")
        await replied(4)
        assert server.bodies()[3]["messages"][0]["content"] == typed
        await wait_until(pilot, lambda: "has gone or was changed: the text went without" in one_line(app))

    with serving(long_reply(2), props=as_json(PROPS | {"modalities": {"vision": True}})) as server:
        in_window(scenario, server)


def test_an_image_for_a_model_without_eyes_stays_in_the_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dot.png").write_bytes(base64.b64decode(PNG))
    monkeypatch.chdir(tmp_path)

    async def scenario(app: SpectuiApp, pilot: Pilot[None], server: ScriptedServer) -> None:
        app.screen.prompt.put("see @dot.png")
        await pilot.press("enter")
        await wait_until(pilot, lambda: notified(app))
        assert notified(app) == ["tiny takes no images: leave dot.png out, or ask another server."]
        assert app.screen.prompt.text == "see @dot.png" and not server.bodies()

    with serving(long_reply(2)) as server:
        in_window(scenario, server)
