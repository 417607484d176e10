"""The prompt in a person's own editor."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from spectui.chat.text.editor import edited


def test_what_an_editor_of_windows_saves_has_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf '\\357\\273\\277one\\r\\ntwo\\r\\n' > \"$1\"\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    assert edited("before", nullcontext()) == "one\ntwo"
