"""GPUs of AMD and Intel through Linux's sysfs: what a driver has no file for is None. Nothing here raises.

Files of amdgpu: `gpu_busy_percent` (0 to 100), `mem_info_vram_used` and `_total` (bytes), `hwmon/*/temp1_input` (thousandths
of a degree), `hwmon/*/power1_average` or `power1_input` (microwatts). NVIDIA's driver has none of this; see `gpus`.
"""

from __future__ import annotations

import re
from pathlib import Path

from spectui.telemetry.gpus import Gpu, normal_pci

_NVIDIA = "0x10de"
_MAKERS = {"0x1002": "AMD", "0x8086": "Intel"}


class SysfsGpus:
    """Reads `root`/class/drm, where root is /sys."""

    def __init__(self, root: Path = Path("/sys")) -> None:
        self._cards = root / "class" / "drm"

    def read(self) -> tuple[Gpu, ...]:
        """Every GPU as it is now, but NVIDIA's."""
        try:
            cards = sorted(path for path in self._cards.iterdir() if re.fullmatch(r"card\d+", path.name))
        except OSError:
            return ()
        return tuple(gpu for index, card in enumerate(cards) if (gpu := _read_one(index, card / "device")) is not None)


def _read_one(index: int, device: Path) -> Gpu | None:
    """The GPU of this directory; None for NVIDIA's, and for what is no PCI device."""
    vendor = _text(device / "vendor").strip()
    address = re.search(r"^PCI_SLOT_NAME=(.+)$", _text(device / "uevent"), re.MULTILINE)
    pci = normal_pci(address[1]) if address else None
    if pci is None or vendor == _NVIDIA:
        return None
    busy, temperature = _number(device / "gpu_busy_percent"), _number(*device.glob("hwmon/hwmon*/temp1_input"))
    power = _number(*device.glob("hwmon/hwmon*/power1_average"), *device.glob("hwmon/hwmon*/power1_input"))
    return Gpu(
        index,
        name=_text(device / "product_name").strip() or f"{_MAKERS.get(vendor, '')} GPU".strip(),
        maker=_MAKERS.get(vendor),
        pci=pci,
        memory_used=_number(device / "mem_info_vram_used"),
        memory_total=_number(device / "mem_info_vram_total"),
        utilisation=None if busy is None else busy / 100,
        temperature=None if temperature is None else temperature / 1e3,
        power=None if power is None else power / 1e6,
    )


def _number(*files: Path) -> int | None:
    """The number in the first of these files that has one."""
    return next((int(text) for file in files if (text := _text(file).strip()).isdigit()), None)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
