"""The machine page: memory and use of each GPU and the host, and what the models take."""

from collections.abc import Sequence

import pytest
from textual.app import App, ComposeResult

from spectui.chat.figures.activity import Activity
from spectui.chat.figures.records import Figures
from spectui.chat.models import LoadedModels
from spectui.engine.events import ThreadsInUse
from spectui.llama.devices.records import Device, MemoryUse, ModelInfo
from spectui.telemetry.gpus import Gpu, joules_per_token
from spectui.telemetry.monitor import Host, Telemetry
from spectui.ui.dashboard.machine import MachinePage
from spectui.ui.themes import ORIGIN_DEFAULTS
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.ui.dashboard.rounds import figures_of, rounds_of
from tests.ui.pilot_helpers import PAIR, Make, streaming, wait_until
from tests.ui.screen_text import one_line, screen_text

GB = 10**9


class MachineApp(App[None]):
    """The page alone."""

    def __init__(self, page: MachinePage) -> None:
        super().__init__()
        self.page = page

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return ORIGIN_DEFAULTS

    def compose(self) -> ComposeResult:
        yield self.page


async def lines(
    size: tuple[int, int] = (50, 20),
    devices: Sequence[Device] = (CPU, GPU),
    models: Sequence[ModelInfo] = (),
    readings: Sequence[Telemetry] = (),
    figures: Figures | None = None,
) -> list[str]:
    """What the page shows of these, its rows with single spaces."""
    loaded = LoadedModels(FakeEngine(), PAIR, Activity("ready"))
    loaded.devices, (loaded.target, loaded.draft) = tuple(devices), (*models, None, None)[:2]
    app = MachineApp(page := MachinePage(loaded, readings))
    async with app.run_test(size=size):
        page.update_figures(figures or Figures())
        return [" ".join(page.render_line(y).text.split()) for y in range(size[1])]


def gpus(number: int) -> tuple[Device, ...]:
    return tuple(GPU._replace(name=f"CUDA{at}", id=f"0000:c{at:x}:00.0") for at in range(number))


def looked(used: int, number: int = 0, reason: str = "") -> Telemetry:
    """A reading in which the host and each GPU use so many of 24 GB."""
    seen = (Gpu(at, "RTX", f"0000:c{at:x}:00.0", used * GB, 24 * GB, used / 24, 61.0, 210.0) for at in range(number))
    return Telemetry(Host(used * GB, 24 * GB, used / 24, 2 * GB), tuple(seen), reason)


def model(*uses: MemoryUse, remark: str = "", kernels_why: str = "") -> ModelInfo:
    return ModelInfo("m", "fake", 1, 1, 1, 1, 1, memory=uses, remark=remark, kernels_why=kernels_why)


