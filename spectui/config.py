"""The effective settings, and where each of them came from.

A flag wins over a `SPECTUI_*` variable, that over the profile chosen with `-P`, that over the file, that over the
default. What can be set is read from the dataclasses' own table (`spectui.knobs`).
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple, cast

from spectui import paths
from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup, Spec, check, quoted, setting, title
from spectui.text import escaped, one_line
from spectui.text_file import read_text

LARGEST_FILE = 1_000_000
"""Bytes. A larger file was not written by a person."""

_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)\}|([A-Za-z_]\w*))")

VARIABLES = (*(f"SPECTUI_{kind.upper()}_DIR" for kind in paths.KINDS), "SPECTUI_API_KEY")
"""Those that are no settings."""

_SWITCHED = {"1": "on", "true": "on", "enabled": "on", "0": "off", "false": "off", "disabled": "off"}

SYNONYMS = {"top_k": {"-1": "0"}, "flash_attn": _SWITCHED, "flash_attn_draft": _SWITCHED}
"""Other words that llama.cpp takes, so that its lines can be pasted."""


@dataclass(frozen=True)
class UiSettings:
    """Settings of the user interface. `keys` maps a binding's id to the keys that call it."""

    theme: str = setting("", "the theme's name (empty: spectui's own dark one)", "--theme", metavar="NAME", section="ui")
    no_history: str = setting(
        "off", "save nothing of the chat on disk", "--no-history", choices=("off", "on"), bare="on", section="ui"
    )
    models_dir: str = setting(
        "", "directories that the list of models shows besides the usual caches, with commas", "--models-dir",
        metavar="DIRS", section="ui",
    )  # fmt: skip
    keys: Mapping[str, str] = field(default_factory=dict)


class Setting(NamedTuple):
    """One row of the table: a setting, the dataclass that holds it, its default and its spec."""

    owner: type
    key: str
    default: Any
    spec: Spec

    @property
    def kind(self) -> type:
        """int, float, str, or tuple for several texts. A setting whose default is None is text that may be missing."""
        return str if self.default is None else type(self.default)

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"SPECTUI_{self.key.upper()}"


def settings() -> Iterator[Setting]:
    """Every setting, in the order in which it is documented."""
    for owner in (Setup, Knobs, UiSettings):
        for member in dataclasses.fields(cast(Any, owner)):
            if "spec" in member.metadata:
                yield Setting(owner, member.name, member.default, member.metadata["spec"])


SETTINGS = {row.key: row for row in settings()}
SECTIONS = tuple(dict.fromkeys(row.spec.section for row in settings()))

Layer = dict[str, tuple[Any, str]]
"""key -> (value, origin). A key binding's key is `ui.keys.ID`."""


class Configuration(NamedTuple):
    """The effective settings. `origins` names the flag, variable, profile or file that gave each key its value."""

    knobs: Knobs
    setup: Setup
    ui: UiSettings
    origins: Mapping[str, str]

    def recommended(self, values: Mapping[str, Any], origin: str) -> Configuration:
        """These settings, with `values` of knobs that nothing sets."""
        taken = {key: value for key, value in values.items() if self.origins[key] == "default"}
        return self._replace(
            knobs=dataclasses.replace(self.knobs, **taken), origins={**self.origins, **dict.fromkeys(taken, origin)}
        )

    def rows(self) -> Iterator[tuple[str, Any, str]]:
        """(key, value, origin) of every setting."""
        for row in settings():
            holder = {Knobs: self.knobs, Setup: self.setup, UiSettings: self.ui}[row.owner]
            yield title(row.key), getattr(holder, row.key), self.origins[row.key]
        for name, key in self.ui.keys.items():
            yield f"ui.keys.{name}", key, self.origins[f"ui.keys.{name}"]


