"""Turn messages into prompt tokens with the chat template of the GGUF file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import accumulate
from typing import Any

from minijinja import TemplateError

from spectui.errors import SpectuiError
from spectui.llama.library import llama
from spectui.llama.model import Model
from spectui.llama.tokens.rendering import TOOLS, Renderer, Talk
from spectui.llama.tokens.special import SpecialTokens, shown
from spectui.speculation.evaluator import common_prefix
from spectui.text import safe
from spectui.thinking import OPEN, opens_at_end

_CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
"""For models without a template, as in llama.cpp."""

Written = Sequence[Sequence[int]]
"""For each message of a prompt: its tokens, if they are known."""

_NEXT_TURN = (("assistant", "?"), ("user", "?"))

FOLDED = "The model's chat template has no system role: the system prompt is put before your first message."
FORGETS = "The model's chat template leaves out a part of what was said: begin a new conversation, or choose another model."


class ChatTemplate:
    """A model's template and its special tokens."""

    def __init__(self, model: Model, notice: Callable[[str], None] = lambda text: None) -> None:
        """`notice` is called once with a sentence if the model reads a conversation in another form than it was written."""
        self._model = model
        self._notice = notice
        self._said: set[str] = set()
        self.from_file = model.template is not None
        source = model.template or _CHATML
        self._bos = model.token_text(llama.llama_vocab_bos(model.vocab))
        names = {"bos_token": self._bos, "eos_token": model.token_text(llama.llama_vocab_eos(model.vocab))}
        try:
            self._renderer = Renderer(source, names)
        except Exception as error:  # the template is a program from anywhere and may raise anything
            raise SpectuiError(f"The model's chat template cannot be read: {_one_line(error)}.") from error
        self._special = SpecialTokens(model, source)
        self._spelled = cache(lambda token: model.piece(token) or model.token_text(token).encode())

    def read_values(self, values: Mapping[str, Any], clock: datetime | None = None) -> None:
        """Let it read these, by name, in the prompts from now on, and this time; None: the present."""
        self._renderer.values, self._renderer.clock = values, clock

    def thinks(self) -> bool | None:
        """Whether it has the model think where nothing is said of `enable_thinking`; None if it does not read that."""
        before, prompts = self._renderer.values, []
        try:
            for values in ({}, {"enable_thinking": True}, {"enable_thinking": False}):
                self.read_values(values)
                prompts.append(self._rendered([("user", "?")]))
        except SpectuiError:
            return None
        finally:
            self.read_values(before)
        usual, on, off = prompts
        return None if on == off else usual == on

    def text(self, messages: Talk) -> str:
        """The prompt for these messages, (role, content) or (role, content, thinking), without the BOS of the vocabulary.

        It ends where the reply begins. A last message of the assistant is a reply that was stopped: the prompt ends with it.
        Raises SpectuiError.
        """
        return shown(*self._prompt(messages))

    def tokens(self, messages: Talk, written: Written = ()) -> list[int]:
        """The same prompt in the model's tokens, with BOS: at least one. Raises SpectuiError.

        Unlike llama-server, this adds no EOS token, as the reply continues where the prompt ends; and names of control tokens
        in the messages are text. `written`: for each message its tokens as the model wrote them, where they are known. The
        tokenizer may cut their text otherwise, and what is in the cells would be read again.
        """
        tokens = self._as_written(self._special.tokens(*self._prompt(messages)), messages, written)
        if not tokens:
            raise SpectuiError("The model's chat template makes nothing of this conversation, so there is nothing to answer.")
        return [*self._model.added_bos, *tokens]

    def lasting(self, messages: Talk, written: Written, tokens: Sequence[int]) -> int:
        """How many of a prompt's tokens the next turn's prompt begins with too: a template may drop what it opens a reply with,
        and what that thinks. Raises SpectuiError."""
        later = self._special.tokens(*self._rendered_hidden([*messages, *_NEXT_TURN], in_replies=False))
        return common_prefix(tokens, [*self._model.added_bos, *self._as_written(later, messages, written)])

    def _as_written(self, tokens: list[int], messages: Talk, written: Written) -> list[int]:
        """The prompt's tokens, with those that the model wrote for the same texts."""
        if not any(written):
            return tokens
        pieces = [self._spelled(token) for token in tokens]
        text, cuts = b"".join(pieces), list(accumulate(map(len, pieces), initial=0))
        out: list[int] = []
        taken = end = 0
        texts = [content for role, content, *_ in messages if role != TOOLS]
        for content, own in zip(texts, written, strict=False):
            said = content.strip().encode()
            if (begin := text.find(said, end)) < 0:
                continue
            end = begin + len(said)
            spelled = own if said and all(0 <= token < self._model.n_vocab for token in own) else ()
            pieces = [self._model.piece(token) for token in spelled]
            if (before := b"".join(pieces).rfind(said)) < 0:  # it was edited, or another model wrote it
                continue
            own_cuts = list(accumulate(map(len, pieces), initial=begin - before))
            # Between the first and the last place where both are cut; what the template writes may merge with the rest.
            both = sorted({*own_cuts}.intersection(cuts[bisect_left(cuts, begin) : bisect_right(cuts, end)]))
            if not both:
                continue
            start, stop = bisect_right(own_cuts, both[0]) - 1, bisect_left(own_cuts, both[-1])
            if all(pieces[start:stop]):  # a control token in the middle has no place in the text
                out += [*tokens[taken : bisect_left(cuts, both[0])], *own[start:stop]]
                taken = bisect_left(cuts, both[-1])
        return out + tokens[taken:]

    def _prompt(self, messages: Talk) -> tuple[str, Mapping[str, str]]:
        """The prompt with stand-ins, and what they stand for: see `SpecialTokens.hidden`."""
        text, stand_ins = self._rendered_hidden(messages, in_replies=False)
        if self._renderer.dialect.drops_user_text:
            raise SpectuiError(
                "The model's chat template leaves out what you write: choose another model, or another file of this one."
            )
        dialect = self._renderer.dialect
        later = sum(role == "user" for role, *_ in messages) > 1
        self._say(FOLDED, dialect.system_in_first_message and any(role == "system" for role, *_ in messages))
        self._say(FORGETS, dialect.forgets and later)
        return text, stand_ins

    def _say(self, sentence: str, holds: bool) -> None:
        """Tell it once, where it holds."""
        if holds and sentence not in self._said:
            self._said.add(sentence)
            self._notice(sentence)

    def _rendered_hidden(self, messages: Talk, in_replies: bool) -> tuple[str, Mapping[str, str]]:
        hidden, stand_ins = self._special.hidden(messages, in_replies)
        continues = bool(hidden) and hidden[-1][0] == "assistant"
        begun = hidden[-1][1] if continues else ""
        try:
            prompt = self._rendered(hidden[:-1] if continues else hidden)
            if opens_at_end(prompt) is not None:  # the mark that the reply begins with is this one
                begun = begun.removeprefix(f"{OPEN}\n")
            return prompt + begun, stand_ins
        except SpectuiError:
            # A template may refuse its own marks in a reply, which then are words about them, or another model's.
            if in_replies or self._special.hidden(messages, in_replies=True)[0] == hidden:
                raise
            return self._rendered_hidden(messages, in_replies=True)

    def _rendered(self, messages: Talk) -> str:
        try:
            text = self._renderer.rendered(messages)
        except Exception as error:  # as above
            raise SpectuiError(f"The model's chat template does not take this conversation: {_one_line(error)}.") from error

        # As in llama-server: whether a prompt begins with BOS is the vocabulary's decision, not the template's.
        return text.removeprefix(self._bos) if self._model.added_bos else text


def raw_tokens(model: Model, texts: Iterable[str]) -> list[int]:
    """A prompt without a chat template, for base models: the texts one after the other, as llama.cpp's -no-cnv reads them.

    The tokens, with the BOS that the vocabulary adds, are at least one. Raises SpectuiError.

    Names of control tokens are those tokens here: without a template a person writes the marks that a model was trained with.
    """
    text = "".join(texts)
    if model.added_bos:
        text = text.removeprefix(model.token_text(llama.llama_vocab_bos(model.vocab)))
    tokens = [*model.added_bos, *model.tokenize(text, special=True)]
    if not tokens:
        raise SpectuiError("There is no text to continue: write one.")
    return tokens


def _one_line(error: Exception) -> str:
    """The error's text on one line, without minijinja's excerpt of the template.

    A template can raise any text, so control characters are left out.
    """
    text = error.message if isinstance(error, TemplateError) else str(error)
    return " ".join(safe(text).split()).rstrip(".") or type(error).__name__
