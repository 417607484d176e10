"""Where a server is, and the key that it asks for. The key never enters a record: only requests carry it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from spectui.errors import UsageError
from spectui.text_file import read_text

KEY_VARIABLE = "SPECTUI_API_KEY"
LARGEST_KEY_FILE = 10_000

PORTS = (9931, 8080)
"""Those of llama-server: since its version 1.0, and before."""

_HERE = ("localhost", "127.0.0.1", "::1")


class Address(NamedTuple):
    """`root`: what stands before `/v1`, without a slash at its end. `here`: it is this machine. `bases`: what may stand between
    the root and `/chat/completions`, the likeliest first."""

    root: str
    here: bool
    bases: tuple[str, ...] = ("/v1", "")

    @property
    def short(self) -> str:
        """The root without its scheme."""
        return self.root.partition("://")[2]


def address(text: str) -> Address:
    """The address in a URL, with or without `/v1` or `/chat/completions`; without a scheme it is http. Raises UsageError."""
    text = text.strip()
    whole = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(whole)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError("--server takes a URL such as http://localhost:8080: this one cannot be read.") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"--server takes no password in the URL: put the key into a file, and name it with "
                         f"--server-key-file, or set {KEY_VARIABLE}.")  # fmt: skip
    if parts.query or parts.fragment:
        raise UsageError("--server takes a URL without ? and #: give what stands before them.")
    if parts.scheme not in ("http", "https") or not host or port == 0 or not whole.isprintable() or " " in whole:
        raise UsageError("--server takes a URL such as http://localhost:8080 or https://host/v1.")
    path = parts.path.rstrip("/")
    base = path.removesuffix("/chat/completions")
    root = base.removesuffix("/v1")
    bases = ("/v1",) if root != base else ("",) if base != path else ("/v1", "")
    return Address(f"{parts.scheme}://{parts.netloc}{root}", host in _HERE or host.startswith("127."), bases)


def with_port(text: str) -> str:
    """The URL, with the first of llama-server's ports that takes a connection if it names this machine and no port."""
    where = address(text)
    root = urlsplit(where.root)
    if where.here and root.scheme == "http" and root.port is None and not root.path:
        for port in PORTS:
            with suppress(OSError), socket.create_connection((root.hostname, port), timeout=0.5):
                return f"{where.root}:{port}"
    return text


def read_key(file: str) -> str:
    """The key in the file, else in the variable, else "". Raises UsageError, which does not quote it."""
    if file:
        where = f"The file of the server's key, {file},"
        key = read_text(Path(file), where, LARGEST_KEY_FILE, "name the right one with --server-key-file").strip()
        if not key:
            raise UsageError(f"{where} is empty: put the key into it.")
    else:
        where, key = KEY_VARIABLE, os.environ.get(KEY_VARIABLE, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UsageError(f"{where} holds no key: a key is one word of ASCII.")
    return key
