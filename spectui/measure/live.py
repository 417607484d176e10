"""The search of `spectui tune` for the window: in a thread, with the models in a process of their own, because llama.cpp
computes in one thread of a process, and the window's has a chat."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from time import perf_counter
from typing import TYPE_CHECKING

from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup

if TYPE_CHECKING:
    from spectui.engine.isolation.process import EngineProcess
    from spectui.measure.bench.results import Run
    from spectui.measure.bench.settings import Setting
    from spectui.measure.bench.summary import Summary

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
"""The knobs that it takes from the chat. The other ones are what it varies, or would make it too long."""


class LiveSearch:
    """One search. `run` is for a thread of its own; its attributes change meanwhile."""

    def __init__(self, setup: Setup, knobs: Knobs, minutes: float) -> None:
        self.done = 0.0
        """Share of the time that is over, 0..1."""
        self.what = ""
        """What was measured last, and the time left; "" before that."""
        self.problem = ""
        """A sentence on why it ended by itself."""
        self.running = True
        self.stops = 0
        """How often somebody has asked it to stop."""
        self.summary: Summary | None = None
        """The runs so far."""
        self.advice: Sequence[str] = ()
        self._setup, self._knobs, self._minutes = setup, knobs, minutes
        self._worker: EngineProcess | None = None

    @property
    def winner(self) -> Setting | None:
        """What is to be used, once it has ended."""
        from spectui.measure.bench.summary import winner

        return None if self.running or self.summary is None else winner(self.summary)

    def lines(self, width: int) -> list[str]:
        """The table of the runs so far and what follows from it, in this width."""
        from spectui.measure.report import text

        if self.summary is None:
            return []
        return [*text(self.summary, width), *(line for sentence in self.advice for line in wrap(sentence, width))]

    def stop(self) -> None:
        """End after the present pass: what was measured is kept. The second call ends the process at once."""
        self.stops += 1
        if self._worker is None:
            self.running = False  # it has not begun
        elif self.stops > 1:
            self._worker.close(0.0)
        else:
            self._worker.stop()

    def run(self) -> None:
        """Search until the time is over, or somebody stops it."""
        from spectui.engine.isolation.process import EngineProcess
        from spectui.measure.bench.prompt_files import built_in
        from spectui.measure.bench.results import ResultsFile, new_file
        from spectui.measure.bench.runner import EngineModels, PlannedRun, Stopped, prepare
        from spectui.measure.bench.summary import summarise
        from spectui.measure.prompts import PREDICT, SEED, USUAL
        from spectui.measure.tune import Search, candidates, sentences

        own = {key: getattr(self._knobs, key) for key in _SAMPLING}
        knobs = Knobs(seed=SEED, predict=PREDICT, **own)
        prompts = built_in(USUAL, self._setup.system)
        search = Search(prompts, PREDICT, 60 * self._minutes, perf_counter, knobs.temperature)
        runs: list[Run] = []
        self._worker = EngineProcess(knobs, self._setup)
        try:
            if self.stops:
                raise Stopped
            out = ResultsFile(new_file("tune"))
            loaded, _, make = prepare(EngineModels(self._worker, self._setup), knobs)

            def make_and_tell(planned: PlannedRun) -> Run:
                run = make(planned)
                out.append(run)
                runs.append(run)
                self.done, self.summary = min(1.0, search.used), summarise(runs)
                self.what = f"{run.prompt}, {run.setting.label}: {run.speed:.1f} t/s"
                if self.stops:
                    raise Stopped
                return run

            search.run(candidates(loaded.draft is not None), make_and_tell)
        except Stopped:
            pass
        except SpectuiError as error:
            self.problem = "" if self.stops else str(error)
        finally:
            self._worker.close()
            if self.summary is not None:
                self.advice = list(sentences(search, self.summary.chosen, loaded.costs))
            self.running = False
