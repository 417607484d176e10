"""Changes that a person makes: knobs, profiles, devices and models. The best settings are found by `spectui tune`, in the
terminal."""

from __future__ import annotations

import asyncio
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from textual.app import SuspendNotSupported

from spectui.chat import actions
from spectui.chat.actions import Remark
from spectui.chat.device_choice import Role, pick
from spectui.chat.text.editor import in_terminal
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup, spec_of, title
from spectui.profiles.file import ProfileFile
from spectui.profiles.setup_line import flags_of
from spectui.text import printable
from spectui.ui.dashboard.panel import NO_PROFILE, turned
from spectui.ui.keys import with_keys
from spectui.ui.screen.window import Window
from spectui.ui.widgets.rows import next_choice

PICKED_CONTEXT = "Not loaded yet: Enter loads the models with it, {stop} leaves it."


def do(window: Window, act: Callable[[], object]) -> object:
    """Change the session, show what has changed, and tell what is remarked.

    Returns what `act` answers; None, with a notice, where it raises SpectuiError.
    """
    session = window.session
    try:
        answer = act()
    except SpectuiError as error:
        window.say(printable(str(error)))
        return None
    if session.writing is not None:
        if window.transcript.document.growing is None:
            window.transcript.continue_reply()
        window.transcript.scroll_to_end()
    if session.state == "loading":
        window.panel.devices.picked = None
        window.loading_line.begin()
    else:
        window.loading_line.end()
    window.show_models()
    window.show_all()
    if isinstance(answer, Remark) and answer:
        window.say(printable(answer), "information")
    return answer


# Knobs and profiles


def turn(window: Window, key: str, value: float | str) -> None:
    """Set one knob, which acts from the next round on."""
    if not window.refuses(window.why_fixed(key)):
        window.session.knobs = turned(window.session.knobs, key, value)
    window.panel.show_knobs()  # the control may show another value already


def switch(window: Window, key: str) -> None:
    """Turn to the next choice, and say so where the panel is hidden."""
    value = next_choice(spec_of(Knobs, key).choices, getattr(window.session.knobs, key))
    turn(window, key, value)
    if not window.panel.display and getattr(window.session.knobs, key) == value:
        window.notify(f"{title(key)}: {value}", timeout=2)


def use_profile(window: Window, name: str) -> None:
    """Turn the knobs that a profile sets."""
    session = window.session
    if name == NO_PROFILE:
        session.user_knobs.profile = ""
    elif not window.refuses(window.why_fixed("profile")):
        do(window, partial(actions.profile, session, name))
    window.panel.show_knobs()  # the choice may show the profile already


def next_profile(window: Window) -> None:
    """Turn the knobs to the next profile."""
    if names := window.panel.profile_names():
        now = window.session.user_knobs.profile
        use_profile(window, next_choice(names, now) if now in names else names[0])
    else:
        window.say("There is no profile yet: {save-profile} saves the knobs as one.", severity="information")


def save_profile(window: Window) -> None:
    """Ask for a name and save the knobs under it."""
    session = window.session
    _ask_profile(window, session.user_knobs.profile, "Save the knobs as a profile named", partial(actions.save, session))


def _ask_profile(window: Window, proposed: str, question: str, save: Callable[[str], str]) -> None:
    from spectui.ui.dialogs.questions import LineScreen

    known = window.panel.profile_names()

    def consequence(name: str) -> str:
        return "Replaces the profile of this name." if name in known else "Becomes a profile (-P)."

    screen = LineScreen(question, proposed, verb="save", consequence=consequence, placeholder="code")
    window.ask(screen, lambda name: do(window, partial(save, name)))


# Devices and models


def pick_device(window: Window, role: Role, device: str) -> None:
    """Pick this device for one of the models, or take it away. `change_placement` loads what was picked."""
    models = window.session.models
    if not window.refuses(window.why_fixed(role)):
        _pick(window, pick(window.picked or models.setup, role, device, models.devices))


def pick_context(window: Window, tokens: int) -> None:
    """Pick a context of so many tokens. `load_picked` loads the models with it."""
    if window.refuses(window.why_fixed("ctx_size")):
        window.panel.show_models()  # the slider shows it already
    else:
        _pick(window, replace(window.picked or window.session.models.setup, ctx_size=tokens))


def _pick(window: Window, setup: Setup) -> None:
    devices = window.panel.devices
    devices.picked, devices.plan = setup if setup != window.session.models.setup else None, ""
    window.panel.show_models()
    if devices.picked is not None:
        window.run(partial(_show_plan, window, setup), "plan")


async def _show_plan(window: Window, picked: Setup) -> None:
    """Show below the devices and the knobs what the models would take as they were picked."""
    plan = await asyncio.to_thread(window.plan, picked)
    if picked == window.picked:
        window.panel.devices.plan = plan
        window.panel.devices.show()
        window.panel.about.update(printable(with_keys(window.app, f"{PICKED_CONTEXT} {plan}")))


