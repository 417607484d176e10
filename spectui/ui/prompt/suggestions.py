"""The list above the prompt: commands and their words behind a slash, files behind an @. Typing filters it; the prompt keeps
the focus. And the lines below the prompt, about what is attached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.content import Content
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from spectui.chat.text.attachments import named_files, size
from spectui.ui.widgets.lines import MUTED


class Suggestion(NamedTuple):
    """`text` takes the place of the word at the cursor, and `about` stands beside it. `command`: the id of the one to carry out
    instead."""

    text: str
    about: str
    command: str = ""


class Suggestions(OptionList, can_focus=False):
    """Shown while there is something to suggest."""

    DEFAULT_CSS = """
    Suggestions {
        display: none;
        height: auto;
        max-height: 8;
        border: none;
        padding: 0 1;
        background: $surface;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        scrollbar-size-vertical: 1;
        &.-open { display: block; }
    }
    """

    _shown: Sequence[Suggestion] = ()

    def show(self, suggestions: Sequence[Suggestion]) -> None:
        """List these; none closes it."""
        if suggestions == self._shown:
            return
        self._shown = suggestions
        self.set_class(bool(suggestions), "-open")
        self.clear_options()
        width = max((len(each.text) for each in suggestions), default=0)
        self.add_options(Option(Content.assemble(f"{each.text:<{width}}  ", (each.about, MUTED))) for each in suggestions)
        self.action_first()

    def has(self, text: str) -> bool:
        """Whether this is one of them."""
        return any(each.text == text for each in self._shown)

    @property
    def chosen(self) -> Suggestion | None:
        """The highlighted suggestion; None while it is closed."""
        return self._shown[self.highlighted] if self._shown and self.highlighted is not None else None


def matching(commands: Sequence[Suggestion], word: str) -> list[Suggestion]:
    """The commands whose name begins with the word, then those that have a word which does."""
    begins = [each for each in commands if each.text[1:].startswith(word)]
    return begins + [each for each in commands if each not in begins and f" {word}" in f" {each.about}".casefold()]


def files(word: str) -> Iterator[Suggestion]:
    """The files whose path begins with the word. Reads the disk: call it in a worker thread."""
    for name, taken in named_files(word):
        text = f'@"{name}"' if " " in name else f"@{name}"
        yield Suggestion(text, "" if taken is None else size(taken, name))


class Chips(Label):
    """The lines below the prompt: what it brings besides its words, and the names that attach nothing."""

    DEFAULT_CSS = """
    Chips { display: none; width: 1fr; height: auto; max-height: 3; padding: 0 1; color: $text-muted; }
    Chips.-open { display: block; }
    """

    def show(self, lines: Sequence[str]) -> None:
        """Show these; none closes it."""
        self.set_class(bool(lines), "-open")
        self.update(Content("\n".join(lines)))
