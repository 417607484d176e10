"""Questions over the window: for one line of text, for flags of the models, for the system prompt, or for a yes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen, ScreenResultType
from textual.widgets import Input, Label

from spectui.errors import UsageError
from spectui.knobs import Setup
from spectui.profiles.setup_line import flags_of, with_flags
from spectui.ui.textual_patches.screen import Dialog
from spectui.ui.textual_patches.text_area import LineInput, SteadyTextArea
from spectui.ui.widgets.rows import ActionLine

PLAN_AFTER_S = 0.3
"""Seconds that a set-up stays chosen before its plan is made."""


class Question(Dialog[ScreenResultType]):
    """A question, in most with a box for the answer, a line about it, and two actions."""

    BINDING_GROUP_TITLE = "question"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", id="question.cancel", priority=True, tooltip="Leave it as it is")
    ]
    DEFAULT_CSS = """
    Question {
        & > Vertical { width: 56; height: auto; padding: 1 2; }
        Input, Input:focus { margin: 1 0; }
        Label { width: 1fr; color: $foreground 70%; }
        ActionLine { margin-top: 1; }
        &.-tiny > Vertical { padding: 0; }
        &.-tiny Input, &.-tiny ActionLine { margin: 0; }
        &.-tiny #consequence { display: none; }
    }
    """

    def __init__(self, question: str, verb: str, action: str, box: LineInput | SteadyTextArea | None = None) -> None:
        """`verb`: of the button that runs `action`, one or two words."""
        super().__init__()
        self._question = question
        self._actions = (verb, action), ("cancel", "dismiss(None)")
        self._box = box
        self._said = Label("", id="consequence", markup=False)

    def compose(self) -> ComposeResult:
        """The question, the box with its consequence, and the actions."""
        with Vertical():
            yield Label(self._question, markup=False)
            if self._box is not None:
                yield self._box
                yield self._said
            yield ActionLine(self._actions)

    def action_take(self) -> None:
        """Answer with what is in the box."""
        if self._box is not None:
            self._box.call_later(self._take)  # behind the letters before it, which wait in the box's queue

    def _take(self) -> None:
        raise NotImplementedError


class LineScreen(Question[str]):
    """Asks for a line, which is not empty."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take it", id="question.take", priority=True, tooltip="Answer with what is in the box")
    ]

    def __init__(
        self,
        question: str,
        proposed: str = "",
        *,
        verb: str = "take it",
        consequence: Callable[[str], str] = lambda line: "",
        placeholder: str = "",
        max_length: int = 40,
    ) -> None:
        """`proposed`: the first text in the box. `consequence`: what a line will do; it raises UsageError for one that cannot
        be taken. A line has at most `max_length` characters."""
        self._line = LineInput(proposed, placeholder=placeholder, max_length=max_length)
        super().__init__(question, verb, "take", self._line)
        self._consequence = consequence

    @property
    def line(self) -> str:
        """What is in the box."""
        return self._line.value.strip()

    @on(Input.Changed)
    def say(self) -> bool:
        """Say what the line will do, or why it cannot be taken. Returns whether it can."""
        try:
            self._said.update(self._consequence(self.line) if self.line else "")
        except UsageError as error:
            self._said.update(str(error))
            return False
        return self.line != ""

    def _take(self) -> None:
        if self.say():
            self.dismiss(self.line)


class Plans:
    """Makes the plan of what is chosen, in a thread beside the dialog."""

    def __init__(self, dialog: Screen[Any], make: Callable[[Setup], str], show: Callable[[], object]) -> None:
        """`make` makes a plan in words, and `show` is called when one is there."""
        self._dialog, self._make, self._show = dialog, make, show
        self._wanted: Setup | None = None
        self._made = ""

    def of(self, setup: Setup | None) -> str:
        """The plan for what is chosen now; "" until it is made, and where nothing is."""
        if setup != self._wanted:
            self._wanted, self._made = setup, ""
            if setup is not None:
                self._dialog.run_worker(partial(self._add, setup), exclusive=True, group="plan")  # type: ignore[arg-type]  # as Window.run
        return self._made

    async def _add(self, setup: Setup) -> None:
        await asyncio.sleep(PLAN_AFTER_S)
        made = await asyncio.to_thread(self._make, setup)
        if setup == self._wanted:
            self._made = made
            self._show()


class PlacementScreen(LineScreen):
    """Asks for flags. Says what is wrong with them, or what the models would take on each device."""

    def __init__(self, setup: Setup, plan: Callable[[Setup], str], proposed: Setup | None = None) -> None:
        """`setup`: the loaded one; `plan` as in `ModelsScreen`; `proposed`: one whose flags are in the box."""
        now = flags_of(setup)
        plans = Plans(self, plan, self.say)
        super().__init__(
            f"Flags of the models: {now or 'none'}. Load them with:",
            flags_of(proposed, setup) if proposed is not None else "",
            verb="load", consequence=lambda line: plans.of(with_flags(setup, line)), max_length=400,
            placeholder="-ngl 20 -c 8192 -ctk q8_0 -ctv q8_0 -ts 3,1",
        )  # fmt: skip


class SystemPromptScreen(Question[str]):
    """Asks for the conversation's system prompt."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "take", "Use it", id="system.use", priority=True, tooltip="Use it from the next prompt on")
    ]
    DEFAULT_CSS = """
    SystemPromptScreen {
        & > Vertical { width: 80; height: 16; }
        TextArea, TextArea:focus { height: 1fr; border: none; padding: 0; margin: 1 0 0 0; background: $foreground 10%; }
        &.-tiny Label { display: none; }
        &.-tiny TextArea { margin: 0; }
    }
    """

    def __init__(self, text: str) -> None:
        """`text`: the present system prompt."""
        self._text = SteadyTextArea(text, highlight_cursor_line=False)
        question = "The system prompt of this conversation, from the next prompt on; /as takes one of those in prompts/."
        super().__init__(question, "use it", "take", self._text)

    def _take(self) -> None:
        self.dismiss(self._text.text.strip())


class ConfirmScreen(Question[bool]):
    """Asks whether to do what cannot be undone. The key is a letter on purpose: Enter does nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes", id="confirm", tooltip="Do it"),
        Binding("n", "dismiss(None)", "No", id="decline", show=False),
    ]
    DEFAULT_CSS = """
    ConfirmScreen > Vertical { border: round $warning; }
    """

    def __init__(self, question: str, verb: str) -> None:
        """`verb`: what a yes does, one or two words."""
        super().__init__(question, verb, "dismiss(True)")
