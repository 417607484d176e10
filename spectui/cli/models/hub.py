"""`-hf USER/REPO[:QUANT]`: models from the Hugging Face hub, by its own client, into its own cache.

The client shows the progress of a download. Without these flags it is not imported, and nothing uses the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import click

from spectui.cli.options import INTERRUPTED, USUAL_QUANTS
from spectui.config import Configuration
from spectui.errors import SpectuiError, UsageError
from spectui.gguf_files.parts import files_of, is_later_part
from spectui.knobs import Setup

LARGEST_PLAIN = 50 * 10**9
"""Bytes of the largest file that the hub offers as a plain download."""

NO_CLIENT = "{flag} needs the hub's client: pip install 'spectui[hub]'."

_NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?::([\w.-]+))?")
_QUANT = re.compile(r"(?<![A-Za-z0-9])((?:UD-)?(?:I?Q\d\w*|TQ\d\w*|BF16|F16|F32|MXFP4\w*))(?![A-Za-z0-9])", re.IGNORECASE)
_NO_CHAT_MODEL = re.compile(
    r"mmproj|eagle-?3|dflash|dspark|(^|/)(mtp-|imatrix)|gemma-?4[^/]*assistant|embed[^/]*$", re.IGNORECASE
)
"""Names of files that repositories have beside their models: they see, draft, help to quantise, or embed text."""

_HEADS = re.compile(r"((mtp|eagle-?3|dflash)-.*|.*gemma-?4.*assistant.*)\.gguf", re.IGNORECASE)

_FEWEST_BITS = 3
"""A quantisation with fewer bits a weight is fetched only where it is named, or where there is no other."""


class DownloadStopped(SpectuiError):
    """A person stopped a download."""

    exit_code = INTERRUPTED


class HubModel(NamedTuple):
    """A repository, and the wanted quantisation ("" for the default)."""

    repository: str
    quant: str


def fetched(settings: Configuration, target: str | None, draft: str | None) -> Setup:
    """The set-up of models of this machine, with those that the two flags name, downloaded if needed.

    Raises SpectuiError with a sentence.
    """
    setup = replace(settings.setup, server="", server_model="", server_key_file="")
    for value, key, flag in ((target, "model", "-hf"), (draft, "draft", "-hfd")):
        if value is None:
            continue
        if settings.origins[key].startswith("flag "):
            given = settings.origins[key].removeprefix("flag ")
            raise UsageError(f"{given} names a file and {flag} a repository of the hub: give one of them.")
        alone = key == "draft" or draft is not None or setup.draft is not None
        heads = not alone and settings.knobs.drafter in ("auto", "model", "mtp")
        file = str(fetch(named(value, flag), flag, heads))
        setup = replace(setup, model=file) if key == "model" else replace(setup, draft=file)
    return setup


def named(value: str, flag: str) -> HubModel:
    """The model that a flag's value names. Raises UsageError."""
    parts = _NAME.fullmatch(value)
    if parts is None or ".." in value:
        raise UsageError(f"{flag} takes USER/REPO or USER/REPO:QUANT, not {value!r}.")
    return HubModel(parts[1], parts[2] or "")


def fetch_pair(target: str, draft: str, progress: Callable[[int], None]) -> tuple[str, str]:
    """The files of what -hf and -hfd name so. `progress` is told how many bytes are there, in this thread; what it raises ends
    the download, which goes on from there at the next call. Raises SpectuiError with a sentence."""
    before = 0

    def told(there: int) -> None:
        progress(before + there)

    first = fetch(named(target, "-hf"), "-hf", progress=told)
    before = first.stat().st_size
    return str(first), str(fetch(named(draft, "-hfd"), "-hfd", progress=told))


def fetch(model: HubModel, flag: str, heads: bool = False, progress: Callable[[int], None] | None = None) -> Path:
    """The model's file, or its first part, downloaded into the hub's cache if needed. `heads`: with a file of its heads. With
    `progress`, which is told how many bytes of a file are there, the client shows nothing."""
    try:
        import huggingface_hub as hub
    except ImportError:
        raise SpectuiError(NO_CLIENT.format(flag=flag)) from None
    files, cached = _listing(hub, model.repository)
    chosen = choose(files, model)
    if heads:
        chosen += _heads(files, chosen[0])
    if cached:
        if progress is None:
            click.echo(
                f"spectui: The hub cannot be asked for {model.repository}: {chosen[0]} is taken from the cache.", err=True
            )
        return cached[chosen[0]]
    # The client's errors come from whichever HTTP library it was built on, so they have no base of their own.
    try:
        first, *_ = [_download(hub, model.repository, file, progress) for file in chosen]
        return first
    except SpectuiError:
        raise
    except KeyboardInterrupt:
        raise DownloadStopped(f"The download of {chosen[0]} was stopped; the same command continues it.") from None
    except Exception as error:
        raise SpectuiError(
            f"{chosen[0]} could not be fetched ({_said(error)}); the same command continues where this one stopped."
        ) from error


def _download(hub: Any, repository: str, file: str, progress: Callable[[int], None] | None) -> Path:
    """The file in the hub's cache, continued from where an earlier attempt stopped. Raises what the client raises.

    Since its version 2.0, and with Xet, the client drops a partial file when it is interrupted. So the blob is downloaded
    here. The client still makes the links to it, and handles a missing network and files too large for a plain download.
    """
    try:
        url = hub.hf_hub_url(repository, file)
        known = hub.get_hf_file_metadata(url)
    except Exception:
        known = None
    if known is not None and known.etag and 0 < (known.size or 0) <= LARGEST_PLAIN:
        _fetch_blob(repository, file, url, known.etag, known.size, progress)
    return Path(hub.hf_hub_download(repository, file))


