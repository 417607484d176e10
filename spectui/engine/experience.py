"""What a pair has taught, kept on disk beside what its passes cost."""

from __future__ import annotations

import json
from contextlib import suppress
from math import isfinite
from pathlib import Path

from spectui.atomic import write_atomic
from spectui.speculation.policies.experience import Experience


def recall(file: Path) -> Experience | None:
    """What the file holds; None if there is none or it is damaged."""
    try:
        found = Experience(**json.loads(file.read_text(encoding="utf-8")))
        sound = all(isinstance(number, float) and isfinite(number) for number in found)
        return found if sound and found.plausible else None
    except (OSError, ValueError, TypeError):
        return None


def keep(file: Path, experience: Experience) -> None:
    """Write it for the next process. Where the disk fails, the next process begins without it."""
    with suppress(OSError):
        write_atomic(file, json.dumps(experience._asdict()).encode())
