"""`spectui chat --plain`: the chat line by line, for screen readers and pipes. No drawing, no colours, no escape codes.

It shows a `ChatSession`, as the window does; what has a key there is a command here, after a slash. What a person asked for
goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import codecs
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from spectui.chat.actions import GoingOn, Remark, pair, send
from spectui.chat.commands import SLASH, with_commands
from spectui.chat.comparison import OfComparison
from spectui.chat.dropping import Dropped
from spectui.chat.figures.format import count, size
from spectui.chat.figures.lines import comparison_facts, model_line, said_of, summary_line
from spectui.chat.messages import OpenedConversation
from spectui.chat.sentences import NO_TEXT, UNANSWERED, crash_advice
from spectui.chat.session import ChatSession
from spectui.chat.text.attachments import PasteFolds
from spectui.chat.text.editor import edited
from spectui.cli.plain.lines import TypedLines, is_command
from spectui.config import nearest
from spectui.engine.events import Event, Failed, Finished, Loaded, LoadFailed, Loading, RoundDone
from spectui.errors import SpectuiError, UsageError
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.store.prompts import without_slash
from spectui.store.records import StoredConversation
from spectui.text import LOOKALIKES, printable

if TYPE_CHECKING:
    from io import TextIOWrapper

LONGEST_PROMPT = 10_000_000
"""Characters: what is read may have no line's end."""

DRAIN_S = 1 / 30
"""How often the engine's events are looked for."""

PATIENCE_S = 5.0
"""How long a person waits for a reply before a line says so; after twice as long the next one does."""

IDLE = ("ready", "failed", "no model")
"""States in which nothing is to be waited for."""

HOW_TO_TYPE = "Ctrl+C stops a reply. A line that ends with \\ goes on in the next one; // begins a prompt with a slash."


