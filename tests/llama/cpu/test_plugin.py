"""spectui's kernels in this process: attention as a context's own model has it."""

import pytest

from spectui.kernels.build import LIBRARY
from spectui.kernels.plugin import LLAMA_CPP, Kernels
from spectui.llama.cpu import plugin

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="the kernels are not built")


@pytest.fixture(scope="module")
def own() -> Kernels:
    return Kernels(plugin.load().set)


def test_a_context_s_attention_is_as_its_model_has_it(own: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    monkeypatch.setattr(plugin.load(), "request", lambda attention: told.append(attention))
    ask = plugin.flash_attention
    assert [ask(wanted, own, False) for wanted in ("auto", "on", "off")] == ["on", "on", "off"]
    assert (ask("auto", LLAMA_CPP, False), ask("off", LLAMA_CPP, False)) == ("auto", "off")
    assert ask("auto", own, True) == "auto"  # the GPU is asked first
    assert told == [True, True, True, False, False, False]
