"""Changes that a person makes: knobs, profiles, devices and models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from spectui.chat.actions import Remark
from spectui.chat.device_choice import Role, pick
from spectui.chat.sentences import saved_profile
from spectui.engine.loading.plan import PlanInWords
from spectui.errors import SpectuiError
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.knobs import Knobs, Setup, spec_of, title
from spectui.profiles.file import ProfileFile
from spectui.text import printable
from spectui.ui.dashboard.panel import NO_PROFILE, turned
from spectui.ui.screen.window import Window, do
from spectui.ui.widgets.knob import next_choice


class Controls:
    """Passes changes on the panel to the session."""

    def __init__(
        self, window: Window, profiles: ProfileFile | None, catalogue: ModelCatalogue | None, plan: PlanInWords | None
    ) -> None:
        """`catalogue` has the models to choose from, `plan` says what they would take on the devices."""
        self._window = window
        self._session = window.session
        self._models = window.session.models
        self._panel = window.panel
        self._panel.profile_names = self.profile_names
        self._profiles = profiles
        self.catalogue = catalogue or ModelCatalogue()
        self._plan = plan
        self._profile_knobs: Knobs | None = None  # as the shown profile has set them
        self._picked: Setup | None = None  # with the devices that a person has picked, until it is loaded

    def use_knobs(self, knobs: Knobs) -> None:
        """Turn the knobs to these."""
        self._session.knobs = knobs
        self._show_knobs()

    def _show_knobs(self) -> None:
        self._panel.show_knobs(self._session.knobs)
        if self._session.knobs != self._profile_knobs:
            self._panel.profile.value = NO_PROFILE

    def turn(self, key: str, value: float | str) -> None:
        """Set one knob, which acts from the next round on."""
        if (fixed := self._models.fixed.get(key)) is not None:
            self._show_knobs()  # the control may show another value already
            self._window.say(fixed.sentence)
            return
        knobs = turned(self._session.knobs, key, value)
        if knobs != self._session.knobs:
            self.use_knobs(knobs)

    def switch(self, key: str) -> None:
        """Turn to the next choice, and say so where the panel is hidden."""
        value = next_choice(spec_of(Knobs, key).choices, getattr(self._session.knobs, key))
        self.turn(key, value)
        if not self._panel.display and getattr(self._session.knobs, key) == value:
            self._window.tell(f"{title(key)}: {value}")

    def do(self, identity: str, words: str = "") -> None:
        """Do what the table of commands has for the session, show the knobs or models that it has changed, and tell what it
        says."""
        answer = do(self._window, identity, words)
        if self._session.state == "loading":
            self.show_loading(True)
        else:
            self._show_knobs()
        if isinstance(answer, Remark):
            self._window.say(answer, "information")
        elif answer:
            self._window.transcript.add_notice(printable(answer))

    # Profiles

    def profile_names(self) -> list[str]:
        """The profiles of the configuration; none, with a notice, if it cannot be read."""
        try:
            return self._profiles.names() if self._profiles is not None else []
        except SpectuiError as error:
            self._window.complain(error)
            return []

    def use_profile(self, name: str) -> bool:
        """Turn the knobs that a profile sets. Returns False, with a notice, if that fails."""
        if self._profiles is None or name == NO_PROFILE:
            return False
        try:
            self._session.user_knobs.use_profile(self._profiles, name)
        except SpectuiError as error:
            self._panel.profile.value = NO_PROFILE  # the choice may show the profile already
            self._window.complain(error)
            return False
        self._show_knobs()
        self._show_profile(name)
        return True

    def next_profile(self) -> None:
        """Turn the knobs to the next profile."""
        names = self.profile_names()
        if not names:
            self._window.say("There is no profile yet: {save-profile} saves the knobs as one.", severity="information")
            return
        now = self._panel.profile.value
        name = next_choice(names, now) if now in names else names[0]
        if self.use_profile(name):
            self._window.tell(f"profile: {name}")

    def save_profile(self) -> None:
        """Ask for a name and save the knobs under it."""
        now = self._panel.profile.value
        self._ask_profile("" if now == NO_PROFILE else now, "Save the knobs as a profile named", self._save_profile)

    def _ask_profile(self, proposed: str, question: str, then: Callable[[ProfileFile, str], None]) -> None:
        from spectui.ui.dialogs.questions import LineScreen

        known = self.profile_names()

        def consequence(name: str) -> str:
            return "Replaces the profile of this name." if name in known else "Becomes a profile (-P)."

        if self._profiles is not None:
            screen = LineScreen(question, proposed, verb="save", consequence=consequence, placeholder="code")
            self._window.ask(screen, partial(then, self._profiles))

    def _save_profile(self, profiles: ProfileFile, name: str, setup: Setup | None = None) -> None:
        try:
            profiles.save(name, self._session.knobs, setup)
        except SpectuiError as error:
            self._window.complain(error)
        else:
            self._show_profile(name)
            self._window.notify(saved_profile(name), markup=False)

    def _show_profile(self, name: str) -> None:
        self._panel.profile.show_choices([NO_PROFILE, *self.profile_names()], name)
        self._profile_knobs = self._session.knobs

    # Devices and models

    def load(self, setup: Setup) -> None:
        """Load the models of this set-up."""
        self.show_loading(self._models.load(setup))

    def show_loading(self, loads: bool) -> None:
        """Show whether other models are being loaded."""
        window, self._picked = self._window, None
        if loads:
            window.loading_line.begin("the draft" if self._session.setup.draft else "")
            self._show_knobs()
            window.show_models()
        else:
            window.loading_line.end()
            window.show_figures()
        self.show_devices()
        window.show_state()

    def show_devices(self) -> None:
        """Show the devices, and where the models are or were picked to be."""
        models, panel = self._models, self._panel
        panel.update_devices(models.devices, models.setup)
        if self._picked is not None:
            panel.devices.update_devices(models.devices, self._picked, picked=True)
            self._window.run(partial(self._show_plan, self._picked), "plan")

    def pick_device(self, role: Role, device: str) -> None:
        """Pick this device for one of the models, or take it away. `change_placement` loads what was picked."""
        models = self._models
        picked = pick(self._picked or models.setup, role, device, models.devices)
        self._picked = picked if picked != models.setup else None
        self.show_devices()

    def _in_words(self, setup: Setup) -> str:
        """What the models of a set-up would take on the devices, in place of the loaded ones. Takes a while."""
        return self._plan(setup, self._models.memory) if self._plan is not None else ""

    async def _show_plan(self, picked: Setup) -> None:
        """Show below the devices what the models would take on those that are picked."""
        plan = await asyncio.to_thread(self._in_words, picked)
        if picked == self._picked:
            self._panel.devices.show_plan(plan)

    def leave_picked(self) -> bool:
        """Forget the devices that were picked and not loaded. False if there are none."""
        picked, self._picked = self._picked, None
        self.show_devices()
        return picked is not None

    def choose_models(self) -> None:
        """Choose other models among those on this machine."""
        # Dialogs are imported when a key opens them, so that the window starts sooner.
        from spectui.ui.dialogs.models import ModelsScreen

        self._window.ask(ModelsScreen(self.catalogue, self._session.setup, self._in_words, self._models.pairs), self.use_models)

    def change_placement(self) -> None:
        """Show the numbers behind the devices, with those that were picked, and load the models anew with what is entered."""
        from spectui.ui.dialogs.placement import PlacementScreen

        def chosen(line: str) -> None:
            if self._models.place(line):
                self.show_loading(True)

        if self._models.setup.model is None:
            self._window.say(self._session.busy_reason)
            return
        self._window.ask(PlacementScreen(self._models.setup, self._in_words, self._picked), chosen)

    def measure(self) -> None:
        """Find the best settings for the loaded pair. Its models are freed during a measurement."""
        if (fixed := self._models.fixed.get("draft_max")) is not None:
            self._window.say(f"Only models of this machine are measured here. {fixed.sentence}")
        elif not self._window.refuses(self._session.busy_reason):
            self._window.run(self._measure, "measure")

    async def _measure(self) -> None:
        """Measure, load the models again, and offer what was found to be best."""
        from spectui.ui.screen.tuning import tune

        best = await tune(self._window)
        if self._models.measured:
            self.show_loading(self._models.load_again())

        def use(profiles: ProfileFile, name: str) -> None:
            self.use_knobs(replace(self._session.knobs, **best))
            self._save_profile(profiles, name, self._session.setup)

        if best:
            self._ask_profile("tuned", "Use the fastest settings, saved as a profile named", use)

    def use_models(self, setup: Setup) -> None:
        """Load this set-up's target and draft; the other settings stay."""
        self.show_loading(self._models.load_others(setup.model, setup.draft))
