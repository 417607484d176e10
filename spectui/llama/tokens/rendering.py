"""Render a chat template, in the way in which it takes a conversation.

A template is a program that comes with a file from anywhere. minijinja lets it read nothing but what it is given, and ends it
when its fuel, which counts steps and characters, is used up.

Templates differ in what they need, and do not say it: some take a content as a list of parts and skip a text, some have no
system role and leave that message out. So each way is tried once with marked words: all of them must be in the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import product
from typing import Any

from minijinja import Environment

Talk = Sequence[tuple[Any, ...]]
"""Messages as (role, content), (role, content, thinking) or (role, content, thinking, other fields). Before them may stand
("tools", list): what the template offers."""

_TALK = (("user", "spectuiasks"), ("assistant", "spectuireplies"), ("user", "spectuigoes"))
_SYSTEM = ("system", "spectuiguides")
"""Words that are in no template."""
_TOOLS = ("tools", "tool_choice", "functions", "function_call")
TOOLS = "tools"
"""In place of the role, for what the template offers."""
_PARTS = ((), ("user", "assistant"), ("user",), ("assistant",))

MOST_SOURCE = 100_000
"""Characters of a template: four times the longest real ones."""
FUEL = 1_000_000
"""What a short conversation may use. Real templates use a tenth of it."""
_FUEL_PER_CHARACTER = 16
"""What a character of a message adds. Real templates use up to 2."""
_FUEL_PER_PAIR = 16
"""What each pair of messages adds: Gemma 4's template looks back from each message, and uses 8."""

_GENERATION = re.compile(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")
"""A tag of transformers around what training learns."""


@dataclass(frozen=True)
class TemplateDialect:
    """How a template takes a conversation."""

    undefined_tools: bool = False
    """Names such as `tools` are undefined, as in llama.cpp; else None, as in transformers, with which models are trained."""
    parts: frozenset[str] = frozenset()
    """The roles whose content is a list of parts, as many templates of models that see pictures want it."""
    system_in_first_message: bool = False
    """The system prompt becomes the beginning of the first message, as in llama.cpp."""
    blank: str = ""
    """What stands for the answer of a reply that has none: some templates refuse an empty text."""
    drops_user_text: bool = False
    """What a person writes is in the prompt in no way."""
    forgets: bool = False
    """Of a conversation of two turns, some is not in the prompt."""


class Renderer:
    """A template, compiled once."""

    def __init__(self, source: str, names: dict[str, Any]) -> None:
        """`names`: what the template may read, beside the messages. Raises minijinja.TemplateError or ValueError."""
        if len(source) > MOST_SOURCE:
            raise ValueError(f"it has {len(source)} characters")
        self.clock: datetime | None = None
        """The time that it writes; None: the present."""
        self.values: Mapping[str, Any] = {}
        """What else a person lets it read."""

        def strftime_now(form: str) -> str:
            return (self.clock or datetime.now()).strftime(form)

        self._names = {"add_generation_prompt": True, "raise_exception": _raise, "strftime_now": strftime_now, **names}
        self._environment = Environment(
            filters={"tojson": _as_json},
            auto_escape_callback=lambda name: False,
            debug=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.add_template("template", _GENERATION.sub(_as_condition, source))
        self.dialect = self._find_dialect()

    def rendered(self, talk: Talk) -> str:
        """The prompt for this conversation. Raises minijinja.TemplateError, or what the template raises."""
        return self._in(self.dialect, talk)

    def _in(self, dialect: TemplateDialect, talk: Talk) -> str:
        offered = {}
        if talk and talk[0][0] == TOOLS:
            (_, offered["tools"]), *talk = talk
        if dialect.system_in_first_message and len(talk) > 1 and talk[0][0] == "system":
            (_, system), (role, content, *thinking), *rest = talk
            talk = [(role, f"{system}\n{content}", *thinking), *rest]
        talk = [
            (role, content or dialect.blank, *rest) if role == "assistant" else (role, content, *rest)
            for role, content, *rest in talk
        ]
        rows = [_row(role in dialect.parts, role, *texts) for role, *texts in talk]
        names: dict[str, Any] = {} if dialect.undefined_tools else dict.fromkeys(_TOOLS)
        size = len(str(offered)) + sum(len(str(text)) for _, *texts in talk for text in texts)
        self._environment.fuel = FUEL + _FUEL_PER_CHARACTER * size + _FUEL_PER_PAIR * len(talk) ** 2
        return self._environment.render_template(
            "template", **{**names, **self._names, **self.values, **offered, "messages": rows}
        )

    def _find_dialect(self) -> TemplateDialect:
        """The first dialect in which all words of a conversation are in the prompt: of two turns, or at least of one."""
        for talk, (roles, undefined) in product((_TALK, _TALK[:1]), product(_PARTS, (False, True))):
            dialect = TemplateDialect(undefined, frozenset(roles))
            if self._keeps(dialect, talk):
                dialect = replace(dialect, blank=self._blank(dialect, talk))
                if talk != _TALK and self._try(dialect, _TALK) is not None:
                    dialect = replace(dialect, forgets=True)
                for found in (dialect, replace(dialect, parts=dialect.parts | {"system"})):
                    if all(self._keeps(found, (_SYSTEM, *talk[:length])) for length in (1, len(talk))):
                        return found
                return replace(dialect, system_in_first_message=True)
        dialect = TemplateDialect(undefined_tools=True)
        texts = [self._try(dialect, [("user", word)]) for word in ("spectuiasks", "others")]
        return replace(dialect, drops_user_text=texts[0] is not None and texts[0] == texts[1])

    def _blank(self, dialect: TemplateDialect, talk: Talk) -> str:
        """What stands for an answer that is empty."""
        silent = [(role, "" if role == "assistant" else content) for role, content in talk]
        taken = (blank for blank in ("", " ") if self._try(replace(dialect, blank=blank), silent) is not None)
        return next(taken, "")

    def _keeps(self, dialect: TemplateDialect, talk: Talk) -> bool:
        """Are all words of the conversation in the prompt?"""
        text = (self._try(dialect, talk) or "").lower()
        # In quotation marks: the list was printed, not read.
        return all(word in text and not (dialect.parts and re.search(f"['\"]{word}", text)) for _, word, *_ in talk)

    def _try(self, dialect: TemplateDialect, talk: Talk) -> str | None:
        """The prompt; None if the template raises an error."""
        try:
            return self._in(dialect, talk)
        except Exception:  # the template is a program from anywhere and may raise anything
            return None


def _row(parts: bool, role: str, content: str, thinking: str = "", *others: Mapping[str, Any]) -> dict[str, Any]:
    """A message as templates read it. They have three names for what a reply thought."""
    thought = dict.fromkeys(("reasoning_content", "thinking", "reasoning"), thinking) if thinking else {}
    return {"role": role, "content": [{"type": "text", "text": content}] if parts else content, **thought, **dict(*others)}


def _as_condition(tag: re.Match[str]) -> str:
    """A condition that always holds in the place of this tag, with its marks for white space."""
    return f"{{%{tag[1]} {'endif' if tag[2] else 'if true'} {tag[3]}%}}"


def _as_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, **options: Any) -> str:
    """The filter `tojson` as transformers has it: minijinja's own escapes for HTML."""
    return json.dumps(value, indent=indent and min(indent, 8), ensure_ascii=ensure_ascii, **options)


def _raise(message: str) -> None:
    raise ValueError(message)
