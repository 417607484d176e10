"""The measurement of both kernels: made once for each type of weights, and kept."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path
from time import time

import pytest

from spectui import paths
from spectui.engine.kernels import trial
from spectui.engine.kernels.trial import ROWS, Trial
from spectui.kernels.build import LIBRARY
from spectui.kernels.plugin import Kernels
from spectui.llama import selftest
from spectui.llama.cpu import plugin

Q8_0, Q4_K = 8, 12


@pytest.fixture(autouse=True)
def quick(fresh_directories: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_WIDTH", 256)
    monkeypatch.setattr(trial, "_FEED_FORWARD", 256)
    monkeypatch.setattr(trial, "_USUAL_S", 1e-9)
    monkeypatch.setattr(trial, "_ALIKE", float("inf"))


def kept() -> list[Path]:
    return sorted(paths.state_directory().glob("kernels-*"))


@pytest.mark.skipif(not LIBRARY.exists(), reason="the kernels are not built")
def test_passes_of_both_are_timed_once_for_each_type(monkeypatch: pytest.MonkeyPatch) -> None:
    own, done, fast = Kernels(plugin.load().set), list[float](), selftest.run().extra_buffers
    found = {kind: trial.trial(kind, own, ("key",), 1, fast, done.append) for kind in (Q8_0, Q4_K)}
    for each in found.values():
        assert len(each.llama_cpp) == len(each.own) == len(ROWS)
        assert all(0 < seconds < 1 for seconds in (*each.llama_cpp, *each.own))
    assert done[0] == 0.0 and done[-1] == 1.0
    monkeypatch.setattr(trial, "timed_pass", None)
    assert {kind: trial.trial(kind, own, ("key",), 1, fast, done.append) for kind in found} == found
    assert len(kept()) == 2
    with pytest.raises(TypeError):  # others are measured by themselves
        trial.trial(Q8_0, own, ("key",), 2, fast, print)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "[[1, 2, 3], [1, 2, 3], true]", "[[0.1, 0.1], [0.1, 0.1], true]", "[1, 2, true]", "{}"]
)
def test_a_damaged_file_is_measured_anew(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Trial((0.3, 0.2, 0.1), (0.1, 0.2, 0.3))
    monkeypatch.setattr(trial, "_measure", lambda *_: found)
    ask = lambda: trial.trial(Q8_0, Kernels("avx2"), (), 1, True, print)  # noqa: E731
    assert ask() == found
    (file,) = kept()
    file.write_text(content)
    assert ask() == found
    assert json.loads(file.read_text()) == [list(found.llama_cpp), list(found.own), True]


def test_what_others_disturbed_is_measured_again_an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    disturbed, better = Trial((0.3, 0.2, 0.1), (0.1, 0.2, 0.3), False), Trial((0.3, 0.2, 0.1), (0.1, 0.1, 0.1))
    made = iter((disturbed, better))
    monkeypatch.setattr(trial, "_measure", lambda *_: next(made))
    ask = lambda: trial.trial(Q8_0, Kernels("avx2"), (), 1, True, print)  # noqa: E731
    assert (ask(), ask()) == (disturbed, disturbed)
    for then, found in ((3000, disturbed), (4000, better), (10**6, better)):
        (file,) = kept()
        os.utime(file, (file.stat().st_atime, time() - then))
        assert ask() == found


@pytest.mark.skipif(not LIBRARY.exists(), reason="the kernels are not built")
def test_passes_that_differ_are_repeated_until_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes longer than the one before, by this clock."""
    clock = count()
    monkeypatch.setattr(trial, "timed_pass", lambda *_: (0.1 * 1.2 ** next(clock), None))
    monkeypatch.setattr(trial, "perf_counter", lambda: next(clock) * 0.01)
    monkeypatch.setattr(trial, "_ALIKE", 1.2)
    trial.trial(Q8_0, Kernels(plugin.load().set), (), 1, selftest.run().extra_buffers, print)
    assert json.loads(kept()[0].read_text())[2] is False
    assert next(clock) * 0.01 > 3.0
