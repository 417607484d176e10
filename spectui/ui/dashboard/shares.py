"""A slider for each GPU's share of a model, where it is divided among several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from spectui.chat.device_choice import ROLES, Role
from spectui.engine.loading.shares import percentages, with_share
from spectui.ui.keys import with_keys
from spectui.ui.widgets.slider import Slider


class Share(Slider):
    """One GPU's share, in percent."""

    HELP = """\
## Shares of the GPUs

Each slider is a GPU's share of the model's weights; the others give or take the difference. **{load-shares}** shows what the
models would take with them, and loads them anew; the conversation stays. {slider.default} turns a share back to what was
chosen for it.
"""
    BINDING_GROUP_TITLE = "shares of GPUs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "load_shares", "Load shares", id="load-shares",
                tooltip="See what the models would take with these shares of the GPUs, and load them so"),
    ]  # fmt: skip

    @dataclass
    class Entered(Message):
        """A person wants the models loaded with the shares as they are."""

        share: Share

    def action_load_shares(self) -> None:
        """Send `Entered`."""
        self.post_message(self.Entered(self))


class _Heading(Widget):
    """Says what the sliders are. Looks its key up when it is drawn: then the sliders that have the key are mounted."""

    DEFAULT_CSS = "_Heading { color: $foreground 60%; height: 1; }"

    def __init__(self, model: str) -> None:
        super().__init__()
        self._model = model

    def render(self) -> Content:
        return Content(with_keys(self.app, f"% of the {self._model}; {{load-shares}} loads it so"))


class Shares(Vertical):
    """Hidden unless its model is on several GPUs."""

    @dataclass
    class Chosen(Message):
        """A person wants the models loaded with these shares, as the setting of `role` has them; "" lets llama.cpp choose."""

        role: Role
        shares: str

    DEFAULT_CSS = """
    Shares { height: auto; }
    Shares.-none { display: none; }
    """

    def __init__(self, model: str, *, id: str | None = None) -> None:
        """`model`: "target" or "draft"."""
        super().__init__(id=id, classes="-none")
        self._model = model
        self._names: tuple[str, ...] = ()
        self._loaded: tuple[int, ...] = ()
        self._usual: tuple[int, ...] = ()  # the shares without a person's choice; () while unknown

    def compose(self) -> ComposeResult:
        """A heading and the sliders."""
        if self._names:
            yield _Heading(self._model)
        for name, value, default in zip(self._names, self._loaded, self._defaults, strict=True):
            yield Share(f"share-{self._model}-{name}", name, value, low=0, high=100, step=5, default=default)

    @property
    def _defaults(self) -> Sequence[int]:
        return self._usual or percentages([1] * len(self._names))

    def update_shares(self, names: Sequence[str], loaded: Sequence[int], automatic: bool) -> None:
        """Show the shares that these GPUs have. `automatic`: no person has chosen them.

        Sliders that a person has turned since stay until other shares are loaded.
        """
        if (tuple(names), tuple(loaded)) == (self._names, self._loaded) and (
            not automatic or self._usual == self._loaded
        ):
            return
        if tuple(names) != self._names:
            self._usual = ()
        self._names, self._loaded = tuple(names), tuple(loaded)
        self._usual = self._loaded if automatic else self._usual
        self.set_class(not names, "-none")
        sliders = list(self.query(Share))
        if [slider.label for slider in sliders] != list(names):
            self.refresh(recompose=True)
            return
        for slider, value, default in zip(sliders, self._loaded, self._defaults, strict=True):
            slider.value, slider.default = value, default

    @on(Slider.Changed)
    def _turn(self, event: Slider.Changed) -> None:
        event.stop()
        sliders = list(self.query(Share))
        at = sliders.index(event.slider)  # type: ignore[arg-type]
        before = [round(each.value) for each in sliders]
        for slider, value in zip(sliders, with_share(before, at, before[at]), strict=True):
            slider.set_value(value)

    @on(Share.Entered)
    def _choose(self, event: Share.Entered) -> None:
        event.stop()
        now = tuple(round(share.value) for share in self.query(Share))
        shares = "" if now == self._usual else ",".join(map(str, now))
        self.post_message(self.Chosen(ROLES[self._model], shares))
