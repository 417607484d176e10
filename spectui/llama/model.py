"""A loaded model: its weights and its vocabulary."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from spectui.errors import SpectuiError, unless_limited
from spectui.gguf_files.check import ModelFileError, check_file, metadata_of
from spectui.gguf_files.heads import EAGLE3, READ_LAYERS, usable_heads
from spectui.gguf_files.judgement import EMBEDDING, NO_CHAT
from spectui.gguf_files.metadata import CUT_SHORT, Metadata
from spectui.kernels.plugin import LLAMA_CPP, Kernels
from spectui.llama.cpu import plugin
from spectui.llama.devices import listing, memory_use
from spectui.llama.devices.records import Device, MemoryUse, added
from spectui.llama.last_words import forget_file, watch_file
from spectui.llama.library import clear_errors, first_error, listening, llama
from spectui.llama.tokens.tokenizer import TextError, tokenize
from spectui.text import one_line, safe

MOST_BYTES = 1 << 20
"""Most bytes of one token."""

_CONTROL = 1 << 3  # llama_token_attr (llama.h)
_INTEGER, _STRING = 0, 3  # llama_model_kv_override_type (llama.h)
_FURTHER_ENDS = "tokenizer.ggml.eos_token_ids"
"""The key of an array of tokens that end a reply, which Ollama writes and llama.cpp does not read."""
_SUPPRESSED = "tokenizer.ggml.suppress_tokens"
"""The key of an array of tokens that a model must never write, such as Gemma 4's marks of pictures."""

_SPLIT_MODES = {"none": 0, "layer": 1, "row": 2, "tensor": 3}


class TooLargeError(ModelFileError):
    """The weights, or the second copy of them that kernels make, do not fit into memory."""


class LoadCancelled(SpectuiError):
    """The user stopped the loading."""


