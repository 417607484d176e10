"""spectui's kernels in this process: loaded once, when the first model is to have them."""

from __future__ import annotations

from spectui.kernels.plugin import Kernels, Plugin, Unusable
from spectui.llama.library import address

_loaded: list[Plugin] = []
_refused: list[Unusable] = []
_attending: list[bool] = []


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


def use_for_next_model(kernels: Kernels) -> None:
    """Let the model that is loaded next have these kernels. Raises Unusable."""
    if kernels.set:
        load().use(True, kernels.signs)
    elif _loaded:
        _loaded[0].use(False)


def flash_attention(wanted: str, role: str, kernels: Kernels) -> str:
    """What to ask llama.cpp for when it makes a context that is to have this flash attention, with a model of these kernels.

    The kernels compute the attention of all contexts or of none: as the target's model has them. llama.cpp's "auto" would see
    that another device than its own computes it, and turn flash attention off.
    """
    if not _loaded:
        return wanted
    if role == "target":
        _attending[:] = [bool(kernels.set)]
        _loaded[0].attend(_attending[0])
    return "on" if wanted == "auto" and attends(kernels) else wanted


def attends(kernels: Kernels) -> bool:
    """Whether they compute the attention of a draft with these kernels, as the target's context was made last."""
    return _attending == [True] and bool(kernels.set)
