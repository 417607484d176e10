"""spectui's kernels in this process: loaded once, when the first model is to have them."""

from __future__ import annotations

from spectui.kernels.plugin import Kernels, Plugin, Unusable
from spectui.llama.library import address

_loaded: list[Plugin] = []
_refused: list[Unusable] = []


def load(only: str = "") -> Plugin:
    """The library, registered with ggml. `only`: as in `Plugin`; the first call decides. Raises Unusable, then always.

    A damaged one may end the process: call it after the self-test has tried it.
    """
    if _refused:
        raise _refused[0]
    if not _loaded:
        try:
            _loaded.append(Plugin(address, only=only))
        except Unusable as error:
            _refused.append(error)
            raise
    return _loaded[0]


def use_for_next_model(kernels: Kernels, threads: int) -> None:
    """Let the model that this thread loads next have these kernels; so many threads repack its weights. Raises Unusable."""
    if kernels.set:
        load().request(threads=threads, signs=kernels.signs)
    elif _loaded:
        _loaded[0].request()


def flash_attention(wanted: str, kernels: Kernels) -> str:
    """What to ask llama.cpp for when this thread makes a context with a model of these kernels: they compute its attention.

    llama.cpp's "auto" would see that another device than its own computes it, and turn flash attention off.
    """
    if _loaded:
        _loaded[0].request(attention=bool(kernels.set))
    return "on" if wanted == "auto" and kernels.set else wanted
