"""A model's context: evaluate tokens, get logits, truncate. Implements `speculation.evaluator.Evaluator`."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.llama.cells.batch import Batch
from spectui.llama.cells.checkpoints import Checkpoint, Checkpoints
from spectui.llama.cpu import plugin, reference_path
from spectui.llama.cpu.reference_path import SPLIT_FROM, ReferencePath
from spectui.llama.devices import context_memory, memory_use, rpc
from spectui.llama.devices.records import MemoryUse, added
from spectui.llama.heads.rows import HiddenRows
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import clear_errors, first_error, listening, llama
from spectui.llama.model import Model
from spectui.llama.top_k_sampler import TopKSampler
from spectui.speculation.evaluator import Interrupted
from spectui.speculation.top_k import TopK

# ggml calls `bool abort(void *data)` a few hundred times a pass. A Python function would take the GIL each time; strlen of a
# string of one byte returns 0 or 1 and does not take it.
_libc = ctypes.CDLL("msvcrt") if sys.platform == "win32" else ctypes.CDLL(None)
_ABORT = ctypes.cast(_libc.strlen, llama.ggml_abort_callback)
_NEVER = llama.ggml_abort_callback()

_Result = TypeVar("_Result")

_CONTEXT, _OF_HEADS = 0, 1  # LLAMA_CONTEXT_TYPE_DEFAULT, _MTP (llama.h)

_FLASH = {"auto": -1, "off": 0, "on": 1}

_RING = re.compile(r"creating +SWA KV cache, size = +(\d+) cells")

STATES = 4
"""Recurrent states that are kept beside the last one, where llama.cpp can, so that rejected tokens are dropped without a
second pass. Each takes as much memory as the last: 150 MB for a 27B of Qwen3.5. Longer drafts need a checkpoint."""


class EvaluationError(SpectuiError):
    """llama.cpp could not evaluate a batch."""


class Context:
    """The KV cache of one conversation. One thread at a time may call it: the engine's, or that which drafts ahead."""

    max_drafted: int | None = None  # most tokens that it drafts in a round; None for any number

    def __init__(
        self,
        model: Model,
        interrupt: Interrupt,
        *,
        n_ctx: int,
        rows: int,
        batch: int = 2048,
        ubatch: int = 512,
        threads: int = 1,
        flash_attn: str = "auto",
        type_k: str = "f16",
        type_v: str = "f16",
        swa_full: bool = False,
        equal_rows: bool = False,
        keeps: int = 0,
        hidden: Sequence[int] | None = None,
        heads_of: Context | None = None,
    ) -> None:
        """Room for `n_ctx` tokens (0: what it was trained with), and for the logits of `rows` rows: more would end the process.

        `swa_full`: keep all cells of layers with a sliding window. `equal_rows`: make no row depend on the drafts before it: on
        a CPU, have attention round a single row as it rounds several rows (see `reference_path`), and keep the cells of a
        sliding window in order (see `ring`). `keeps`: have the device keep so many of the likeliest tokens of each row at first
        (see `submit`); 0: never. `hidden`: keep hidden rows for heads, of these layers (see `heads.rows`). `heads_of`: it is a
        context of heads, beside that target (see `heads.context`). Raises SpectuiError if llama.cpp refuses it.
        """
        self.handle: Any = None  # llama_context *
        self.model = model
        self.n_vocab = model.n_vocab
        self.n_ctx = n_ctx or model.trained_ctx
        self.rows, self.flash_attn = rows, flash_attn
        self.tokens: list[int] = []
        self.asynchronous = model.output_on_gpu
        """Does a device compute all of a pass while Python continues?"""
        self._interrupt = interrupt
        self.keep_at: Sequence[int] = ()
        """Lengths whose state is kept when they are reached, for the prompts of later turns."""
        self._computing = False  # or a pass has ended in the middle

        params = llama.llama_context_default_params()
        params.n_ctx = self.n_ctx
        # llama.cpp ends the process when a pass is larger than its batch, and a pass over a draft is not divided.
        params.n_batch = max(min(batch, self.n_ctx), rows)
        params.n_ubatch = min(ubatch, batch)
        params.n_seq_max = 1
        params.n_outputs_max = rows
        params.n_rs_seq = min(rows - 1, STATES) if model.recurrent else 0
        self._sampler = TopKSampler(min(keeps, self.n_vocab), self.n_vocab, model.suppressed) if keeps else None
        self._keeps = self._sampler is not None
        if self._sampler is not None:
            # llama.cpp reserves the memory for it now, so that it is counted.
            params.n_outputs_max_per_seq = rows
            samplers = (llama.llama_sampler_seq_config * 1)()
            samplers[0].seq_id, samplers[0].sampler = 0, ctypes.cast(self._sampler.chain, ctypes.c_void_p)
            params.samplers, params.n_samplers = samplers, 1
        params.n_threads = params.n_threads_batch = threads
        params.swa_full = swa_full
        params.flash_attn_type = _FLASH[plugin.flash_attention(flash_attn, model.kernels, model.on_gpus)]
        params.type_k, params.type_v = context_memory.GGML_TYPES[type_k], context_memory.GGML_TYPES[type_v]
        if heads_of is not None:
            params.ctx_other = heads_of.handle
            params.ctx_type = _CONTEXT if model.reads_layers else _OF_HEADS
        params.abort_callback = _ABORT
        params.abort_callback_data = interrupt.address
        clear_errors()
        log: list[str] = []
        with listening(log.append):
            self.handle = llama.llama_init_from_model(model.handle, params)
        if not self.handle:
            if self._sampler is not None:
                self._sampler.close()
            raise SpectuiError(context_memory.refusal(model, self.n_ctx, first_error()))
        plugin.attend(model.kernels)
        self.bytes_of_cells = context_memory.logged_cells(log)
        """Of all of them, on whatever devices: what llama.cpp takes, or would take for a simulated model."""
        ring = next(filter(None, map(_RING.search, log)), None)
        self.ring = int(ring[1]) if equal_rows and ring is not None and int(ring[1]) < self.n_ctx else 0
        """Cells of a sliding window, which the tokens fill over and over, in order; 0: none, or their order does not matter.

        Attention adds up cells in their order. llama.cpp fills the first cell that was freed, so after tokens on both sides of
        the ring's end are dropped, later ones come to lie elsewhere than without a draft, and round otherwise. So a draft
        must not extend over the end, and a truncation over it empties the context.
        """
        # llama.cpp makes room for the hidden rows of a whole batch at the first pass, and does not log it.
        kept = 0 if hidden is None else 4 * model.width * max(1, len(hidden)) * params.n_batch
        self._output = memory_use.logged_output(log, rows, kept)
        logged = memory_use.divided(memory_use.logged(log), model.tensor_shares)
        weights = model.memory if heads_of is None or heads_of.model is not model else ()
        self.memory = added((*weights, *logged, self._output))
        """What the model and this context take on each device, once a pass of all rows has been made."""
        self.takes_back: int = llama.llama_n_rs_seq(self.handle)
        """Tokens of its last pass that a recurrent context drops without a checkpoint."""
        self._states_from = 0  # the least length whose state is there
        self._drafts = model.recurrent and rows == 1 and heads_of is None
        self.checkpoints = Checkpoints(self.handle, 1 + self._drafts, self.ring)
        self.forgets = heads_of is None and (model.recurrent or (0 < model.window < self.n_ctx and not swa_full))
        """Whether it cannot be truncated to any length, so that states are kept."""
        self._truncated = False  # the next row that is asked for is the text's; later ones are behind drafted tokens
        self._logits_at, self._views = 0, dict[int, NDArray[np.float32]]()
        self._memory = llama.llama_get_memory(self.handle)
        divides = reference_path.divides(type_k, type_v)
        self._reference = ReferencePath(self.handle) if equal_rows and divides else None
        self._ubatch = params.n_ubatch
        # Chunks of n_ubatch tokens: on a GPU a pass cannot be interrupted.
        self.chunk = min(params.n_ubatch, params.n_batch)
        self._batch = Batch(max(self.chunk, rows))
        self.hidden = HiddenRows(self.handle, model.width, hidden) if hidden is not None else None
        """For heads."""
        if self._sampler is not None and not self._sampler.supported:
            self._stop_keeping()
            self._keeps = False

    def use_threads(self, number: int) -> None:
        """Compute with so many threads from the next pass on. The logits depend on it where ggml divides a single row, and
        the reference kernels are not used for it (see `reference_path`)."""
        llama.llama_set_n_threads(self.handle, number, number)

    def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        """Append tokens; the logits after each of the last `rows`, float32 [rows, n_vocab], valid until the next call.

        Returns when the device has computed the tokens. Without that a GPU computes while Python continues, so measured times
        would be too short, progress too early, and a stop too late. Raises Interrupted, or EvaluationError; the context is then
        as it was before.
        """
        if rows:
            self._stop_keeping()
        return self._submitted(tokens, rows, self._logits)()

    def submit(self, tokens: Sequence[int], rows: int, k: int | None) -> Callable[[], NDArray[np.float32] | TopK]:
        """Append tokens, and return a function that waits for their logits: see `evaluator.Submit`.

        Whole rows of logits are not copied where the device finds the k likeliest tokens. Both raise what `evaluate` raises.
        """
        if k is not None and self._keep(k):
            return self._submitted(tokens, rows, self._top_k)
        self._stop_keeping()
        return self._submitted(tokens, rows, self._logits)

    def _keep(self, k: int) -> bool:
        """Have the device keep the k likeliest tokens of each row; False if it cannot, or there are not so many."""
        if not self._keeps or not 0 < k <= self.n_vocab:
            return False
        if self._sampler is None or self._sampler.k != k:
            self._stop_keeping()
            self._sampler = TopKSampler(k, self.n_vocab, self.model.suppressed)
            if not llama.llama_set_sampler(self.handle, 0, self._sampler.chain) or not self._sampler.supported:
                self._stop_keeping()
                self._keeps = False
        return self._keeps

    def _stop_keeping(self) -> None:
        """Let the next passes return whole rows."""
        if self._sampler is not None:
            llama.llama_set_sampler(self.handle, 0, None)
            self._sampler.close()
            self._sampler = None

    def _submitted(self, tokens: Sequence[int], rows: int, result: Callable[[int], _Result]) -> Callable[[], _Result]:
        """Append tokens; a function for the result of the last `rows`. Both raise what `evaluate` raises."""
        before = len(self.tokens)
        clear_errors()
        # A recurrent context is saved before it gets a long draft, so the tokens before the draft are evaluated first.
        saves = self.model.recurrent and rows - 1 > self.takes_back
        kept = [at - before for at in self.keep_at if 0 < at - before <= len(tokens) - rows]
        certain = max(len(tokens) - (rows if saves else self._batch.size), *kept, 0)
        try:
            self._append(tokens[:certain], kept)
            if saves:
                self.checkpoints.save(len(self.tokens))
            if certain < len(tokens):
                if self.takes_back and rows:  # it is over soon, and to interrupt it would cost the states
                    if self._interrupt.is_set():
                        raise Interrupted
                    llama.llama_set_abort_callback(self.handle, _NEVER, None)
                self._decode(tokens[certain:], rows)
        except (Interrupted, EvaluationError):
            # An interrupted or failed pass may leave cells: the context must agree with `tokens`.
            self._truncate(before, broken=self._computing)
            raise
        finally:
            if self.takes_back:
                llama.llama_set_abort_callback(self.handle, _ABORT, self._interrupt.address)

        def computed() -> _Result:
            try:
                found = result(rows)
            except EvaluationError:
                self.truncate(before)
                raise
            self._keep_hidden(len(tokens) - certain)
            if self._drafts and self._truncated and rows:
                self.checkpoints.save(len(self.tokens))
                self._truncated = False
            return found

        return computed

    def _append(self, tokens: Sequence[int], kept: Sequence[int]) -> None:
        """Append tokens of which no logits are needed, and keep the state after each of these numbers of them."""
        start = 0
        while start < len(tokens):
            if self._interrupt.is_set():  # within a pass only the CPU checks it
                raise Interrupted
            end = min([start + self.chunk, len(tokens), *(at for at in kept if at > start)])
            self._decode(tokens[start:end], 0)
            self._wait()
            self._keep_hidden(end - start)
            if end in kept:
                self.checkpoints.keep(len(self.tokens), self.hidden)
            start = end

    def _keep_hidden(self, n: int) -> None:
        if self.hidden is not None and n > 0:
            self.hidden.append(len(self.tokens) - n, n)

    def _logits(self, rows: int) -> NDArray[np.float32]:
        """The logits of the last pass, once it is computed."""
        if not rows:
            self._wait()
            return np.empty((0, self.n_vocab), np.float32)
        pointer = llama.llama_get_logits(self.handle)
        if not pointer:
            raise EvaluationError("llama.cpp evaluated tokens but returned no logits.")
        address = ctypes.addressof(pointer.contents)
        if address != self._logits_at:
            self._logits_at, self._views = address, {}
        if rows not in self._views:
            memory = (ctypes.c_char * (rows * self.n_vocab * 4)).from_address(address)
            self._views[rows] = np.ndarray((rows, self.n_vocab), np.float32, memoryview(memory))
        self._views[rows][:, self.model.suppressed] = -np.inf
        return self._views[rows]

    def _top_k(self, rows: int) -> TopK:
        """What the device kept of the last pass, once it is computed."""
        # What is read arrives after the pass is computed, from an RPC server too. To ask the servers as `_wait` does would cost
        # a round trip for each pass, and wait for a draft that goes on on another server.
        llama.llama_synchronize(self.handle)
        assert self._sampler is not None
        found = self._sampler.read(self.handle, self._batch.handle.n_tokens - rows, rows, self.n_vocab)
        if found is None:
            raise EvaluationError("llama.cpp evaluated tokens but returned no logits.")
        return found

    def _wait(self) -> None:
        """Return when the devices have computed a pass of which nothing is read."""
        llama.llama_synchronize(self.handle)
        rpc.synchronise()

    def _decode(self, tokens: Sequence[int], rows: int, at: int | None = None) -> None:
        """One llama_decode at position `at` (None: the next), with logits for the last `rows`. A failed one may leave cells."""
        n, start = len(tokens), len(self.tokens) if at is None else at
        assert rows <= self.rows
        self._batch.fill(tokens, start, rows)
        if self._reference is not None:
            # llama.cpp divides a pass into parts of n_ubatch tokens; the last part may be a single one.
            single = n % self._ubatch == 1 or self._ubatch == 1
            self._reference.use(single and start + n > SPLIT_FROM)
        self._compute(llama.llama_decode, self._batch.handle)
        self.tokens.extend(tokens)
        if self.takes_back:
            self._states_from = start + (n - 1) // self._ubatch * self._ubatch + 1

    def _compute(self, function: Callable[[Any, Any], int], batch: Any) -> None:
        """Call llama_decode or llama_encode. Raises Interrupted, EvaluationError."""
        self._computing = True
        code = function(self.handle, batch)
        self._computing = code != 0
        if code == 2:
            raise Interrupted
        if code:
            raise EvaluationError(context_memory.failure(self.model, batch.n_tokens, code, first_error()))

    def truncate(self, length: int) -> None:
        """Keep only the first `length` tokens. A context that cannot be truncated to that length keeps fewer."""
        self._truncated = True
        self._truncate(length)

    def _truncate(self, length: int, broken: bool = False) -> None:
        """`broken`: a pass has ended in the middle, so recurrent states are lost."""
        kept = length = min(length, len(self.tokens))
        if self.hidden is not None and length < len(self.tokens):
            kept = self.hidden.truncate(length)
        if not self._cut(kept, broken):
            kept = self._states_from = self.checkpoints.restore(length, self.hidden)
            if not kept or not self._remove(kept):
                self.clear()
                return
        del self.tokens[kept:]
        self.checkpoints.truncate(kept)

    def _cut(self, length: int, broken: bool) -> bool:
        """Drop the tokens from this length on; False where the rest would not be what it was at that length."""
        last = llama.llama_memory_seq_pos_max(self._memory, 0) if self.ring else -1
        if length <= last and length // self.ring != last // self.ring:
            return False
        # llama.cpp takes back tokens of earlier passes too, to states that are not theirs.
        if (broken and self.takes_back) or 0 < length < min(self._states_from, len(self.tokens)):
            return False
        if not self._remove(length):
            return False
        # With a sliding window llama.cpp may return true although the cells that the next token attends to are lost.
        window = self.model.window
        if not window or not length or length == len(self.tokens):
            return True
        return 0 <= int(llama.llama_memory_seq_pos_min(self._memory, 0)) <= max(0, length - window)

    def _remove(self, start: int) -> bool:
        return bool(llama.llama_memory_seq_rm(self._memory, 0, start, -1))

    def clear(self) -> None:
        """Remove all tokens, and zero the cells: a NaN in an unused cell would spoil later passes, although it is masked."""
        llama.llama_memory_clear(self._memory, True)
        self.tokens.clear()
        self.checkpoints.truncate(0)
        self._states_from = 0

    def adopt(self, tokens: Sequence[int], checkpoints: Sequence[Checkpoint]) -> None:
        """The cells hold these tokens: their state was restored."""
        self.tokens[:] = tokens
        self._states_from = len(tokens) if self.takes_back or self.ring else 0
        self.checkpoints.adopt(checkpoints)
        if self.ring:  # llama.cpp puts the window's cells side by side
            self.checkpoints.restore(len(tokens), self.hidden)
            self._remove(len(tokens))

    def simulated_memory(self) -> tuple[MemoryUse, ...]:
        """What a simulated model and this context would take on each device. Raises SpectuiError; may end the process."""
        simulated = memory_use.divided(memory_use.simulated(self.handle), self.model.tensor_shares, whole=True)
        return added((*simulated, MemoryUse(memory_use.HOST, self.model.kernels.beside), self._output))

    def close(self) -> None:
        """Free the cells."""
        if self.handle:
            self._batch.close()
            llama.llama_free(self.handle)
            if self._sampler is not None:
                self._sampler.close()
            self.handle = None
