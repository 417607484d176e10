"""A prompt's attachments: large pastes, shown folded, and text files named by `@path`."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import islice
from pathlib import Path

from spectui.errors import SpectuiError
from spectui.paths import expanded
from spectui.store.prompts import TypedPrompt, pasted_in
from spectui.text import printable
from spectui.text_file import read_text

FOLD_LINES, FOLD_LENGTH = 8, 1000
"""A paste of more lines, or of more characters, is folded."""

MOST_BYTES = 256_000
"""Largest file to attach: it has far more tokens than most contexts hold."""

MOST_ENTRIES, LISTED = 10_000, 50
"""Entries of a directory that are looked at, and those that are listed, for a path that is being typed."""

# Not behind a letter (an address is no path) and not behind a backslash.
_NAMED = re.compile(r'(?<![\w\\@])@(?:"([^"\n]+)"|([^\s"@]+))')
_ATTACHED = re.compile(r"\n\n(?=[^\n]+:\n```)")


class AttachmentError(SpectuiError):
    """A file that was named cannot be attached."""


class PasteFolds:
    """Pasted texts, which the prompt shows under short names."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """The text with earlier folded texts replaced by their names; if it is still large, one name for the whole."""
        short = text
        for name, folded in sorted(self._texts.items(), key=lambda each: -len(each[1])):
            short = short.replace(folded, name)
        if short.count("\n") < FOLD_LINES and len(short) <= FOLD_LENGTH and self.unfolded(short) == text:
            return short
        lines = text.count("\n") + 1
        name = f"[pasted {lines} lines, {len(text)} characters]" if lines > 1 else f"[pasted {len(text)} characters]"
        number = 1
        while self._texts.get(name, text) != text:
            number += 1
            name = f"{name.removesuffix(']').partition(' #')[0]} #{number}]"
        self._texts[name] = text
        return name

    def expanded(self, text: str) -> str:
        """The prompt to send: folded texts in full, followed by the files that it names. Raises AttachmentError."""
        files = [_attached(match[1] or match[2]) for match in _NAMED.finditer(text)]
        whole = self.unfolded(text.replace("\\@", "@"))
        return "\n\n".join([whole, *dict.fromkeys(filter(None, files))])

    def typed(self, message: str) -> str:
        """The prompt text from which `expanded` makes this message: an attached file is named again if it has not
        changed."""
        for end in (*(found.start() for found in _ATTACHED.finditer(message)), len(message)):
            short = self.fold(message[:end])
            with suppress(AttachmentError):
                if self.expanded(short) == message:
                    return short
        return "\n\n".join(_NAMED.sub(r"\\\g<0>", self.fold(part)) for part in _ATTACHED.split(message, maxsplit=1))

    def unfolded(self, text: str) -> TypedPrompt:
        """The text with all folded texts in full."""
        end, pieces = 0, []
        for found in self._names.finditer(text):
            pieces += [text[end : found.start()], self._texts[found[0]]]
            end = found.end()
        return TypedPrompt([*pieces, text[end:]])

    def refold(self, prompt: str) -> str:
        """The prompt as it was typed, with what was pasted under names again."""
        for pasted in pasted_in(prompt):
            self.fold(pasted)
        return self.fold(prompt)

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where a folded text's name begins and ends in this line of the prompt."""
        return [found.span() for found in self._names.finditer(line)]

    @property
    def _names(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, self._texts)) or "(?!)")


def names_in(text: str) -> set[str]:
    """What attaches files in a prompt, if they exist: @notes.txt, @"a name"."""
    return {name[0].rstrip('"') for name in _NAMED.finditer(text)}


def with_names(text: str, names: set[str]) -> str:
    """The prompt in which these names alone attach files: others have a backslash before their @."""
    return _NAMED.sub(lambda name: name[0] if name[0].rstrip('"') in names else f"\\{name[0]}", text)


def _attached(name: str) -> str:
    """The text of an existing file in a fence, under its name; "" for anything else, such as `numba.njit`.

    Raises AttachmentError if the file cannot be sent: it is unreadable, too large, or not text.
    """
    path = _file(name)
    if path is None:
        stripped = name.rstrip(".,;:!?)")
        return _attached(stripped) if stripped != name else ""
    text = read_text(path, name, MOST_BYTES, "attach a part of it", AttachmentError)
    # Longer than any fence in the file, or the file could end it.
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{printable(name)}:\n{fence}{printable(path.suffix[1:])}\n{printable(text).rstrip()}\n{fence}"


def _file(name: str) -> Path | None:
    """The regular file of this name; None if there is none, or its state is unknown."""
    try:
        path = expanded(name)
        return path if path.is_file() else None
    except (OSError, ValueError):  # a name too long, a NUL
        return None


def named_files(begun: str) -> list[tuple[str, int | None]]:
    """The directories (with a slash at the end) and files whose path begins so, with the bytes of each file; at most `LISTED`.

    Reads the disk.
    """
    head, slash, name = begun.rpartition("/")
    found: list[tuple[str, int | None]] = []
    with suppress(OSError, ValueError), os.scandir(os.path.expanduser(head + slash or ".")) as entries:
        for entry in islice(entries, MOST_ENTRIES):
            hidden = entry.name.startswith(".") and not name.startswith(".")
            if hidden or not entry.name.casefold().startswith(name.casefold()) or not _can_be_named(entry.name):
                continue
            with suppress(OSError):
                path = f"{head}{slash}{entry.name}"
                found.append((f"{path}/", None) if entry.is_dir() else (path, entry.stat().st_size))
    return sorted(found, key=lambda each: (each[1] is not None, each[0].casefold()))[:LISTED]


def _can_be_named(name: str) -> bool:
    return printable(name) == name and not {'"', "@", "\n"} & {*name}
