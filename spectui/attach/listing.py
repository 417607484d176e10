"""What a server says of its models, as the headers of files say it of those of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from spectui.attach.address import address, read_key
from spectui.attach.connection import Connection
from spectui.attach.facts import ServedModel, models
from spectui.errors import SpectuiError
from spectui.gguf_files.header import GgufHeader


def headers(server: str, key_file: str) -> Iterator[GgufHeader]:
    """Each model. Blocks on the network; where the server does not answer there is one with that as its problem."""
    where = address(server)
    try:
        found = asyncio.run(_listed(server, key_file))
    except SpectuiError as error:
        yield GgufHeader(where.short, 0, problem=f"list cannot be read: {str(error).rstrip('.')}")
        return
    yield from map(_header, found)


async def _listed(server: str, key_file: str) -> list[ServedModel]:
    connection = Connection(address(server), read_key(key_file))
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
