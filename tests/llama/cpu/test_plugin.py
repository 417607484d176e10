"""spectui's kernels in this process: attention as the target has it, and rows that do not depend on how many there are."""

from __future__ import annotations

import numpy as np
import pytest

from spectui.kernels.build import LIBRARY
from spectui.kernels.plugin import LLAMA_CPP, Kernels
from spectui.llama.context import Context
from spectui.llama.cpu import plugin
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from tests.helpers.smollm2 import setup

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="the kernels are not built")


@pytest.fixture(scope="module")
def own() -> Kernels:
    return Kernels(plugin.load().set)


@pytest.mark.parametrize("file", ["model", "draft"])
@pytest.mark.parametrize("before", [10, 300, 700])
def test_rows_are_the_same_in_passes_of_every_size(own: Kernels, file: str, before: int) -> None:
    """K-quants too, and behind contexts whose cells ggml's attention would divide among the threads."""
    model = Model(getattr(setup(), file), kernels=own)
    context = Context(model, Interrupt(), n_ctx=1024, rows=16, threads=2)
    tokens = [(7 * n + 5) % model.n_vocab for n in range(before + 16)]
    context.evaluate(tokens[:before], rows=1)
    together = context.evaluate(tokens[before:], rows=16).copy()
    context.truncate(before)
    alone = np.stack([context.evaluate([token], rows=1)[0].copy() for token in tokens[before:]])
    context.close()
    model.close()
    assert np.array_equal(together, alone)


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
