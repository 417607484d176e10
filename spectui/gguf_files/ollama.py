"""Ollama's models: blobs that are named after their content. Manifests say what a person calls them.

`manifests/HOST/NAMESPACE/MODEL/TAG` lists the layers of a model in JSON; one of them is the model itself, the others are its
template, its parameters, its licence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from spectui.paths import expanded
from spectui.text import safe

_MODEL = "application/vnd.ollama.image.model"
_DEEPEST = 5
"""Levels of a manifest's path: hf.co has a user and a repository, and so one more than Ollama's own names."""

_LARGEST = 1 << 20
"""Bytes of the largest manifest that is read: real ones have a thousand."""


def directories(environ: Mapping[str, str]) -> list[Path]:
    """Where Ollama keeps its models: a person's own, and those of its service; whether or not they exist."""
    own = [expanded(environ["OLLAMA_MODELS"])] if environ.get("OLLAMA_MODELS") else []
    usual = "~/.ollama/models", "/usr/share/ollama/.ollama/models", "/var/lib/ollama"
    return [*own, *(expanded(directory) for directory in usual)]


def store_at(directory: Path, inside: Collection[str]) -> Path | None:
    """The store that this directory, with these directories in it, is or whose blobs it holds; None if neither."""
    if {"manifests", "blobs"} <= {*inside}:
        return directory
    return directory.parent if directory.name == "blobs" and os.path.isdir(directory.parent / "manifests") else None


def models(store: Path) -> Iterator[tuple[Path, str]]:
    """(blob, name) of each model of a store whose blob is there, such as "qwen2.5-coder:1.5b", by manifest."""
    root = store / "manifests"
    for place, inside, files in os.walk(root):
        parts = Path(place).relative_to(root).parts
        inside[:] = sorted(inside) if len(parts) < _DEEPEST else []
        for file in sorted(files) if len(parts) > 1 else ():
            for blob in _blobs(store, Path(place, file)):
                yield blob, _name([*parts, file])


@lru_cache(maxsize=64)  # the window asks for the name of a loaded model again and again
def name_of(path: Path) -> str:
    """What Ollama calls the model in this file; "" if it is none of its blobs."""
    store = store_at(path.parent, ()) if path.name.startswith("sha256") else None
    return next((name for blob, name in models(store) if blob == path), "") if store is not None else ""


def _name(parts: list[str]) -> str:
    """A manifest's path as Ollama prints it, safe to show: without its own host, and without its own namespace there."""
    *place, tag = parts
    place = place[1:] if place[0] == "registry.ollama.ai" else place
    place = place[1:] if place[0] == "library" else place
    return " ".join(safe(f"{'/'.join(place)}:{tag}".encode("utf-8", "replace").decode()).split())


def _blobs(store: Path, manifest: Path) -> Iterator[Path]:
    """The models that a manifest of any content names, as far as they are there."""
    try:
        if not manifest.is_file():  # to open a pipe would block
            return
        with manifest.open("rb") as file:
            layers = json.loads(file.read(_LARGEST))["layers"]
        digests = [str(layer["digest"]) for layer in layers if layer["mediaType"] == _MODEL]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return
    for digest in digests:
        for name in (digest.replace(":", "-"), digest):  # older versions kept the colon
            blob = store / "blobs" / name
            if "/" not in name and os.path.isfile(blob):
                yield blob
                break