def load(
    flags: Mapping[str, tuple[Any, str]] | None = None,
    *,
    path: Path | None = None,
    profile: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Configuration:
    """The configuration of this invocation.

    `flags`: key -> (value, the flag as it was spelled). `path` replaces the user's file and must exist then. Raises
    UsageError with one sentence that names the flag, variable or file at fault.
    """
    layers = [{row.key: (row.default, "default") for row in settings()}, *_file_layers(path, profile), _environment(environ)]
    layers.append({key: (convert(key, value, f"flag {flag}"), f"flag {flag}") for key, (value, flag) in (flags or {}).items()})
    merged: Layer = {}
    for layer in layers:
        merged.update(layer)
    # An empty path means no path, so that a variable, a flag or a profile can take a model away again.
    optional = {row.key for row in settings() if row.default is None}
    values: dict[str, Any] = {key: value or None if key in optional else value for key, (value, _) in merged.items()}
    keys = {key.removeprefix("ui.keys."): value for key, value in values.items() if key.startswith("ui.keys.")}
    return Configuration(
        knobs=Knobs(**_of(Knobs, values)).checked(),
        setup=Setup(**_of(Setup, values)).checked(),
        ui=UiSettings(**_of(UiSettings, values), keys=keys),
        origins={key: origin for key, (_, origin) in merged.items()},
    )


def convert(key: str, value: Any, origin: str) -> Any:
    """`value`, which is text or came from TOML, as the setting's own type and in its range. Raises UsageError."""
    row = SETTINGS[key]
    if isinstance(value, str):
        numbers = {word: str(number) for number, word in row.spec.words.items()}
        value = {**numbers, **SYNONYMS.get(key, {})}.get(value.strip().lower(), value)
    value = _typed(row, value, origin)
    try:
        check(key, value, row.spec)
    except UsageError as error:
        raise UsageError(f"{origin}: {error}") from None
    return value


def shown(value: object) -> str:
    """A setting's value on one line; "" for none."""
    return ", ".join(map(escaped, value)) if isinstance(value, tuple) else str(value)


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about an unknown `name`: the closest of `names` as a question, or a full stop.

    The dashes of flags do not count, as all have them; but for a long flag a short one is never meant.
    """
    from difflib import get_close_matches

    known = {other.lstrip("-"): other for other in names if not name.startswith("--") or other.startswith("--")}
    matches = get_close_matches(name.lstrip("-"), list(known), 1)
    return f"; did you mean {known[matches[0]]}?" if matches else "."


def _typed(row: Setting, value: Any, origin: str) -> Any:
    if row.kind is tuple:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list | tuple):
            raise UsageError(f"{origin}: {title(row.key)} must be text or a list of texts, not {quoted(value)}.")
        return tuple(_text(row, text, origin) for text in texts)
    if row.kind is str:
        return _text(row, value, origin)
    wanted = {int: "a whole number", float: "a number"}[row.kind]
    problem = UsageError(f"{origin}: {title(row.key)} must be {wanted}, not {quoted(value)}.")
    # bool is an int to Python, and 1.5 would be cut to 1: neither is what the person meant.
    if isinstance(value, bool) or not isinstance(value, str | int | float) or (row.kind is int and isinstance(value, float)):
        raise problem
    try:
        return row.kind(value)
    except (ValueError, OverflowError):
        raise problem from None


def _text(row: Setting, value: Any, origin: str) -> str:
    if not isinstance(value, str) or (row.kind is tuple and not value):
        wanted = "text" if row.kind is str else "texts that are not empty"
        raise UsageError(f"{origin}: {title(row.key)} must be {wanted}, not {quoted(value)}.")
    if row.spec.metavar not in ("FILE", "DIRS") and not _encodable(value):
        raise UsageError(f"{origin}: {title(row.key)} is not UTF-8: convert it first.")
    return value


def _encodable(text: str) -> bool:
    """Python keeps undecodable bytes of flags and variables as lone surrogates, which cannot be encoded."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


def _of(owner: type, values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in SETTINGS and SETTINGS[key].owner is owner}


def unknown_variables() -> list[str]:
    """A sentence for each variable that has spectui's name and means nothing."""
    known = [*(row.variable for row in settings()), *VARIABLES]
    unknown = sorted(name for name in os.environ if name.startswith("SPECTUI_") and name not in known)
    return [f"There is no variable {one_line(name)}{nearest(name, known)}" for name in unknown]


def _environment(environ: Mapping[str, str]) -> Layer:
    """An empty variable counts as unset, as everywhere else."""
    layer: Layer = {}
    for row in settings():
        if value := environ.get(row.variable):
            origin = f"env {row.variable}"
            layer[row.key] = (rooted(row.spec, convert(row.key, value, origin), ""), origin)
    return layer


def _file_layers(path: Path | None, profile: str | None) -> list[Layer]:
    """The layer of the file and that of the chosen profile, if any. All profiles are checked."""
    chosen = path or paths.config_file()
    if path is None and not os.path.exists(chosen):
        if profile:
            raise UsageError(
                f"There is no profile {profile!r}, because there is no {chosen}: write one with spectui config init."
            )
        return []
    table = read(chosen)
    tables = table.pop("profiles", {})
    if not isinstance(tables, dict) or not all(isinstance(inner, dict) for inner in tables.values()):
        raise UsageError(f"{chosen}: a profile is a table, written [profiles.NAME].")
    profiles = {
        name: _layer(inner, f"{chosen}, profile {name}", f"profile {name} in {chosen}", chosen.parent)
        for name, inner in tables.items()
    }
    layers = [_layer(table, str(chosen), f"file {chosen}", chosen.parent)]
    if profile is not None:
        if profile not in profiles:
            raise UsageError(f"{chosen} has no profile {profile!r}{nearest(profile, profiles)}")
        layers.append(profiles[profile])
    return layers


def read(path: Path) -> dict[str, Any]:
    """The TOML table in `path`. Raises UsageError with one sentence that names the file, and the line of a mistake."""
    import tomli

    advice = "no configuration is, so give the right file with --config"
    text = read_text(path, f"The configuration file {path}", LARGEST_FILE, advice)
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.") from None
    except ValueError:
        raise UsageError(f"{path} is not a configuration: a number in it has thousands of digits.") from None
    except RecursionError:
        raise UsageError(f"{path} is not a configuration: its tables are nested too deeply.") from None


def _layer(table: Mapping[str, Any], where: str, origin: str, base: Path) -> Layer:
    """The settings in a file's or a profile's table: in sections, or (shorter in a profile) directly by their names."""
    layer: Layer = {}
    for name, value in table.items():
        if name not in SECTIONS:
            _put(layer, name, value, tuple(SETTINGS), where, origin, base)
            continue
        if not isinstance(value, dict):
            raise UsageError(f"{where}: {name} is a table, written [{name}].")
        members = tuple(key for key, row in SETTINGS.items() if row.spec.section == name)
        for key, inner in value.items():
            if name == "ui" and key == "keys":
                layer.update(_keys(inner, where, origin))
            else:
                _put(layer, key, inner, members, f"{where}, [{name}]", origin, base)
    return layer


def _put(layer: Layer, name: str, value: Any, members: tuple[str, ...], where: str, origin: str, base: Path) -> None:
    key = name.replace("-", "_")
    if key not in members:
        if key in SETTINGS:
            raise UsageError(f"{where}: {name} belongs in [{SETTINGS[key].spec.section}].")
        names = [*map(title, members), *(SECTIONS if members == tuple(SETTINGS) else ())]
        raise UsageError(f"{where}: there is no setting {name!r}{nearest(title(key), names)}")
    if key in layer:
        raise UsageError(f"{where}: {title(key)} is given twice.")
    value = _expanded(SETTINGS[key].spec, convert(key, value, where), f"{where}: {title(key)}")
    # Relative to the file's directory, so that a path means the same wherever spectui is started.
    layer[key] = (rooted(SETTINGS[key].spec, value, base.absolute()), origin)


def in_file(spec: Spec, value: Any) -> Any:
    """`value` as the file has to hold it: a $ in a path begins the name of a variable there."""
    return value.replace("$", "$$") if spec.metavar in ("FILE", "DIRS") and isinstance(value, str) else value


def _expanded(spec: Spec, value: Any, origin: str) -> Any:
    """`value` with the variables in its paths replaced. Raises UsageError for one that is not set."""

    def variable(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name is not None and name not in os.environ:
            raise UsageError(f"{origin} names the variable {match[0]}, which is not set: set it, or write $$ for a $.")
        return "$" if name is None else os.environ[name]

    return _VARIABLE.sub(variable, value) if spec.metavar in ("FILE", "DIRS") else value


def rooted(spec: Spec, value: Any, base: Path | str) -> Any:
    """`value` with its paths, if it has any, made relative to `base`."""
    if spec.metavar == "DIRS":
        parts = (part.strip() for part in value.split(","))
        return ",".join(_rooted(part, base) for part in parts if part)
    return _rooted(value, base) if spec.metavar == "FILE" and value else value


def is_absolute(path: str) -> bool:
    """Does a path start at a root: this machine's, or a drive of Windows in a line that was imported from there?"""
    return os.path.isabs(path) or PureWindowsPath(path).is_absolute()


def _rooted(path: str, base: Path | str) -> str:
    path = os.path.expanduser(path)
    return path if PureWindowsPath(path).is_absolute() else str(Path(base, path))


def _keys(table: Any, where: str, origin: str) -> Layer:
    if not isinstance(table, dict) or not all(isinstance(key, str) for key in table.values()):
        raise UsageError(f'{where}: [ui.keys] holds lines such as stop = "escape".')
    return {f"ui.keys.{name}": (key, origin) for name, key in table.items()}
