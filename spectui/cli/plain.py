"""`spectui chat --plain`: the chat line by line, for screen readers and pipes. No drawing, no colours, no escape codes.

The conversation, the engine and the journal are those of the window; what has a key there is a command here, after a slash.
What a person asked for goes to standard output, what is said unasked to standard error.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, TextIO, cast

from spectui.chat.attachments import PasteFolds
from spectui.chat.editor import edited
from spectui.chat.figures import count, size
from spectui.chat.session import Session, note_of, short_name
from spectui.cli.slash import COMMANDS
from spectui.cli.slash.command import Command
from spectui.config import nearest
from spectui.engine.events import Event, Failed, Finished, Loaded, LoadFailed, Loading, Message, Notice, RoundDone
from spectui.engine.protocol import Engine
from spectui.errors import SpectuiError, UsageError
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.gguf_files.header import GgufHeader
from spectui.knobs import Setup
from spectui.store.crash import Crash
from spectui.store.journal import Journal
from spectui.store.packed import PackedRounds
from spectui.store.records import Conversation, Summary
from spectui.text import printable
from spectui.ui.screen.continuation import renumbered

if TYPE_CHECKING:
    from io import TextIOWrapper

    from spectui.ui.screen.presets import PresetStore  # it draws

DRAIN_S = 1 / 30
"""How often the engine's events are looked for."""


