"""A server's models, as the list of models shows those of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.gguf_files.catalogue import ModelCatalogue

if TYPE_CHECKING:
    from spectui.gguf_files.header import GgufHeader


class ServedModels(ModelCatalogue):
    """Lists the models of a server: its router's, llama-swap's, or the only one. A draft is the server's own matter."""

    pairs = False

    def __init__(self, server: str, key_file: str) -> None:
        super().__init__()
        self._server, self._key_file = server, key_file

    def scan(self, beside: Iterable[Path] = (), cancelled: Callable[[], bool] = lambda: False) -> Iterator[GgufHeader]:
        """Each model. Blocks on the network; where the server does not answer there is one with that as its problem."""
        from spectui.attach.listing import headers

        return headers(self._server, self._key_file)

    def count(self, cancelled: Callable[[], bool] = lambda: False) -> int:
        """Number of models."""
        return sum(1 for header in self.scan() if not header.problem)
