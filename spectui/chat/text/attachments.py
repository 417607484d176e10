"""A prompt's attachments: large pastes, shown folded, and files named by `@path`: texts, PDFs, references to images."""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from spectui.chat.figures.format import about_tokens, count
from spectui.engine.events import LARGEST_FILE, Image, image_type
from spectui.errors import SpectuiError
from spectui.paths import expanded
from spectui.store.prompts import TypedPrompt, pasted_in
from spectui.text import printable
from spectui.text_file import read_text

FOLD_LINES, FOLD_LENGTH = 8, 1000
"""A paste of more lines, or of more characters, is folded."""

MOST_BYTES = 256_000
"""Largest text to attach: it has far more tokens than most contexts hold."""

MOST_ENTRIES, LISTED = 10_000, 50
"""Entries of a directory that are looked at, and those that are listed, for a path that is being typed."""

# Not behind a letter of English (an address is no path; Chinese has no blanks) and not behind a backslash.
_SIGN = r"(?<![A-Za-z0-9_\\@])@"
_NAMED = re.compile(_SIGN + r'(?:"([^"\n]+)"|((?:\\ |[^\s"@])+))')
_BEGUN = re.compile(_SIGN + r'(?:"[^"\n]*|(?:\\ |[^\s"@])*)$')
_AFTER = ".,;:!?)]}'"
# Where a file's name can end within a word: before a sign that is in few names, or where another script begins.
_END = re.compile(r"(?<=[ -~])(?=[^ -~])|(?=[^\w/.~+-])|(?=[.~+-]+(?:\W|$))|$")
_IMAGE = r'!\[[^][\n]*\]\(([\w.~/%-]+) "sha256 ([0-9a-f]{16})"\)'
_IMAGES = re.compile(rf"(?:\n\n{_IMAGE})+\Z", re.ASCII)
_ATTACHED = re.compile(r'\n\n(?=[^\n]+:\n```|!\[[^][\n]*\]\([^\s()]+ "sha256 )')
_NOT_TEXT = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".pdf")


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
        files = filter(None, map(_file_of, _NAMED.finditer(text)))
        whole = self.unfolded(text.replace("\\@", "@"))
        parts = [_attached(name, path) for name, path in dict.fromkeys(files)]
        # Images, each on one line, come last, where no file's text can forge one.
        return "\n\n".join([whole, *sorted(parts, key=lambda part: "\n" not in part)])

    def chips(self, text: str, named: set[str], begun: str) -> list[str]:
        """A line about each paste in the prompt, and about each name of a file. Reads the disk.

        `named` are the names that attach, and others were pasted. `begun` is being typed, and may become a file's.
        """
        lines = [f"+ {match[0][1:-1]}: {size(len(self._texts[match[0]].encode()))}" for match in self._names.finditer(text)]
        for match in _NAMED.finditer(text):
            file, key = _file_of(match), _key(match)
            with suppress(OSError):
                if file is not None and key in named:
                    lines.append(f"+ {file[0]}: {size(file[1].stat().st_size, file[0])}")
                elif file is not None:
                    lines.append(f"@{file[0]} was pasted: Tab behind it attaches that file")
                elif key in named and key != begun:
                    lines.append(f"{key.rstrip(_AFTER)} names no file: it is text")
        return [*dict.fromkeys(lines)]

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


def name_at(line: str, column: int) -> str:
    """The file's name that stands before or around this column: "@" and the word, without a quotation mark at its end."""
    for match in _NAMED.finditer(line):
        if match.start() < column <= match.end():
            return _key(match)
    return begun_name(line[:column])


def begun_name(text: str) -> str:
    """The file's name that this text ends with: "@" and what follows; "" if there is none."""
    begun = _BEGUN.search(text)
    return begun[0] if begun else ""


def names_in(text: str) -> set[str]:
    """What attaches files in a prompt, if they exist: @notes.txt, @"a name"."""
    return {_key(match) for match in _NAMED.finditer(text)}


