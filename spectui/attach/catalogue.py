"""A server's models, as the list of models shows those of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from spectui.attach.address import address, read_key
from spectui.attach.connection import Connection
from spectui.attach.facts import ServedModel, models
from spectui.errors import SpectuiError
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.gguf_files.header import GgufHeader


class ServedModels(ModelCatalogue):
    """Lists the models of a server: its router's, llama-swap's, or the only one. A draft is the server's own matter."""

    pairs = False

    def __init__(self, server: str, key_file: str) -> None:
        super().__init__()
        self._server, self._key_file = server, key_file

    def scan(self, beside: Iterable[Path] = (), cancelled: Callable[[], bool] = lambda: False) -> Iterator[GgufHeader]:
        """Each model. Blocks on the network; where the server does not answer there is one with that as its problem."""
        where = address(self._server)
        try:
            found = asyncio.run(self._listed())
        except SpectuiError as error:
            yield GgufHeader(where.short, 0, problem=f"list cannot be read: {str(error).rstrip('.')}")
            return
        yield from map(_header, found)

    def count(self, cancelled: Callable[[], bool] = lambda: False) -> int:
        """Number of models."""
        return sum(1 for header in self.scan() if not header.problem)

    async def _listed(self) -> list[ServedModel]:
        connection = Connection(address(self._server), read_key(self._key_file))
        try:
            return await models(connection)
        finally:
            await connection.close()


def _header(model: ServedModel) -> GgufHeader:
    status = "could not be loaded by the server the last time" if model.failed else ""
    size = f"{model.parameters / 1e9:.1f}B" if model.parameters else ""
    return GgufHeader(
        model.name, model.bytes, model.status or model.owner, model.quantisation, size, model.trained_ctx or None,
        called=model.name, problem=status,
    )  # fmt: skip
