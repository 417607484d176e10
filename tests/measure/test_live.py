"""The window's search on tiny models: its table grows, it stops early, and its errors are sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import psutil
import pytest

from spectui.knobs import Knobs
from spectui.measure import prompts
from spectui.measure.bench.results import newest_file, read
from spectui.measure.live import LiveSearch
from tests.measure.models import tiny_setup

KNOBS = Knobs(temperature=0.3, draft_max=5, policy="fixed", seed=7, predict=9)


@pytest.fixture(autouse=True)
def one_prompt(fresh_directories: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search of these tests has one short prompt."""
    monkeypatch.setattr(prompts, "USUAL", ("toaster",))
    monkeypatch.setattr(prompts, "PREDICT", 20)


def ended(search: LiveSearch, at: Callable[[], bool] = lambda: False, act: Callable[[], object] = int) -> None:
    """Run the search to its end, and `act` once when `at` is true."""
    thread = Thread(target=search.run)
    thread.start()
    deadline = monotonic() + 120
    acted = False
    while thread.is_alive():
        assert monotonic() < deadline
        if not acted and at():
            acted = True
            act()
        sleep(0.002)


def test_the_table_grows_and_the_winner_is_told(tmp_path: Path) -> None:
    search = LiveSearch(tiny_setup(tmp_path, ctx_size=512), KNOBS, 0.1)
    lengths = set[int]()

    def looked() -> bool:
        lengths.add(len(search.lines(100)))
        assert search.winner is None or not search.running
        return False

    ended(search, looked)
    assert not search.problem and not search.running and len(lengths) > 2, "the table grows"
    assert search.winner is not None and search.winner.temperature == 0.3
    assert any(line.startswith("The best of ") for line in search.lines(100))
    runs = read(newest_file("tune"))
    assert {run.conditions.seed for run in runs} == {1}, "drafting, seed and length are not the chat's"
    assert search.done > 0.5 and "t/s" in search.what


def test_what_was_measured_is_kept_when_it_is_stopped(tmp_path: Path) -> None:
    search = LiveSearch(tiny_setup(tmp_path, ctx_size=512), KNOBS, 9)
    ended(search, lambda: search.summary is not None, search.stop)
    assert not search.problem and search.lines(100) and read(newest_file("tune"))
    assert not psutil.Process().children()


def test_a_second_stop_ends_a_process_that_does_not_answer(tmp_path: Path) -> None:
    search = LiveSearch(tiny_setup(tmp_path, ctx_size=512), KNOBS, 9)

    def stop() -> None:
        (child,) = psutil.Process().children()
        child.suspend()
        search.stop()
        search.stop()

    ended(search, lambda: search.summary is not None, stop)
    assert search.lines(100) and not psutil.Process().children()


def test_before_it_has_begun_a_stop_ends_it(tmp_path: Path) -> None:
    search = LiveSearch(tiny_setup(tmp_path), KNOBS, 9)
    search.stop()
    assert not search.running
    ended(search)
    assert search.summary is None and not search.problem


def test_models_that_cannot_be_loaded_are_a_sentence(tmp_path: Path) -> None:
    search = LiveSearch(replace(tiny_setup(tmp_path), model="/nowhere/target.gguf"), KNOBS, 1)
    ended(search)
    assert "/nowhere/target.gguf" in search.problem and not search.lines(100)
