"""Which devices a name selects, and which exist."""

import ctypes
import json
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from spectui.engine.session import Session
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Setup
from spectui.llama import library
from spectui.llama.build import libraries
from spectui.llama.devices import listing
from spectui.llama.devices.listing import handles, list_devices, selected
from spectui.llama.devices.records import Device, has_own_devices

CPU = Device("CPU", "a CPU", "cpu", 1, 2)
FIRST = Device("CUDA0", "a GPU", "gpu", 1, 2)
SECOND = Device("CUDA1", "a GPU", "gpu", 1, 2)
ALL = (FIRST, SECOND, CPU)


@pytest.mark.parametrize(
    ("names", "chosen"), [("", None), (" , ", None), ("none", []), (" CPU ", []), ("cuda1, CUDA0", [SECOND, FIRST])]
)
def test_names_choose_devices(names: str, chosen: list[Device] | None):
    """None leaves it to llama.cpp, and [] is no offload."""
    assert selected(names, ALL) == chosen


@pytest.mark.parametrize(
    ("names", "devices", "sentence"),
    [
        ("CUDA0,CUDA7", ALL, "There is no device 'CUDA7', only CUDA0, CUDA1, CPU: name one of them, or leave --device out"),
        ("\x1b[31m", ALL, r"There is no device '\x1b[31m', only CUDA0"),
        ("CUDA1", [CPU], "There is no device 'CUDA1', only CPU: leave --device out to go on without it."),
        ("CUDA1,CUDA0,cuda1", ALL, "--device names CUDA1 twice: name each device once."),
        ("cpu,none", ALL, "cpu stands alone among devices"),
    ],
)
def test_names_that_choose_nothing_are_a_sentence(names: str, devices: list[Device], sentence: str):
    with pytest.raises(UsageError) as caught:
        selected(names, devices)
    assert str(caught.value).startswith(sentence)


def test_this_machine_has_a_cpu_with_memory():
    found = list_devices()
    cpus = [device for device in found if device.kind == "cpu"]
    assert len(cpus) == 1
    assert 0 < cpus[0].free <= cpus[0].total
    assert cpus[0].name == "CPU"
    assert cpus[0].description


def test_the_hosts_free_memory_is_what_programs_can_have(monkeypatch: pytest.MonkeyPatch):
    """ggml says that all of it is free."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=7))
    (cpu,) = (device for device in list_devices() if device.kind == "cpu")
    assert cpu.free == 7 < cpu.total


def test_handles_end_with_null():
    cpu = next(device for device in list_devices() if device.kind == "cpu")
    array = handles([cpu])
    assert len(array) == 2
    assert array[0]
    assert not array[1]
    assert list(handles([])) == [None]


def test_functions_are_found_in_libraries_as_windows_has_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """llama.dll beside ggml.dll, ggml-base.dll and what is no library."""
    for path in libraries():
        if "ggml" in path.name and path.suffix in (".so", ".dylib"):
            (tmp_path / f"{path.stem.removeprefix('lib')}.dll").symlink_to(path.resolve())
    (tmp_path / "ggml.lib").write_text("an import library")
    (tmp_path / "ggml-broken.dll").write_text("none")
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    monkeypatch.setattr(library.llama, "_lib", ctypes.CDLL(None))
    library.ggml_libraries.cache_clear()
    try:
        assert (tmp_path / "ggml-base.dll").exists()
        assert library.symbol("ggml_backend_dev_count", ctypes.c_size_t)() == len(list_devices())
        with pytest.raises(AttributeError):
            library.symbol("no_such_function", None)
    finally:
        library.ggml_libraries.cache_clear()


class Cards:
    """Two cards of CUDA and a CPU, as ggml answers; asking a card for its memory opens it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[str] = []
        names = ("CUDA0", "CUDA1", "CPU")

        def properties(handle: int, found: object) -> None:
            self.opened.append(names[handle])
            target = found._obj  # type: ignore[attr-defined]
            target.name, target.description, target.type = names[handle].encode(), b"now", 0 if handle == 2 else 1
            target.memory_free, target.memory_total = 1, 2

        answers = {
            "_count": lambda: 3, "_get": lambda index: index, "_name": lambda handle: names[handle].encode(),
            "_description": lambda handle: b"a card", "_type": lambda handle: 0 if handle == 2 else 1,
            "_properties": properties,
        }  # fmt: skip
        for name, answer in answers.items():
            monkeypatch.setattr(listing, name, answer)
        monkeypatch.setattr(listing, "_in_use", set())


