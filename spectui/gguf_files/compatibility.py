"""Which models may draft for a target, as far as the GGUF headers tell. Loading the two models decides."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from spectui.gguf_files.check import metadata_of
from spectui.gguf_files.header import GgufHeader, read_header
from spectui.gguf_files.heads import READ_LAYERS, TARGETS, are_heads, usable_heads
from spectui.gguf_files.parts import part_of
from spectui.gguf_files.vocabulary import difference, lacking
from spectui.paths import expanded
from spectui.pin import LAYER_ROWS

_HEADS = re.compile("mtp|eagle-?3|dflash|assistant", re.IGNORECASE)
"""Names of heads: of their file, or whole that of their folder."""


class Match(NamedTuple):
    """`how`: the draft has the same vocabulary, or another one (its tokens are translated, which is slower), or cannot draft.

    `reason`: in words, without a full stop.
    """

    how: Literal["same", "translated", "never"]
    reason: str


def match(target: GgufHeader, draft: GgufHeader) -> Match:
    """May `draft` draft for `target`?"""
    if draft.only_heads and draft.heads:
        return _match_heads(target, draft)
    if draft.problem:
        return Match("never", draft.problem)
    if draft.path == target.path:
        return Match("never", "is the target itself")
    if target.vocabulary is None or draft.vocabulary is None:
        return Match("never", f"{'the target' if target.vocabulary is None else 'it'} has no vocabulary of text")
    ours, theirs = target.vocabulary, draft.vocabulary
    if why := difference(ours, theirs) or lacking(ours, theirs):
        return Match("translated", f"translated, slower: {why}")
    return Match("same", "same vocabulary" if draft.size < target.size else "same vocabulary, but no smaller")


def _match_heads(target: GgufHeader, heads: GgufHeader) -> Match:
    """Heads are of their target's architecture, unless they read its layers; another size of it has another width."""
    if heads.architecture in READ_LAYERS:
        if target.architecture not in LAYER_ROWS.split():
            return Match("never", f"drafts for no {target.architecture}, which does not give it its layers' rows")
        ours, theirs = target.vocabulary, heads.vocabulary
        same = ours is not None and theirs is not None and not (difference(ours, theirs) or lacking(ours, theirs))
        if not same or target.width != heads.width:
            return Match("never", "is the head of another model")
        return Match("same", f"a head for such a target ({READ_LAYERS[heads.architecture]})")
    of = TARGETS.get(heads.architecture, heads.architecture)
    if (target.architecture, target.width) == (of, heads.width):
        return Match("same", "heads for such a target (MTP)")
    return Match("never", "are the heads of another model")


def drafts_for(target: GgufHeader, headers: list[GgufHeader]) -> list[GgufHeader]:
    """The models that may draft for the target, the best first: heads, same vocabulary, smaller than the target, by size."""
    order = {"same": 0, "translated": 1}
    ranked = [(match(target, header), header) for header in headers]
    usable = [
        (not header.only_heads, order[found.how], header.size >= target.size, header.size, header.path, header)
        for found, header in ranked
        if found.how in order
    ]
    return [header for *_, header in sorted(usable, key=lambda ranks: ranks[:5])]


def smaller_drafts(target: GgufHeader, headers: list[GgufHeader]) -> list[GgufHeader]:
    """The models of the target's vocabulary that are smaller, the smallest first: those that are proposed as its draft.

    Heads come before them. None is proposed for a target that has heads of its own.
    """
    if target.heads:
        return []
    return [
        header
        for header in drafts_for(target, headers)
        if header.only_heads or (header.size < target.size and match(target, header).how == "same")
    ]


def heads_beside(target: str) -> str | None:
    """The path of the target's heads in a file beside it; None without such a file, or if the target has its own.

    Only files whose names say what they are are read: a directory may have hundreds of models.
    """
    headers = _beside(target)
    try:
        drafts = smaller_drafts(read_header(expanded(target)), headers) if headers else []
    except OSError:
        return None
    return next((draft.path for draft in drafts if draft.only_heads), None)


def damaged_beside(target: str) -> list[GgufHeader]:
    """The files with such names that are no models and no heads that can draft: `problem` says why."""
    headers = _beside(target)
    return [
        beside for beside in headers if beside.problem and not beside.heads and (beside.only_heads or not beside.architecture)
    ]


def _beside(target: str) -> list[GgufHeader]:
    file = expanded(target)
    headers: list[GgufHeader] = []
    with suppress(OSError):
        folders = [folder for near in _near(file) for folder in (near, *near.iterdir()) if _has_heads(folder, near)]
        for heads in sorted(heads for folder in folders for heads in folder.glob("*.gguf") if lies_beside(file, heads)):
            with suppress(OSError):  # the next one may be readable
                headers.append(read_header(heads))
    return headers


def lies_beside(target: Path, heads: Path) -> bool:
    """Whether a file of heads lies where it is found unasked, under a name by which it is: in the target's directory, in a
    folder of heads in that, or likewise above the target's folder where that holds a split or a part of a repository."""
    is_near = any(_has_heads(heads.parent, near) for near in _near(target))
    return is_near and _HEADS.search(heads.name) is not None and heads.name != target.name


def _near(target: Path) -> list[Path]:
    has_own_folder = part_of(target) is not None or target.parent.parent.parent.name == "snapshots"  # as the hub's cache has it
    return [target.parent, *([target.parent.parent] if has_own_folder else [])]


def _has_heads(folder: Path, near: Path) -> bool:
    return folder == near or (folder.parent == near and _HEADS.fullmatch(folder.name) is not None)


def drafting_heads(target: str, draft: str | None) -> str | None:
    """The file whose heads draft for the target: the one that is named as its draft; without a draft its own, or those beside
    it. None if none do."""
    if draft is not None:
        return draft if are_heads(metadata_of(draft)) else None
    return target if usable_heads(metadata_of(target)) else heads_beside(target)
