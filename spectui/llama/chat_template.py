"""From messages to prompt tokens, through the chat template that the GGUF file carries."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.errors import SpectuiError
from spectui.llama.model import Model
from spectui.text import safe

_CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
"""For models without a template, as llama.cpp does."""


class ChatTemplate:
    """A model's template, compiled once, in a sandbox with bounds."""

    def __init__(self, model: Model) -> None:
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        from spectui.llama.library import llama
        from spectui.llama.sandbox import BoundedEnvironment

        self._model = model
        self.from_file = model.template is not None
        self._names = {
            "eos_token": model.token_text(llama.llama_vocab_eos(model.vocab)),
            "bos_token": model.token_text(llama.llama_vocab_bos(model.vocab)),
            "add_generation_prompt": True,
            "raise_exception": _raise,
            "strftime_now": Jinja2ChatFormatter.strftime_now,
            # Asked for by name in many templates, to be found empty.
            **dict.fromkeys(("tools", "tool_choice", "functions", "function_call")),
        }
        try:
            self._environment = BoundedEnvironment([Jinja2ChatFormatter.IgnoreGenerationTags])
            self._environment.filters["tojson"] = Jinja2ChatFormatter.tojson
            self._template = self._environment.compiled(model.template or _CHATML)
        except Exception as error:  # the template is somebody's program: whatever it raises is its own fault
            raise SpectuiError(f"The model's chat template cannot be read: {_words(error)}.") from error

    def text(self, messages: Sequence[tuple[str, str]]) -> str:
        """The prompt for these (role, content) messages, ending where the reply begins, or goes on: a last message of the
        assistant is a reply that was stopped. Raises SpectuiError."""
        if messages and messages[-1][0] == "assistant":
            return self.text(messages[:-1]) + messages[-1][1]
        rows = [{"role": role, "content": content} for role, content in messages]
        try:
            return self._environment.rendered(self._template, messages=rows, **self._names)
        except Exception as error:  # as above
            raise SpectuiError(
                f"The model's chat template does not take this conversation: {_words(error)}."
            ) from error

    def tokens(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """The same prompt in the model's tokens: at least one. Raises SpectuiError."""
        tokens = self._model.tokenize(self.text(messages), special=True)
        if not tokens:
            raise SpectuiError(
                "The model's chat template makes nothing of this conversation, so there is nothing to answer."
            )
        return tokens


def _raise(message: str) -> None:
    raise ValueError(message)


def _words(error: Exception) -> str:
    """What it says, on one line; a template can raise words of its own, so what a terminal would act on is left out."""
    return " ".join(safe(str(error)).split()).rstrip(".") or type(error).__name__
