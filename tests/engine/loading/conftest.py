"""Made-up GPUs."""

import pytest

from spectui.engine.loading import placement
from spectui.llama.devices.records import Device


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch):
    """A function that gives the machine these devices."""

    def have(*devices: Device) -> tuple[Device, ...]:
        monkeypatch.setattr(placement, "list_devices", lambda: devices)
        return devices

    return have
