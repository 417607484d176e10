"""AMD's and Intel's GPUs in a directory that looks like Linux's sysfs."""

from pathlib import Path

import pytest

from spectui.telemetry.gpus import Gpu, find_gpu
from spectui.telemetry.sysfs import SysfsGpus

AMD = {
    "vendor": "0x1002\n",
    "uevent": "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_SLOT_NAME=0000:03:00.0\n",
    "product_name": "Radeon RX 7900 XTX\n",
    "gpu_busy_percent": "37\n",
    "mem_info_vram_used": f"{3 << 30}\n",
    "mem_info_vram_total": f"{24 << 30}\n",
    "hwmon/hwmon4/temp1_input": "61000\n",
    "hwmon/hwmon4/power1_average": "312500000\n",
}


def make_card(root: Path, name: str, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = root / "class" / "drm" / name / "device" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> SysfsGpus:
    make_card(tmp_path, "card1", AMD)
    return SysfsGpus(tmp_path)


def test_every_figure_is_read_in_its_unit(machine: SysfsGpus) -> None:
    (gpu,) = machine.read()
    assert gpu == Gpu(0, "Radeon RX 7900 XTX", "0000:03:00.0", 3 << 30, 24 << 30, 0.37, 61.0, 312.5, maker="AMD")
    assert find_gpu([gpu], "0000:03:00.0") is gpu


def test_what_a_driver_has_no_file_for_is_unknown(tmp_path: Path) -> None:
    make_card(tmp_path, "card0", {"vendor": "0x8086", "uevent": "PCI_SLOT_NAME=0000:00:02.0", "gpu_busy_percent": "?"})
    assert SysfsGpus(tmp_path).read() == (Gpu(0, "Intel GPU", "0000:00:02.0", maker="Intel"),)


def test_newer_cards_name_their_power_otherwise(tmp_path: Path) -> None:
    make_card(tmp_path, "card0", {key: text for key, text in AMD.items() if "power" not in key})
    make_card(tmp_path, "card0", {"hwmon/hwmon1/power1_input": "90000000"})
    assert SysfsGpus(tmp_path).read()[0].power == 90.0


def test_nvidias_cards_connectors_and_other_files_are_left_out(tmp_path: Path) -> None:
    make_card(tmp_path, "card0", AMD | {"vendor": "0x10de"})
    make_card(tmp_path, "card1-HDMI-A-1", AMD)
    make_card(tmp_path, "card2", {"vendor": "0x1002"})
    (tmp_path / "class" / "drm" / "version").write_text("drm 1.1.0")
    assert SysfsGpus(tmp_path).read() == ()
    assert SysfsGpus(tmp_path / "no such directory").read() == ()
