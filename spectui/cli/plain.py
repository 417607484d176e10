"""`spectui chat --plain`: the chat line by line, for screen readers and pipes. No drawing, no colours, no escape codes.

The conversation, the engine and the journal are those of the window; what has a key there is a command here, after a slash.
What a person asked for goes to standard output, what is said unasked to standard error.
"""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TextIO, cast

from spectui.cli.telling import described, told
from spectui.config import convert, nearest
from spectui.engine.events import Event, Failed, Finished, Loaded, LoadFailed, Loading, Message, Notice, RoundDone
from spectui.engine.protocol import Engine
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Knobs, Setup, spec_of, title
from spectui.llama.heads import Head
from spectui.llama.shelf import Shelf
from spectui.store.crash import Crash, safe_setup
from spectui.store.journal import Journal
from spectui.store.records import Conversation
from spectui.ui.figures import count, duration, printable, size
from spectui.ui.session import Session, note_of, short_name

if TYPE_CHECKING:
    from io import TextIOWrapper

    from spectui.ui.presets import PresetStore  # it draws

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
        shelf: Shelf,
        presets: PresetStore,
        crash: Crash | None = None,
        offer: Conversation | None = None,
    ) -> None:
        self.engine = engine
        self.session = session
        self._read = read
        self._out = out
        self._aside = aside
        self._interactive = interactive
        self._shelf = shelf
        self._presets = presets
        self._crash = crash
        self._offer = offer
        self._listed: list[Head] = []
        self._loading = ""
        self._stops = 0
        self._busy = self._failed = self._quit = False
        self._at_line_start = True

    def run(self, conversation: Conversation | None = None) -> int:
        """Until the input ends or a person leaves. Returns the exit code; raises SpectuiError if a pipe has no model."""
        with self._signals():
            try:
                self._resume(conversation)
                if self._may_load():
                    self._load(self.session.setup)
                while not self._quit and (line := self._line()) is not None:
                    self._obey(line)
            finally:
                self.engine.close()
                while self.engine.events:
                    self.session.take(self.engine.events.popleft())
                self.session.journal.close()
        return 1 if self._failed and not self._interactive else 0

    # What is read

    def _line(self) -> str | None:
        """The next prompt or command; None at the end. A line that ends with a backslash goes on in the next one."""
        lines: list[str] = []
        while True:
            if self._interactive:
                self._write("more: " if lines else "you: ")
            try:
                line = self._read.readline()
            except KeyboardInterrupt:
                self._say("\n/quit or Ctrl+D leaves.")
                lines.clear()
                continue
            self._at_line_start = True  # a terminal has shown the Enter
            lines.append(line.rstrip("\r\n").removesuffix("\\"))
            if not line.rstrip("\r\n").endswith("\\"):
                text = "\n".join(lines)
                return text if line or text.strip() else None

    def _obey(self, line: str) -> None:
        if not line.startswith("/") or line.startswith("//"):
            if line.strip():
                self._ask(line.removeprefix("/") if line.startswith("//") else line)
            return
        name, _, rest = line[1:].strip().partition(" ")
        try:
            if name not in self.COMMANDS:
                raise UsageError(f"There is no command /{name}{nearest(name, self.COMMANDS)} /help lists them.")
            self.COMMANDS[name][0](self, rest.strip())
        except SpectuiError as error:
            self._failed = True
            self._say(str(error))

    def _ask(self, text: str) -> None:
        if self.session.state != "ready":
            self._failed = True
            self._say("There is no model to answer: /load TARGET DRAFT loads one.")
        else:
            self._answer(self.session.ask(text))

    def _answer(self, messages: Sequence[Message]) -> None:
        if self._interactive:
            self._write(f"{self.session.name}: ")
        self._stops, self._busy = 0, True
        self.engine.generate(messages)
        self._wait()
        self._end_line()

    def _load(self, setup: Setup) -> None:
        self.session.load(setup)
        self._loading = ""
        self._stops, self._busy = 0, True
        self.engine.load(setup)
        self._wait()

    # What is said

    def _wait(self) -> None:
        """Show what the engine tells until it is free. Ctrl+C stops it; a second one, if it does not, the program."""
        try:
            while self.session.state not in ("ready", "failed") or self.engine.events:
                while self.engine.events:
                    self._take(self.engine.events.popleft())
                while self.session.journal.notices:
                    self._say(self.session.journal.notices.popleft())
                if self.session.state not in ("ready", "failed"):
                    time.sleep(DRAIN_S)
        finally:
            self._busy = False

    def _take(self, event: Event) -> None:
        if not self.session.take(event):
            return
        match event:
            case RoundDone(round=round):
                self._write("".join(token.text for token in round.tokens))
            case Loading(what=what, bytes=bytes):
                if self._interactive and what != self._loading:
                    self._loading = what
                    self._say(f"loading {what}{f', {size(bytes)}' if bytes else ''}")
            case Loaded():
                if self._interactive:
                    self._say(
                        f"{self._pair()} ready, context {count(self.session.n_ctx)} tokens. /help lists commands."
                    )
            case LoadFailed(message=message):
                if not self._interactive:
                    raise SpectuiError(message)
                way = " /nodraft goes on without the draft." if self.session.without_draft else ""
                self._say(f"{message} /load tries again, /load TARGET DRAFT loads others.{way}")
            case Finished(reason=reason):
                if note := note_of(reason, self.session.n_ctx, "/new"):
                    self._say(note)
            case Failed(message=message):
                self._failed = True
                self._say(message)
            case Notice(message=message):
                self._say(message)

    def _write(self, text: str) -> None:
        """To standard output, at once."""
        text = printable(text)
        if text:
            self._out.write(text)
            self._out.flush()
            self._at_line_start = text.endswith("\n")

    def _tell(self, text: str) -> None:
        """A line that was asked for."""
        self._end_line()
        self._write(f"{text}\n")

    def _say(self, text: str) -> None:
        """A line in passing."""
        self._end_line()
        self._aside.write(f"{printable(text)}\n")
        self._aside.flush()

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")

    def _pair(self) -> str:
        draft = f" drafted by {short_name(self.session.setup.draft)}" if self.session.setup.draft else ""
        return f"{self.session.name}{draft}"

    # Commands

    def _help(self, rest: str) -> None:
        for name, (_, arguments, help) in self.COMMANDS.items():
            self._tell(f"/{f'{name} {arguments}'.strip()}: {help}")
        self._tell(
            "Ctrl+C stops a reply. A line that ends with \\ goes on in the next one; // begins a prompt with a slash."
        )

    def _new(self, rest: str) -> None:
        self.session.clear()
        self._say("A new chat.")

    def _regenerate(self, rest: str) -> None:
        messages = self.session.ask_again() if self.session.state == "ready" else None
        if messages is None:
            raise UsageError("There is no prompt to answer again.")
        self._answer(messages)

    def _set(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        key = name.replace("-", "_")
        names = [field.name for field in fields(Knobs)]
        if name and key not in names:
            raise UsageError(f"There is no knob {name!r}{nearest(name, map(title, names))}")
        if value.strip():
            self.engine.knobs = replace(self.engine.knobs, **{key: convert(key, value.strip(), "/set")}).checked()
        for each in [key] if name else names:
            self._tell(f"{title(each)} {getattr(self.engine.knobs, each)}: {spec_of(Knobs, each).help}")

    def _preset(self, rest: str) -> None:
        if rest:
            self.engine.knobs = replace(self.engine.knobs, **self._presets.load(rest)).checked()
            self._say(f"Preset {rest}.")
        else:
            self._tell(f"Presets: {', '.join(self._presets.names()) or 'none'}.")

    def _stats(self, rest: str) -> None:
        figures = self.session.figures()
        self._tell(f"{self._pair()}; context {count(figures.context)} of {count(figures.n_ctx)} tokens.")
        self._tell(f"Last reply: {told(figures.reply)}; first token after {duration(figures.first_token_s)}.")
        self._tell(f"This chat: {told(figures.chat)}.")

    def _models(self, rest: str) -> None:
        self._listed = sorted(
            self._shelf.scan([Path(path) for path in (self.session.setup.model, self.session.setup.draft) if path]),
            key=lambda head: (head.name.casefold(), head.path),
        )
        words = rest.casefold().split()
        for number, head in enumerate(self._listed, 1):
            if all(word in head.path.casefold() for word in words):
                self._tell(f"{number} {described(head, self._listed)}")
        if not self._listed:
            self._tell("There is no GGUF file in the usual places; --models-dir names more directories.")

    def _load_others(self, rest: str) -> None:
        try:
            named = [self._file(word) for word in shlex.split(rest)]
        except ValueError as error:
            raise UsageError(f"/load takes one or two files: {error}.") from None
        if len(named) > 2:
            raise UsageError("/load takes one or two files; one with spaces in its name stands in quotes.")
        if named:
            self._load(replace(self.session.setup, model=named[0], draft=named[1] if len(named) > 1 else None))
        else:
            self._load(self.session.setup)

    def _file(self, word: str) -> str:
        """A model by its path, or by its number in the list that was shown."""
        if not word.isdecimal():
            return word
        if not 1 <= int(word) <= len(self._listed):
            raise UsageError(f"There is no model {word} in the list: /models shows it.")
        return self._listed[int(word) - 1].path

    def _safe_way(self, rest: str) -> None:
        self._load(safe_setup(self.session.setup))

    def _go_on(self, rest: str) -> None:
        if self._offer is None:
            raise UsageError("There is no conversation that was cut off.")
        conversation, self._offer = self._offer, None
        self._resume(conversation)

    def _without_draft(self, rest: str) -> None:
        self._load(replace(self.session.setup, draft=None))

    def _leave(self, rest: str) -> None:
        self._quit = True

    COMMANDS: ClassVar[dict[str, tuple[Callable[[PlainChat, str], None], str, str]]] = {
        "help": (_help, "", "this list"),
        "new": (_new, "", "begin a new chat"),
        "regenerate": (_regenerate, "", "answer the last prompt once more"),
        "set": (_set, "[KNOB [VALUE]]", "say or turn knobs; they act at once"),
        "preset": (_preset, "[NAME]", "list presets, or turn the knobs to one"),
        "stats": (_stats, "", "how fast it is, and whether drafting pays"),
        "models": (_models, "[WORDS]", "list the models of this machine, and which can draft for which"),
        "load": (_load_others, "[TARGET [DRAFT]]", "load other models, by number or file; alone: these again"),
        "safe": (_safe_way, "", "load the models in the way that asks least of llama.cpp"),
        "continue": (_go_on, "", "go on with the conversation that spectui died in"),
        "nodraft": (_without_draft, "", "go on with the target alone"),
        "quit": (_leave, "", "leave"),
    }

    # Beginning and end

    def _resume(self, conversation: Conversation | None) -> None:
        if conversation is None:
            return
        self.session.resume(conversation)
        self._say(f"Going on with: {conversation.title}")
        if self._interactive:
            for message in self.session.messages:
                self._tell(f"{'you' if message.role == 'user' else self.session.name}: {message.content}")
        if self.session.unanswered:
            self._say("The last prompt has no answer: /regenerate asks it again.")

    def _may_load(self) -> bool:
        """Say what spectui died of, and the ways on. False: a person shall say first whether that is tried again."""
        if self._crash is None:
            return True
        setup, died = self.session.setup, self._crash.setup
        held = self._interactive and (died.model, died.draft) == (setup.model, setup.draft)
        ways = [
            "/continue goes on with the conversation." if self._offer is not None else "",
            "/safe loads the models the safe way.",
            "/load loads them as before." if held else "",
        ]
        self._say(" ".join([self._crash.sentence, *filter(None, ways)]))
        if held:
            self.session.hold()
        return not held

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def interrupt(number: int, frame: Any) -> None:
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
    shelf: Shelf,
    presets: PresetStore,
    *,
    crash: Crash | None,
    offer: Conversation | None,
    interactive: bool,
) -> int:
    """Chat over the standard streams. Returns the exit code."""
    if conversation is not None:
        setup = replace(setup, system=conversation.system)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A reply may hold signs that the terminal's encoding lacks.
        cast("TextIOWrapper", stream).reconfigure(errors="replace")
    plain = PlainChat(
        engine, Session(setup, journal), read=sys.stdin, out=sys.stdout, aside=sys.stderr, interactive=interactive,
        shelf=shelf, presets=presets, crash=crash, offer=offer,
    )  # fmt: skip
    return plain.run(conversation)