class Model:
    """A target or a draft. Loading takes seconds to minutes; `close` frees the memory."""

    def __init__(
        self,
        path: str,
        role: str = "target",
        *,
        on_devices: Sequence[Device] | None = None,
        gpu_layers: int = -1,
        split_mode: str = "layer",
        main_gpu: int = 0,
        tensor_split: Sequence[float] = (),
        overrides: Sequence[tuple[str, str]] = (),
        extra_buffers: bool = False,
        kernels: Kernels = LLAMA_CPP,
        same_vocabulary: Metadata | None = None,
        progress: Callable[[float], bool] = lambda _: True,
        threads: int = 1,
        simulated: bool = False,
        heads: bool = False,
    ) -> None:
        """Load the file. `progress` is called with 0..1 and returns False to stop the loading.

        `overrides`: (regular expression for tensors' names, name of the buffers that they go into).
        `on_devices`: the GPUs to use, [] for none, None for llama.cpp's choice. `extra_buffers`: with llama.cpp's fast kernels,
        which end the process on some builds (see `selftest`). `kernels`: what multiplies the weights, which
        `threads` repack for it. `same_vocabulary`: the
        metadata of a draft whose tokens are the target's; their texts are not loaded then, which for 150,000 saves half a
        second and 30 MB. `simulated`: allocate nothing, to ask what a context would need; it cannot compute. `heads`: with the
        layers that foresee tokens, where llama.cpp can draft with them. Raises ModelFileError, LoadCancelled, Unusable.
        """
        self.simulated = simulated
        self.kernels = kernels
        self.role = role
        """"target" or "draft"."""
        self._gpu_layers = gpu_layers if on_devices is None or on_devices else 0
        self.path = str(check_file(path, role, textless=True))
        file = metadata_of(path)
        self._ends = frozenset(map(int, file.by_layer.get(_FURTHER_ENDS, ())))
        names = [device.name for device in on_devices or ()] if split_mode == "tensor" else []
        self.tensor_shares = dict(zip(names, tensor_split or [1.0] * len(names), strict=False))
        """Each GPU's share of every tensor; {} where whole layers are divided."""
        params = llama.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        params.split_mode = _SPLIT_MODES[split_mode]
        params.main_gpu = main_gpu
        params.use_extra_bufts = extra_buffers
        self.heads = usable_heads(file) if heads else 0
        """Number of its own heads that can draft."""
        params.load_mtp = self.heads > 0
        if overrides:
            placed = listing.tensor_overrides(overrides)
            params.tensor_buft_overrides = ctypes.cast(placed, ctypes.c_void_p)
        if simulated:
            params.no_alloc = True
        params.load_mode = _load_mode(file.tensors.mappable and not simulated, kernels)
        if on_devices is not None:
            chosen = listing.handles(on_devices)
            params.devices = ctypes.cast(chosen, ctypes.c_void_p)
        self.same_vocabulary = same_vocabulary is not None
        """Its tokens are the target's, and it has no texts of them."""
        if same_vocabulary is not None:
            overrides = _without_texts(same_vocabulary)
            params.kv_overrides = overrides
        if tensor_split:
            most = llama.llama_max_devices()
            shares = (ctypes.c_float * most)(*tensor_split[:most])
            params.tensor_split = shares
        cancelled = False

        @llama.llama_progress_callback  # type: ignore[untyped-decorator]
        def report(done: float, _: object) -> bool:
            nonlocal cancelled
            cancelled = not progress(done)
            return not cancelled

        params.progress_callback = report
        plugin.use_for_next_model(kernels, threads)
        clear_errors()
        log: list[str] = []
        if not simulated:
            watch_file(self.path)
        with listening(log.append):
            self._model = llama.llama_model_load_from_file(os.fsencode(self.path), params)
        if cancelled:
            self.close()
            raise LoadCancelled("Loading was stopped.")
        if not self._model:
            raise _refusal(self.path, role, first_error(), on_gpus=self._gpu_layers != 0)
        tied = 0 if file.architecture == EAGLE3 else file.tensors.tied  # EAGLE-3 uses the target's
        weights = memory_use.logged_weights(log, self.n_bytes, tied, self.tensor_shares)
        self.memory = added((*weights, MemoryUse(memory_use.HOST, kernels.beside)))
        """The bytes of its weights on each device."""
        self.vocab = llama.llama_model_get_vocab(self._model)
        self.n_vocab: int = llama.llama_vocab_n_tokens(self.vocab)
        listed = map(int, file.by_layer.get(_SUPPRESSED, ()))
        self.suppressed = [token for token in listed if 0 <= token < self.n_vocab]
        """Tokens without a probability: contexts give them a logit of -inf."""
        causal = self.metadata(f"{self.metadata('general.architecture')}.attention.causal") != "false"
        writes = llama.llama_model_has_decoder(self._model) and not llama.llama_model_has_encoder(self._model)
        if not (causal and writes) and not self.reads_layers:
            self.close()
            raise ModelFileError(f"The {role} model {self.path!r} {NO_CHAT.format(EMBEDDING)}.")

    @property
    def handle(self) -> object:
        """llama_model *."""
        if not self._model:
            raise RuntimeError("the model is closed")
        return self._model

    @property
    def width(self) -> int:
        """Numbers of a hidden row."""
        return int(llama.llama_model_n_embd_out(self.handle))

    @property
    def reads_layers(self) -> bool:
        """Is it a head that reads the rows of some of its target's layers (EAGLE-3, DFlash)?"""
        return self.metadata("general.architecture") in READ_LAYERS

    @property
    def description(self) -> str:
        """Such as "qwen2 1.5B Q8_0"."""
        buffer = ctypes.create_string_buffer(256)
        llama.llama_model_desc(self.handle, buffer, len(buffer))
        # llama.cpp guesses the size from the number of layers.
        architecture, _, quantisation = buffer.value.decode("utf-8", "replace").split(" ", 2)
        size = one_line(self.metadata("general.size_label") or f"{self.parameters / 1e9:.1f}B")
        return f"{architecture} {size} {quantisation}"

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return int(llama.llama_model_n_params(self.handle))

    @property
    def n_bytes(self) -> int:
        """Size of the weights."""
        return int(llama.llama_model_size(self.handle))

    @property
    def trained_ctx(self) -> int:
        """Context length that the model was trained with, in tokens."""
        return int(llama.llama_model_n_ctx_train(self.handle))

    @property
    def scaled_ctx(self) -> int:
        """The same, or what the file's RoPE scaling extends it to if that is more."""
        prefix = f"{self.metadata('general.architecture')}.rope.scaling"
        original, factor = (self.metadata(f"{prefix}.{key}") for key in ("original_context_length", "factor"))
        return max(self.trained_ctx, int(float(original or 0) * float(factor or 0)))

    @property
    def layers(self) -> int:
        """Layers that can be on GPUs: the model's, and the output."""
        return int(llama.llama_model_n_layer(self.handle)) + 1

    @property
    def on_gpus(self) -> bool:
        """Are some of its layers on GPUs?"""
        return self._gpu_layers != 0 and listing.has_gpus()

    @property
    def output_on_gpu(self) -> bool:
        """Does a GPU compute the logits? The output is the last layer that is put on GPUs."""
        return self.on_gpus and (self._gpu_layers < 0 or self._gpu_layers >= self.layers)

    @property
    def textless(self) -> bool:
        """Are its tokens without texts? Then asking for a text, or tokenising, ends the process."""
        return bool(llama.llama_vocab_type(self.vocab) == 0)

    @property
    def recurrent(self) -> bool:
        """Does its context hold states that cannot be truncated to an earlier token?"""
        return bool(llama.llama_model_is_recurrent(self.handle) or llama.llama_model_is_hybrid(self.handle))

    @property
    def window(self) -> int:
        """Size of its sliding attention window in tokens; 0: it has none."""
        return int(llama.llama_model_n_swa(self.handle))

    def metadata(self, key: str) -> str | None:
        """A value of the GGUF file as text, at most 64 kB of it; None if there is no such key."""
        buffer = ctypes.create_string_buffer(65536)
        if llama.llama_model_meta_val_str(self.handle, key.encode(), buffer, len(buffer)) < 0:
            return None
        return buffer.value.decode("utf-8", "replace")

    @property
    def template(self) -> str | None:
        """Its chat template (Jinja); None if it has none."""
        text = llama.llama_model_chat_template(self.handle, None)
        return text.decode("utf-8", "replace") if text and text.strip() else None  # blanks are none, too

    @property
    def added_bos(self) -> list[int]:
        """The BOS token, where the vocabulary asks to begin every text with it; else nothing."""
        bos = llama.llama_vocab_bos(self.vocab)
        return [bos] if llama.llama_vocab_get_add_bos(self.vocab) and bos >= 0 else []

    def tokenize(self, text: str, *, special: bool, within: bool = False) -> list[int]:
        """The text's tokens, without BOS and EOS. `special`: read names such as <|im_end|> as the tokens they name.

        `within`: it goes on behind other text, so tokenizers such as Llama 2's put no space before it. Raises TextError.
        """
        if within and (lead := self._lead):
            # After a line feed the tokenizer adds no space, and no token merges with the line feed.
            tokens = tokenize(self.vocab, "\n" + text, special=special)
            if tokens[: len(lead)] == lead:
                return tokens[len(lead) :]
        return tokenize(self.vocab, text, special=special)

    @cached_property
    def _lead(self) -> list[int]:
        """The tokens of a line feed, if the tokenizer puts a space before every text: "x" becomes " x"."""
        try:
            spaced = b"".join(map(self.piece, tokenize(self.vocab, "x", special=False))) == b" x"
            return tokenize(self.vocab, "\n", special=False) if spaced else []
        except TextError:
            return []

    def piece(self, token: int) -> bytes:
        """The token's bytes; empty for control tokens. Raises TextError."""
        room = 64
        for _ in range(2):  # the first call may return the size that is needed
            buffer = ctypes.create_string_buffer(room)
            n = llama.llama_token_to_piece(self.vocab, token, buffer, room, 0, False)
            if n >= 0:
                return bytes(buffer.raw[:n])
            room = min(-n, MOST_BYTES)
        raise TextError(f"llama.cpp cannot spell token {token}.")

    def token_text(self, token: int) -> str:
        """The token's text in the vocabulary; "" for the token -1."""
        return "" if token < 0 else (llama.llama_vocab_get_text(self.vocab, token) or b"").decode("utf-8", "replace")

    def control_name(self, token: int) -> str:
        """The name of a control token, such as <|im_end|>, made safe to show; "" for tokens with a text."""
        attributes = llama.llama_vocab_get_attr(self.vocab, token)
        return safe(self.token_text(token)) if attributes & _CONTROL and not self.piece(token) else ""

    @cached_property
    def control_names(self) -> re.Pattern[str]:
        """Matches the names of all control tokens. Takes about 0.1 s for 150,000 tokens."""
        names = filter(None, map(self.control_name, range(self.n_vocab)))
        return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)")

    @property
    def fill_in(self) -> tuple[int, int, int, int] | tuple[()]:
        """The tokens before a prefix, before a suffix, before what lies between, and before another file, -1 for none; () where
        it was not trained for them."""
        prefix, suffix, middle, file = (
            getattr(llama, f"llama_vocab_fim_{name}")(self.vocab) for name in ("pre", "suf", "mid", "sep")
        )
        return (prefix, suffix, middle, file) if min(prefix, suffix, middle) >= 0 else ()

    def is_end(self, token: int) -> bool:
        """Does this token end a reply?"""
        return token in self._ends or bool(llama.llama_vocab_is_eog(self.vocab, token))

    def close(self) -> None:
        """Free the weights. Close the model's contexts first."""
        if self._model:
            llama.llama_model_free(self._model)
            self._model = None
            if not self.simulated:  # the same file may be loaded beside it
                forget_file(self.path)