def test_listing_opens_no_card_but_those_in_use(monkeypatch: pytest.MonkeyPatch):
    cards = Cards(monkeypatch)
    found = (Device("CUDA0", "then", "gpu", 5, 8, "0000:01:00.0"), Device("CUDA1", "then", "gpu", 6, 8), CPU)
    monkeypatch.setattr(listing, "survey", lambda: found)
    assert [device.free for device in list_devices()] == [5, 6, 1]
    assert cards.opened == ["CPU"]
    handles([FIRST])
    assert [device.free for device in list_devices()] == [1, 6, 1]
    assert cards.opened == ["CPU", "CUDA0", "CPU"]


def test_cards_that_cannot_be_surveyed_are_listed_without_memory(monkeypatch: pytest.MonkeyPatch):
    cards = Cards(monkeypatch)
    monkeypatch.setattr(listing, "survey", lambda: ())
    assert list_devices()[:2] == (Device("CUDA0", "a card", "gpu", 0, 0), Device("CUDA1", "a card", "gpu", 0, 0))
    assert cards.opened == ["CPU"]


def test_each_load_surveys_the_cards_anew(monkeypatch: pytest.MonkeyPatch):
    """The driver of one may have come back, and other programs use its memory: two looks within a load are one survey."""
    Cards(monkeypatch)
    answers = iter([OSError(), [["CUDA0", "back", "gpu", 5, 8]], [["CUDA0", "back", "gpu", 3, 8]]])

    def run(*_: object, **__: object) -> SimpleNamespace:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return SimpleNamespace(stdout=json.dumps(answer))

    monkeypatch.setattr(listing.subprocess, "run", run)
    session = Session(lambda event: None)
    for free in (0, 5, 3):
        with pytest.raises(SpectuiError):
            session.load(Setup(model="nothing.gguf"))
        assert [list_devices()[0].free for _ in range(2)] == [free] * 2
    listing.look_again()


def test_a_short_process_surveys_the_devices():
    assert [device.name for device in listing.survey()] == [device.name for device in list_devices()]
    assert listing.survey()[0].total > 0


@pytest.mark.parametrize(
    ("platform", "device", "unified"), [("darwin", "MTL0", True), ("darwin", "RPC0", False), ("linux", "CUDA0", False)]
)
def test_apples_gpus_share_the_hosts_memory(monkeypatch: pytest.MonkeyPatch, platform: str, device: str, unified: bool):
    monkeypatch.setattr("spectui.llama.devices.records.sys.platform", platform)
    monkeypatch.setattr("spectui.llama.devices.records.platform.machine", lambda: "arm64")
    assert Device(device, "", "gpu", 1, 2).unified is unified
    assert Device("Vulkan0", "", "igpu", 1, 2).unified


CARDS = {name: Device(name, "a card", "gpu", 1, 1) for name in ("CUDA0", "CUDA1")}
SERVERS = {f"RPC{n}": Device(f"RPC{n}", host, "gpu", 1, 1) for n, host in enumerate(("host:1", "host:1", "other:1"))}


@pytest.mark.parametrize(
    ("target", "draft", "own"),
    [
        ("CUDA0", "CUDA1", True),
        ("CUDA0", "CUDA0", False),
        ("CUDA0 CUDA1", "CUDA1", False),
        ("", "CUDA0", True),
        ("CUDA0", "", False),
        ("", "", False),
        ("RPC0", "RPC1", False),
        ("RPC0", "RPC2", True),
        ("CUDA0", "RPC0", True),
    ],
)
def test_which_drafts_have_a_device_of_their_own(target: str, draft: str, own: bool):
    devices = ([(CARDS | SERVERS)[name] for name in names.split()] for names in (target, draft))
    assert has_own_devices(*devices) is own
