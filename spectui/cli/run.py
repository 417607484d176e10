"""`spectui run`: one prompt; the reply goes to stdout, the figures to stderr. It needs no terminal."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click
from click.exceptions import Exit

from spectui.cli.models.server import ModelOptions, engine_of
from spectui.cli.options import ENGINE, INTERRUPTED, Command, color_option, setting_options
from spectui.cli.report import report, summary
from spectui.cli.terminal import json_option, prepare_stdout
from spectui.errors import SpectuiError, UsageError
from spectui.measure.progress import ProgressLine
from spectui.text import of_argument, unescaped
from spectui.text_file import LARGEST_GRAMMAR, read_schema, read_text

if TYPE_CHECKING:
    from spectui.chat.comparison import Comparison
    from spectui.engine.events import Event, Loaded
    from spectui.engine.protocol import SessionEngine
    from spectui.speculation.records import Round, Token

Result = TypeVar("Result")

LARGEST_PROMPT = 10_000_000
"""Bytes."""

DRAIN_S = 0.02
"""Seconds between two checks for events."""

PATIENCE_S = 5.0
"""Seconds without an event before a person is told that something is waited for."""


@click.command("run", cls=Command)
@click.argument("words", metavar="[PROMPT]", required=False)
@click.option("-p", "--prompt", metavar="TEXT", help="the prompt")
@click.option("-f", "--file", "prompt_file", type=click.Path(path_type=Path), metavar="FILE", help="read the prompt here")
@click.option(
    "--json-schema", "schema", type=click.Path(path_type=Path), metavar="FILE", help="the reply obeys this JSON schema"
)
@click.option("--grammar", type=click.Path(path_type=Path), metavar="FILE", help="the reply obeys this grammar (GBNF)")
@json_option
@click.option("--verify", "check", is_flag=True, help="decode plainly beside it, and compare text and speed")
@click.option("--rounds", "with_rounds", is_flag=True, help="with --json: every round too")
@color_option
@setting_options(*ENGINE, kind=ModelOptions)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    options: ModelOptions,
    words: str | None,
    prompt: str | None,
    prompt_file: Path | None,
    schema: Path | None,
    grammar: Path | None,
    as_json: bool,
    check: bool,
    with_rounds: bool,
) -> None:
    """Answer one prompt, in quotes, from -p, a file or standard input.

    The text goes to standard output and the figures to standard error.
    """
    settings = options.settings
    if with_rounds and not as_json:
        raise UsageError("--rounds is a part of the object that --json prints: give both.")
    if words is not None and prompt is not None:
        raise UsageError("Give one prompt: by itself in quotes, or with -p.")
    prompt = words if prompt is None else prompt
    question = prompt_text(unescaped(prompt) if prompt and options.values["escape"] else prompt, prompt_file)
    obeyed = _obeyed(schema, grammar)
    prepare_stdout("the reply")

    from spectui.engine.demo import default_setup
    from spectui.engine.events import Message, Terms

    server = options.server_setup()
    if server is not None and check:
        raise UsageError("--verify decodes with models of this machine: leave it out, or --server.")
    setup = server or default_setup(options.own_setup())
    worker = engine_of(setup, settings.knobs)  # computes in a thread of its own, so that this one sees Ctrl+C during a pass
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    printer = Printer(text=not as_json, colours=colours)
    terms = Terms(grammar=obeyed)
    messages = [Message("system", setup.system)] if setup.system.strip() else []
    with ExitStack() as ending:
        ending.callback(printer.end)
        ending.callback(worker.close)
        stopped = ending.enter_context(stopping(worker.stop))
        loaded = outcome(worker, worker.call(methodcaller("load", setup)), printer)
        if stopped:
            ctx.exit(INTERRUPTED)
        worker.knobs = settings.recommended(loaded.sampling, loaded.target.path).knobs
        messages.append(Message("user", question))
        generate = methodcaller("generate", messages, terms)
        finished = outcome(worker, worker.call(generate), printer)
        if check and printer.rounds and not stopped:
            from spectui.chat.comparison import Comparison

            printer.comparison = Comparison(printer.rounds, finished.statistics, strict=setup.strict == "on")
            worker.knobs = replace(finished.knobs, drafter="off")
            try:
                outcome(worker, worker.call(generate), printer)
            except SpectuiError:
                if not stopped:  # else the reply's figures are shown without the comparison
                    raise
    _say_limit(loaded, finished.reason.value)
    if as_json:
        click.echo(json.dumps(report(loaded, printer.rounds, finished, with_rounds=with_rounds), allow_nan=False))
    else:
        click.echo(f"\n{summary(finished)}", err=True)
    if stopped:
        ctx.exit(INTERRUPTED)
    if printer.comparison is not None:
        from spectui.chat.figures.lines import comparison_facts

        click.echo("\n" + "\n".join(f"{name}: {fact}" for name, fact in comparison_facts(printer.comparison)), err=True)


def _obeyed(schema: Path | None, grammar: Path | None) -> str:
    """What the reply must obey: the text of one of these files. Raises UsageError."""
    if schema is not None and grammar is not None:
        raise UsageError("Give --json-schema or --grammar, not both.")
    if schema is not None:
        return read_schema(schema)
    text = read_text(grammar, f"The grammar {grammar}", LARGEST_GRAMMAR, "simplify it") if grammar is not None else ""
    if grammar is not None and not text.strip():
        raise UsageError(f"The grammar {grammar} is empty.")
    return text


def _say_limit(loaded: Loaded, reason: str) -> None:
    """Say which limit ended the reply, if one did that nobody set for it."""
    from spectui.chat.sentences import context_full

    if reason == "server_limit":
        click.echo("spectui: The server ended the reply at a limit of its own.", err=True)
    if reason != "context":
        return
    fixed = next((knob for knob in loaded.fixed if knob.knob == "ctx_size"), None)
    larger = fixed.sentence if fixed is not None else "-c/--ctx-size sets a larger one."
    click.echo(f"spectui: The reply ends here, because {context_full(loaded.target.n_ctx)}: {larger}", err=True)


class Printer:
    """Prints the engine's events: the text to stdout round by round, progress and notices to stderr."""

    def __init__(self, text: bool, colours: bool, notices: bool = True) -> None:
        self._notices = notices
        self.rounds: list[Round] = []
        self.comparison: Comparison | None = None
        """Takes the rounds from here on: they are not printed."""
        self._text = text
        self._colours = colours
        self._line = ProgressLine()
        self._begun = False

    def __call__(self, event: Event) -> None:
        from spectui.engine.events import Loaded, Loading, Notice, RoundDone

        if self.comparison is not None and self.comparison.take(event):
            return
        if isinstance(event, RoundDone):
            self.rounds.append(event.round)
            if self._text:
                self._write("".join(map(self._shown, event.round.tokens)))
        elif isinstance(event, Loading):
            self._line.show(f"loading {event.what} {event.progress:4.0%}")
        elif isinstance(event, Loaded):
            self._line.show("")
        elif isinstance(event, Notice) and self._notices:
            self._line.show("")
            click.echo(f"spectui: {event.message}", err=True)

    def wait(self, seconds: float) -> None:
        """Nothing has come for so long: say so to a person, in the line of the progress."""
        if self._text and not self._begun and seconds > PATIENCE_S:
            self._line.show(f"waiting, {seconds:.0f} s")

    def end(self) -> None:
        """Move the cursor to the beginning of a line."""
        self._line.show("")
        if self._begun:
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            self._line.show("")
            self._begun = True
            sys.stdout.write(text)
            sys.stdout.flush()

    def _shown(self, token: Token) -> str:
        """The token's text. A correction is underlined and orange, so that it is visible without colours too."""
        if self._colours and token.origin == "correction" and token.text.strip():
            return click.style(token.text, fg=208, underline=True)
        return token.text


