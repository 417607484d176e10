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
        load().request(threads=threads, signs=kernels.signs, beside=kernels.beside > 0)
    elif _loaded:
        _loaded[0].request()


def flash_attention(wanted: str, kernels: Kernels, on_gpus: bool) -> str:
    """What to ask llama.cpp for when this thread makes a context with a model of these kernels: they compute its attention.

    llama.cpp's "auto" would see that another device than its own computes it, and turn flash attention off. Beside layers
    `on_gpus` it has to ask whether those can have it, so there the kernels compute it once the context is made: see `attend`.
    """
    own = bool(kernels.set) and not on_gpus
    if _loaded:
        _loaded[0].request(attention=own)
    return "on" if wanted == "auto" and own else wanted


def attend(kernels: Kernels) -> None:
    """Let these kernels compute the attention, on the CPU, of the context that this thread made last."""
    if kernels.set:
        load().attend()
