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

    def text(self, messages: Sequence[tuple[str, str]]) -> str:
        """The prompt for these (role, content) messages, without the BOS that the vocabulary adds.

        It ends where the reply begins. A last message of the assistant is a reply that was stopped: the prompt ends with it.
        Raises SpectuiError.
        """
        if messages and messages[-1][0] == "assistant":
            return self.text(messages[:-1]) + messages[-1][1]
        rows = [{"role": role, "content": content} for role, content in messages]
        try:
            text = self._environment.rendered(self._template, messages=rows, **self._names)
        except Exception as error:  # as above
            raise SpectuiError(
                f"The model's chat template does not take this conversation: {_one_line(error)}."
            ) from error

        # As in llama-server: whether a prompt begins with BOS is the vocabulary's decision, not the template's.
        return text.removeprefix(self._bos) if self._model.added_bos else text

    def tokens(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """The same prompt in the model's tokens, with BOS: at least one. Raises SpectuiError.

        Unlike llama-server, this never adds an EOS token: the reply continues where the prompt ends.
        """
        tokens = self._model.tokenize(self.text(messages), special=True)
        if not tokens:
            raise SpectuiError(
                "The model's chat template makes nothing of this conversation, so there is nothing to answer."
            )
        return [*self._model.added_bos, *tokens]


def _raise(message: str) -> None:
    raise ValueError(message)


def _one_line(error: Exception) -> str:
    """The error's text on one line. A template can raise any text, so control characters are left out."""
    return " ".join(safe(str(error)).split()).rstrip(".") or type(error).__name__
