"""spectui's kernels in this process: attention as the target has it."""

from __future__ import annotations

import pytest

from spectui.kernels.build import LIBRARY
from spectui.kernels.plugin import LLAMA_CPP, Kernels
from spectui.llama.cpu import plugin

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="the kernels are not built")


@pytest.fixture(scope="module")
def own() -> Kernels:
    return Kernels(plugin.load().set)


def test_attention_is_the_kernels_where_the_target_has_them(own: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    monkeypatch.setattr(plugin.load(), "attend", told.append)
    ask = plugin.flash_attention
    assert [ask(wanted, "target", own) for wanted in ("auto", "on", "off")] == ["on", "on", "off"]
    assert told == [True, True, True]
    assert (ask("auto", "draft", own), ask("auto", "draft", LLAMA_CPP)) == ("on", "auto")
    assert ask("auto", "target", LLAMA_CPP) == "auto" and told[3:] == [False]
    assert ask("auto", "draft", own) == "auto"
    assert len(told) == 4