def outcome(worker: SessionEngine, future: Future[Result], printer: Printer) -> Result:
    """The future's result, or what it raises. Until then the worker's events are printed."""
    done, since = False, time.monotonic()
    while not done:
        done = bool(wait([future], DRAIN_S).done)
        if not worker.events:
            printer.wait(time.monotonic() - since)
        while worker.events:
            since = time.monotonic()
            printer(worker.events.popleft())
    return future.result()


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[list[int]]:
    """The first Ctrl+C calls `stop` and is appended to the list; a second one raises KeyboardInterrupt. A SpectuiError behind
    the first one only says that something was stopped: the command ends as interrupted."""
    caught: list[int] = []

    def handle(number: int, frame: Any) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)
        stop()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield caught
    except SpectuiError:
        if caught:
            raise Exit(INTERRUPTED) from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def prompt_text(prompt: str | None, file: Path | None) -> str:
    """The prompt from -p, from the file, or from standard input. Raises UsageError."""
    if prompt is not None and file is not None:
        raise UsageError("Give the prompt with -p or with -f, not with both.")
    if prompt is not None:
        where = "-p"
        try:
            text = of_argument(prompt)
        except UnicodeError:
            raise UsageError("The prompt of -p is not UTF-8: convert it first.") from None
    else:
        source, where = (_stdin(), "standard input") if file is None or str(file) == "-" else (file, str(file))
        name = f"The prompt file {file}" if source is file else "The prompt from standard input"
        text = read_text(source, name, LARGEST_PROMPT, "shorten it")
    if not text.strip():
        raise UsageError(f"The prompt from {where} is empty: give one with -p, with -f or on standard input.")
    return text


def _stdin() -> BinaryIO:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("spectui run needs a prompt: write it in quotes, name its file with -f FILE, or pipe it in.")
    return sys.stdin.buffer
