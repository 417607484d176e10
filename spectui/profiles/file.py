"""The profiles of a configuration file: settings under a name, which `-P NAME` chooses. The file's comments are kept."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spectui import config
from spectui.atomic import write_atomic
from spectui.errors import ExistsError, SpectuiError, UsageError
from spectui.knobs import Knobs, Setup, title
from spectui.paths import absolute

LONGEST_NAME = 120
"""Characters. A repository of the hub has up to 96, and a name may have its type of weights behind that."""


class ProfileError(SpectuiError):
    """A profile cannot be saved."""


class ProfileFile:
    """The profiles of one configuration file, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        """The profiles' names, in the file's order. Raises UsageError if the file cannot be read."""
        tables = config.read(self._path).get("profiles", {}) if os.path.exists(self._path) else {}
        return [name for name, table in tables.items() if isinstance(table, dict)] if isinstance(tables, dict) else []

    def load(self, name: str) -> Mapping[str, Any]:
        """The knobs that a profile sets, by key. Raises UsageError if there is no such profile or it is not valid."""
        chosen = config.load(path=self._path, profile=name, environ={})
        return {
            field.name: getattr(chosen.knobs, field.name)
            for field in dataclasses.fields(Knobs)
            if chosen.origins[field.name].startswith("profile ")
        }

    def save(self, name: str, knobs: Knobs, setup: Setup | None = None) -> None:
        """Write all knobs into the profile of this name, and what a set-up has other than the defaults. What else the
        profile holds, and the rest of the file, stays as it is.

        Raises ProfileError if the name is not allowed or the file cannot be written, UsageError if the file is not a valid
        configuration.
        """
        values = {field.name: getattr(knobs, field.name) for field in dataclasses.fields(Knobs)}
        if setup is not None:
            chosen = {field.name: getattr(setup, field.name) for field in dataclasses.fields(Setup)}
            for key in [key for key, value in chosen.items() if value != config.SETTINGS[key].default]:
                values[key] = config.rooted(config.SETTINGS[key].spec, chosen[key], absolute("."))
        self._write({name.strip(): values}, alone=False)

    def write(self, profiles: Mapping[str, Mapping[str, Any]], *, replace: bool = False) -> None:
        """Write profiles that hold these settings and no others, all or none of them. The rest of the file stays as it is.

        Raises ExistsError if one of them exists and is not to be replaced; otherwise as `save`.
        """
        self._refuse_known(profiles, replace)
        self._write(profiles, alone=True)

    def check(self, name: str, *, replace: bool = False) -> None:
        """Raise what `write` would raise for a profile of this name. Writes nothing."""
        self._refuse_known([name], replace)
        self._written({name: {}}, alone=True)
        path = self._path.resolve()
        directory = next(parent for parent in path.parents if os.path.exists(parent))
        try:
            with tempfile.TemporaryFile(dir=directory):
                pass
        except OSError as error:
            raise ProfileError(f"{self._path} cannot be written: {error.strerror}.") from error

    def _refuse_known(self, profiles: Iterable[str], replace: bool) -> None:
        known = self.names()
        for name in profiles:
            if name in known and not replace:
                raise ExistsError(f"{self._path} has a profile {name!r} already: --replace it, or give this one another name.")

    def _write(self, profiles: Mapping[str, Mapping[str, Any]], *, alone: bool) -> None:
        text = self._written(profiles, alone=alone)
        try:
            _replace(self._path, text)
        except OSError as error:
            raise ProfileError(f"{self._path} cannot be written: {error.strerror}.") from error

    def _written(self, profiles: Mapping[str, Mapping[str, Any]], *, alone: bool) -> str:
        """The file's text with these profiles."""
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        for name in profiles:
            if not (name and name.isprintable() and len(name) <= LONGEST_NAME):
                raise ProfileError(f"A profile's name has 1 to {LONGEST_NAME} printable characters, not {name!r}.")
        text = ""
        if os.path.exists(self._path):
            config.read(self._path)  # says in one sentence what is wrong with it
            text = self._path.read_bytes().decode("utf-8-sig")
        try:
            document: Any = tomlkit.parse(text)
            tables = document.setdefault("profiles", tomlkit.table(is_super_table=True))
            for name, settings in profiles.items():
                profile = tables.setdefault(name, tomlkit.table())
                for key in config.SETTINGS if alone else ():
                    if key not in settings:
                        spelled, holder = _where(profile, key)
                        holder.pop(spelled, None)
                for key, value in settings.items():
                    # A profile may have sections, and names with _ for -: change a value where it already is.
                    spelled, holder = _where(profile, key)
                    holder[spelled] = config.in_file(config.SETTINGS[key].spec, value)
            return str(tomlkit.dumps(document))
        except (TOMLKitError, TypeError, AttributeError) as error:
            raise UsageError(f"{self._path} cannot be written to as it is ({error}): edit it by hand.") from error


def _where(profile: Any, key: str) -> tuple[str, Any]:
    """(name, table) of a knob in a profile: where it is set, or where it should be added."""
    for holder in (profile, *(profile[name] for name in config.SECTIONS if name in profile)):
        for spelled in (title(key), key):
            if spelled in holder:
                return spelled, holder
    return title(key), profile


def _replace(path: Path, text: str) -> None:
    """Write the file atomically, with the permissions that it has; a symbolic link stays one."""
    path = path.resolve()
    write_atomic(path, text.encode(), mode=path.stat().st_mode & 0o777 if path.exists() else 0o644)