class _Watched:
    """A file that says after each write how long it is."""

    def __init__(self, file: BinaryIO, progress: Callable[[int], None]) -> None:
        self._file, self._progress = file, progress

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._progress(self._file.tell())


def _fetch_blob(repository: str, file: str, url: str, etag: str, size: int, progress: Callable[[int], None] | None) -> None:
    """Download the blob to where the client looks for it, unless it is there."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import WeakFileLock, build_hf_headers, disable_progress_bars

    if progress is not None:
        disable_progress_bars()

    folder = f"models--{repository.replace('/', '--')}"
    blob = Path(constants.HF_HUB_CACHE, folder, "blobs", etag)
    lock = Path(constants.HF_HUB_CACHE, ".locks", folder, f"{etag}.lock")  # the client's own
    for each in (blob, lock):
        each.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if blob.exists():
            return
        part = blob.with_name(f"{etag}.spectui")
        if part.exists() and part.stat().st_size > size:
            part.unlink()
        with part.open("ab") as out:
            at, into = out.tell(), _Watched(out, progress) if progress is not None else out
            http_get(url, into, resume_size=at, headers=build_hf_headers(), expected_size=size, displayed_filename=file)
        part.replace(blob)


def choose(files: Sequence[str], model: HubModel) -> list[str]:
    """The files to download: one, or the parts of one in order. Raises SpectuiError that names what the repository has."""
    models = sorted(file for file in files if _is_model(file) and not is_later_part(file))
    # Where a repository has models, one that is called a draft is there to draft for them.
    models = [file for file in models if "draft" not in Path(file).name.lower()] or models
    if not models:
        raise SpectuiError(f"{model.repository} has no GGUF file to chat with: look for a repository whose name ends in -GGUF.")
    quants = [model.quant] if model.quant else USUAL_QUANTS
    named = next((matching for quant in quants if (matching := [file for file in models if _has_quant(file, quant)])), [])
    if not named and model.quant:
        others = dict.fromkeys(quant for file in models for quant in _quants(file))
        raise SpectuiError(f"{model.repository} has no {model.quant}; it has {', '.join(others) or ', '.join(models)}.")
    # The shortest name, because a repository may also have variants of one quantisation.
    first = min(named, key=len) if named else min(models, key=_preference)
    return [file.as_posix() for file in files_of(first)]


def _is_model(file: str) -> bool:
    """Whether it can chat, by its name: an imatrix has no quantisation of its own."""
    name = file.lower()
    is_imatrix = "imatrix" in name and not _quants(file)
    return name.endswith(".gguf") and not _NO_CHAT_MODEL.search(file) and not is_imatrix


def _quants(file: str) -> list[str]:
    return [found[1].upper() for found in _QUANT.finditer(Path(file).name)]


def _has_quant(file: str, quant: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(quant)}(?![A-Za-z0-9_])", file, re.IGNORECASE) is not None


def _preference(file: str) -> tuple[bool, int]:
    """Sorts the smallest quantisation above three bits first, and then those below, the largest first."""
    bits = next((int(number) for quant in _quants(file) for number in re.findall(r"\d+", quant)), 99)
    few = bits < _FEWEST_BITS
    return few, -bits if few else bits


def _heads(files: Sequence[str], model: str) -> list[str]:
    """The file of heads in the model's directory, in one above it or in one beside that, at best with the model's quantisation;
    [] without one."""
    folders = set(Path(model).parents)
    near = [
        file for file in files if _HEADS.fullmatch(Path(file).name) and not folders.isdisjoint(list(Path(file).parents)[:2])
    ]
    return sorted(near, key=lambda file: (set(_quants(model)).isdisjoint(_quants(file)), len(file)))[:1]


def _listing(hub: Any, repository: str) -> tuple[list[str], dict[str, Path]]:
    """The repository's files; without a network, those that are in the cache, and where."""
    from huggingface_hub import errors

    try:
        # list_repo_files would try for half a minute if there is no network.
        return [each.rfilename for each in hub.model_info(repository).siblings or ()], {}
    except errors.GatedRepoError:
        raise SpectuiError(f"{repository} is only for those who agree to its terms: do so at its page on the hub, "
                           "then run hf auth login.") from None  # fmt: skip
    except errors.RepositoryNotFoundError:
        raise SpectuiError(f"The hub has no repository {repository} that you may see: check its name.") from None
    except Exception as error:
        cached = _cached(hub, repository)
        if not cached:
            raise SpectuiError(
                f"The hub cannot be asked for {repository} ({_said(error)}), and nothing of it is in the cache: "
                "try again with a network."
            ) from error
        return list(cached), cached


def _cached(hub: Any, repository: str) -> dict[str, Path]:
    """The repository's files in the hub's cache, each as it is in the newest revision that has it."""
    try:
        repositories = hub.scan_cache_dir().repos
    except Exception:  # there is no cache yet
        return {}
    revisions = [revision for each in repositories if each.repo_id == repository for revision in each.revisions]
    return {
        file.file_path.relative_to(revision.snapshot_path).as_posix(): file.file_path
        for revision in sorted(revisions, key=lambda revision: revision.last_modified)
        for file in revision.files
    }


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
