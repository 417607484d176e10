"""The prompt in a person's own editor."""

import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from spectui.chat.text.editor import EditorError, edited

ENDING = (signal.SIGINT, signal.SIGTERM)


def be_edited_by(script: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this script of the shell a person's editor."""
    editor = directory / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))


def test_what_an_editor_of_windows_saves_has_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    be_edited_by("printf '\\357\\273\\277one\\r\\ntwo\\r\\n' > \"$1\"", tmp_path, monkeypatch)
    assert edited("before", nullcontext()) == "one\ntwo"


@pytest.mark.parametrize("words", ["/nowhere/editor", "/", "'not closed", " "])
def test_nothing_is_raised_while_the_terminal_is_the_editors(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window would not take it back."""
    raised: list[BaseException] = []

    @contextmanager
    def meanwhile() -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            raised.append(error)
            raise

    monkeypatch.setenv("VISUAL", words)
    with pytest.raises(EditorError, match="cannot be used"):
        edited("before", meanwhile())
    assert raised == []


def test_no_file_can_be_made_for_the_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(EditorError, match=r"No file for the editor can be made \(No such file"):
        edited("before", nullcontext())


@contextmanager
def _caught() -> Iterator[list[int]]:
    caught: list[int] = []
    before = [signal.signal(number, lambda number, frame: caught.append(number)) for number in ENDING]
    try:
        yield caught
    finally:
        for number, handler in zip(ENDING, before, strict=True):
            signal.signal(number, handler)


def test_ctrl_c_is_the_editors_and_a_signal_that_ends_spectui_ends_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_edited_by("kill -INT $PPID\nkill -TERM $PPID\nexec sleep 600", tmp_path, monkeypatch)
    with _caught() as caught, pytest.raises(EditorError, match="failed"):
        edited("before", nullcontext())
    assert caught == [signal.SIGTERM]


def test_a_signal_that_the_system_gives_to_another_thread_ends_the_editor_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ = tmp_path / "open"
    be_edited_by(f": > '{open_}'\nexec sleep 60", tmp_path, monkeypatch)

    def take() -> None:
        while not open_.exists():
            time.sleep(0.01)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    taker = threading.Thread(target=take)
    with _caught() as caught:
        taker.start()
        with pytest.raises(EditorError, match="failed"):
            edited("before", nullcontext())
    taker.join()
    assert caught == [signal.SIGTERM]
