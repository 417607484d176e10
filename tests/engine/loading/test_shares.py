"""Shares of GPUs as numbers."""

from __future__ import annotations

from spectui.engine.loading.shares import shares


def test_numbers_of_any_size_are_shares() -> None:
    """Also those whose sum is infinite."""
    assert shares("1e308/1e308, 5e307") == [1.0, 1.0, 0.5]
