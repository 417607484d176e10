"""Commands that turn knobs and load models."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from spectui.chat.device_choice import ROLES, SPLITS, chosen, pick, selectable, sharing
from spectui.chat.figures.format import size
from spectui.chat.sentences import saved_profile, thinking_switched
from spectui.cli.plain.slash.command import Chat, Run, numbered
from spectui.cli.plain.text_report import model_line
from spectui.config import SETTINGS, convert, nearest, shown
from spectui.engine.loading.lists import shares
from spectui.errors import UsageError
from spectui.knobs import Knobs, spec_of, title
from spectui.profiles.setup_line import flags_of
from spectui.text import unescaped


def _set(chat: Chat, rest: str) -> None:
    name, _, value = rest.partition(" ")
    key = name.replace("-", "_")
    names = [field.name for field in fields(Knobs)]
    if name and key not in names:
        raise UsageError(f"There is no knob {name!r}{nearest(name, map(title, names))}")
    if value.strip():
        if (fixed := chat.session.models.fixed.get(key)) is not None:
            raise UsageError(fixed.sentence)
        text = "" if value.strip() == '""' else value.strip()
        given = text if SETTINGS[key].kind is not tuple else [unescaped(text)] if text else []
        turned = convert(key, given, "/set")
        chat.session.knobs = replace(chat.session.knobs, **{key: turned}).checked()
    for each in [key] if name else names:
        chat.output(f"{title(each)} {shown(getattr(chat.session.knobs, each))}: {spec_of(Knobs, each).help}")


def _think(chat: Chat, rest: str) -> None:
    if rest not in ("", "on", "off"):
        raise UsageError("/think takes on or off; alone it switches.")
    target = chat.session.models.target
    usual = target.thinks if target is not None else None
    on = chat.session.user_knobs.switch_thinking(usual, rest == "on" if rest else None)
    chat.notice(thinking_switched(on))


def _profile(chat: Chat, rest: str) -> None:
    if rest:
        chat.session.user_knobs.use_profile(chat.profiles, rest)
        chat.notice(f"Profile {rest}.")
    else:
        chat.output(f"Profiles: {', '.join(chat.profiles.names()) or 'none'}.")


def _save(chat: Chat, rest: str) -> None:
    chat.profiles.save(rest, chat.session.knobs)
    chat.notice(saved_profile(rest))


def _reset(chat: Chat, rest: str) -> None:
    chat.session.knobs = Knobs()
    chat.notice("Every knob has its default.")


def _models(chat: Chat, rest: str) -> None:
    setup = chat.session.setup
    chat.listed = sorted(
        chat.catalogue.scan([Path(path) for path in (setup.model, setup.draft) if path]),
        key=lambda header: (header.name.casefold(), header.path),
    )
    words = rest.casefold().split()
    found = [
        (number, header)
        for number, header in enumerate(chat.listed, 1)
        if all(word in f"{header.name} {header.path}".casefold() for word in words)
    ]
    for number, header in found:
        chat.output(f"{number} {model_line(header, chat.listed)}")
    if chat.listed and not found:
        chat.notice("No model has these words.")
    if not chat.listed:
        chat.output("There is no GGUF file in the usual places; --models-dir names more directories.")


def _load(chat: Chat, rest: str) -> None:
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"/load takes one or two files: {error}.") from None
    if len(words) > 2:
        raise UsageError("/load takes one or two files; one with spaces in its name stands in quotes.")
    # A model by its path, or by its number in the list that was shown.
    named = [numbered(chat.listed, word, "model", "models").path if word.isdecimal() else word for word in words]
    models = chat.session.models
    chat.load(
        lambda: models.load_others(named[0], named[1] if len(named) > 1 else None) if named else models.load_again()
    )


def _without_draft(chat: Chat, rest: str) -> None:
    chat.load(chat.session.models.load_without_draft)


def _safe_way(chat: Chat, rest: str) -> None:
    chat.load(chat.session.models.load_safely)


def _placement(chat: Chat, rest: str) -> None:
    models = chat.session.models
    if rest:
        chat.load(lambda: models.place(rest))
    else:
        chat.output(f"Flags of the models: {flags_of(models.setup) or 'none'}.")


def _devices(chat: Chat, rest: str) -> None:
    session = chat.session
    devices = [each for each in session.models.devices if selectable(each)]
    if rest:
        word, _, name = rest.partition(" ")
        if word == "split":
            _split(chat, name.strip())
            return
        names = {each.name.casefold(): each.name for each in devices}
        if word not in ROLES or name.strip().casefold() not in names:
            raise UsageError(
                "/devices takes target or draft and a device of the list, or split and shares such as 3,1."
            )
        models, device = session.models, names[name.strip().casefold()]
        chat.load(lambda: models.change(pick(models.setup, ROLES[word], device, models.devices)))
    for each in devices:
        loaded = dict(zip(ROLES, (session.models.target, session.models.draft), strict=True))
        has = [
            word
            for word, role in ROLES.items()
            if each.name in chosen(session.setup, role, session.models.devices, loaded[word])
        ]
        if session.setup.draft is None:
            has = [word for word in has if word != "draft"]
        chat.output(f"{each.name} {each.description}, {size(each.free)} of {size(each.total)} free: "
                  f"{' and '.join(has) or 'no model'}.")  # fmt: skip


def _split(chat: Chat, text: str) -> None:
    first, _, rest = text.partition(" ")
    name, text = (first, rest.strip()) if first in ROLES else ("target", text)
    gpus = sharing(chat.session.setup, ROLES[name], chat.session.models.devices)
    if not gpus:
        raise UsageError(f"The {name} is not on several GPUs, so it has no shares.")
    if text and len(shares(text)) != len(gpus):
        raise UsageError(
            f"/devices split takes {len(gpus)} shares, for {', '.join(gpus)}; without any it lets llama.cpp choose."
        )
    models = chat.session.models
    split: dict[str, Any] = {SPLITS[ROLES[name]]: text}
    chat.load(lambda: models.change(replace(models.setup, **split)))


RUN: dict[str, Run] = {
    "set": _set,
    "think": _think,
    "profile": _profile,
    "save": _save,
    "reset": _reset,
    "models": _models,
    "load": _load,
    "nodraft": _without_draft,
    "safe": _safe_way,
    "placement": _placement,
    "devices": _devices,
}
