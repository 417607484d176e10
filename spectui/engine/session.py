"""Load a pair of models and answer conversations, synchronously. `Worker` runs it in a thread of its own."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from spectui.engine import demo
from spectui.engine.events import FREE, Devices, Event, Finished, Loaded, Message, Notice, Terms
from spectui.engine.kept.slots import Slots
from spectui.engine.loading.remarks import beyond_training
from spectui.engine.pair import Pair
from spectui.engine.reply import Reply
from spectui.engine.room import no_room, to_drop
from spectui.errors import DraftError, RefusedError, SpectuiError
from spectui.knobs import Knobs, Setup, json_object, title
from spectui.llama.interrupt import Interrupt
from spectui.speculation.evaluator import Interrupted
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import StopReason

WITHOUT_TEMPLATE = "Texts are continued as they are, without a chat template (--no-template)."

if TYPE_CHECKING:
    from spectui.llama.context import Context
    from spectui.llama.grammar import Grammar


class Session:
    """Call every method in one thread of the process, always the same (otherwise OpenMP halves the speed).

    Drafts that are made ahead, on a device of their own, are computed in another: see `AheadDrafter`.
    """

    def __init__(self, on_event: Callable[[Event], None], interrupt: Interrupt | None = None) -> None:
        """`on_event` is called in that thread, and should return in microseconds. `interrupt` stops a reply within one target
        pass, and loading: any thread may set it."""
        self.knobs = Knobs()
        """Read once per round."""
        self.wants_probabilities = False
        """Not read: what is looked at costs nothing here."""
        self._emit = on_event
        self._interrupt = interrupt or Interrupt()
        self.pair: Pair | None = None
        """The loaded pair; None before the first load and after `close`."""
        self._loaded: Setup | None = None
        self._said: set[str] = set()  # about models that are loaded again and again
        self._asked: tuple[object, list[int]] | None = None  # the last conversation, and its tokens
        self._clock: datetime | None = None  # what templates write while replies are measured
        self._cold = False  # the next reply is measured, and not remembered
        self._slots = Slots(self._say_once)
        self._opening = ""  # the first prompt of the last answered conversation

    def load(self, setup: Setup, before: Setup | None = None) -> Loaded:
        """Load the changed parts. If only the placement changes and loading fails, the old placement is restored. Returns
        what is loaded. Raises SpectuiError; then possibly nothing is loaded. Raises ServerError also if the old one cannot be
        restored on its servers.

        `before`: the set-up that another process had loaded, if this one takes its place.
        """
        from spectui.gguf_files.check import recommended_sampling
        from spectui.llama.devices.listing import list_devices, look_again
        from spectui.llama.devices.rpc import ServerError
        from spectui.llama.model import LoadCancelled

        look_again()
        self._keep_read(setup)
        if self.pair is None:
            self.pair = Pair(self._emit, self._interrupt)
        if setup.model is not None and demo.is_demo(setup):
            demo.make_draft(Path(setup.model), self.pair.progress("making the demo's draft"))
        before, self._loaded = self._loaded or before, None
        try:
            setup = self._load(setup)
        except SpectuiError as error:
            if before is None or not setup.same_models(before) or isinstance(error, LoadCancelled | ServerError):
                raise
            try:
                self.pair.load(before)
            except LoadCancelled:
                raise error from None
            except SpectuiError:
                # Memory that the servers had for `before` is taken, or one of them has gone meanwhile.
                raise (ServerError(str(error)) if before.rpc else error) from None
            self._emit(Notice(f"{error} The models are loaded as before."))
            setup = before
        self._loaded = setup
        loaded = Loaded(setup, self.pair.target_info(), self.pair.draft_info(), list_devices(), self.strategy.costs)
        sampling, others = recommended_sampling(loaded.target.path)
        loaded = loaded._replace(sampling=sampling)
        self._emit(loaded)
        for sentence in filter(None, (beyond_training(loaded.target), beyond_training(loaded.draft, "draft"))):
            self._say_once(sentence)
        if sampling:
            values = ", ".join(f"{title(key)} {value:g}" for key, value in sampling.items())
            self._say_once(f"The model's file recommends {values}: taken where no flag and no setting says otherwise.")
        if others:
            self._say_once(f"The model's file recommends sampling that spectui does not have: {', '.join(others)}.")
        if setup.no_template == "on":
            self._emit(Notice(WITHOUT_TEMPLATE))
        if demo.is_demo(setup):
            self._emit(Notice(demo.NOTICE))
        return loaded

    def _keep_read(self, setup: Setup) -> None:
        """Keep what the contexts hold, which loading may free, as the new set-up wants it."""
        self.rest()
        if self.pair is not None and self.pair.ready:
            self._slots.keep(self.pair)
        self._slots.keep_most(setup.state_memory << 20, setup.keep_read == "on")

    def _load(self, setup: Setup) -> Setup:
        """Load the pair, with the heads in a file beside the target if it names no draft. Returns what is loaded."""
        from spectui.engine.loading.models import with_heads_beside
        from spectui.gguf_files.check import metadata_of
        from spectui.gguf_files.compatibility import damaged_beside
        from spectui.gguf_files.heads import READ_LAYERS, usable_heads

        assert self.pair is not None
        beside = with_heads_beside(setup)
        if beside.draft is None and beside.model is not None and not usable_heads(metadata_of(beside.model)):
            for header in damaged_beside(beside.model):
                self._say_once(f"{Path(header.path).name}, which lies beside the target, does not draft: it {header.problem}.")
        try:
            self.pair.load(beside)
        except DraftError as error:
            if beside == setup:
                raise
            self._emit(Notice(f"{error} The target goes on without these heads."))
            self.pair.load(setup)
            return setup
        if beside != setup:
            self._say_once(
                f"{Path(beside.draft or '').name}, which lies beside the target, drafts: it has its heads "
                f"({READ_LAYERS.get(metadata_of(beside.draft or '').architecture, 'MTP')})."
            )
        return beside

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._emit(Notice(sentence))

    def begin_cold(self) -> None:
        """Empty both contexts and drop what was learned about drafts: the next reply is like the first after loading.

        Templates write the time of the first call from here on, so that settings are measured on the same prompts.
        """
        self._clock = self._clock or datetime.now()
        self._cold = True
        if self.pair is not None and self._loaded is not None:
            self._slots.keep(self.pair)
            self.pair.begin_cold()

    def generate(self, messages: Sequence[Message], terms: Terms = FREE) -> Finished:
        """Answer the conversation. Raises SpectuiError; the rounds until then stay, and the next prompt works."""
        from spectui.llama.devices.listing import list_devices

        pair, since = self.pair_in_use, perf_counter()
        cold, self._cold = self._cold, False
        try:
            prompt, begun = self.prompt(messages, terms)
            grammar = self._grammar(messages, terms, prompt, begun)
        except SpectuiError as error:
            raise RefusedError(str(error)) from error
        tokens = [*prompt, *begun]
        if len(tokens) > pair.context.n_ctx and messages[-1].role != "assistant":  # a reply that goes on ends at once
            needed = to_drop(messages, pair.context.n_ctx, self._count)
            raise no_room(messages, len(tokens), pair.context.n_ctx, needed)
        restored = "" if cold else self._slots.begin(pair, tokens)
        asked = [message.content for message in messages if message.role == "user"]
        if not restored and (len(asked) == 1 or asked[:1] != [self._opening]):
            pair.strategy.begin_conversation()
        self._opening = asked[0] if asked else ""
        self._keep_states(messages, terms, prompt, begun)
        reply = Reply(
            pair, (prompt, begun), self._knobs_of_reply(), self._emit, self._interrupt.is_set, grammar, terms,
            names=self._shows_names, restored=restored,
        )  # fmt: skip
        try:
            reply.write(since)
        except Exception:
            pair.clear_caches()
            raise
        finished = reply.finished(self._to_drop(messages, begun, reply, pair.context.n_ctx))
        if pair.replies is not None and not cold and finished.knobs.drafter != "off":  # as F5 and --verify decode
            pair.replies.add(reply.tokens)
        self._emit(Devices(list_devices()))
        self._emit(finished)
        if any(message.images for message in messages):
            self._say_once("Images go to a server only: this model got the text without them.")
        return finished

    def _grammar(
        self, messages: Sequence[Message], terms: Terms, prompt: Sequence[int], begun: Sequence[int]
    ) -> Grammar | None:
        """What the reply obeys, behind what is written of it. Raises SpectuiError."""
        from spectui.llama.grammar import Grammar

        if not terms.grammar:
            return None
        pair, said = self.pair_in_use, messages[-1].content if messages[-1].role == "assistant" else ""
        grammar = Grammar(pair.target, pair.marks, prompt, terms.grammar, terms.trigger)
        for token in begun or pair.target.tokenize(said, special=False, within=True):
            grammar.accept(token)
        return grammar

    def _knobs_of_reply(self) -> Callable[[], Knobs]:
        """Gives the knobs for the next round. A seed of -1 is one random seed; every other one acts from the next round on."""
        drawn = secrets.randbits(32)
        # One Knobs object for all rounds between two changes, because each round keeps it.
        seeded = cache(lambda knobs: replace(knobs, seed=drawn))

        def now() -> Knobs:
            knobs = self.knobs  # read once, because another thread may set it
            return seeded(knobs) if knobs.seed < 0 else knobs

        return now

    def _to_drop(self, messages: Sequence[Message], begun: Sequence[int], reply: Reply, n_ctx: int) -> int:
        """As in `Finished`."""
        if reply.reason is not StopReason.CONTEXT:
            return 0
        continued = messages[-1].role == "assistant"
        *before, last = messages if continued else (*messages, Message("assistant", ""))
        written = (*begun, *reply.tokens) if begun or not continued else ()
        whole = Message("assistant", last.content + reply.text, written)
        return to_drop((*before, whole), n_ctx, self._count)

    @property
    def pair_in_use(self) -> Pair:
        """The pair, if it is loaded. Raises SpectuiError."""
        if self.pair is None or not self.pair.ready:
            raise SpectuiError("No model is loaded: choose one first.")
        return self.pair

    @property
    def strategy(self) -> Strategy:
        """The loaded pair's strategy: its cost model and what was learned about drafts. Raises SpectuiError without one."""
        return self.pair_in_use.strategy

    def context_and_prompt(self, messages: Sequence[Message]) -> tuple[Context, list[int]]:
        """The target's context and the conversation's tokens, to examine what a pass computes. Raises SpectuiError."""
        prompt, begun = self.prompt(messages)
        return self.pair_in_use.context, prompt + begun

    def prompt(self, messages: Sequence[Message], terms: Terms = FREE) -> tuple[list[int], list[int]]:
        """The prompt for the next reply, and the tokens of one that is continued, if they are known.

        Earlier replies reach the template as what they thought and what they answered.
        """
        from spectui.llama.tokens.chat_template import raw_tokens

        target, template = self.pair_in_use.target, self.pair_in_use.template
        *before, last = messages
        begun = list(last.tokens) if all(0 <= token < target.n_vocab for token in last.tokens) else []
        if self._shows_names:
            names = target.control_names
            before = [
                turn._replace(content=names.sub("", turn.content), thought=names.sub("", turn.thought))
                if turn.role == "assistant"
                else turn
                for turn in before
            ]
        if terms.raw and last.role == "user" and begun:
            return begun, []
        if self._raw or terms.raw:
            read = before if begun else messages
            return raw_tokens(target, [message.whole for message in read]), begun
        turns, written = _turns(before if begun else [*before, last._replace(thought="")], terms)
        # A template may write the time: the same conversation again is the prompt that was answered.
        kwargs = self.knobs.chat_template_kwargs  # read once, because another thread may set it
        asked = (template, kwargs, turns, written, terms.at)
        if self._asked is None or self._asked[0] != asked:
            clock = self._clock if terms.at is None else datetime.fromtimestamp(terms.at)
            template.read_values(json_object(kwargs) or {}, clock)
            self._asked = asked, template.tokens(turns, written)
        return list(self._asked[1]), begun

    def _keep_states(self, messages: Sequence[Message], terms: Terms, prompt: Sequence[int], begun: Sequence[int]) -> None:
        """Have contexts that cannot be truncated to any length keep their states where later prompts may part from this one:
        where the next turn's does, and at its end, which other replies to it begin with."""
        pair = self.pair_in_use
        contexts = [context for context in (pair.context, pair.draft_context) if context is not None and context.forgets]
        lengths = {len(prompt) - 1, len(prompt) + len(begun) - 1}
        if contexts and messages[-1].role != "assistant" and not (self._raw or terms.raw):
            lengths.add(pair.template.lasting(*_turns(messages, terms), prompt))
        for context in contexts:
            context.keep_at = sorted(lengths)

    @property
    def _raw(self) -> bool:
        """Whether texts are continued without a template."""
        return self._loaded is not None and self._loaded.no_template == "on"

    @property
    def _shows_names(self) -> bool:
        """Whether replies show the names of control tokens (--special)."""
        return self._loaded is not None and self._loaded.special == "on"

    def _count(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt of these messages."""
        return sum(map(len, self.prompt(messages)))

    def forget(self) -> None:
        """Drop what was read of conversations, also from the disk."""
        self._slots.clear()
        if self.pair is not None and self.pair.ready:
            self.pair.clear_caches()

    def count(self, text: str) -> int | None:
        """As in `Engine`. Raises SpectuiError."""
        return len(self.pair_in_use.target.tokenize(text, special=False))

    def catch_up(self) -> None:
        """Nothing is asked for: let the draft model read the conversation, so that it drafts from the next reply's start. A
        recurrent one would lose what it has read to the command that interrupts it."""
        draft = self.pair.draft_context if self.pair is not None and self.pair.ready else None
        if self.pair is not None and draft is not None and not draft.forgets:
            with suppress(SpectuiError, Interrupted):  # the next reply says what fails
                self.strategy.catch_up(list(self.pair.context.tokens), self.knobs, self._interrupt.is_set)

    def rest(self, wait: bool = False) -> None:
        """Nothing is asked for: write what the contexts hold to the disk, so that it is not read again after a restart."""
        if self.pair is not None and self.pair.ready:
            self._slots.write(self.pair, wait)

    def close(self) -> None:
        """Free the models."""
        self.rest(wait=True)
        pair, self.pair, self._loaded = self.pair, None, None  # what fails to be closed is not used again
        if pair is not None:
            pair.close()


def _turns(messages: Sequence[Message], terms: Terms) -> tuple[list[tuple[Any, ...]], list[tuple[int, ...]]]:
    """The messages as a template takes them, and the tokens of each as they were written."""
    from spectui.llama.tokens.rendering import TOOLS

    turns: list[tuple[Any, ...]] = [(TOOLS, json.loads(terms.tools))] if terms.tools else []
    for turn in messages:
        others = (json.loads(turn.others),) if turn.others else ()
        turns.append((turn.role, turn.content, turn.thought, *others))
    return turns, [turn.tokens for turn in messages]
