"""Which drafts have a device of their own."""

from __future__ import annotations

import pytest

from spectui.llama.devices.records import Device
from spectui.llama.drafting import has_own_devices

DEVICES = {
    device.name: device
    for device in (
        Device("CUDA0", "a card", "gpu", 1, 1),
        Device("CUDA1", "a card", "gpu", 1, 1),
        Device("RPC0", "host:1", "gpu", 1, 1),
        Device("RPC1", "host:1", "gpu", 1, 1),
        Device("RPC2", "other:1", "gpu", 1, 1),
    )
}


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
def test_devices(target: str, draft: str, own: bool):
    devices = ([DEVICES[name] for name in names.split()] for names in (target, draft))
    assert has_own_devices(*devices) is own