@dataclass
class PlainChat:
    """Shows a session line by line. `interactive`: a person sits at a terminal, and is told who speaks."""

    session: ChatSession
    read: TextIO
    out: TextIO
    aside: TextIO
    interactive: bool
    catalogue: ModelCatalogue
    lines: TypedLines | None = None
    """Asks a person for a line, in place of `read`."""
    _loading = ""
    _stops = 0
    _away = _failed = _quit = False
    _at_line_start = True

    def run(self, conversation: StoredConversation | None = None) -> int:
        """Until the input ends or a person leaves. Returns the exit code; raises SpectuiError if a pipe has no model."""
        with self._signals():
            try:
                if conversation is not None:
                    opened = OpenedConversation.of(conversation)
                    self.session.resume(opened)
                    self._show_conversation(f"Going on with: {opened.conversation.title}")
                self._show_crash()
                self.session.models.load_again()
                self._wait()
                while not self._quit and (line := self._line()) is not None:
                    self._obey(line)
            finally:
                self.session.close()
        return 1 if self._failed and not self.interactive else 0

    # What is read

    def _line(self) -> str | None:
        """The next prompt or command; None at the end. A line that ends with a backslash goes on in the next one."""
        lines: list[str] = []
        while True:
            try:
                line = (self.lines or self._read_line)("more: " if lines else "you: ")
            except KeyboardInterrupt:
                self.notice("\n/quit or Ctrl+D leaves.")
                self._remember("\n".join(lines))
                lines.clear()
                continue
            self._at_line_start = True  # a terminal has shown the Enter
            lines.append(line.rstrip("\r\n").removesuffix("\\"))
            if sum(map(len, lines)) > LONGEST_PROMPT:
                raise UsageError("The input has a prompt of more than 10 MB: shorten it.")
            if not line.rstrip("\r\n").endswith("\\"):
                text = "\n".join(lines)
                self._remember(text)
                return text if line or text.strip() else None

    def _remember(self, text: str) -> None:
        if self.lines is not None:
            self.lines.remember(text)

    def _read_line(self, prompt: str) -> str:
        if self.interactive:
            self._write(prompt)
        return self.read.readline(LONGEST_PROMPT + 1)

    def _obey(self, line: str) -> None:
        self._stops = 0
        try:
            if is_command(line):
                name, words = (*line[1:].split(None, 1), "", "")[:2]
                self._tell(self._do(name, words.strip()))
            elif line.strip():
                send(self.session, self._with_files(without_slash(line)))
            self._wait()
        except SpectuiError as error:
            self._failed = True
            self.notice(with_commands(str(error)))
        except KeyboardInterrupt:
            if self._stops > 2:  # the engine did not stop
                raise
            self.notice("stopped")

    # What is done

    def _do(self, name: str, words: str) -> str:
        """Do a command; returns what it says. Raises SpectuiError."""
        match name:
            case "help":
                lines = (f"{command.usage}: {command.behind_slash}" for command in SLASH.values())
                return "\n".join((*lines, HOW_TO_TYPE))
            case "quit":
                self._quit = True
                return ""
            case "models":
                return self._models(words.casefold().split())
            case "edit":
                prompt = self.session.conversation.prompt_to_edit()
                if words or prompt is None or self.session.busy_reason:
                    words = self._with_files(words)
                else:
                    words = self._edited(self.session.messages[prompt].content)
            case "editor":
                words = "" if self.session.busy_reason else self._edited(words)
        command = SLASH.get(name)
        if command is None or command.do is None:
            raise UsageError(
                f"There is no command /{name}{nearest(name, SLASH)} /help lists them, and // begins a prompt with a slash."
            )
        return command.do(self.session, words)

    def _models(self, words: list[str]) -> str:
        setup, models = self.session.setup, self.session.models
        known = self.catalogue.scan([Path(path) for path in (setup.model, setup.draft) if path])
        models.listed = headers = sorted(known, key=lambda header: (header.name.casefold(), header.path))
        if not headers:
            return "There is no GGUF file in the usual places; --models-dir names more directories."
        lines = [
            f"{number} {model_line(header, headers)}"
            for number, header in enumerate(headers, 1)
            if all(word in f"{header.name} {header.path}".casefold() for word in words)
        ]
        return "\n".join(lines) or Remark("No model has these words.")

    def _with_files(self, text: str) -> str:
        """A prompt with the files that it names, if a person has typed it. Raises SpectuiError."""
        return PasteFolds().expanded(text) if self.interactive else text

    def _edited(self, text: str) -> str:
        """The text as a person's editor leaves it. Raises SpectuiError."""
        if not self.interactive:
            raise UsageError("An editor needs a terminal.")
        self._away = True
        try:
            return edited(text, nullcontext())
        finally:
            self._away = False

    def _wait(self) -> None:
        """Show what comes of what the engine was asked, until it is free again.

        Ctrl+C stops the engine; a second one the engine's process if it hangs; a third one, if nothing stops, the program.
        """
        session = self.session
        self._loading, since, said = "", time.monotonic(), PATIENCE_S
        if self.interactive and session.writing is not None:
            self._write(f"{session.name}: ")
        while session.state not in IDLE or session.engine.events:
            for event in session.drain():
                self._show(event)
            for notice in session.journal.take_notices():
                self.notice(notice)
            if self.interactive and session.state == "reading" and time.monotonic() - since > said:
                self.notice(f"waiting for the reply, {said:.0f} s")
                said *= 2
            if session.state not in IDLE:
                time.sleep(DRAIN_S)
        self._end_line()

    # What is said

    def _show(self, event: Event | OfComparison | Dropped) -> None:
        """Raises SpectuiError in a pipe if the models cannot be loaded."""
        match event:
            case RoundDone(round=round):
                self._write("".join(token.text for token in round.tokens))
            case LoadFailed(message=message) if not self.interactive:
                raise SpectuiError(message)
            case Loading(what=what, bytes=bytes) if self.interactive and what != self._loading:
                self._loading = what
                self.notice(f"loading {what}{f', {size(bytes)}' if bytes else ''}")
            case Loaded() if self.interactive:
                n_ctx = count(self.session.models.n_ctx)
                self.notice(f"{pair(self.session)} ready, context {n_ctx} tokens. /help lists commands.")
            case OfComparison(event=Finished() | Failed()) if (comparison := self.session.comparison) is not None:
                both = ("with drafts", comparison.with_drafts), ("without", comparison.plain)
                lines = [f"{name}: {summary_line(figures)}" for name, figures in both]
                self.output("\n".join([*lines, *(f"{name}: {fact}" for name, fact in comparison_facts(comparison))]))
        if not isinstance(event, OfComparison) and (said := said_of(event, self.session)):
            self.notice(with_commands(said))
        if isinstance(event, Finished) and self.session.conversation.unanswered is not None:  # it ended before the first word
            self.notice(with_commands(UNANSWERED))
        self._failed = self._failed or isinstance(event, Failed)
        if self.session.take_back() is not None:
            self.notice(NO_TEXT)

    def _tell(self, said: str) -> None:
        """Show what a command has said, with the conversation if it is another one."""
        if isinstance(said, GoingOn):
            self._show_conversation(said)
        elif isinstance(said, Remark) and said:
            self.notice(with_commands(said))
        elif said:
            self.output(said)
        if self.lines is not None:
            self.lines.forget(self.session.stored.deleted)

    def _show_conversation(self, title: str) -> None:
        """Show a conversation from the disk to a person."""
        self.notice(title)
        if self.interactive:
            for message in self.session.messages:
                self.output(f"{'you' if message.role == 'user' else self.session.name}: {message.content}")
        if self.session.conversation.unanswered:
            self.notice(with_commands(UNANSWERED))

    def _write(self, text: str) -> None:
        """To standard output, at once."""
        text = printable(text)
        if text:
            self.out.write(text)
            self.out.flush()
            self._at_line_start = text.endswith("\n")

    def output(self, text: str) -> None:
        """Write a line that a person asked for, to standard output."""
        self._end_line()
        self._write(f"{text}\n")

    def notice(self, text: str) -> None:
        """Write a line about what happens, to standard error."""
        self._end_line()
        self.aside.write(f"{printable(text)}\n")
        self.aside.flush()

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")

    # Beginning and end

    def _show_crash(self) -> None:
        """Say how spectui crashed the last time, and what to do about it."""
        models, offer = self.session.models, self.session.offer is not None
        models.held = models.held and self.interactive  # in a pipe there is nobody to ask
        if models.crash is not None:
            advice = crash_advice(models.setup, offer=offer, held=models.held, details=False)
            self.notice(f"{models.crash.sentence} {with_commands(advice)}")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def interrupt(number: int, frame: Any) -> None:
            if self._away:
                return
            self._stops += 1
            if self.session.state in IDLE or self._stops > 2:
                raise KeyboardInterrupt
            self.session.stop()

        def end(number: int, frame: Any) -> None:
            raise SystemExit(128 + number)

        handlers = {"SIGINT": interrupt, "SIGTERM": end, "SIGHUP": end}
        numbers = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
        before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def chat(session: ChatSession, catalogue: ModelCatalogue, conversation: StoredConversation | None, *, interactive: bool) -> int:
    """Chat over the standard streams. Returns the exit code."""
    stdin = cast("TextIOWrapper", sys.stdin)
    own = interactive and codecs.lookup(stdin.encoding).name != "ascii"  # a pipe has UTF-8, as `spectui run` reads it
    stdin.reconfigure(encoding=stdin.encoding if own else "utf-8", errors="replace")
    for stream in (sys.stdout, sys.stderr):
        # A reply may hold signs that the terminal's encoding lacks.
        cast("TextIOWrapper", stream).reconfigure(errors=LOOKALIKES)
    plain = PlainChat(
        session,
        read=sys.stdin,
        out=sys.stdout,
        aside=sys.stderr,
        interactive=interactive,
        catalogue=catalogue,
        lines=TypedLines(session.stored.prompts(), session.journal.save_prompt) if interactive else None,
    )
    return plain.run(conversation)
