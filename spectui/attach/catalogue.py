"""A server's models, as the list of models shows those of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.attach.address import address, read_key
from spectui.errors import SpectuiError
from spectui.gguf_files.catalogue import ModelCatalogue

if TYPE_CHECKING:
    from spectui.attach.facts import ServedModel
    from spectui.gguf_files.header import GgufHeader


class ServedModels(ModelCatalogue):
    """Lists the models of a server: its router's, llama-swap's, or the only one. A draft is the server's own matter."""

    pairs = False

    def __init__(self, server: str, key_file: str) -> None:
        super().__init__()
        self._server, self._key_file = server, key_file

    def scan(self, beside: Iterable[Path] = (), cancelled: Callable[[], bool] = lambda: False) -> Iterator[GgufHeader]:
        """Each model. Blocks on the network; where the server does not answer there is one with that as its problem."""
        from spectui.gguf_files.header import GgufHeader

        try:
            models = asyncio.run(self._listed())
        except SpectuiError as error:
            problem = f"list cannot be read: {str(error).rstrip('.')}"
            yield GgufHeader(address(self._server).short, 0, problem=problem)
            return
        for model in models:
            size = f"{model.parameters / 1e9:.1f}B" if model.parameters else ""
            problem = "could not be loaded by the server the last time" if model.failed else ""
            yield GgufHeader(
                model.name, model.bytes, model.status or model.owner, model.quantisation, size, model.trained_ctx or None,
                called=model.name, problem=problem,
            )  # fmt: skip

    async def _listed(self) -> list[ServedModel]:
        from spectui.attach.connection import Connection
        from spectui.attach.facts import models

        connection = Connection(address(self._server), read_key(self._key_file))
        try:
            return await models(connection)
        finally:
            await connection.close()

    def count(self, cancelled: Callable[[], bool] = lambda: False) -> int:
        """Number of models."""
        return sum(1 for header in self.scan() if not header.problem)
