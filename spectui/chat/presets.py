"""What a chat needs of whoever keeps presets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from spectui.knobs import Knobs


class PresetStore(Protocol):
    """Keeps knobs under names. Each method may raise SpectuiError with the sentence to show."""

    def names(self) -> list[str]:
        """All names."""

    def load(self, name: str) -> Mapping[str, Any]:
        """The knobs that a preset sets, by key."""

    def save(self, name: str, knobs: Knobs) -> None:
        """Keep these knobs under a name, in place of what it had."""