def _load_mode(mappable: bool, kernels: Kernels) -> int:
    if not mappable:
        return int(llama.LLAMA_LOAD_MODE_NONE)  # llama.cpp asserts that such a file is not mapped
    return int(llama.LLAMA_LOAD_MODE_MMAP if kernels.beside else llama.LLAMA_LOAD_MODE_AUTO)  # auto maps it for no iGPU


def _without_texts(file: Metadata) -> Any:
    """Overrides of the file's keys, so that llama.cpp reads no texts of tokens. An empty one ends the array."""
    overrides = (llama.llama_model_kv_override * 3)()
    overrides[0].key, overrides[0].tag = b"tokenizer.ggml.model", _STRING
    overrides[0].value.val_str = b"none"
    overrides[1].key, overrides[1].tag = f"{file.architecture}.vocab_size".encode()[:127], _INTEGER
    overrides[1].value.val_i64 = file.n_tokens
    return overrides


def _refusal(path: str, role: str, error: str, on_gpus: bool) -> ModelFileError:
    """llama.cpp's error line as a sentence that says what to do."""
    if "allocate" in error or "memory" in error:
        layers = f"lower {'-ngld' if role == 'draft' else '-ngl'}, or " if on_gpus else ""
        advice = unless_limited(f"{layers}choose a smaller quantisation")
        return TooLargeError(f"The {role} model {path!r} does not fit into memory ({error}): {advice}.")
    return ModelFileError(_sentence(path, role, error))


def _sentence(path: str, role: str, error: str) -> str:
    """The same for other errors than missing memory."""
    if any(sign in error for sign in ("not within the file bounds", "failed to read", "corrupt", "exceeds")):
        return f"The {role} model {path!r} {CUT_SHORT}."
    if any(sign in error for sign in ("check_tensor_dims", "wrong number of tensors", "has offset")):
        return f"The {role} model {path!r} does not hold what its header says ({error}): choose another file of this model."
    if "unknown model architecture" in error:
        return f"The {role} model {path!r} is of an architecture that this llama.cpp does not know: update llama-cpp-python."
    if "split buffers" in error or "SPLIT_MODE" in error:
        mode = "-smd" if role == "draft" else "-sm"
        return f"The {role} model {path!r} cannot be divided so ({error}): choose {mode} layer."
    return f"The {role} model {path!r} could not be loaded: {error or 'llama.cpp does not say why'}."
