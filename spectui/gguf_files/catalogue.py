"""The model files of this machine: where programs keep them, and their GGUF headers, cached until a file changes.

A window has a catalogue from its start, and reads no file before it is painted: what reads headers is imported by `scan`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from spectui.atomic import write_atomic
from spectui.gguf_files import ollama
from spectui.paths import absolute, expanded
from spectui.text import safe

if TYPE_CHECKING:
    from spectui.gguf_files.header import GgufHeader

DEEPEST = 8
"""Levels of subdirectories that are searched: Hugging Face's cache needs 4."""

MOST_ENTRIES = 100_000
"""Most names that are read in a directory tree; one that has more is not for models."""

_VERSION = 9

Headers = dict[str, "tuple[int, int, GgufHeader]"]
"""Path -> bytes, time of the last change in ns, header. The header is valid while the first two stay the same."""


def model_directories(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """llama.cpp's cache, LM Studio's models, the Hugging Face hub's cache and Ollama's models, whether or not they exist."""
    home = expanded("~")
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    own = {"darwin": home / "Library" / "Caches", "win32": Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")}
    hub = Path(environ.get("HF_HOME") or cache / "huggingface") / "hub"
    return [
        Path(environ.get("LLAMA_CACHE") or own.get(sys.platform, cache) / "llama.cpp"),
        home / ".lmstudio" / "models",
        home / ".cache" / "lm-studio" / "models",
        Path(environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or hub),
        *ollama.directories(environ),
    ]


def why_no_models(directory: Path) -> str:
    """A sentence on a directory for models that a person named, if it cannot have any; "" if it may."""
    try:
        with os.scandir(directory) as entries:
            return "" if any(True for _ in entries) else f"The directory for models {str(directory)!r} is empty."
    except FileNotFoundError:
        return f"There is no directory for models {str(directory)!r}: check --models-dir."
    except NotADirectoryError:
        return f"{str(directory)!r} is no directory: give --models-dir the one that it is in, or -m the file."
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return f"The directory for models {str(directory)!r} cannot be read: {reason}."


class ModelCatalogue:
    """Finds the models in `directories`, and stores their headers in the file `cache`, if one is given."""

    pairs = True
    """Whether a draft is chosen for each target."""

    def __init__(self, directories: Sequence[Path] = (), cache: Path | None = None) -> None:
        self.directories = tuple(directories)
        self._cache = cache
        self._known: Headers | None = None

    def scan(self, beside: Iterable[Path] = (), cancelled: Callable[[], bool] = lambda: False) -> Iterator[GgufHeader]:
        """Each model once, as soon as it is found, with those in the same directories as `beside`. Blocks on the disk.

        Ends early when `cancelled` returns true. Skips files that cannot be read; a damaged one has a `problem`.
        """
        from spectui.gguf_files.header import Cancelled, read_header

        if self._known is None:
            self._known = self._read_cache()
        known, changed = self._known, False
        seen: set[tuple[int, int]] = set()
        try:
            for file, called in self._files(beside, cancelled):
                with suppress(OSError):
                    status = file.stat()
                    if (status.st_dev, status.st_ino) in seen:
                        continue
                    seen.add((status.st_dev, status.st_ino))
                    size, changed_ns, header = known.get(str(file), (0, 0, None))
                    # Other parts of a split model may have appeared or disappeared.
                    if header is None or (size, changed_ns) != (status.st_size, status.st_mtime_ns) or "-of-" in file.name:
                        header = read_header(file, cancelled)
                        known[str(file)] = (status.st_size, status.st_mtime_ns, header)
                        changed = True
                    yield dataclasses.replace(header, called=called)
        except Cancelled:
            return
        finally:
            if changed:
                self._write_cache(known)

    def count(self, cancelled: Callable[[], bool] = lambda: False) -> int:
        """Number of model files in the directories. Fast, because it opens none."""
        seen: set[tuple[int, int]] = set()
        for file, _ in self._files((), cancelled):
            with suppress(OSError):  # a link to nothing
                status = file.stat()
                if stat.S_ISREG(status.st_mode):
                    seen.add((status.st_dev, status.st_ino))
        return len(seen)

    def _files(self, beside: Iterable[Path], cancelled: Callable[[], bool]) -> Iterator[tuple[Path, str]]:
        """Each file that may be a model, and its name in the program that keeps it, where the file has another."""
        from spectui.gguf_files.parts import is_later_part

        neighbours = dict.fromkeys(absolute(file).parent for file in beside)
        visited: set[tuple[int, int]] = set()
        roots = [*((root, 0) for root in neighbours), *((root, DEEPEST) for root in self.directories)]
        for root, depth in roots:
            left = MOST_ENTRIES
            for name, directories, files in os.walk(root, followlinks=True):
                left -= len(directories) + len(files)
                if cancelled() or left < 0:
                    break
                with suppress(OSError):
                    status = os.stat(name)
                    # Links may form a cycle.
                    if (status.st_dev, status.st_ino) in visited:
                        directories.clear()
                    if depth:
                        visited.add((status.st_dev, status.st_ino))
                if (store := ollama.store_at(Path(name), directories)) is not None:
                    yield from ollama.models(store)
                    directories[:] = [child for child in directories if child not in ("blobs", "manifests")]
                if len(Path(name).parts) - len(Path(root).parts) >= depth:
                    directories.clear()
                directories.sort()
                for file in sorted(files):
                    if file.lower().endswith(".gguf") and not is_later_part(file):
                        yield Path(name, file), ""

    def _read_cache(self) -> Headers:
        """The stored headers; none if the file cannot be read."""
        if self._cache is None:
            return {}
        try:
            stored = json.loads(self._cache.read_bytes())
            if stored["version"] != _VERSION:
                return {}
            return {str(path): (size, changed, _restored(header)) for path, size, changed, header in stored["headers"]}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}

    def _write_cache(self, known: Headers) -> None:
        if self._cache is None:
            return
        rows = [
            [path, size, changed, dataclasses.asdict(header)]
            for path, (size, changed, header) in known.items()
            if os.path.exists(path)
        ]
        with suppress(OSError):  # the headers are read again the next time
            write_atomic(self._cache, json.dumps({"version": _VERSION, "headers": rows}).encode())


def _restored(row: dict[str, Any]) -> GgufHeader:
    from spectui.gguf_files.header import GgufHeader
    from spectui.gguf_files.vocabulary import VocabularyDigest

    vocabulary = row.pop("vocabulary")
    if vocabulary is not None:
        vocabulary = VocabularyDigest(**vocabulary)
    header = GgufHeader(**row, vocabulary=vocabulary)
    for name, kind in get_type_hints(GgufHeader).items():
        value = getattr(header, name)
        if not isinstance(value, kind) or (isinstance(value, str) and name != "path" and value != safe(value)):
            raise ValueError(name)
    return header
