"""Render a chat template, in the way in which it takes a conversation.

Templates differ in what they need, and do not say it: some take a content as a list of parts and skip a text, some have no
system role and leave that message out. So each way is tried once with marked words: all of them must be in the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import product
from typing import Any

from llama_cpp.llama_chat_format import Jinja2ChatFormatter

from spectui.llama.tokens.sandbox import BoundedEnvironment, LimitExceeded

Talk = Sequence[tuple[str, ...]]
"""Messages as (role, content), or (role, content, thinking)."""

_TALK = (("user", "spectuiasks"), ("assistant", "spectuireplies"), ("user", "spectuigoes"))
_SYSTEM = ("system", "spectuiguides")
"""Words that are in no template."""
_TOOLS = ("tools", "tool_choice", "functions", "function_call")
_PARTS = ((), ("user", "assistant"), ("user",), ("assistant",))


@dataclass(frozen=True)
class Ways:
    """How a template takes a conversation."""

    undefined_tools: bool = False
    """Names such as `tools` are undefined, as in llama.cpp; else None, as in transformers, with which models are trained."""
    parts: frozenset[str] = frozenset()
    """The roles whose content is a list of parts, as many templates of models that see pictures want it."""
    folds: bool = False
    """The system prompt becomes the beginning of the first message, as in llama.cpp."""
    blank: str = ""
    """What stands for the answer of a reply that has none: some templates refuse an empty text."""
    loses: bool = False
    """What a person writes is in the prompt in no way."""
    forgets: bool = False
    """Of a second turn, some of the first is not in the prompt."""
    one_turn: bool = False
    """What a person writes in a second turn is not in the prompt."""


class Renderer:
    """A template, compiled once, in a sandbox with limits."""

    def __init__(self, source: str, names: dict[str, Any]) -> None:
        """`names`: what the template may read, beside the messages. Raises what jinja2 raises, or LimitExceeded."""
        self.clock: datetime | None = None
        """The time that it writes; None: the present."""

        def strftime_now(form: str) -> str:
            return (self.clock or datetime.now()).strftime(form)

        self._names = {
            "add_generation_prompt": True,
            "raise_exception": _raise,
            "strftime_now": strftime_now,
            **names,
        }
        self.values: Mapping[str, Any] = {}
        """What else a person lets it read."""
        self._environment = BoundedEnvironment([Jinja2ChatFormatter.IgnoreGenerationTags])
        self._environment.filters["tojson"] = Jinja2ChatFormatter.tojson
        self._template = self._environment.compiled(source)
        try:
            with self._environment.together():
                self.ways = self._found_ways()
        except LimitExceeded:
            self.ways = Ways()  # the first prompt says it

    def rendered(self, talk: Talk) -> str:
        """The prompt for this conversation. Raises what the template raises, or LimitExceeded."""
        return self._in(self.ways, talk)

    def _in(self, ways: Ways, talk: Talk) -> str:
        if ways.folds and len(talk) > 1 and talk[0][0] == "system":
            (_, system), (role, content, *thinking), *rest = talk
            talk = [(role, f"{system}\n{content}", *thinking), *rest]
        talk = [
            (role, content or ways.blank, *rest) if role == "assistant" else (role, content, *rest)
            for role, content, *rest in talk
        ]
        rows = [_row(role in ways.parts, role, *texts) for role, *texts in talk]
        names: dict[str, Any] = {} if ways.undefined_tools else dict.fromkeys(_TOOLS)
        return self._environment.rendered(self._template, **{**names, **self._names, **self.values, "messages": rows})

    def _found_ways(self) -> Ways:
        """The first ways in which all words of a conversation are in the prompt: of two turns, or at least of one."""
        for talk, (roles, undefined) in product((_TALK, _TALK[:1]), product(_PARTS, (False, True))):
            ways = Ways(undefined, frozenset(roles))
            if self._keeps(ways, talk):
                ways = replace(ways, blank=self._blank(ways, talk))
                if talk != _TALK and (text := self._try(ways, _TALK)) is not None:
                    ways = replace(ways, forgets=True, one_turn=_TALK[-1][1] not in text.lower())
                for found in (ways, replace(ways, parts=ways.parts | {"system"})):
                    if all(self._keeps(found, (_SYSTEM, *talk[:length])) for length in (1, len(talk))):
                        return found
                return replace(ways, folds=True)
        ways = Ways(undefined_tools=True)
        texts = [self._try(ways, [("user", word)]) for word in ("spectuiasks", "others")]
        return replace(ways, loses=texts[0] is not None and texts[0] == texts[1])

    def _blank(self, ways: Ways, talk: Talk) -> str:
        """What stands for an answer that is empty."""
        silent = [(role, "" if role == "assistant" else content) for role, content in talk]
        taken = (blank for blank in ("", " ") if self._try(replace(ways, blank=blank), silent) is not None)
        return next(taken, "")

    def _keeps(self, ways: Ways, talk: Talk) -> bool:
        """Are all words of the conversation in the prompt?"""
        text = (self._try(ways, talk) or "").lower()
        # In quotation marks: the list was printed, not read.
        return all(word in text and not (ways.parts and re.search(f"['\"]{word}", text)) for _, word, *_ in talk)

    def _try(self, ways: Ways, talk: Talk) -> str | None:
        """The prompt; None if the template raises an error, but for LimitExceeded."""
        try:
            return self._in(ways, talk)
        except LimitExceeded:
            raise
        except Exception:  # the template is a program from anywhere and may raise anything
            return None


def _row(parts: bool, role: str, content: str, thinking: str = "") -> dict[str, Any]:
    """A message as templates read it. They have three names for what a reply thought."""
    thought = dict.fromkeys(("reasoning_content", "thinking", "reasoning"), thinking) if thinking else {}
    return {"role": role, "content": [{"type": "text", "text": content}] if parts else content, **thought}


def _raise(message: str) -> None:
    raise ValueError(message)
