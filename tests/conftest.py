"""No test reads or writes a person's directories, none of their settings reach a test, and none is in a hurry."""

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from spectui.store import journal, writer

settings.register_profile(
    "spectui", deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
settings.load_profile("spectui")

DIRECTORIES = tuple(f"SPECTUI_{kind}_DIR" for kind in ("CONFIG", "DATA", "STATE", "CACHE"))


def pytest_configure() -> None:
    """Let no test depend on how the tests are run.

    Threads that wait for each other give their core to the tests of the other process, instead of spinning. A shell's
    background jobs ignore SIGINT, and so would the programs that tests start and interrupt. Garbage is collected less often.
    """
    gc.set_threshold(50_000)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say what must stay in one process when pytest-xdist runs the tests in several.

    Tests on the demo pair are one group, so that its draft is made once. They are the tests of modules that import it from
    `tests.helpers.smollm2`, and those that are marked. Other tests that share a fixture of their module stay together, so that
    it is set up once.
    """
    for item in items:
        assert isinstance(item, pytest.Function)
        shared = any(each[-1].scope == "module" for each in item._fixtureinfo.name2fixturedefs.values())
        if {"whole", "whole_alone"} & vars(item.module).keys():
            item.add_marker(pytest.mark.xdist_group("demo pair"))
        elif shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))


def pytest_collection_finish() -> None:
    """Spare each garbage collection the objects of modules and tests, which stay until the end."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Collect what is left once, and not five times as pytest does at the end, to see what raises when it is deleted."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Say in the last line what was skipped, and why: the reasons say how to have it."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(config, "workerinput"):
        return
    skipped = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in terminal.stats.get("skipped", []))
    if skipped:
        reasons = "; ".join(f"{count}, because {reason}" for reason, count in skipped.most_common())
        terminal.write_line(f"Skipped: {reasons}.")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes more than there are cores, since a third of the time tests wait: for a program, or a window's clock."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(8, cores + 2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape what UTF-8 cannot encode, such as a file name in a captured log: pytest-xdist sends reports in UTF-8."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session", autouse=True)
def own_directories(tmp_path_factory: pytest.TempPathFactory) -> None:
    """spectui's directories, in a temporary place, for this process and those it starts."""
    for name in [name for name in os.environ if name.startswith("SPECTUI_")]:
        del os.environ[name]
    root: Path = tmp_path_factory.mktemp("spectui")
    for name in DIRECTORIES:
        os.environ[name] = str(root / name)
    os.environ["DEMO_DRAFT_DIR"] = os.environ["SPECTUI_CACHE_DIR"]


@pytest.fixture(autouse=True)
def patient_with_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat does not wait for a slow disk. Tests do: what they look at is what it does, not how fast that is."""
    close = writer.Writer.close
    monkeypatch.setattr(journal, "FLUSH_WAIT_S", 60.0)
    monkeypatch.setattr(writer.Writer, "close", lambda self, timeout=60.0: close(self, timeout))


@pytest.fixture
def fresh_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories for one test alone, which finds nothing there of what others have said."""
    for name in DIRECTORIES:
        monkeypatch.setenv(name, str(tmp_path / name))
