"""The loaded target and draft. A new set-up loads only what has changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui.engine.costs.files import DraftCosts, Key, TargetCosts, cost_model, forget
from spectui.engine.costs.measuring import draft_costs, target_costs
from spectui.engine.events import Event, Loading, ModelInfo, Notice, ThreadsInUse
from spectui.engine.kept.replies import Replies
from spectui.engine.loading import draft_copy, kernel_choice, models, placement, remarks
from spectui.engine.loading.placement import AutomaticPlacement, Placed, Resolved, resolve
from spectui.engine.thread_count import ThreadCount
from spectui.errors import DraftError, SpectuiError, UsageError
from spectui.gguf_files.check import ModelFileError, check_file, same_file, same_vocabulary
from spectui.kernels.plugin import LLAMA_CPP
from spectui.knobs import Setup
from spectui.llama import selftest
from spectui.llama.context import Context
from spectui.llama.cpu.cores import allowed_cpus
from spectui.llama.devices import rpc
from spectui.llama.devices.records import MemoryUse
from spectui.llama.heads.context import Heads
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import use_numa
from spectui.llama.model import LoadCancelled, Model
from spectui.llama.tokens.chat_template import ChatTemplate
from spectui.llama.tokens.reply_text import ReplyMarks
from spectui.speculation.drafters.ahead import AheadDrafter
from spectui.speculation.drafters.model import DraftModel, ModelDrafter
from spectui.speculation.evaluator import Interrupted
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy

_MANY = 64
"""Tokens of a pass that takes so long that the cores are looked at first: a tenth of a second or more where there are few."""


class Pair:
    """Target, draft, their contexts and the chat template. What belongs to the target is there from the first `load` on; it may
    be used while the pair is `ready`."""

    target: Model
    context: Context
    """The target's."""
    template: ChatTemplate
    marks: ReplyMarks
    strategy: Strategy
    _resolved: Resolved
    """The set-up, with its automatic choices made."""
    _keys: tuple[Key, Key]
    """What the costs of the target and of the draft depend on."""
    _costs: CostModel
    """What passes cost, as they were measured."""
    _longest: int | None
    """Most tokens that --strict drafts; None without it."""

    def __init__(self, emit: Callable[[Event], None], interrupt: Interrupt) -> None:
        self._emit = emit
        self._interrupt = interrupt
        self._loaded: dict[str, tuple[Any, ...]] = {}  # what is loaded -> what it depends on
        self.ready = False
        """Whether a target, and what the set-up names beside it, is loaded."""
        self.draft: Model | None = None
        self.draft_context: Context | None = None
        self.drafter: DraftModel | None = None
        self._translated = False  # True: the draft has another vocabulary
        self._automatic = AutomaticPlacement(emit)
        self._own_kernels = LLAMA_CPP  # spectui's, where they are available
        self._refused_kernels: set[str] = set()  # why they were not used, as far as it was said
        self.remarks: dict[str, str] = {}
        """"target" and "draft" -> what loading found, in words."""
        self.replies: Replies | None = None
        """Past replies, if they are remembered."""
        self._threads: ThreadCount | None = None
        self.state_keys = "", ""
        """What the cells of target and draft depend on beside their tokens, as digests: see `slots`."""

    def load(self, setup: Setup) -> None:
        """Load what the set-up asks for. Raises SpectuiError; DraftError if the target alone would load."""
        if setup.model is None:
            raise UsageError("No target model is named.")
        setup.checked()
        check_file(setup.model, "target")
        if setup.draft is not None:
            try:
                check_file(setup.draft, "draft")
            except ModelFileError as error:
                raise DraftError(str(error)) from error
        rpc.add_servers(setup.rpc)
        use_numa(setup.numa)
        if not self._loaded:
            self._emit(Loading("self-test", 0.0))
        tested = selftest.run()
        chosen = self._automatic.place(kernel_choice.without_crashes(setup, tested), self._memory())
        self._own_kernels = kernel_choice.available(replace(chosen, no_repack=setup.no_repack), tested)
        resolved = self._resolved = resolve(chosen)
        if not tested.extra_buffers and not self._own_kernels.set and not self._loaded:
            self._emit(Notice(remarks.FAST_KERNELS_CRASH))
        self.ready = False
        self._make_room(resolved)
        self._load_target(resolved)
        if resolved.draft is not None:
            self._load_draft(resolved, resolved.draft)
        else:
            self._use_own_heads(resolved)
        rpc.reset_when_closed()
        self._measure_costs(resolved)
        self._choose_threads(resolved)
        target = replace(resolved.target, kernels=self.target.kernels).state_key
        self.state_keys = _digest(target), _digest((target, resolved.draft_key))
        self.ready = True

    def adapt_threads(self, tokens: int = 1) -> None:
        """Use as many threads as other processes leave cores. Call it between two passes. `tokens`: of the next one."""
        if self._threads is None:
            return
        if self._threads.update_for_many() if tokens >= _MANY else self._threads.update():
            self._use_threads(self._threads)
            self._emit(ThreadsInUse(self._threads.now, self._threads.most))

    def _choose_threads(self, resolved: Resolved) -> None:
        """Let the number of threads follow the load of the cores, unless a person named it or the text depends on it."""
        if resolved.setup.threads > 0 or self._rounds_by_threads(resolved):
            if self._threads is not None:
                self._emit(ThreadsInUse(self._threads.most, self._threads.most))
            self._threads = None
            return
        self._threads = self._threads or ThreadCount(lambda: placement.threads(0), len(allowed_cpus()))
        self._use_threads(self._threads)

    def _rounds_by_threads(self, resolved: Resolved) -> bool:
        return resolved.target.rounds_by_threads and not self.target.output_on_gpu  # the last of it to go there

    def _use_threads(self, count: ThreadCount) -> None:
        """Set the number of threads, also of contexts that were created with more."""
        self.context.use_threads(count.now)
        named = isinstance(self.drafter, AheadDrafter) or self._resolved.setup.threads_draft > 0
        if self.draft_context is not None and not named:
            self.draft_context.use_threads(count.now)

    def _measure_costs(self, resolved: Resolved) -> None:
        """Measure the costs of passes, say what they tell, and begin to learn from them."""
        setup, strict = resolved.setup, resolved.setup.strict == "on"
        target, draft = TargetCosts(), DraftCosts()
        self._keys = self._costs_keys(resolved)
        found_out = [remarks.SAME_THREADS] if self._rounds_by_threads(resolved) else []
        if strict or setup.no_profile == "off":
            target, draft = self._measure(setup)
            found_out.append(remarks.rounds_alike(target, strict))
            self._say(remarks.strictly_plain(target) if strict else remarks.rounds_differently(target))
        if self.draft is not None:
            same, size = same_file(setup.model or "", setup.draft or ""), self.draft.n_bytes / self.target.n_bytes
            self._say(remarks.no_cheaper(target, draft, same, size))
        self.remarks["target"] = "; ".join(filter(None, found_out))
        max_drafted = self.draft_context.max_drafted if self.draft_context is not None else None
        self._costs = cost_model(target, draft, max_drafted)
        self._longest = target.strict_up_to - 1 if strict else None
        self.replies = Replies(Path(self.target.path), self.target.n_vocab) if setup.remember == "on" else None
        self._begin_strategy()

    def _begin_strategy(self) -> None:
        """A strategy that has learned nothing from rounds yet."""
        self.strategy = Strategy(self.drafter, self._costs, self.replies.automaton if self.replies is not None else None)
        if self._longest is not None:
            self.strategy.longest = self._longest

    def _costs_keys(self, resolved: Resolved) -> tuple[Key, Key]:
        """What the costs of the target depend on, and those of what drafts."""
        target: Key = replace(resolved.target, kernels=self.target.kernels).costs_key()
        if self.draft is not None and resolved.draft is not None:
            draft = replace(resolved.draft, path=self.draft.path, kernels=self.draft.kernels)
            return target, draft.costs_key(isinstance(self.drafter, AheadDrafter))
        heads = self.draft_context is not None
        return target, (*target, self._own_heads(resolved).context_key) if heads else ()

    def begin_cold(self) -> None:
        """Empty both contexts and forget what was learned about drafts, as after loading."""
        self.clear_caches()
        self._begin_strategy()

    def measure_again(self) -> None:
        """Measure the costs of passes anew, in place of those that are stored. Nothing may be in the contexts."""
        self.forget_costs()
        self._measure_costs(self._resolved)

    def forget_costs(self) -> None:
        """Delete what is stored of the costs of passes."""
        forget(*self._keys)

    def _measure(self, setup: Setup) -> tuple[TargetCosts, DraftCosts]:
        """What passes take: as it is stored, or as it is measured now. Raises LoadCancelled."""
        target_key, draft_key = self._keys
        stopped, target, draft = self._interrupt.is_set, self.context, self.draft_context
        others = ThreadCount(lambda: placement.threads(setup.threads), len(allowed_cpus()))

        def disturbed(context: Context) -> bool:
            others.update()
            return others.reduced and not context.asynchronous

        try:
            strict = setup.strict == "on"
            costs = target_costs(target, target_key, self.progress("costs"), stopped, strict, lambda: disturbed(target))
            if draft is None:
                return costs, DraftCosts()
            return costs, draft_costs(draft, draft_key, stopped, lambda: disturbed(draft))
        except Interrupted:
            raise LoadCancelled("Loading was stopped.") from None

    def _say(self, sentence: str) -> None:
        if sentence:
            self._emit(Notice(sentence))

    def _make_room(self, resolved: Resolved) -> None:
        """Free what the set-up does not use before loading anything: both may not fit into memory."""
        if self._loaded.get("target") != resolved.target_key:
            self.close()
        elif resolved.draft is None or self._loaded.get("draft") != resolved.draft_key:
            self._close_draft()

    def _load_target(self, resolved: Resolved) -> None:
        if "target" not in self._loaded:
            placed = self._with_kernels(resolved.target, resolved.setup.ctx_size)
            self.target = models.load(placed, placed, self._loading("target", placed.path))
            try:
                self.template = ChatTemplate(self.target, lambda text: self._emit(Notice(text)))
                self.marks = ReplyMarks(self.target)
            except SpectuiError:
                self.target.close()
                raise
            self._loaded["target"] = resolved.target_key
            if not self.template.from_file and resolved.setup.no_template == "off":
                self._emit(Notice(remarks.CHATML_IS_USED))
        key = (*resolved.target.context_key, models.rows_for_heads(resolved.setup, self.target))
        if self._loaded.get("context") != key:
            self._close_context()
            self.context = models.target_context(resolved.target, self.target, self._interrupt)
            self._loaded["context"] = key

    def _with_kernels(self, placed: Placed, n_ctx: int) -> Placed:
        """The model, which is loaded next, with its kernels.

        Says once why they are not spectui's, if those are wanted by name or crash.
        """
        kernels = kernel_choice.for_model(placed, self._own_kernels, n_ctx)
        wanted = placed.setup.kernels == "spectui" or kernels.why == kernel_choice.CRASH
        if wanted and not kernels.set and kernels.why not in self._refused_kernels:
            self._refused_kernels.add(kernels.why)
            self._emit(Notice(f"spectui's kernels are not used here: {kernels.why}."))
        return replace(placed, kernels=kernels)

    def _own_heads(self, resolved: Resolved) -> Placed:
        """The target's own heads."""
        heads = placement.place_draft(resolved.setup, self.target.path, resolved.target)
        return replace(heads, kernels=self.target.kernels)

    def _use_own_heads(self, resolved: Resolved) -> None:
        """Let the target draft with its own heads, if it has some."""
        if self.context.hidden is None:
            return
        try:
            self._make_heads(self._own_heads(resolved), self.target)
        except SpectuiError as error:
            self._emit(Notice(f"The model's own heads cannot draft: {error}"))

    def _make_heads(self, placed: Placed, model: Model) -> None:
        """The context of the heads, the target's own or those of the draft's file, beside a new context of the target."""
        if self.context.hidden is None or self.draft_context is not None:
            return
        heads = models.heads_context(placed, model, self.context, self._interrupt)
        self.draft_context, self.drafter = heads, ModelDrafter(heads, self.target.n_vocab, source=heads.source)

    def _close_context(self) -> None:
        """Free the target's context, and before it that of heads, which read it."""
        if isinstance(self.draft_context, Heads):
            self.draft_context.close()
            self.draft_context = self.drafter = None
        if self._loaded.pop("context", None) is not None:
            self.context.close()

    def _load_draft(self, resolved: Resolved, placed: Placed) -> None:
        try:
            if placed.heads and (problem := models.heads_problem(placed.path, self.target)):
                raise DraftError(problem)
            self.draft = self.draft or self._draft_or_copy(resolved, placed)
            loaded = replace(placed, path=self.draft.path, kernels=self.draft.kernels)
            self._make_heads(loaded, self.draft)  # if it is a file of heads
            if self.draft_context is not None:
                self._loaded["draft"] = resolved.draft_key
                return
            ahead = resolved.drafts_ahead(self.target.layers, self.draft.layers)
            if resolved.setup.async_draft == "on" and not ahead:
                self._emit(Notice(remarks.NOT_AHEAD))
            self.draft_context = models.draft_context(loaded, self.draft, self._interrupt, self.context.n_ctx, ahead)
            self.drafter, sentence = models.drafter_for(self.target, self.draft, self.draft_context)
            if ahead:
                self.drafter = AheadDrafter(self.drafter)
            self._translated = bool(sentence)
            self.remarks["draft"] = sentence or draft_copy.remark(placed.path, self.draft.path)
            self._say(sentence)
            self._loaded["draft"] = resolved.draft_key
        except SpectuiError as error:
            self._close_draft()
            if isinstance(error, LoadCancelled | UsageError):
                raise
            raise DraftError(str(error)) from error

    def _draft_or_copy(self, resolved: Resolved, placed: Placed) -> Model:

        def load(path: str) -> Model:
            metadata = same_vocabulary(self.target.path, path)
            n_ctx = placed.setup.ctx_size_draft or self.context.n_ctx
            chosen = self._with_kernels(replace(placed, path=path), n_ctx)
            return models.load(chosen, resolved.target, self._loading("draft", path), metadata=metadata)

        if placed.heads or resolved.setup.requantise_draft == "off" or not placed.on_cpu:
            return load(placed.path)
        return draft_copy.load_best(
            placed.path, self.target, load, self.progress("draft copy"), lambda text: self._emit(Notice(text))
        )

    def progress(self, what: str, size: int = 0) -> Callable[[float], None]:
        """A function that takes 0..1 and emits a Loading event for each new percent."""
        last = -1

        def report(done: float) -> None:
            nonlocal last
            if int(done * 100) > last:
                last = int(done * 100)
                self._emit(Loading(what, done, size))

        return report

    def _loading(self, what: str, path: str) -> Callable[[float], bool]:
        report = self.progress(what, os.path.getsize(os.path.expanduser(path)))

        def go_on(done: float) -> bool:
            report(done)
            return not self._interrupt.is_set()

        return go_on

    def target_info(self) -> ModelInfo:
        """Facts about the target."""
        info = models.info(self.target, self.context, self.remarks.get("target", ""))
        return info._replace(thinks=self.template.thinks())

    def draft_info(self) -> ModelInfo | None:
        """Facts about the draft; None without one."""
        if self.draft_context is None:
            return None
        if self.draft is None:
            return models.heads_info(self.target, self.draft_context)
        info = models.info(self.draft, self.draft_context, self.remarks.get("draft", ""))
        # The path of the set-up, not of the draft copy.
        return info._replace(path=self._loaded["draft"][0], translated=self._translated)

    def _memory(self) -> list[MemoryUse]:
        """Memory of the loaded models on each device."""
        contexts = [self.context] if "context" in self._loaded else []
        return [use for context in (*contexts, self.draft_context) if context is not None for use in context.memory]

    def clear_caches(self) -> None:
        """Empty both contexts after a failure, which their content may have caused."""
        if isinstance(self.drafter, AheadDrafter):
            self.drafter.drop()
        self.context.clear()
        if self.draft_context is not None:
            self.draft_context.clear()

    def close(self) -> None:
        """Free everything."""
        self._close_draft()
        self._close_context()
        if "target" in self._loaded:
            self.target.close()
        self._loaded.clear()

    def _close_draft(self) -> None:
        if isinstance(self.drafter, AheadDrafter):
            self.drafter.close()
        if self.draft_context is not None:
            self.draft_context.close()
        if self.draft is not None:
            self.draft.close()
        self.draft = self.draft_context = self.drafter = None
        self._loaded.pop("draft", None)


def _digest(key: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(key).encode(errors="surrogateescape")).hexdigest()[:16]
