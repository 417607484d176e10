"""The end of a search, made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spectui.measure.bench.settings import Setting
from spectui.measure.tune.search import Trial, Tuned


def finals(speeds: Mapping[Setting, Sequence[float]], prompts: Sequence[str] = ("a",), tokens: int = 32) -> list[Trial]:
    """Replies that are judged: each of these speeds once to each prompt."""
    return [
        Trial(setting, prompt, tokens, speed, speed, "finals", number)
        for setting, each in speeds.items()
        for number, speed in enumerate(each)
        for prompt in prompts
    ]


def tuned(best: Setting | None, speeds: Mapping[Setting, Sequence[float]], finished: bool = True) -> Tuned:
    """A search that found this."""
    return Tuned(best, 9, 60.0, finished, (), finals(speeds))


def steady(speed: float) -> tuple[float, ...]:
    """Speeds that are told from others which differ by some percent."""
    return speed, 1.01 * speed, speed, 1.01 * speed