def with_names(text: str, names: set[str]) -> str:
    """The prompt in which these names alone attach files: others have a backslash before their @."""
    return _NAMED.sub(lambda match: match[0] if _key(match) in names else f"\\{match[0]}", text)


def _key(match: re.Match[str]) -> str:
    return match[0].rstrip('"')


def _file_of(match: re.Match[str]) -> tuple[str, Path] | None:
    """The file with the longest name that the match begins with, which other words may follow. None if there is no such file,
    as for `numba.njit`."""
    ends = [end.start() for end in _END.finditer(match[2] or "")]
    for name in [match[1]] if match[1] else [match[2][:end].replace("\\ ", " ") for end in reversed(ends) if end]:
        if (path := _file(name)) is not None:
            return name, path
    return None


def images_in(message: str) -> tuple[str, tuple[Image, ...]]:
    """A person's message without the references to images that it ends with, and these."""
    if (references := _IMAGES.search(message)) is None:
        return message, ()
    images = (Image(os.fsdecode(unquote_to_bytes(path)), of) for path, of in re.findall(_IMAGE, references[0]))
    return message[: references.start()], tuple(images)


def _attached(name: str, path: Path) -> str:
    """The text of a file in a fence, under its name, or a reference to an image. Raises AttachmentError if it is unreadable,
    too large, or of another kind."""
    content = b""
    with suppress(OSError), path.open("rb") as file:  # else read_text says what is wrong
        start = file.read(32)
        if image_type(start) or start.startswith(b"%PDF-"):
            content = start + file.read(LARGEST_FILE)
    if len(content) > LARGEST_FILE:
        raise AttachmentError(f"{name} is larger than {LARGEST_FILE // 1_000_000} MB: attach a smaller one.")
    if image_type(content):
        image = Image.of(str(path.absolute()), content)
        return f'![{re.sub("[][]", "", image.name)}]({quote(os.fsencode(image.path))} "sha256 {image.digest}")'
    text = _text_of_pdf(content, name) if content else read_text(path, name, MOST_BYTES, "attach a part of it", AttachmentError)
    # Longer than any fence in the file, or the file could end it.
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{printable(name)}:\n{fence}{printable(path.suffix[1:])}\n{printable(text).rstrip()}\n{fence}"


@lru_cache(maxsize=2)
def _text_of_pdf(content: bytes, name: str) -> str:
    """The text of a PDF, which is asked for each time that the prompt is counted. Raises AttachmentError."""
    try:
        from pypdf import PdfReader
    except ImportError:
        raise AttachmentError(f"To read {name} one package more is needed: pip install 'spectui[pdf]'.") from None
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it would write into the window
    text = ""
    try:
        for page in PdfReader(BytesIO(content)).pages:
            text = f"{text}\n\n{page.extract_text()}".strip()
            if len(text) > MOST_BYTES:
                break
    except Exception as error:  # of any kind, where the file is damaged
        raise AttachmentError(f"{name} cannot be read ({error}): export it anew, or attach its text.") from error
    if 0 < len(text) <= MOST_BYTES:
        return text
    problem = f"more text than {MOST_BYTES // 1000} kB: attach a part of it" if text else "no text: attach images of its pages"
    raise AttachmentError(f"{name} has {problem}.")


def _file(name: str) -> Path | None:
    """The regular file of this name; None if there is none, or its state is unknown."""
    try:
        path = expanded(name)
        return path if path.is_file() else None
    except (OSError, ValueError):  # a name too long, a NUL
        return None


def size(taken: int, name: str = "") -> str:
    """How large a text of so many bytes is, or the file of this name: in tokens too, if it has a text's."""
    tokens = "" if name.lower().endswith(_NOT_TEXT) else f", {about_tokens(taken)}"
    return f"{count(-(-taken // 1000))} kB{tokens}"


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
