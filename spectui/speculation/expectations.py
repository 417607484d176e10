"""What a draft must reach to pay: expected tokens, and the acceptance at which speculation equals plain decoding.

The policies decide without these figures; the window and the measurements show them.
"""

from __future__ import annotations

from collections.abc import Sequence

from spectui.speculation.policies.value import extends


def needed_acceptance(passes: Sequence[float], drafting: Sequence[float], rate: float) -> float | None:
    """The expected acceptance above which the policy asks the draft model for a first token; None if at none.

    `passes`, `drafting`: by draft length, in plain passes. `rate`: the going rate, in tokens per plain pass.
    """
    plain = 1.0 - rate * passes[0]

    def asks(acceptance: float) -> bool:
        return extends(plain, acceptance, rate, passes, drafting, 1.0, 1.0, plain)

    if not asks(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if asks(middle) else (middle, high)
    return high


def expected_tokens(acceptance: float, length: int) -> float:
    """Expected tokens of a round if each drafted token is accepted with this probability (Leviathan et al. 2023, eq. 1)."""
    return sum(acceptance**k for k in range(length + 1))


def break_even(times: Sequence[float], rate: float) -> float | None:
    """The acceptance from which drafts of some length are worth more than a plain pass; None if none can be.

    `times`: of a round by draft length, in plain passes. `rate`: tokens per plain pass that a round must reach.
    """
    found = (break_even_at(length, time, rate) for length, time in enumerate(times) if length)
    return min((acceptance for acceptance in found if acceptance is not None), default=None)


def break_even_at(length: int, time: float, rate: float) -> float | None:
    """The same for drafts of one length, whose rounds take `time` plain passes."""
    wanted = 1.0 + rate * (time - 1.0)
    if wanted >= length + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if expected_tokens(middle, length) >= wanted else (middle, high)
    return high
