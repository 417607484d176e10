"""GPUs of AMD and Intel through Linux's sysfs: what a driver has no file for is None. Nothing here raises.

Files of amdgpu: `gpu_busy_percent` (0 to 100), `mem_info_vram_used` and `_total` (bytes), `hwmon/*/temp1_input` (thousandths
of a degree), `hwmon/*/power1_average` or `power1_input` (microwatts). The memory of a process is in the `fdinfo` of its open
files (the kernel's drm-usage-stats.rst). NVIDIA's driver has none of this; see `gpus`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from spectui.telemetry.gpus import Gpu, normal_pci

_NVIDIA = "0x10de"
_MAKERS = {"0x1002": "AMD", "0x8086": "Intel"}
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20}


class SysfsGpus:
    """Reads `root`/class/drm, where root is /sys; `proc` is /proc."""

    def __init__(self, root: Path = Path("/sys"), proc: Path = Path("/proc")) -> None:
        self._cards, self._proc = root / "class" / "drm", proc

    def read(self, processes: Iterable[int] = ()) -> tuple[Gpu, ...]:
        """Every GPU as it is now, but NVIDIA's. `processes`: the ids of those whose memory is this program's own."""
        try:
            cards = sorted(path for path in self._cards.iterdir() if re.fullmatch(r"card\d+", path.name))
        except OSError:
            return ()
        gpus = [gpu for index, card in enumerate(cards) if (gpu := _read_one(index, card / "device")) is not None]
        own = self._own_memory(processes) if gpus else {}
        return tuple(_with_own(gpu, own.get(gpu.pci or "")) for gpu in gpus)

    def _own_memory(self, processes: Iterable[int]) -> dict[str, int]:
        """PCI address -> bytes of these processes. A buffer that two open files share counts once, by the file's client id."""
        clients: dict[tuple[str, str], int] = {}
        for process in processes:
            try:
                files = list((self._proc / str(process) / "fdinfo").iterdir())
            except OSError:
                continue
            for file in files:
                fields = dict(re.findall(r"^(drm-[\w-]+):\s*(.+)$", _text(file), re.MULTILINE))
                pci = normal_pci(fields.get("drm-pdev"))
                size = (fields.get("drm-memory-vram") or fields.get("drm-total-vram0") or "").split()
                if pci and size and size[0].isdigit():
                    bytes = int(size[0]) * _UNITS.get(size[1] if len(size) > 1 else "", 1)
                    clients[pci, fields.get("drm-client-id", str(file))] = bytes
        memory: dict[str, int] = {}
        for (pci, _), bytes in clients.items():
            memory[pci] = memory.get(pci, 0) + bytes
        return memory


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


def _with_own(gpu: Gpu, own: int | None) -> Gpu:
    if own is None:
        return gpu
    return replace(gpu, own=own, others=None if gpu.memory_used is None else max(0, gpu.memory_used - own))


def _number(*files: Path) -> int | None:
    """The number in the first of these files that has one."""
    return next((int(text) for file in files if (text := _text(file).strip()).isdigit()), None)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