WEIGHTS = MemoryUse("CUDA0", 3 * GB, GB, GB // 5)
WRITING = figures_of(rounds_of(lambda engine: engine.emit_round(plain="a", seconds=0.01)), state="writing")
KNOWN = Telemetry(Host(), (Gpu(0, "RTX", "0000:c1:00.0", 6 * GB, 24 * GB, 0.87, 61.0, 210.0),))


async def test_how_busy_a_card_is_and_what_a_token_costs() -> None:
    page = " ".join(await lines((60, 30), models=[model(WEIGHTS)], readings=[KNOWN], figures=WRITING))
    for part in (
        "61 °C 210 W", "6.0 GB of 24.0 GB", "87 %", "2.1 J a token",
        "CUDA0: weights 3.0 GB, cells 1.0 GB, compute 200 MB",
    ):  # fmt: skip
        assert part in page
    page = " ".join(await lines((60, 30), models=[model(WEIGHTS)], readings=[KNOWN, Telemetry()], figures=WRITING))
    assert "°C" not in page.replace("– °C", "") and "J a token" not in page, "the card is gone"


async def test_the_page_and_the_table_below_it_are_told_of_the_machine(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    engine.devices = (CPU, GPU)
    async with app.run_test(size=(120, 40)) as pilot:
        panel = await streaming(pilot, engine)
        panel.show_page("machine")
        panel.update_telemetry(looked(3))
        await wait_until(pilot, lambda: "host CPU, AMD EPYC" in one_line(app))
        assert "fake 1.5B Q8_0, 1.9 GB" in screen_text(app)
        engine.events.append(ThreadsInUse(1, 2))
        await wait_until(pilot, lambda: "threads 1 of 2: other processes are busy" in one_line(app))
        engine.events.append(ThreadsInUse(2, 2))
        await wait_until(pilot, lambda: "other processes" not in one_line(app))


@pytest.mark.parametrize("number", [1, 3, 6])
async def test_what_a_token_costs_is_seen_beside_any_number_of_gpus(number: int) -> None:
    models = [model(MemoryUse("CUDA0", 3 * GB))]
    page = await lines((50, 12), (CPU, *gpus(number)), models, [looked(3, number)], WRITING)
    assert "energy 2.1 J a token, of GPUs alone" in page


async def test_every_device_has_its_kind_and_a_dash_for_what_its_driver_does_not_give() -> None:
    integrated = GPU._replace(name="Vulkan0", description="Iris", kind="igpu", id="0000:00:02.0")
    devices = (CPU, GPU, integrated, Device("BLAS", "OpenBLAS", "accel", 0, 0))
    reading = Telemetry(Host(), (Gpu(0, pci=GPU.id), Gpu(1, pci=integrated.id, temperature=48.0)))
    page = await lines((50, 50), devices, readings=[reading])
    for title, figures in (("CUDA0 GPU, NVIDIA GeF", " – °C – W"), ("Vulkan0 integrated GPU, Iri", " 48 °C – W")):
        start = next(row for row, line in enumerate(page) if line.startswith(title) and line.endswith(figures))
        memory, use = page[start + 1 : start + 3]
        assert memory.endswith("1.2 GB of 24.0 GB"), "what ggml says"
        assert use.startswith("use") and use.endswith("–")
    blas = page.index("BLAS accelerator, OpenBLAS")
    assert page[blas + 1].startswith("memory") and page[blas + 1].endswith("–")
    assert any(line.startswith("host CPU, AMD EPYC") for line in page)


async def test_a_device_that_says_all_is_free_has_used_what_the_models_take() -> None:
    """As an RPC server on a CPU does, and a Vulkan driver without a memory budget."""
    server = Device("RPC0", "127.0.0.1:50052", "gpu", 24 * GB, 24 * GB)
    models = [model(MemoryUse("CPU", 1), MemoryUse("RPC0", 3 * GB, GB)), model(MemoryUse("RPC0", 2 * GB))]
    page = await lines((50, 30), (CPU, server), models, [Telemetry(Host(), ())])
    assert any(line.endswith("6.0 GB of 24.0 GB") for line in page)


def test_beside_a_gpu_the_kernels_are_those_of_the_cpus_part() -> None:
    used = [MemoryUse("CPU", GB), MemoryUse("CUDA0", GB)]
    found = [model(*uses)._replace(kernels="spectui avx2").kernels_in_words for uses in (used, used[:1])]
    assert found == ["spectui avx2, for what is on the CPU", "spectui avx2"]


@pytest.mark.parametrize(("height", "told"), [(16, False), (40, True)])
async def test_remarks_are_left_out_where_the_models_would_be_cut(height: int, told: bool) -> None:
    remark = "passes of up to 16 tokens round as single ones do, except behind a long text"
    uses = MemoryUse("CPU", GB, GB), MemoryUse("CUDA0", 2 * GB)
    models = [model(use, remark=remark, kernels_why="its layers are on a GPU") for use in uses]
    page = await lines((50, height), models=models, readings=[looked(12, 1)])
    assert any("CUDA0: weights 2.0 GB" in line for line in page)
    assert any("passes of up to" in line for line in page) is told
    assert any("kernels: llama.cpp, because" in line for line in page) is told


def test_the_energy_of_a_token_needs_the_power_of_every_card() -> None:
    card = Gpu(0, power=200.0)
    assert joules_per_token([card, Gpu(1, power=100.0)], 50.0) == 6.0
    assert joules_per_token([card, Gpu(1)], 50.0) is None
    assert joules_per_token([card, None], 50.0) is None
    assert joules_per_token([], 50.0) is joules_per_token([card], None) is joules_per_token([card], 0.0) is None


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("height", [17, 30])
async def test_how_memory_and_use_went_is_seen_as_far_as_there_is_room(height: int, number: int) -> None:
    reason = "" if number else "no NVML: " + "because " * 8 + "so"
    page = await lines((50, height), (CPU, *gpus(number)), readings=[looked(used, number, reason) for used in (3, 12, 24)])
    bars = sum(line.endswith(("24.0 GB of 24.0 GB", "100 %")) for line in page)
    past = sum(line.endswith(("▁▄█", "▂██")) for line in page)  # in one row, or the lower of two
    assert past == bars == 2 * number + 2
    assert number or " so" in " ".join(page), "the reason is told to its end"


@pytest.mark.parametrize("number", [6, 12])
async def test_where_there_is_no_room_for_all_gpus_the_table_has_them(make_app: Make, engine: FakeEngine, number: int) -> None:
    engine.devices = (CPU, *gpus(number))
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        panel = await streaming(pilot, engine)
        panel.show_page("machine")
        panel.update_telemetry(looked(24, number))
        await wait_until(pilot, lambda: "24.0 GB of 24.0 GB" in screen_text(app))
        assert sum("/24 100 %" in line for line in screen_text(app).splitlines()) == number + 1
