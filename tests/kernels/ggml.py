"""ggml's own graphs through ctypes: the same operations on its CPU backend and on spectui's kernels."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from spectui.llama.library import address

CPU, KERNELS = b"CPU", b"SPECTUI"
_FLAGS, _COMPUTE = 148, 16  # where a ggml_tensor has its flags, and GGML_TENSOR_FLAG_COMPUTE (ggml.h)
THREADS = 2
_ASKED = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)

Kind = GGMLQuantizationType

_P, _I, _L, _S = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t


class _ContextParameters(ctypes.Structure):
    _fields_ = [("mem_size", _S), ("mem_buffer", _P), ("no_alloc", ctypes.c_bool)]


def call(name: str, result: Any, *arguments: Any) -> Any:
    """Call a function of ggml with pointers, whole numbers (int64) and floats; (type, number) for any other type."""
    kinds = [each[0] if isinstance(each, tuple) else _kind(each) for each in arguments]
    function = ctypes.CFUNCTYPE(result, *kinds)(address(name))
    return function(*[each[1] if isinstance(each, tuple) else each for each in arguments])


def _kind(argument: Any) -> Any:
    return ctypes.c_float if isinstance(argument, float) else _L if isinstance(argument, int) else _P


def quantised(kind: Kind, weights: NDArray[np.float32]) -> bytes:
    """The weights [..., rows, k] in a file's layout, by ggml's own quantisation."""
    rows, k = math.prod(weights.shape[:-1]), weights.shape[-1]
    block, size = GGML_QUANT_SIZES[kind]
    found = (ctypes.c_uint8 * (rows * k // block * size))()
    source = np.ascontiguousarray(weights, np.float32)
    places = (_P, source.ctypes.data), (_P, ctypes.addressof(found))
    call("ggml_quantize_chunk", _S, (_I, int(kind)), *places, 0, rows, k, None)
    return bytes(found)


def plain(kind: Kind, data: bytes, *shape: int) -> NDArray[np.float32]:
    """The weights of a file's layout, read by the gguf package."""
    rows = np.frombuffer(data, np.uint8).reshape(-1, len(data) // math.prod(shape[:-1]))
    return gguf.quants.dequantize(rows, kind).reshape(shape)


class Graph:
    """Tensors, operations and the device that computes them. Shapes are ggml's: the innermost dimension first."""

    def __init__(self, device: bytes) -> None:
        self.device = (_P, call("ggml_backend_dev_by_name", _P, (ctypes.c_char_p, device)))
        parameters = _ContextParameters(1 << 20, None, True)
        self._contexts = [
            (_P, call("ggml_init", _P, (_ContextParameters, parameters))) for _ in ("weights", "all other tensors")
        ]
        self._data: list[tuple[Any, bytes]] = []
        self._buffers: list[Any] = []

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, *_: object) -> None:
        for buffer in self._buffers:
            call("ggml_backend_buffer_free", None, buffer)
        for context in self._contexts:
            call("ggml_free", None, context)

    def weights(self, kind: Kind, data: bytes, *ne: int) -> Any:
        """A tensor in the device's own buffers."""
        return self._tensor(0, kind, ne, data)

    def tensor(self, kind: Kind, data: bytes | NDArray[Any], *ne: int) -> Any:
        """A tensor in host memory."""
        return self._tensor(1, kind, ne, data if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes())

    def columns(self, values: NDArray[np.float32]) -> Any:
        """Floats in host memory: numpy's shape, turned round, is ggml's."""
        return self.tensor(Kind.F32, values.astype(np.float32), *values.shape[::-1])

    def _tensor(self, context: int, kind: Kind, ne: Sequence[int], data: bytes) -> Any:
        shape = (_I, len(ne)), (ctypes.POINTER(_L), (_L * len(ne))(*ne))
        found = (_P, call("ggml_new_tensor", _P, self._contexts[context], (_I, int(kind)), *shape))
        self._data.append((found, data))
        return found

    def op(self, name: str, *arguments: Any) -> Any:
        """The result of ggml_`name`; numbers are int64, see `call`."""
        return (_P, call(f"ggml_{name}", _P, self._contexts[1], *arguments))

    def supports(self, operation: Any) -> bool:
        """Whether a context's backend takes the operation. Its tensors have their memory then."""
        self.prepare()
        backend = (_P, call("ggml_backend_dev_init", _P, self.device, None))
        taken = bool(call("ggml_backend_supports_op", ctypes.c_bool, backend, operation))
        call("ggml_backend_free", None, backend)
        return taken

    def prepare(self) -> None:
        """Give the tensors their memory and their data, if they have none."""
        if self._buffers:
            return
        host = (_P, call("ggml_backend_dev_by_name", _P, (ctypes.c_char_p, CPU)))
        for context, device in zip(self._contexts, (self.device, host), strict=True):
            of_device = (_P, call("ggml_backend_dev_buffer_type", _P, device))
            if call("ggml_get_first_tensor", _P, context) is not None:
                self._buffers.append((_P, call("ggml_backend_alloc_ctx_tensors_from_buft", _P, context, of_device)))
        for tensor, data in self._data:
            call("ggml_backend_tensor_set", None, tensor, (ctypes.c_char_p, data), (_S, 0), (_S, len(data)))

    def compute(self, *results: Any, needed: bool = True) -> list[NDArray[np.float32]]:
        """Compute them in one graph; the values of each, flat. `needed`: ggml says so of each result."""
        assert self.status(*results, needed=needed) == 0
        return [self._values(each) for each in results]

    def status(self, *results: Any, needed: bool = True, stop: bool = False) -> int:
        """Compute them, and return ggml's status. `stop`: the abort callback says at once that the results are not needed."""
        graph = (_P, call("ggml_new_graph", _P, self._contexts[1]))
        for each in results:
            call("ggml_build_forward_expand", None, graph, each)
            ctypes.c_int32.from_address(each[1] + _FLAGS).value &= -1 if needed else ~_COMPUTE
        self.prepare()
        backend = (_P, call("ggml_backend_dev_init", _P, self.device, None))
        registry = (_P, call("ggml_backend_dev_backend_reg", _P, self.device))
        name = (ctypes.c_char_p, b"ggml_backend_set_n_threads")
        use_threads = call("ggml_backend_reg_get_proc_address", _P, registry, name)
        ctypes.CFUNCTYPE(None, _P, _I)(use_threads)(backend[1], THREADS)
        if stop:
            name = (ctypes.c_char_p, b"ggml_backend_set_abort_callback")
            let_end = call("ggml_backend_reg_get_proc_address", _P, registry, name)
            yes = _ASKED(lambda _: True)
            ctypes.CFUNCTYPE(None, _P, _ASKED, _P)(let_end)(backend[1], yes, None)
        status = call("ggml_backend_graph_compute", _I, backend, graph)
        call("ggml_backend_free", None, backend)
        return int(status)

    def _values(self, tensor: Any) -> NDArray[np.float32]:
        found = np.empty(call("ggml_nelements", _L, tensor), np.float32)
        call("ggml_backend_tensor_get", None, tensor, (_P, found.ctypes.data), (_S, 0), (_S, found.nbytes))
        return found
