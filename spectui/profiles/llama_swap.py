"""llama-swap's configuration (YAML): read, with its macros, and written from profiles.

`cmd` is split as a shell would split it, but there is no shell: its lines are one command, and lines that begin with # are
comments. `${NAME}` is a macro of the model or of the file, `${env.NAME}` a variable, and `${PORT}` and `${MODEL_ID}` are
built in.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spectui import config
from spectui.errors import UsageError
from spectui.profiles.commands.llama_server import command, words_of
from spectui.profiles.exported import FLAGS, Exported
from spectui.profiles.imported import ImportedFile, ImportedProfile, LeftOut, imported, imported_each

LONGEST_COMMAND = 100_000
"""Characters of a command when its macros are written out. Macros of macros could grow without end."""

PARAMETERS = {key: flag for key, flag in FLAGS.items() if config.SETTINGS[key].spec.section == "sampling"}
PARAMETERS |= dict.fromkeys(("max_tokens", "n_predict"), FLAGS["predict"])
"""Flags for the parameters of requests that `filters: setParams:` sets, whatever a client asks for."""

OF_LLAMA_SWAP = "These keys of llama-swap are for its own use"

_MACRO = re.compile(r"\$\{([\w.-]+)\}")
_BUILT_IN = ("PORT", "PID")


def read(text: str, file: Path | None = None) -> ImportedFile:
    """A profile for each model whose command starts a program of llama.cpp; the others are listed with the reason.

    Raises UsageError if the text is no YAML, has no models, or no model of llama.cpp.
    """
    table = parsed(text)
    models = table.get("models") if isinstance(table, dict) else None
    if not isinstance(models, dict) or not models:
        raise UsageError("There are no models in it: llama-swap's file has them under models:.")
    others = [LeftOut(OF_LLAMA_SWAP, str(key)) for key in table if key not in ("models", "macros")]
    imported_models = imported_each(models, lambda name, model: _profile(name, model, table.get("macros")), "model")
    return imported_models._replace(left_out=tuple(others))


def write(profiles: Sequence[tuple[str, Exported]]) -> str:
    """A configuration with a model for each profile. Raises UsageError where a path looks like a macro."""
    lines = ["models:"]
    for name, exported in profiles:
        lines += [f"  {json.dumps(name, ensure_ascii=False)}:", "    cmd: |"]
        words = [("llama-server", "--port", "${PORT}"), *exported.arguments]
        for values in exported.arguments:
            if any("${" in word or "\n" in word for word in values):
                raise UsageError(
                    f"llama-swap cannot hold {' '.join(values)!r}: it would look for a macro. Change the setting, or "
                    "rename the file that it names."
                )
        lines += [f"      # {line}" for line in exported.comments()]
        lines.append(f"      {' '.join(words[0])}")
        lines += [f"      {' '.join(map(shlex.quote, argument))}" for argument in words[1:]]
    return "\n".join(lines) + "\n"


def parsed(text: str) -> Any:
    """The YAML of a text, all values as texts. Raises UsageError."""
    import yaml

    # All scalars stay text, as they are written (`on` is no boolean to llama-swap); merge keys work.
    resolvers = {"<": [resolver for resolver in yaml.SafeLoader.yaml_implicit_resolvers["<"] if resolver[0].endswith(":merge")]}
    kinds = (None, *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")))
    constructors = {tag: yaml.SafeLoader.yaml_constructors[tag] for tag in kinds}  # the others raise all sorts of errors
    members = {"yaml_implicit_resolvers": resolvers, "yaml_constructors": constructors}
    loader = type("TextLoader", (yaml.SafeLoader,), members)
    try:
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise UsageError(f"It is not valid YAML{where}: {getattr(error, 'problem', None) or 'it cannot be read'}.") from None
    except (RecursionError, ValueError) as error:
        raise UsageError(f"It is not valid YAML: {error}.") from None


def _profile(name: str, model: Any, shared: Any) -> ImportedProfile:
    written = model.get("cmd") if isinstance(model, dict) else None
    if not isinstance(written, str) or not written.strip():
        raise UsageError("it has no cmd.")
    macros = {**_macros(shared), **_macros(model.get("macros")), "MODEL_ID": name}
    words = words_of(re.sub(r"\\[ \t]*(\n|$)", " ", _uncommented(_expanded(_uncommented(written), macros))))
    if not words:
        raise UsageError("there is no command in it.")
    started = command(words)
    if started is None:
        raise UsageError(f"it starts {words[0]!r}, which is no program of llama.cpp.")
    variables = dict(
        _expanded(str(line), macros).split("=", 1)
        for line in (model.get("env") if isinstance(model.get("env"), list) else [])
        if "=" in str(line)
    )
    filters = model.get("filters")
    enforced = filters.get("setParams") if isinstance(filters, dict) else None
    others = [str(key) for key in model if key not in ("cmd", "env", "macros", "filters")]
    others += [f"filters.{key}" for key in filters if key != "setParams"] if isinstance(filters, dict) else []
    for key, value in enforced.items() if isinstance(enforced, dict) else ():
        if key in PARAMETERS and isinstance(value, str):
            started.arguments += [PARAMETERS[key], _expanded(value, macros)]
        elif key == "chat_template_kwargs" and isinstance(value, dict):
            started.arguments += ["--chat-template-kwargs", json.dumps(_typed(value))]
        else:
            others.append(f"filters.setParams.{key}")
    started.variables = {**variables, **started.variables}
    profile = imported(started, name=name, comments=written)
    return profile._replace(left_out=(*profile.left_out, *(LeftOut(OF_LLAMA_SWAP, key) for key in others)))


def _typed(value: Any) -> Any:
    """A value of the file as JSON has it: the file has numbers, true, false and null as texts."""
    if isinstance(value, dict):
        return {key: _typed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_typed(part) for part in value]
    return json.loads(value) if re.fullmatch(r"true|false|null|-?(0|[1-9]\d*)(\.\d+)?(e[-+]?\d+)?", str(value)) else value


def _uncommented(command: str) -> str:
    return "\n".join(line for line in command.splitlines() if not line.lstrip().startswith("#"))


def _macros(table: Any) -> Mapping[str, str]:
    if not isinstance(table, dict):
        return {}
    return {str(name): value.strip() for name, value in table.items() if isinstance(value, str)}


def _expanded(text: str, macros: Mapping[str, str]) -> str:
    """The text with its macros written out; built-in ones stay. Raises UsageError if one is missing or holds itself."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name in _BUILT_IN:
            return match[0]
        if name.startswith("env."):
            if name[4:] not in os.environ:
                raise UsageError(f"its macro {match[0]} needs the variable {name[4:]}, which is not set.")
            return os.environ[name[4:]]
        if name not in macros:
            raise UsageError(f"it uses the macro {match[0]}, which the file does not define.")
        return macros[name]

    for _ in range(len(macros) + 2):
        written_out = _MACRO.sub(value, text)
        if written_out == text:
            return text
        if len(written_out) > LONGEST_COMMAND:
            break
        text = written_out
    raise UsageError("its macros hold one another, or grow without end.")
