"""Shares of GPUs as whole percentages."""

from __future__ import annotations

import pytest

from spectui.engine.loading.shares import percentages, shares, with_share


@pytest.mark.parametrize(
    ("numbers", "found"),
    [([3, 1], [75, 25]), ([1, 1, 1], [34, 33, 33]), ([0, 0], [50, 50]), ([1, 0], [100, 0]), ([2, 1], [67, 33])],
)
def test_percentages_add_up(numbers: list[float], found: list[int]) -> None:
    assert percentages(numbers) == found


def test_numbers_of_any_size_are_shares() -> None:
    """Also those whose sum is infinite."""
    assert shares("1e308/1e308, 5e307") == [1.0, 1.0, 0.5]
    assert percentages(shares("1e308,1e308")) == [50, 50]


@pytest.mark.parametrize(
    ("now", "at", "share", "found"),
    [
        ([50, 50], 0, 65, [65, 35]),
        ([60, 30, 10], 0, 80, [80, 15, 5]),
        ([100, 0, 0], 0, 40, [40, 30, 30]),
        ([34, 33, 33], 2, 50, [25, 25, 50]),
        ([50, 50], 1, 100, [0, 100]),
    ],
)
def test_the_others_keep_their_proportions(now: list[int], at: int, share: int, found: list[int]) -> None:
    assert with_share(now, at, share) == found
    assert sum(found) == 100
