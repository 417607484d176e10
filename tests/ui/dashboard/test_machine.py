"""The machine page: memory, use and owners of each GPU and the host, and what the models take."""

from __future__ import annotations

import pytest

from spectui.chat.figures.records import Figures
from spectui.engine.events import ThreadsInUse
from spectui.llama.devices.records import Device, MemoryUse, ModelInfo
from spectui.telemetry.gpus import Gpu, joules_per_token
from spectui.telemetry.monitor import Host, Telemetry
from spectui.ui.dashboard.pages.machine import MachinePage
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.ui.pilot_helpers import Make, streaming, wait_until
from tests.ui.screen_text import one_line, screen_text


async def test_the_machine_page_shows_each_gpu_and_the_host(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    engine.devices = (CPU, GPU)
    async with app.run_test(size=(120, 40)) as pilot:
        panel = await streaming(pilot, engine)
        panel.show_page("machine")
        for used in (6, 12):
            gpu = Gpu(0, "RTX", "0000:c1:00.0", used * 10**9, 24 * 10**9, 0.87, 61.0, 210.0)
            panel.update_telemetry(Telemetry(Host(8 * 10**9, 24 * 10**9, 0.5, 2 * 10**9), (gpu,)))
        await wait_until(pilot, lambda: "12.0 GB of 24.0 GB" in screen_text(app))
        seen = screen_text(app)
        for said in ("87 %", "61 °C 210 W", "8.0 GB of 24.0 GB", "50 %", "spectui 2.0 GB"):
            assert said in seen
        assert app.screen.query_one(MachinePage).display
        for said in ("fake 1.5B Q8_0, 1.9 GB", "passes of up to 16 tokens round"):
            assert said in seen


async def test_whose_memory_it_is_what_a_token_costs_and_that_a_card_is_lost(
    make_app: Make, engine: FakeEngine
) -> None:
    app = make_app()
    engine.devices = (CPU, GPU)
    async with app.run_test(size=(120, 40)) as pilot:
        panel = await streaming(pilot, engine)
        panel.show_page("machine")
        use = MemoryUse("CUDA0", 3 * 10**9, 10**9, 2 * 10**8)
        panel.update_models([ModelInfo("m", "fake", 1, 1, 1, 1, 1, memory=(use,))])
        panel.update_figures(Figures(speed=100.0, live=True))
        gpu = Gpu(0, "RTX", "0000:c1:00.0", 6 * 10**9, 24 * 10**9, 0.87, 61.0, 210.0, 4 * 10**9, 2 * 10**9)
        panel.update_telemetry(Telemetry(Host(), (gpu,)))
        await wait_until(pilot, lambda: panel.machine.size.height > 10)
        seen = " ".join(text for line in panel.machine.build_lines() for text, _ in line)
        for said in (
            "spectui 4.0 GB, others 2.0 GB",
            "CUDA0: weights 3.0 GB, cells 1.0 GB, compute 0.2 GB",
            "2.1 J a token",
        ):
            assert said in " ".join(seen.split())
        panel.update_telemetry(Telemetry(Host(), (Gpu(0, "RTX", "0000:c1:00.0", lost=True),)))
        await wait_until(pilot, lambda: screen_text(app).count("lost") == 2)  # on the page and in the list of devices
        assert "J a token" not in " ".join(text for line in panel.machine.build_lines() for text, _ in line)


@pytest.mark.parametrize("gpus", [1, 3, 6])
async def test_what_a_token_costs_is_seen_beside_any_number_of_gpus(
    make_app: Make, engine: FakeEngine, gpus: int
) -> None:
    engine.devices = (CPU, *(GPU._replace(name=f"CUDA{at}", id=f"0000:c{at:x}:00.0") for at in range(gpus)))
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        panel = await streaming(pilot, engine)
        app.screen.panel.open_page("machine")
        panel.update_models([ModelInfo("m", "fake", 1, 1, 1, 1, 1, memory=(MemoryUse("CUDA0", 3 * 10**9),))])
        panel.update_telemetry(looked(3, gpus))
        panel.update_figures(Figures(speed=100.0, live=True))
        await wait_until(pilot, lambda: "2.1 J a token" in screen_text(app))


async def test_every_device_has_its_kind_and_a_dash_for_what_its_driver_does_not_give(
    make_app: Make, engine: FakeEngine
) -> None:
    app = make_app()
    integrated = GPU._replace(name="Vulkan0", description="Iris", kind="igpu", id="0000:00:02.0")
    engine.devices = (CPU, GPU, integrated, Device("BLAS", "OpenBLAS", "accel", 0, 0))
    async with app.run_test(size=(120, 50)) as pilot:
        panel = await streaming(pilot, engine)
        panel.show_page("machine")
        panel.update_telemetry(Telemetry(Host(), (Gpu(0, pci=GPU.id), Gpu(1, pci=integrated.id, temperature=48.0))))
        await wait_until(pilot, lambda: "accelerator, OpenBLAS" in one_line(app))
        page = [" ".join("".join(text for text, _ in line).split()) for line in panel.machine.build_lines()]
        for title, figures in (("CUDA0 GPU, NVIDIA GeF", " – °C – W"), ("Vulkan0 integrated GPU, Iri", " 48 °C – W")):
            start = next(row for row, line in enumerate(page) if line.startswith(title) and line.endswith(figures))
            memory, owners, use = page[start + 1 : start + 4]
            assert memory.endswith("1.2 GB of 24.0 GB"), "what ggml says"
            assert owners == "spectui –, others –"
            assert use.startswith("use") and use.endswith("–")
        blas = page.index("BLAS accelerator, OpenBLAS")
        assert page[blas + 1].startswith("memory") and page[blas + 1].endswith("–")
        assert any(line.startswith("host CPU, AMD EPYC") for line in page)


async def test_a_device_that_says_all_is_free_has_used_what_the_models_take(make_app: Make, engine: FakeEngine) -> None:
    """As an RPC server on a CPU does, and a Vulkan driver without a memory budget."""
    server = Device("RPC0", "127.0.0.1:50052", "gpu", 24_000_000_000, 24_000_000_000)
    engine.devices = (CPU, server)
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        panel = await streaming(pilot, engine)
        panel.show_page("machine")
        uses = (MemoryUse("CPU", 1), MemoryUse("RPC0", 3 * 10**9, 10**9)), (MemoryUse("RPC0", 2 * 10**9),)
        panel.update_models([ModelInfo("m", "fake", 1, 1, 1, 1, 1, memory=use) for use in uses])
        panel.update_telemetry(Telemetry(Host(), ()))
        await wait_until(pilot, lambda: "6.0 GB of 24.0 GB" in screen_text(app))
        assert "6/24" in screen_text(app)


@pytest.mark.parametrize(("height", "told"), [(24, False), (50, True)])
async def test_remarks_are_left_out_where_the_models_would_be_cut(
    make_app: Make, engine: FakeEngine, height: int, told: bool
) -> None:
    engine.devices = (CPU, GPU)
    app = make_app()
    async with app.run_test(size=(80, height)) as pilot:
        panel = await streaming(pilot, engine)
        app.screen.panel.open_page("machine")
        remark = "passes of up to 16 tokens round as single ones do, except behind a long text"
        uses = (MemoryUse("CPU", 10**9, 10**9),), (MemoryUse("CUDA0", 2 * 10**9),)
        model = ModelInfo("m", "fake", 1, 1, 1, 1, 1, remark=remark, kernels_why="its layers are on a GPU")
        panel.update_models([model._replace(memory=use) for use in uses])
        panel.update_telemetry(looked(12, 1))
        await wait_until(pilot, lambda: "12.0 GB of 24.0 GB" in screen_text(app))
        machine = app.screen.query_one(MachinePage)
        page = [machine.render_line(y).text for y in range(machine.size.height)]
        assert any("CUDA0: weights 2.0 GB" in line for line in page)
        assert any("passes of up to" in line for line in page) is told
        assert any("kernels: llama.cpp, because" in line for line in page) is told


def test_the_energy_of_a_token_needs_the_power_of_every_card() -> None:
    card = Gpu(0, power=200.0)
    assert joules_per_token([card, Gpu(1, power=100.0)], 50.0) == 6.0
    assert joules_per_token([card, Gpu(1)], 50.0) is None
    assert joules_per_token([card, None], 50.0) is None
    assert joules_per_token([], 50.0) is joules_per_token([card], None) is joules_per_token([card], 0.0) is None


def looked(used: int, gpus: int = 0, reason: str = "") -> Telemetry:
    seen = (
        Gpu(at, "RTX", f"0000:c{at:x}:00.0", used * 10**9, 24 * 10**9, used / 24, 61.0, 210.0) for at in range(gpus)
    )
    return Telemetry(Host(used * 10**9, 24 * 10**9, used / 24, 2 * 10**9), tuple(seen), reason)


@pytest.mark.parametrize("gpus", [0, 1, 2, 6, 12])
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_how_memory_and_use_went_is_seen_as_far_as_there_is_room(
    make_app: Make, engine: FakeEngine, size: tuple[int, int], gpus: int
) -> None:
    engine.devices = (CPU, *(GPU._replace(name=f"CUDA{at}", id=f"0000:c{at:x}:00.0") for at in range(gpus)))
    app = make_app()
    async with app.run_test(size=size) as pilot:
        panel = await streaming(pilot, engine)
        app.screen.panel.open_page("machine")
        for used in (3, 12, 24):
            panel.update_telemetry(looked(used, gpus, "" if gpus else "no NVML: " + "because " * 8 + "so"))
        await wait_until(pilot, lambda: "24.0 GB of 24.0 GB" in screen_text(app))
        machine = app.screen.query_one(MachinePage)
        page = [machine.render_line(y).text for y in range(machine.size.height)]
        bars = sum(line.count("24.0 GB of 24.0 GB") + line.count("100 %") for line in page)
        past = sum(line.rstrip().endswith(("▁▄█", "▂██")) for line in page)  # in one row, or the lower of two
        if gpus < 3:
            assert past == bars == 2 * gpus + 2
        if gpus < 12 or size[1] == 40:
            rows = [line for line in screen_text(app).splitlines() if "/24 100 %" in line]
            assert len(rows) == gpus + 1, "the table has all"
        if not gpus:
            assert " so" in " ".join(page), "the reason is told to its end"


async def test_cores_that_other_processes_take_are_told_while_they_do(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        panel = await streaming(pilot, engine)
        panel.show_page("machine")
        panel.update_telemetry(looked(3))
        engine.events.append(ThreadsInUse(1, 2))
        await wait_until(pilot, lambda: "threads 1 of 2: other processes are busy" in one_line(app))
        engine.events.append(ThreadsInUse(2, 2))
        await wait_until(pilot, lambda: "other processes" not in one_line(app))
