"""What a pair has taught, kept on disk beside what its passes cost."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from math import isfinite
from pathlib import Path

from spectui.speculation.experience import Experience


def recall(file: Path) -> Experience | None:
    """What the file holds; None if there is none or it is damaged."""
    try:
        found = Experience(**json.loads(file.read_text(encoding="utf-8")))
        sound = all(isinstance(number, float) and isfinite(number) for number in found)
        return found if sound and found.plausible else None
    except (OSError, ValueError, TypeError):
        return None


def keep(file: Path, experience: Experience) -> None:
    """Write it, whole or not at all. A disk that fails costs the next process what this one has learned, and no more."""
    part = file.with_suffix(f".{os.getpid()}.part")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(experience._asdict()), encoding="utf-8")
        part.replace(file)
