"""Which devices a name selects, and which exist."""

from __future__ import annotations

import pytest

from spectui.errors import UsageError
from spectui.llama.devices import handles, list_devices, selected
from spectui.llama.records import Device

CPU = Device("CPU", "a CPU", "cpu", 1, 2)
FIRST = Device("CUDA0", "a GPU", "gpu", 1, 2)
SECOND = Device("CUDA1", "a GPU", "gpu", 1, 2)
ALL = (FIRST, SECOND, CPU)


@pytest.mark.parametrize("name", ["", " ", ",", " , "])
def test_no_name_leaves_it_to_llama_cpp(name: str):
    assert selected(name, ALL) is None


@pytest.mark.parametrize("name", ["none", "NONE", "cpu", "CPU", " CPU "])
def test_none_and_cpu_mean_no_offload(name: str):
    assert selected(name, ALL) == []


def test_names_in_the_order_given_in_any_case():
    assert selected("cuda1, CUDA0", ALL) == [SECOND, FIRST]


@pytest.mark.parametrize("name", ["CUDA7", "CUDA0,nope", "\x1b[31m"])
def test_the_sentence_for_an_unknown_device_names_those_that_exist(name: str):
    with pytest.raises(UsageError) as caught:
        selected(name, ALL)
    assert str(caught.value) == (
        f"There is no device {name.split(',')[-1]!r}, only CUDA0, CUDA1, CPU: "
        "name one of them, or leave --device out to go on without it."
    )
    assert "\x1b" not in str(caught.value)


def test_the_sentence_on_a_machine_without_gpus_says_what_to_leave_out():
    with pytest.raises(UsageError) as caught:
        selected("CUDA1", [CPU], "--device-draft")
    assert str(caught.value) == ("There is no device 'CUDA1', only CPU: leave --device-draft out to go on without it.")


@pytest.mark.parametrize("names", ["CUDA0,CPU", "none,CUDA0", "cpu,none"])
def test_no_offload_goes_with_no_other_device(names: str):
    with pytest.raises(UsageError, match="stands alone among devices"):
        selected(names, ALL)


def test_this_machine_has_a_cpu_with_memory():
    found = list_devices()
    cpus = [device for device in found if device.kind == "cpu"]
    assert len(cpus) == 1
    assert 0 < cpus[0].free <= cpus[0].total
    assert cpus[0].name == "CPU"
    assert cpus[0].description


def test_handles_end_with_null():
    cpu = next(device for device in list_devices() if device.kind == "cpu")
    array = handles([cpu])
    assert len(array) == 2
    assert array[0]
    assert not array[1]
    assert list(handles([])) == [None]
