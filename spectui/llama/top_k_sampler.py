"""A sampler of llama.cpp that keeps the k likeliest tokens of each row on the device, so that whole rows are not copied.

llama.cpp adds the operations of a context's samplers to the graph of a pass. Its own top-k keeps the logits of k tokens, but
not the sum over the vocabulary that probabilities need: from 104 tokens alone they were wrong by up to .19 (464 rows of
Qwen2.5-Coder 0.5B). So this sampler also keeps these tokens' probabilities, from a softmax over the whole row.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectui.llama.library import llama, symbol
from spectui.speculation.top_k import TopK

_tensor = ctypes.c_void_p
_int64 = ctypes.c_int64


class TopKSampler:
    """Keeps k tokens of each row of a context's passes. Python is called only when llama.cpp builds a graph anew."""

    def __init__(self, k: int, n_vocab: int, suppressed: Sequence[int] = ()) -> None:
        """`suppressed`: tokens without a probability."""
        self.k = k
        self._addresses: tuple[int, ...] = ()
        self._views: list[NDArray[Any]] = []  # of what lies at these addresses
        self.supported = False
        """Can the device of the output do it? Known when the sampler has been given to a context."""
        size = symbol("ggml_nelements", _int64, _tensor)
        column = symbol("ggml_reshape_2d", _tensor, _tensor, _tensor, _int64, _int64)
        top_k = symbol("ggml_top_k", _tensor, _tensor, _tensor, ctypes.c_int)
        softmax = symbol("ggml_soft_max", _tensor, _tensor, _tensor)
        pick = symbol("ggml_get_rows", _tensor, _tensor, _tensor, _tensor)

        def supports(_: Any, buffer_type: Any, rows: int) -> bool:
            # llama.cpp's own top-k asks the device for the operations that it shares with this one. Every device has softmax.
            own = llama.llama_sampler_init_top_k(k)
            self.supported = bool(own.contents.iface.contents.backend_init(own, buffer_type, rows))
            llama.llama_sampler_free(own)
            return self.supported

        def build(_: Any, graph: Any, __: Any, data: Any) -> None:
            row = data.contents.logits
            n = size(row)
            ids = top_k(graph, row, k)
            data.contents.candidates = ids
            data.contents.logits = pick(graph, column(graph, row, 1, n), ids)
            data.contents.probs = pick(graph, column(graph, softmax(graph, row), 1, n), ids)

        # llama.cpp calls these as long as the sampler lives.
        self._interface = llama.llama_sampler_i(
            name=llama.llama_sampler_i_name(lambda _: b"top-k"),
            apply=llama.llama_sampler_i_apply(lambda _, __: None),
            backend_init=llama.llama_sampler_i_backend_init(supports),
            backend_apply=llama.llama_sampler_i_backend_apply(build),
        )
        self.chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
        """llama_sampler *, to give to a context."""
        if suppressed:
            biases = (llama.llama_logit_bias * len(suppressed))(*((token, float("-inf")) for token in suppressed))
            bias = llama.llama_sampler_init_logit_bias(n_vocab, len(suppressed), biases)
            llama.llama_sampler_chain_add(self.chain, bias)
        llama.llama_sampler_chain_add(self.chain, llama.llama_sampler_init(ctypes.byref(self._interface), None))

    def read(self, context: Any, first: int, rows: int, n_vocab: int) -> TopK | None:
        """What was kept of the last pass: of its tokens from `first` on, so many. None if it is not there."""
        if llama.llama_get_sampled_probs_count_ith(context, first + rows - 1) != self.k:
            return None
        addresses = tuple(
            ctypes.addressof(get(context, first).contents)
            for get in (
                llama.llama_get_sampled_candidates_ith,
                llama.llama_get_sampled_logits_ith,
                llama.llama_get_sampled_probs_ith,
            )
        )
        if self._addresses != addresses or len(self._views[0]) < rows:
            self._addresses = addresses
            kinds = np.int32, np.float32, np.float32
            self._views = [_rows(at, kind, rows, self.k, n_vocab) for at, kind in zip(addresses, kinds, strict=True)]
        ids, logits, p = self._views
        return TopK.kept(ids[:rows], logits[:rows], p[:rows])

    def close(self) -> None:
        """Free it. No context may use it any more."""
        llama.llama_sampler_free(self.chain)


def _rows(address: int, kind: Any, rows: int, k: int, n_vocab: int) -> NDArray[Any]:
    """llama.cpp's memory for k numbers of each row, [rows, k]. Rows are as far apart as whole ones would be."""
    memory = (ctypes.c_char * (4 * ((rows - 1) * n_vocab + k))).from_address(address)
    view: NDArray[Any] = np.ndarray((rows, k), kind, memoryview(memory), strides=(4 * n_vocab, 4))
    return view
