"""The table of settings, and the files that are generated from it."""

import re
from pathlib import Path

import pytest
import tomli

from spectui import reference
from spectui.config import SETTINGS, Setting, convert, load, settings
from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup

ROWS = list(settings())


def test_no_flag_and_no_key_is_given_twice() -> None:
    flags = [flag for row in ROWS for flag in row.spec.flags]
    assert len(flags) == len(set(flags))
    assert len(ROWS) == len(SETTINGS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_each_default_is_in_its_own_range(row: Setting) -> None:
    if row.default is not None:
        assert convert(row.key, row.default, "default") == row.default


@pytest.mark.parametrize("row", [row for row in ROWS if row.spec.high is not None], ids=lambda row: row.key)
def test_both_ends_of_a_range_are_allowed_and_nothing_beyond(row: Setting) -> None:
    low, high = row.kind(row.spec.low), row.kind(row.spec.high)
    assert convert(row.key, low, "flag") == low
    assert convert(row.key, high, "flag") == high
    for outside in (low - 1, high + 1):
        with pytest.raises(UsageError, match=r"must be between"):
            convert(row.key, outside, "flag")


LLAMA_CPPS = """
model -m --model | draft -md --model-draft --draft | draft_max --draft-max --spec-draft-n-max
draft_min --draft-min --spec-draft-n-min | p_min --draft-p-min --p-min --spec-draft-p-min | gpu_layers -ngl
gpu_layers_draft -ngld | device --device -dev | device_draft --device-draft -devd | ctx_size -c --ctx-size
ctx_size_draft -cd --ctx-size-draft | tensor_split -ts --tensor-split | split_mode -sm --split-mode
main_gpu -mg --main-gpu | flash_attn -fa --flash-attn | cache_type_k -ctk | cache_type_v -ctv
cache_type_k_draft -ctkd | cache_type_v_draft -ctvd | threads -t --threads | threads_draft -td | batch -b
ubatch -ub | temperature --temp | top_k --top-k | top_p --top-p | min_p --min-p | repeat_penalty --repeat-penalty
presence_penalty --presence-penalty | frequency_penalty --frequency-penalty | stop -r --reverse-prompt --stop
seed -s --seed | predict -n --predict | system -sys
"""


@pytest.mark.parametrize("row", LLAMA_CPPS.strip().replace("\n", " | ").split(" | "))
def test_flags_are_llama_cpps(row: str) -> None:
    key, *flags = row.split()
    assert set(flags) <= set(SETTINGS[key].spec.flags)


def test_the_example_has_the_defaults_with_its_comment_marks_and_without(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(reference.example(), encoding="utf-8")
    assert set(load(path=file, environ={}).origins.values()) == {"default"}
    text = re.sub(r"^#(?=\S)", "", reference.example(), flags=re.MULTILINE)
    file.write_text(text, encoding="utf-8")
    found = load(path=file, environ={})
    assert (found.knobs, found.setup, found.ui.theme) == (Knobs(), Setup(), "")
    assert "default" not in found.origins.values()
    assert found.ui.keys == {"stop": "escape"}
    assert set(tomli.loads(text)) == {row.spec.section for row in ROWS} | {"profiles"}