def load_picked(window: Window) -> None:
    """Load the models with what was picked."""
    if window.picked is not None and window.session.models.setup.model:
        load(window, window.picked)


def leave_picked(window: Window) -> None:
    """Forget the devices and the context that were picked and not loaded."""
    window.panel.about.update("")
    _pick(window, window.session.models.setup)


def load(window: Window, setup: Setup) -> None:
    """Load the models of this set-up."""
    do(window, partial(window.session.models.load, setup))


def choose_models(window: Window, path: str = "") -> None:
    """Choose other models among those on this machine, or at a path."""
    # Dialogs are imported when a key opens them, so that the window starts sooner.
    from spectui.ui.dialogs.models import ModelsScreen

    setup, pairs = window.session.setup, window.session.models.pairs
    window.ask(ModelsScreen(window.catalogue, setup, window.plan, pairs, path), partial(use_models, window))


def use_models(window: Window, setup: Setup) -> None:
    """Load this set-up's target and draft; the other settings stay."""
    do(window, partial(window.session.models.load_others, setup.model, setup.draft))


def change_placement(window: Window) -> None:
    """Show the numbers behind the devices, with those that were picked, and load the models anew with what is entered."""
    from spectui.ui.dialogs.questions import PlacementScreen

    models = window.session.models
    if not window.refuses(window.session.busy_reason if models.setup.model is None else ""):
        screen = PlacementScreen(models.setup, window.plan, window.picked)
        window.ask(screen, lambda line: do(window, partial(models.place, line)))


# The best settings


_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
"""The knobs that it takes from the chat. The other ones are what it varies, or would make it too long."""

NO_TERMINAL = "This is no terminal of its own: run {line} --save NAME."

_BEGINS = "print({line!r}, 'Ctrl+C ends it sooner. The chat waits, and its models are freed.', sep=chr(10))"
_ENDS = "try: input('Enter goes back to the chat. ')\nexcept (EOFError, KeyboardInterrupt): pass"
_NAME = "tuned"
_POLL_S = 0.1


def tune(window: Window) -> None:
    """Find the best settings for the loaded pair. Its models are freed during a measurement."""
    if (fixed := window.session.models.fixed.get("draft_max")) is not None:
        window.say(f"Only models of this machine are measured here. {fixed.sentence}")
    elif not window.refuses(window.session.busy_reason):
        window.run(partial(_tune, window), "tune")


async def _tune(window: Window) -> None:
    """Measure, load the models again, and offer what was found to be best."""
    session, best = window.session, await _best(window)
    if session.models.measured:
        do(window, session.models.load_again)

    def save(name: str) -> str:
        session.knobs = replace(session.knobs, **best)
        return actions.save(session, name, session.setup)

    if best:
        _ask_profile(window, "tuned", "Use the fastest settings, saved as a profile named", save)


async def _best(window: Window) -> Mapping[str, Any]:
    """Free the models and find their best settings in the terminal: the knobs, or none if it ended too early. The models are
    not loaded again."""
    models, line = window.session.models, tune_command(window.session.setup, window.session.knobs)
    no_terminal = NO_TERMINAL.format(line=printable(line))
    if window.app.is_web:
        window.say(no_terminal)
        return {}
    models.unload()
    window.show_state()
    while models.measured and not models.unloaded:
        await asyncio.sleep(_POLL_S)
    with tempfile.TemporaryDirectory(prefix="spectui-", ignore_cleanup_errors=True) as directory:
        file = Path(directory) / "config.toml"
        file.touch()
        python = shlex.quote(sys.executable)
        own = f"{python} -m {line} --config {shlex.quote(str(file))} --save {_NAME}"
        begins, ends = (f"{python} -c {shlex.quote(code)}" for code in (_BEGINS.format(line=printable(line)), _ENDS))
        try:
            in_terminal([begins, own, ends], window.app.suspend())
        except SuspendNotSupported:
            window.say(no_terminal)
        profiles = ProfileFile(file)
        return profiles.load(_NAME) if _NAME in profiles.names() else {}


def tune_command(setup: Setup, knobs: Knobs) -> str:
    """The command that finds the best settings for this set-up, and samples as the chat does."""
    words = ["spectui", "tune"]
    for flag, value in (("-m", setup.model), ("-md", setup.draft), ("--system", setup.system)):
        words += [flag, value] if value else []
    for key in _SAMPLING:
        if getattr(knobs, key) != getattr(Knobs(), key):
            words += [spec_of(Knobs, key).flags[0], str(getattr(knobs, key))]
    return f"{shlex.join(words)} {flags_of(setup)}".rstrip()
