"""The model files of this machine: where they usually are, and what their heads say, remembered while they do not change."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

from spectui.atomic import write_atomic
from spectui.gguf_files.header import Cancelled, GgufHeader, Vocabulary, is_later_part, read_head
from spectui.text import safe

DEEPEST = 8
"""Directories below a place that are looked into: Hugging Face's cache needs 4."""

MOST_ENTRIES = 100_000
"""Names looked at in a place; one that has more is no place for models."""

_VERSION = 1

Known = dict[str, tuple[int, int, GgufHeader]]
"""Path -> bytes, time of the last change in ns, head: while the first two stay, so does the third."""


def usual_places(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """llama.cpp's cache, LM Studio's models, and the Hugging Face hub's cache, whether or not they exist."""
    home = Path.home()
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    own = {
        "darwin": home / "Library" / "Caches",
        "win32": Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local"),
    }
    hub = Path(environ.get("HF_HOME") or cache / "huggingface") / "hub"
    return [
        Path(environ.get("LLAMA_CACHE") or own.get(sys.platform, cache) / "llama.cpp"),
        home / ".lmstudio" / "models",
        home / ".cache" / "lm-studio" / "models",
        Path(environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or hub),
    ]


class ModelCatalogue:
    """Looks for models in `places`, and keeps what it read in `cache`, a file, if one is given."""

    def __init__(self, places: Sequence[Path] = (), cache: Path | None = None) -> None:
        self.places = tuple(places)
        self._cache = cache
        self._known: Known | None = None

    def scan(self, beside: Iterable[Path] = (), cancelled: Callable[[], bool] = lambda: False) -> Iterator[GgufHeader]:
        """Each model once, as it is found, also those in the same directories as `beside`. Blocks on the disk.

        Ends early when `cancelled` says so. What cannot be read is passed over; what is damaged has a `problem`.
        """
        if self._known is None:
            self._known = self._remembered()
        known, changed = self._known, False
        seen: set[tuple[int, int]] = set()
        try:
            for file in self._files(beside, cancelled):
                with suppress(OSError):
                    found = file.stat()
                    if (found.st_dev, found.st_ino) in seen:
                        continue
                    seen.add((found.st_dev, found.st_ino))
                    size, changed_ns, head = known.get(str(file), (0, 0, None))
                    # The other parts of a split model may have come or gone.
                    if head is None or (size, changed_ns) != (found.st_size, found.st_mtime_ns) or "-of-" in file.name:
                        head = read_head(file, cancelled)
                        known[str(file)] = (found.st_size, found.st_mtime_ns, head)
                        changed = True
                    yield head
        except Cancelled:
            return
        finally:
            if changed:
                self._remember(known)

    def count(self, cancelled: Callable[[], bool] = lambda: False) -> int:
        """How many model files there are in the places: quickly, for none is opened."""
        return len({os.path.realpath(file) for file in self._files((), cancelled)})

    def _files(self, beside: Iterable[Path], cancelled: Callable[[], bool]) -> Iterator[Path]:
        neighbours = dict.fromkeys(file.absolute().parent for file in beside)
        visited: set[tuple[int, int]] = set()
        for place, depth in [*((place, 0) for place in neighbours), *((place, DEEPEST) for place in self.places)]:
            left = MOST_ENTRIES
            for name, directories, files in os.walk(place, followlinks=True):
                left -= len(directories) + len(files)
                if cancelled() or left < 0:
                    break
                with suppress(OSError):
                    found = os.stat(name)
                    # Links may lead in circles.
                    if (found.st_dev, found.st_ino) in visited:
                        directories.clear()
                    if depth:
                        visited.add((found.st_dev, found.st_ino))
                if len(Path(name).parts) - len(Path(place).parts) >= depth:
                    directories.clear()
                directories.sort()
                for file in sorted(files):
                    if file.lower().endswith(".gguf") and not is_later_part(file):
                        yield Path(name, file)

    def _remembered(self) -> Known:
        """What was kept; nothing if that is no longer readable."""
        if self._cache is None:
            return {}
        try:
            kept = json.loads(self._cache.read_bytes())
            if kept["version"] != _VERSION:
                return {}
            return {str(path): (size, changed, _restored(head)) for path, size, changed, head in kept["heads"]}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}

    def _remember(self, known: Known) -> None:
        if self._cache is None:
            return
        rows = [
            [path, size, changed, dataclasses.asdict(head)]
            for path, (size, changed, head) in known.items()
            if os.path.exists(path)
        ]
        with suppress(OSError):  # the headers are read again the next time
            write_atomic(self._cache, json.dumps({"version": _VERSION, "heads": rows}).encode())


def _restored(row: dict[str, Any]) -> GgufHeader:
    vocabulary = row.pop("vocabulary")
    if vocabulary is not None:
        digests = tuple((int(count), str(digest)) for count, digest in vocabulary["digests"])
        vocabulary = Vocabulary(str(vocabulary["kind"]), int(vocabulary["count"]), digests)
    head = GgufHeader(**row, vocabulary=vocabulary)
    for name, kind in get_type_hints(GgufHeader).items():
        value = getattr(head, name)
        if not isinstance(value, kind) or (isinstance(value, str) and name != "path" and value != safe(value)):
            raise ValueError(name)
    return head
