"""The text area for prompts: Enter sends, Ctrl+J, Shift+Enter and Alt+Enter begin a new line.

A terminal without kitty's keyboard protocol sends plain Enter for the last two, so Ctrl+J is the one to teach.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widgets.text_area import Edit, EditResult, Location

from spectui.chat.commands import COMMANDS
from spectui.chat.text.attachments import AttachmentError, PasteFolds, begun_name, name_at, names_in, with_names
from spectui.chat.text.editor import EditorError, edited
from spectui.errors import SpectuiError
from spectui.store.prompts import is_of, with_slash, without_slash
from spectui.text import printable
from spectui.ui.keys import binding, with_keys
from spectui.ui.prompt.suggestions import Chips, Suggestion, Suggestions, files
from spectui.ui.textual_patches.text_area import SteadyTextArea

COUNT_AFTER_S = 0.3
"""Seconds after a letter in which the prompt is counted, if no other comes."""

_COMMAND = re.compile("/[a-z-]*(?: .*)?")
_LINE = re.compile(r"/([a-z-]+)(?:\s+(.*))?", re.DOTALL)


class PromptInput(SteadyTextArea):
    """A text area that sends its text and recalls sent prompts."""

    HELP = """\
## Prompt

**{send}** sends. **{newline}** begins a new line; Shift+Enter and Alt+Enter are keys of their own only where the terminal
tells them from Enter (kitty's keyboard protocol). **Up** in an empty box brings the last prompt back, and **Down** goes
forward again. **{stop}** stops a reply.

A large paste is shown by its size and sent whole. **@notes.txt** attaches that file if it exists: a text, a PDF's
text, or an image, for a server that takes images. Typing after **@** lists files, and **\\@** is a plain @. A pasted
name is text until Tab behind it. Below the box stands what is attached. **{editor}** opens the prompt in $EDITOR.

A **/** in an empty box lists the commands, by the names that the plain chat has; a prompt that begins with one is typed **//**.
"""

    BINDING_GROUP_TITLE = "prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority, because a text area takes Enter for itself before bindings are asked.
        *(
            binding(COMMANDS[each], action)
            for each, action in (("send", "submit"), ("newline", "newline"), ("editor", "editor"))
        ),
        # The focus stays: on the panel, arrows and Enter would turn knobs.
        Binding("tab", "stay", "Complete", id="prompt.stay", show=False, tooltip="Complete a name, or attach a pasted one"),
        # As in readline.
        Binding("ctrl+underscore", "undo", "Undo typing", id="prompt.undo", show=False, tooltip="Take the last change back"),
    ]

    DEFAULT_CSS = """
    PromptInput, PromptInput:focus {
        height: auto;
        max-height: 8;
        border: none;
        border-top: solid $foreground 25%;
        border-title-color: $text-muted;
        padding: 0 1;
        background: $background;
        & .text-area--cursor-line { background: $background; }
        & .text-area--placeholder { color: $text-muted; }
    }
    PromptInput:focus { border-top: solid $accent; }
    """

    def __init__(self, suggestions: Suggestions | None = None, *, id: str | None = None) -> None:
        """`suggestions`: the list that is shown while a command or the name of a file is typed."""
        self._folds = PasteFolds()  # first: Textual sets the selection
        self._suggestions = suggestions or Suggestions()
        self.chips = Chips(id="chips")
        """The lines about what is attached, which stand below the box."""
        self._declined = ""  # the text that Esc has closed the list for
        self.commands: Callable[[str], Sequence[Suggestion]] = lambda begun: ()
        """Gives the commands, or the words behind one, that what is being typed can become."""
        self.send: Callable[[str], bool] = lambda text: False
        """Takes a prompt; "": Enter in an empty box. False: it stays in the box."""
        self.command: Callable[[str, str], str] = lambda name, words: ""
        """Does the command of this name with the words behind it. Returns why it cannot; "" if it did."""
        self.count: Callable[[str], Awaitable[object]] = partial(asyncio.sleep, 0)
        """Counts the tokens of what would be sent; "": of nothing."""
        self._count_soon: Timer | None = None
        self._no_command = ""  # the text with an unknown command that a person was asked about
        self._named: set[str] = set()  # the names that were typed or taken from the list: a pasted one attaches nothing
        super().__init__(id=id, placeholder="Ask something", highlight_cursor_line=False)
        self._save: Callable[[str], None] = lambda _: None
        self._sent: list[str] = []
        self._back = 0
        self._given = ""  # the text that was put into the box last

    def remember(self, earlier: Sequence[str], save: Callable[[str], None]) -> None:
        """Recall the prompts of earlier chats too, and pass each prompt of this chat to `save`."""
        for prompt in self._sent:  # before the earlier ones were read
            save(prompt)
        self._save = save
        self._sent = [*earlier, *self._sent]

    def forget(self, messages: Sequence[str]) -> None:
        """Remove the prompts of these messages from the history."""
        self._sent = [prompt for prompt in self._sent if not any(is_of(prompt, message) for message in messages)]
        self._back = 0

    def _remember(self, prompt: str) -> None:
        if prompt and self._sent[-1:] != [prompt]:
            self._sent.append(prompt)
            self._save(prompt)
        self._back = 0

    def put(self, text: str) -> None:
        """Replace the box's text; a large text is folded, and what of it was pasted."""
        self._put(self._folds.refold(text))

    def give_back(self, text: str, *, sent: bool = True) -> None:
        """Put a prompt back as it was typed, with the names of its files, before what is in the box. `sent`: it is as the model
        gets it, or would have got it."""
        typed = self._folds.refold(text)  # so that its pastes are known
        self._put("\n".join(filter(None, [with_slash(self._folds.typed(text)) if sent else typed, self._marked])))

    def _put(self, shown: str) -> None:
        self._named |= names_in(shown)
        self.text = shown
        self._given = self.text
        self._back = 0
        self.move_cursor(self.document.end)

    @property
    def untouched(self) -> bool:
        """The box has the text that was put into it."""
        return self.text == self._given

    def put_away(self) -> None:
        """Empty the box. Its text joins the history."""
        self._remember(self.unsent)
        self.text = ""

    @property
    def unsent(self) -> str:
        """The box's text, with pastes in full; "" if it is white space."""
        text = self._folds.unfolded(self._marked)
        return text if text.strip() else ""

    @property
    def _marked(self) -> str:
        """The box's text, in which a pasted @ has a backslash before it, since it attaches nothing."""
        return with_names(self.text, self._named)

    def action_submit(self) -> None:
        """Send, if there is more than white space."""
        # A priority key overtakes letters that still wait in this widget's queue. Without the queue a fast prompt would be cut.
        self.call_later(self._submit)

    async def _submit(self) -> None:
        typed = self.text
        if not typed.strip():
            if not typed:
                self.send("")
            return
        self._suggest()  # the last letters may not have been seen yet
        chosen = self._suggestions.chosen
        if chosen is not None and (chosen.command or not self._suggestions.has(self._begun()[1])):
            self._take(chosen)
            typed = self.text
            if chosen.command or not typed.startswith("/"):  # else the command is done with its words
                return
        self._suggestions.show(())
        if (line := _LINE.fullmatch(typed)) and typed != self._no_command:
            if problem := self.command(line[1], (line[2] or "").strip()):
                self._no_command = typed
                self.notify(with_keys(self.app, f"{problem} {{send}} again sends the text."), markup=False)
            else:
                self._remember(with_slash(typed))
                self.text = ""
            return
        try:
            # It reads the files that are named.
            text = await asyncio.to_thread(self._folds.expanded, without_slash(self._marked))
        except AttachmentError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
            return
        if self.text == typed and self.send(text):
            self._remember(self.unsent)
            self.text = ""

    def action_editor(self) -> None:
        """Open the prompt in $EDITOR."""
        self.call_later(self._open_editor)

    def _open_editor(self) -> None:
        try:
            self.put(edited(self._folds.unfolded(self._marked), self.app.suspend()))
        except SuspendNotSupported:
            self.notify("An editor cannot be opened here: this is no terminal of its own.", severity="error", markup=False)
        except EditorError as error:
            self.notify(printable(str(error)), severity="error", markup=False)

    # Commands and files that are suggested

    def _begun(self) -> tuple[str, str]:
        """What is being typed: "/" and the whole text if that begins a command, "@" and the word if it names a file."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        if before == self.text and _COMMAND.fullmatch(before):
            return "/", before
        name = begun_name(before)
        return name[:1], name

    def _suggest(self) -> None:
        sign, word = self._begun() if self.text != self._declined else ("", "")
        if sign == "@":
            work = partial(self._suggest_files, word)
            self.run_worker(work, exclusive=True, group="files")  # type: ignore[arg-type]  # mypy cannot choose among the forms that Textual takes
            return
        self._suggestions.show(self.commands(word) if sign else ())

    async def _suggest_files(self, word: str) -> None:
        found = await asyncio.to_thread(lambda: list(files(word[1:].lstrip('"').replace("\\ ", " "))))
        if self._begun() == ("@", word):
            self._suggestions.show(found)

    def _take(self, chosen: Suggestion) -> None:
        """Carry the command out, or complete the name."""
        self._suggestions.show(())
        if chosen.command:
            self.text = ""
            self.screen.call_later(self.screen.run_action, f"run('{chosen.command}')")
            return
        row, column = self.cursor_location
        end = "" if chosen.text[0] == "/" or chosen.text[-1] == "/" else " "  # more of a path can follow
        self._named.add(chosen.text.rstrip('"'))
        self.replace(chosen.text + end, (row, column - len(self._begun()[1])), (row, column))

    def on_text_area_changed(self) -> None:
        """Suggest what can be meant, and say what is attached."""
        self._suggest()
        self._show_chips()
        self.count_soon()

    def count_soon(self) -> None:
        """Count the tokens when nothing more is typed for a moment."""
        if self._count_soon is not None:
            self._count_soon.stop()
        # The count of an earlier text may come late, so it is given up.
        count = partial(self.run_worker, self._count, exclusive=True, group="count")  # type: ignore[arg-type]  # as Window.run
        self._count_soon = self.set_timer(COUNT_AFTER_S if self.text else 0.01, count)

    async def _count(self) -> None:
        with suppress(SpectuiError):
            whole = await asyncio.to_thread(self._folds.expanded, without_slash(self._marked)) if self.text else ""
            await self.count(whole)

    def _show_chips(self) -> None:
        if "@" in self.text or any(self._spans(row) for row in range(self.document.line_count)):
            self.run_worker(self._look_up, exclusive=True, group="chips")  # type: ignore[arg-type]  # mypy cannot choose among the forms that Textual takes
        else:
            self.chips.show(())

    async def _look_up(self) -> None:
        text, named, begun = self.text, {*self._named}, self._begun()[1]
        lines = await asyncio.to_thread(self._folds.chips, text, named, begun)
        if self.text == text:
            self.chips.show(lines)

    def take_suggestion(self) -> None:
        """Take what is highlighted."""
        if (chosen := self._suggestions.chosen) is not None:
            self._take(chosen)

    @property
    def suggests(self) -> bool:
        """The list of suggestions is open."""
        return self._suggestions.chosen is not None

    def decline(self) -> None:
        """Close the list of suggestions, until the text changes."""
        self._declined = self.text
        self._suggestions.show(())

    def action_stay(self) -> None:
        """Complete what is suggested, or attach a pasted name. The focus stays here."""
        if (chosen := self._suggestions.chosen) is not None:
            self._take(chosen._replace(command=""))
        else:
            self._named.add(self._name_at(self.cursor_location))
            self._show_chips()

    def action_newline(self) -> None:
        """Begin a new line at the cursor."""
        self.call_later(self._begin_line)

    def _begin_line(self) -> None:
        self.insert("\n", maintain_selection_offset=False)  # else a cursor within a fold stays before the new line
        self.scroll_cursor_visible()

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up, or in an empty box go back through the prompts."""
        if self._suggestions.chosen is not None:
            self._suggestions.action_cursor_up()
            return
        if not self.text:
            self._back = 0
        if not select and self.text == (self._given if self._back else "") and self._back < len(self._sent):
            self._recall(self._back + 1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move down, or go forward through the prompts while the recalled one is unchanged."""
        if self._suggestions.chosen is not None:
            self._suggestions.action_cursor_down()
            return
        at_end = self.cursor_location[0] == self.document.line_count - 1
        if not select and self._back and at_end and self.untouched:
            self._recall(self._back - 1)
        else:
            super().action_cursor_down(select)

    def _recall(self, back: int) -> None:
        self.put(self._sent[-back] if back else "")
        self._back = back

    def on_paste(self, event: events.Paste) -> None:
        """Fold a large text, before the handlers of the classes below insert it."""
        event.text = self._folds.fold(printable(event.text))
        self._named -= names_in(event.text) - names_in(self.text)  # typed in an earlier prompt

    # A folded paste is one unit: its name is never changed, and what is copied is its text

    def edit(self, edit: Edit) -> EditResult:
        """Change the text. What would change a part of a fold's name takes the whole; what is put into it comes behind it."""
        edit.from_location, edit.to_location = self._with_whole_folds(edit.top, edit.bottom)
        before = self._name_at(edit.bottom)
        result = super().edit(edit)
        name = self._name_at(result.end_location)
        if len(edit.text) <= 1 and (name == "@" or before in self._named):  # typed from its @ on
            self._named.add(name)
        return result

    def _name_at(self, location: Location) -> str:
        row, column = location
        return name_at(self.document.get_line(row), column) if row < self.document.line_count else ""

    def _with_whole_folds(self, top: Location, bottom: Location) -> tuple[Location, Location]:
        """A range that cuts no fold's name: it has the whole, or if it is empty lies behind it."""
        (top_row, first), (bottom_row, last) = top, bottom
        last = max([last, *(end for start, end in self._spans(bottom_row) if start < last < end)])
        if top == bottom:
            return (top_row, last), (bottom_row, last)
        first = min([first, *(start for start, end in self._spans(top_row) if start < first < end)])
        return (top_row, first), (bottom_row, last)

    def _spans(self, row: int) -> list[tuple[int, int]]:
        return self._folds.spans(self.document.get_line(row)) if row < self.document.line_count else []

    @property
    def selected_text(self) -> str:
        """The selected text, with pastes in full."""
        return self._folds.unfolded(self.get_text_range(*self._with_whole_folds(*sorted(self.selection))))

    def action_cut(self) -> None:
        """Cut the selection, or the cursor's line, with pastes in full."""
        start, end = sorted(self.selection)
        if start == end:
            start, end = (start[0], 0), (start[0] + 1, 0)
        cut = self.delete(start, end, maintain_selection_offset=False)
        self.app.copy_to_clipboard(self._folds.unfolded(cut.replaced_text))

    def action_paste(self) -> None:
        """Paste what was cut or copied here."""
        pasted = self.replace(self._folds.fold(printable(self.app.clipboard)), *self.selection)
        self.move_cursor(pasted.end_location)
