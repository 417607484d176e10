"""The directories that spectui uses on this machine, and where it finds the files it ships.

`SPECTUI_CONFIG_DIR`, `SPECTUI_DATA_DIR`, `SPECTUI_STATE_DIR` and `SPECTUI_CACHE_DIR` replace the platform's directories.
Nothing is created here: the code that writes a file creates its directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from spectui.errors import UsageError

Kind = Literal["config", "data", "state", "cache"]
KINDS: tuple[Kind, ...] = get_args(Kind)

PACKAGE = Path(__file__).resolve().parent


def config_directory() -> Path:
    """For what a person writes: the configuration file and themes."""
    return _directory("config")


def data_directory() -> Path:
    """For what cannot be replaced: conversations."""
    return _directory("data")


def state_directory() -> Path:
    """For what outlives a restart and can be lost: prompts, logs, measured costs, verdicts of the self-test."""
    return _directory("state")


def cache_directory() -> Path:
    """For what can be made again: draft copies, the model catalogue."""
    return _directory("cache")


def kept_directory() -> Path:
    """For what models have read of conversations: `engine.kept.slots`."""
    return cache_directory() / "conversations"


def delete_kept() -> int:
    """Delete what models have read of conversations, and return the number of files."""
    files = list(kept_directory().glob("*.npz"))
    for file in files:
        file.unlink(missing_ok=True)
    return len(files)


def directories() -> Iterator[tuple[str, Path, str]]:
    """(kind, directory, origin) of each of them."""
    for kind in KINDS:
        variable = f"SPECTUI_{kind.upper()}_DIR"
        yield kind, _directory(kind), f"env {variable}" if os.environ.get(variable) else "default"


def config_file() -> Path:
    """The configuration file, whether or not it exists."""
    return config_directory() / "config.toml"


def user_themes_directory() -> Path:
    """A person's own themes, whether or not the directory exists."""
    return config_directory() / "themes"


def shipped(name: str) -> Path:
    """A file or directory that spectui ships (`themes`, `config.example.toml`).

    A wheel carries it inside the package. An editable install leaves it where it is in the repository, beside
    the package.
    """
    installed = PACKAGE / name
    return installed if installed.exists() else PACKAGE.parent / name


def expanded(path: str | Path) -> Path:
    """The path with the home directory in place of ~. A home that is not known stays ~, where `Path.expanduser` would raise."""
    return Path(os.path.expanduser(path))


def looks_like_path(text: str) -> bool:
    """Whether a text that was typed is meant as a path."""
    return text[:1] in ("/", "~", ".") or os.sep in text


def absolute(path: str | Path) -> Path:
    """The path from the root on, with the home directory in it; as it is where the working directory was removed."""
    whole = expanded(path)
    try:
        return whole.absolute()
    except FileNotFoundError:
        return whole


def program(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package in a process of its own.

    `-P`: a file in the working directory, such as a person's own json.py, is not taken for the library's.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def _directory(kind: Kind) -> Path:
    override = os.environ.get(f"SPECTUI_{kind.upper()}_DIR")
    if override:
        return expanded(override)
    # Imported here because `--help` and `--version` need no directory.
    import platformdirs

    find = {
        "config": platformdirs.user_config_path,
        "data": platformdirs.user_data_path,
        "state": platformdirs.user_state_path,
        "cache": platformdirs.user_cache_path,
    }[kind]
    try:
        return find("spectui", appauthor=False)
    except RuntimeError:  # such as in a container, by the number of a user that it does not know
        raise UsageError("This user has no home directory: set HOME to a directory for spectui's files.") from None