class PlainChat:
    """One chat over an engine. `interactive`: a person sits at a terminal, and is told who speaks.

    After a `crash` a person is asked before the same models are loaded again; `offer` is the conversation of then.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        *,
        read: TextIO,
        out: TextIO,
        aside: TextIO,
        interactive: bool,
        shelf: ModelCatalogue,
        presets: PresetStore,
        crash: Crash | None = None,
        offer: Conversation | None = None,
    ) -> None:
        self.engine = engine
        self.session = session
        self._read = read
        self._out = out
        self._aside = aside
        self.interactive = interactive
        self.shelf = shelf
        self.presets = presets
        self._crash = crash
        self.offer = offer
        self.rounds: dict[int, PackedRounds] = {}
        """Each reply's, by its place in the conversation."""
        self.listed: list[GgufHeader] = []
        """The models that were listed last."""
        self.found: list[Summary] = []
        """The conversations that were listed last."""
        self._rest: PackedRounds | None = None  # where a reply that is gone on with has its rounds
        self._before = 0  # how many it had
        self._loading = ""
        self._stops = 0
        self._busy = self._away = self._failed = self._quit = False
        self._at_line_start = True

    def run(self, conversation: Conversation | None = None) -> int:
        """Until the input ends or a person leaves. Returns the exit code; raises SpectuiError if a pipe has no model."""
        with self._signals():
            try:
                if conversation is not None:
                    self.resume(conversation)
                if self._may_load():
                    self.load(self.session.setup)
                while not self._quit and (line := self._line()) is not None:
                    self._obey(line)
            finally:
                self.engine.close()
                while self.engine.events:
                    self.session.take(self.engine.events.popleft())
                self.session.journal.close()
        return 1 if self._failed and not self.interactive else 0

    # What is read

    def _line(self) -> str | None:
        """The next prompt or command; None at the end. A line that ends with a backslash goes on in the next one."""
        lines: list[str] = []
        while True:
            if self.interactive:
                self._write("more: " if lines else "you: ")
            try:
                line = self._read.readline()
            except KeyboardInterrupt:
                self.say("\n/quit or Ctrl+D leaves.")
                lines.clear()
                continue
            self._at_line_start = True  # a terminal has shown the Enter
            lines.append(line.rstrip("\r\n").removesuffix("\\"))
            if not line.rstrip("\r\n").endswith("\\"):
                text = "\n".join(lines)
                return text if line or text.strip() else None

    def _obey(self, line: str) -> None:
        self._stops = 0
        try:
            if line.startswith("//"):
                self.ask(self.with_files(line[1:]))
            elif line.startswith("/"):
                name, rest = (*line[1:].split(None, 1), "", "")[:2]
                if name not in self.COMMANDS:
                    raise UsageError(f"There is no command /{name}{nearest(name, self.COMMANDS)} /help lists them.")
                self.COMMANDS[name].run(self, rest.strip())
            elif line.strip():
                self.ask(self.with_files(line))
        except SpectuiError as error:
            self._failed = True
            self.say(str(error))
        except KeyboardInterrupt:
            if self._stops > 1:  # the engine did not stop at the first
                raise
            self.say("stopped")

    # What is asked of the engine

    def with_files(self, text: str) -> str:
        """A prompt with the files that it names, if a person has typed it. Raises SpectuiError."""
        return PasteFolds().expanded(text) if self.interactive else text

    def ask(self, text: str) -> None:
        """Send a prompt. Raises UsageError."""
        self.must_be_ready()
        self.answer(self.session.ask(text))

    def answer(self, messages: Sequence[Message], *, goes_on: bool = False) -> None:
        """Have this answered; `goes_on`: with the rest of the last reply."""
        place = len(self.session.messages)
        if goes_on:
            self._rest = self.rounds[place]
            self._before = self._rest[-1].index + 1
        elif self.session.journal.rounds is not None:
            self.rounds[place] = self.session.journal.rounds
        if self.interactive:
            self._write(f"{self.session.name}: ")
        self.generate(messages)
        self._rest = None
        self._end_line()

    def generate(self, messages: Sequence[Message]) -> None:
        """Have this decoded, and wait until it is."""
        self._stops, self._busy = 0, True
        self.engine.generate(messages)
        self._wait()

    def load(self, setup: Setup) -> None:
        """Load these models, and wait until they are there or cannot be."""
        self.session.load(setup)
        self._loading = ""
        self._stops, self._busy = 0, True
        self.engine.load(setup)
        self._wait()

    def must_be_ready(self) -> None:
        """Raise UsageError where there is no model to answer."""
        if self.session.state != "ready":
            raise UsageError("There is no model to answer: /load TARGET DRAFT loads one.")

    def edited(self, text: str) -> str:
        """The text as a person's editor leaves it. Raises SpectuiError."""
        if not self.interactive:
            raise UsageError("An editor needs a terminal.")
        self._away = True
        try:
            return edited(text, nullcontext())
        finally:
            self._away = False

    def rounds_of(self, place: int) -> PackedRounds:
        """The rounds of the conversation's `place`th message; none if it is no reply."""
        return self.rounds.get(place) or PackedRounds()

    @property
    def last_rounds(self) -> PackedRounds:
        """Those of the last message."""
        return self.rounds_of(len(self.session.messages) - 1)

    # What is said

    def _wait(self) -> None:
        """Show what the engine tells until it is free. Ctrl+C stops it; a second one, if it does not, the program."""
        try:
            while self.session.state not in ("ready", "failed") or self.engine.events:
                while self.engine.events:
                    self._take(self.engine.events.popleft())
                while self.session.journal.notices:
                    self.say(self.session.journal.notices.popleft())
                if self.session.state not in ("ready", "failed"):
                    time.sleep(DRAIN_S)
        finally:
            self._busy = False

    def _take(self, event: Event) -> None:
        if isinstance(event, RoundDone) and self._rest is not None:
            event = event._replace(round=renumbered(event.round, self._before))
        if not self.session.take(event):
            return
        match event:
            case RoundDone(round=round):
                if self._rest is not None:
                    self._rest.append(round)
                self._write("".join(token.text for token in round.tokens))
            case Loading(what=what, bytes=bytes):
                if self.interactive and what != self._loading:
                    self._loading = what
                    self.say(f"loading {what}{f', {size(bytes)}' if bytes else ''}")
            case Loaded():
                if self.interactive:
                    self.say(f"{self.pair} ready, context {count(self.session.n_ctx)} tokens. /help lists commands.")
            case LoadFailed(message=message):
                if not self.interactive:
                    raise SpectuiError(message)
                way = " /nodraft goes on without the draft." if self.session.without_draft else ""
                self.say(f"{message} /load tries again, /load TARGET DRAFT loads others.{way}")
            case Finished(reason=reason):
                if note := note_of(reason, self.session.n_ctx, "/new"):
                    self.say(note)
            case Failed(message=message):
                self._failed = True
                self.say(message)
            case Notice(message=message):
                self.say(message)

    def _write(self, text: str) -> None:
        """To standard output, at once."""
        text = printable(text)
        if text:
            self._out.write(text)
            self._out.flush()
            self._at_line_start = text.endswith("\n")

    def tell(self, text: str) -> None:
        """A line that was asked for."""
        self._end_line()
        self._write(f"{text}\n")

    def say(self, text: str) -> None:
        """A line in passing."""
        self._end_line()
        self._aside.write(f"{printable(text)}\n")
        self._aside.flush()

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")

    @property
    def pair(self) -> str:
        """The target, and the draft if there is one."""
        draft = f" drafted by {short_name(self.session.setup.draft)}" if self.session.setup.draft else ""
        return f"{self.session.name}{draft}"

    # Commands

    def _help(self, rest: str) -> None:
        for name, each in self.COMMANDS.items():
            self.tell(f"/{f'{name} {each.arguments}'.strip()}: {each.help}")
        self.tell(
            "Ctrl+C stops a reply. A line that ends with \\ goes on in the next one; // begins a prompt with a slash."
        )

    def _leave(self, rest: str) -> None:
        self._quit = True

    COMMANDS: ClassVar[dict[str, Command]] = {
        "help": Command(_help, "", "this list"),
        **COMMANDS,
        "quit": Command(_leave, "", "leave"),
    }

    # Beginning and end

    def resume(self, conversation: Conversation) -> None:
        """Go on with a conversation that was kept."""
        self.session.resume(conversation)
        self.rounds = {at: each.reply.rounds for at, each in enumerate(conversation.messages) if each.reply is not None}
        self.say(f"Going on with: {conversation.title}")
        if self.interactive:
            for message in self.session.messages:
                self.tell(f"{'you' if message.role == 'user' else self.session.name}: {message.content}")
        if self.session.unanswered:
            self.say("The last prompt has no answer: /regenerate asks it again.")

    def _may_load(self) -> bool:
        """Say what spectui died of, and the ways on. False: a person shall say first whether that is tried again."""
        if self._crash is None:
            return True
        setup, died = self.session.setup, self._crash.setup
        held = self.interactive and (died.model, died.draft) == (setup.model, setup.draft)
        ways = [
            "/continue goes on with the conversation." if self.offer is not None else "",
            "/safe loads the models the safe way.",
            "/load loads them as before." if held else "",
        ]
        self.say(" ".join([self._crash.sentence, *filter(None, ways)]))
        if held:
            self.session.hold()
        return not held

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def interrupt(number: int, frame: Any) -> None:
            if self._away:
                return
            self._stops += 1
            if not self._busy or self._stops > 1:
                raise KeyboardInterrupt
            self.session.stop()
            self.engine.stop()

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


def chat(
    engine: Engine,
    setup: Setup,
    journal: Journal,
    conversation: Conversation | None,
    shelf: ModelCatalogue,
    presets: PresetStore,
    *,
    crash: Crash | None,
    offer: Conversation | None,
    interactive: bool,
) -> int:
    """Chat over the standard streams. Returns the exit code."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A reply may hold signs that the terminal's encoding lacks.
        cast("TextIOWrapper", stream).reconfigure(errors="replace")
    plain = PlainChat(
        engine, Session(setup, journal), read=sys.stdin, out=sys.stdout, aside=sys.stderr, interactive=interactive,
        shelf=shelf, presets=presets, crash=crash, offer=offer,
    )  # fmt: skip
    return plain.run(conversation)
