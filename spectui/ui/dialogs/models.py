"""Choosing models: a pair that was loaded before, or of the files of this machine first the target, then its draft."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual import on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from spectui.chat.figures.format import UNKNOWN, count, size
from spectui.chat.sentences import short_name
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.gguf_files.compatibility import Match, drafts_for, lies_beside, match, smaller_drafts
from spectui.gguf_files.header import Cancelled, GgufHeader, read_header
from spectui.knobs import Setup
from spectui.paths import absolute, looks_like_path
from spectui.text import one_line, printable
from spectui.ui.dashboard.status import shorten
from spectui.ui.dialogs.lists import MOST_SHOWN, ListWindow
from spectui.ui.dialogs.questions import Plans
from spectui.ui.widgets.lines import MUTED

REFRESH_S = 1 / 5

NO_DRAFT = "no draft"
"""The id of the entry without a draft model."""

LOOK_AFTER_S = 0.3
"""Seconds that a path stays typed before its files are read."""

_MARKS = {"same": "✓", "translated": "~", "never": "·"}


class ModelsScreen(ListWindow[Setup]):
    """Answers with the set-up to load. A thread searches for files while the window is open."""

    PLACEHOLDER = "Filter by name, quantisation, directory"
    ACTIONS = (("choose", "choose"), ("back", "back"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Choose", id="models.choose", priority=True, tooltip="Take this model")
    ]
    DEFAULT_CSS = """
    ModelsScreen {
        & > Vertical { min-width: 112; }
        Label { height: 3; margin-top: 1; }
        &.-tiny Label { display: none; }
    }
    """

    def __init__(
        self,
        catalogue: ModelCatalogue,
        setup: Setup,
        plan: Callable[[Setup], str],
        pairs: Sequence[tuple[str, str | None]] = (),
        path: str = "",
    ) -> None:
        """`setup`: the loaded one. Its models are proposed, its other settings stay. `plan`: says what others would take.
        `pairs`: those that were loaded last. `path`: one that was typed already."""
        super().__init__()
        self.box.value = path
        self._catalogue = catalogue
        self.box.placeholder += "; or type a path" if catalogue.pairs else ""
        self._setup = setup
        own = [(setup.model, setup.draft)] if setup.model else []
        shown = dict.fromkeys([*own, *pairs] if catalogue.pairs else ())
        self._pairs = {f"pair {at}": replace(setup, model=one, draft=other) for at, (one, other) in enumerate(shown)}
        self._found: dict[str, GgufHeader] = {}
        self._new: deque[GgufHeader] = deque()  # found by the thread, not yet in the list
        self._searching = True
        self._target: GgufHeader | None = None
        self._moved = False
        self._plans = Plans(self, plan, self._show_details)

    def on_mount(self) -> None:
        """Start the search."""
        self._search()
        self._list()
        self.follow()
        self._refresh = self.set_interval(REFRESH_S, self._show_found)

    def on_resize(self) -> None:
        """Fit the columns to the width."""
        self.call_after_refresh(self._list)

    @work(thread=True)
    def _search(self) -> None:
        worker = get_current_worker()
        beside = [Path(path) for path in map(_absolute, (self._setup.model, self._setup.draft)) if path]
        try:
            for header in self._catalogue.scan(beside, lambda: worker.is_cancelled):
                self._new.append(header)
        finally:
            self._searching = False

    def _show_found(self) -> None:
        searched = not self._searching  # before the queue is emptied: the thread appends nothing afterwards
        if self._new:
            while self._new:
                header = self._new.popleft()
                self._found[header.path] = header
            self._list()
        if searched:
            self._refresh.stop()
            self._show_details()

    def filter(self) -> None:
        """Show the models that contain the words, or those at the path that was typed."""
        self._moved = False
        self._list()
        self.search = self._look(path) if (path := self._typed_path()) is not None else None

    def _typed_path(self) -> Path | None:
        words = self.words.strip()
        return absolute(words) if self._catalogue.pairs and looks_like_path(words) else None

    @work(exclusive=True, group="look")
    async def _look(self, path: Path) -> None:
        """List the models at this path."""
        await asyncio.sleep(LOOK_AFTER_S)
        worker = get_current_worker()
        headers = await asyncio.to_thread(_models_at, path, lambda: worker.is_cancelled)
        self._found |= {header.path: header for header in headers}
        self.search = None
        self._list()

    # The list

    def _list(self) -> None:
        """Fill the list again, and keep the highlighted model."""
        before = self.chosen_id
        path = self._typed_path()
        words = [str(path).casefold()] if path is not None else self.words.casefold().split()
        headers = [header for header in self._ordered() if all(word in _searched(header) for word in words)]
        del headers[MOST_SHOWN:]
        width = max(20, self.listed.scrollable_content_region.width - 1)
        room = max(12, min(width - 48, max((cell_len(one_line(header.name)) for header in headers), default=0)))
        options = [Option(self._line(header, width, room), header.path) for header in headers]
        if self._target is not None and not words:
            options.insert(0, Option(Content("  no draft model"), NO_DRAFT))
        elif not words:
            pairs = [Option(_pair_line(setup, setup == self._setup), identity) for identity, setup in self._pairs.items()]
            options = [*pairs, *options]
        ids = [option.id for option in options]
        wanted = before if self._moved and before in ids else self._proposed(headers)
        self.fill(options, ids.index(wanted) if wanted in ids else 0)
        self._show_details()

    def _ordered(self) -> list[GgufHeader]:
        headers = sorted(self._found.values(), key=lambda header: (header.problem != "", header.name.casefold(), header.path))
        if self._target is None:
            return headers
        first = drafts_for(self._target, headers)
        taken = {header.path for header in first}
        return first + [header for header in headers if header.path not in taken]

    def _proposed(self, headers: list[GgufHeader]) -> str:
        """The entry that is highlighted until a person moves: the last pair that is not loaded, or the loaded model; then the
        loaded draft, else the likeliest one, else none."""
        paths = [header.path for header in headers]
        loaded = self._path(self._setup.model if self._target is None else self._setup.draft)
        if self._target is None:
            last = next((identity for identity, setup in self._pairs.items() if setup != self._setup), loaded)
            return loaded if self.words else last
        if self._target.path == self._path(self._setup.model):
            return loaded if loaded in paths else NO_DRAFT
        return next((header.path for header in smaller_drafts(self._target, headers)), NO_DRAFT)

    def _path(self, model: str | None) -> str:
        """A model of the set-up as the list has it."""
        return model if model in self._found else _absolute(model)

    def _match(self, header: GgufHeader) -> Match:
        assert self._target is not None
        return match(self._target, header)

    def _line(self, header: GgufHeader, width: int, room: int) -> Content:
        """The mark, the name in `room` cells, figures that fit, and the reason if it cannot be used."""
        what = f"{header.architecture} {header.parameters}".strip() or UNKNOWN
        loaded = {self._path(self._setup.model): "▸", self._path(self._setup.draft): "▹"}
        mark, last, muted = (loaded.get(header.path, " "), f"{count(header.n_ctx_train):>9}  {what}", bool(header.problem))
        if self._target is not None:
            found = self._match(header)
            mark, last, muted = _MARKS[found.how], found.reason, found.how == "never"
        elif header.problem:
            last = header.problem
        figures = f"{size(header.size) if header.size else UNKNOWN:>8}  {printable(header.quantisation) or UNKNOWN:<8}"
        name = shorten(one_line(header.name), room)
        style = MUTED if muted else ""
        return Content.assemble(
            (f"{mark} {set_cell_size(name, room)}", style), (f" {figures} {one_line(last)}", MUTED)
        ).truncate(width, ellipsis=True)

    # The words around it

    def _show_details(self) -> None:
        """Show the titles, and the details of the highlighted model."""
        box, title = self.frame, "the target: who writes the text"
        if self._target is not None:
            title = f"the draft: who proposes for {shorten(one_line(self._target.name), 50)}"
        box.border_title = Content(title)  # no markup: a file's name may hold brackets
        models = f"{len(self._found)} model{'' if len(self._found) == 1 else 's'}"
        box.border_subtitle = f"{models}, looking for more" if self._searching else models
        plan = printable(self._plans.of(self._pointed())).replace("\n", " ")
        self.about.update("\n".join(filter(None, (self._about(), plan))))

    def _about(self) -> str:
        if (pair := self._pairs.get(self.chosen_id)) is not None:
            return "\n".join(one_line(path) for path in (pair.model, pair.draft) if path)
        if self.chosen_id == NO_DRAFT and self._target is not None:
            target, drafts = self._target, smaller_drafts(self._target, list(self._found.values()))
            own = "drafts with its own heads" if target.heads else "goes on alone"
            if any(each.only_heads and lies_beside(Path(target.path), Path(each.path)) for each in drafts):
                own = "drafts with the heads beside it"
            return f"The target {own}; the conversation's own repetitions are drafted too."
        header = self._found.get(self.chosen_id)
        if header is None:
            return self._why_nothing()
        path = one_line(header.path)
        if header.problem:
            return f"{path}\n{_sentence(header.problem)}"
        if self._target is not None:
            return f"{path}\n{_sentence(self._match(header).reason)}"
        if header.heads:
            return f"{path}\nIt has heads of its own (MTP), and drafts with them."
        if not self._catalogue.pairs:
            return path
        names = ", ".join(one_line(each.name) for each in smaller_drafts(header, list(self._found.values()))[:3])
        return f"{path}\n{f'Same vocabulary, smaller: {names}.' if names else 'No smaller model here has its vocabulary.'}"

    def _why_nothing(self) -> str:
        if (self.search is not None and self.search.is_running) or (self._searching and not self._found):
            return "Looking for GGUF files."
        if (path := self._typed_path()) is not None:
            return f"There is no GGUF file at {one_line(str(path))}."
        if self._found:
            return "No model has these words."
        if not self._catalogue.pairs:
            return "The server lists no models."
        return (
            "There is no GGUF file where llama.cpp, LM Studio, Hugging Face and Ollama keep theirs: type the path of a file or "
            "directory."
        )

    # Actions

    @on(OptionList.OptionHighlighted)
    def _point(self) -> None:
        self._show_details()

    def _pointed(self) -> Setup | None:
        """The set-up that Enter would load, as far as it is chosen; None if it would load nothing."""
        header = self._found.get(self.chosen_id)
        if (pair := self._pairs.get(self.chosen_id)) is not None:
            return pair
        if self._target is None:
            return None if header is None or header.problem else replace(self._setup, model=header.path, draft=None)
        if header is None:
            return replace(self._setup, model=self._target.path, draft=None) if self.chosen_id == NO_DRAFT else None
        usable = self._match(header).how != "never"
        return replace(self._setup, model=self._target.path, draft=header.path) if usable else None

    def action_move(self, action: str) -> None:
        """Move the highlight; the focus stays in the filter."""
        self._moved = True
        super().action_move(action)

    def choose(self) -> None:
        """Choose the highlighted model, as the target, then as the draft."""
        header, setup = self._found.get(self.chosen_id), self._pointed()
        if setup is None:
            if header is not None:
                reason = header.problem or f"cannot draft: {self._match(header).reason}"
                self.notify(_sentence(f"This {reason}"), severity="warning", markup=False)
        elif header is not None and self._target is None and self._catalogue.pairs:
            self._target = header
            self._step()
        else:
            self.dismiss(setup)

    def action_back(self) -> None:
        """Go back to the targets, or close."""
        if self._target is None:
            self.dismiss(None)
        else:
            self._target = None
            self._step()

    def _step(self) -> None:
        self._moved = False
        self.box.value = self.words = ""
        self.set_focus(self.box)
        self._list()


def _models_at(path: Path, cancelled: Callable[[], bool]) -> list[GgufHeader]:
    """The models of a directory, or the one in a file."""
    with suppress(OSError, ValueError, Cancelled):  # a path that cannot be one
        return [*ModelCatalogue((path,)).scan(cancelled=cancelled)] if path.is_dir() else [read_header(path, cancelled)]
    return []


def _pair_line(setup: Setup, loaded: bool) -> Content:
    draft = f"  ⟵ drafted by  {short_name(setup.draft)}" if setup.draft else "  without a draft"
    return Content.assemble("▸ " if loaded else "  ", short_name(setup.model), (draft, MUTED))


def _absolute(path: str | None) -> str:
    return str(absolute(path)) if path else ""


def _searched(header: GgufHeader) -> str:
    return f"{header.name} {header.path} {header.architecture} {header.quantisation} {header.parameters}".casefold()


def _sentence(reason: str) -> str:
    text = one_line(reason)
    return f"{text[:1].upper()}{text[1:]}."
