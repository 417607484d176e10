"""Flags that change a loaded set-up."""

import pytest

from spectui.errors import UsageError
from spectui.knobs import Setup
from spectui.profiles.setup_line import flags_of, with_flags

LOADED = Setup(model="m", draft="d", system="be brief", gpu_layers=12, cache_type_k="q8_0")


def test_flags_change_what_they_name_and_nothing_else() -> None:
    found = with_flags(LOADED, "-ngl all --ctx-size=8192 -fa -sm none -ts 3,1 -td 2 -ngld -1")
    assert found == Setup(
        model="m", draft="d", system="be brief", cache_type_k="q8_0", gpu_layers=-2, ctx_size=8192, flash_attn="on",
        split_mode="none", tensor_split="3,1", threads_draft=2,
    )  # fmt: skip
    assert with_flags(found, "-ts '' -fa off --strict").tensor_split == ""
    assert with_flags(found, "--strict").strict == "on"
    assert with_flags(LOADED, "") == LOADED


def test_a_set_up_is_written_as_flags_that_bring_it_back() -> None:
    assert flags_of(Setup(model="m", system="x")) == ""
    changed = with_flags(LOADED, "-dev 'CUDA0, CUDA1' -fad off --numa distribute")
    assert flags_of(LOADED) == "-ngl 12 -ctk q8_0"
    assert with_flags(Setup(model="m", draft="d", system="be brief"), flags_of(changed)) == changed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-ngl many", "flag -ngl: gpu-layers must be a whole number, not 'many'."),
        ("-nlg 3", "There is no flag -nlg for the loaded models; did you mean -ngl?"),
        ("-m other.gguf", "There is no flag -m for the loaded models"),
        ("20", "Models are placed with flags such as -ngl 20 -ctk q8_0, not '20'."),
        ("-c", "The flag -c needs a value."),
        ("-ctk q9", "cache-type-k is one of"),
        ("-dev 'CUDA0", "is no line of flags: No closing quotation."),
    ],
)
def test_a_line_that_cannot_be_is_refused(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_flags(LOADED, line)
    assert message in str(caught.value)
