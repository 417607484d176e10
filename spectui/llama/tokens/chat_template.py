"""Turn messages into prompt tokens with the chat template of the GGUF file."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.errors import SpectuiError
from spectui.llama.model import Model
from spectui.text import safe

_CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
"""For models without a template, as in llama.cpp."""


class ChatTemplate:
    """A model's template, compiled once, in a sandbox with limits."""

    def __init__(self, model: Model) -> None:
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        from spectui.llama.library import llama
        from spectui.llama.tokens.sandbox import BoundedEnvironment

        self._model = model
        self.from_file = model.template is not None
        self._bos = model.token_text(llama.llama_vocab_bos(model.vocab))
        self._names = {
            "eos_token": model.token_text(llama.llama_vocab_eos(model.vocab)),
            "bos_token": self._bos,
            "add_generation_prompt": True,
            "raise_exception": _raise,
            "strftime_now": Jinja2ChatFormatter.strftime_now,
            # Many templates read these names and expect them to be empty.
            **dict.fromkeys(("tools", "tool_choice", "functions", "function_call")),
        }
        try:
            self._environment = BoundedEnvironment([Jinja2ChatFormatter.IgnoreGenerationTags])
            self._environment.filters["tojson"] = Jinja2ChatFormatter.tojson
            self._template = self._environment.compiled(model.template or _CHATML)
        except Exception as error:  # the template is a program from anywhere and may raise anything
            raise SpectuiError(f"The model's chat template cannot be read: {_one_line(error)}.") from error

    def with_thinking(self, thought: str, answer: str) -> str:
        """A conversation with a reply that thought this; "" if the template does not take it."""
        try:
            return self._rendered([("user", "?"), ("assistant", answer, thought)])
        except SpectuiError:
            return ""

    def text(self, messages: Sequence[tuple[str, ...]]) -> str:
        """The prompt for these messages, (role, content) or (role, content, thinking), without the BOS of the vocabulary.

        It ends where the reply begins. A last message of the assistant is a reply that was stopped: the prompt ends with it.
        Raises SpectuiError.
        """
        if messages and messages[-1][0] == "assistant":
            return self.text(messages[:-1]) + messages[-1][1]
        return self._rendered(messages)

    def _rendered(self, messages: Sequence[tuple[str, ...]]) -> str:
        rows = [_row(*message) for message in messages]
        try:
            text = self._environment.rendered(self._template, messages=rows, **self._names)
        except Exception as error:  # as above
            raise SpectuiError(
                f"The model's chat template does not take this conversation: {_one_line(error)}."
            ) from error

        # As in llama-server: whether a prompt begins with BOS is the vocabulary's decision, not the template's.
        return text.removeprefix(self._bos) if self._model.added_bos else text

    def tokens(self, messages: Sequence[tuple[str, ...]]) -> list[int]:
        """The same prompt in the model's tokens, with BOS: at least one. Raises SpectuiError.

        Unlike llama-server, this never adds an EOS token: the reply continues where the prompt ends.
        """
        tokens = self._model.tokenize(self.text(messages), special=True)
        if not tokens:
            raise SpectuiError(
                "The model's chat template makes nothing of this conversation, so there is nothing to answer."
            )
        return [*self._model.added_bos, *tokens]


def _row(role: str, content: str, thinking: str = "") -> dict[str, str]:
    """A message as templates read it. They have three names for what a reply thought."""
    thought = dict.fromkeys(("reasoning_content", "thinking", "reasoning"), thinking) if thinking else {}
    return {"role": role, "content": content, **thought}


def _raise(message: str) -> None:
    raise ValueError(message)


def _one_line(error: Exception) -> str:
    """The error's text on one line. A template can raise any text, so control characters are left out."""
    return " ".join(safe(str(error)).split()).rstrip(".") or type(error).__name__
