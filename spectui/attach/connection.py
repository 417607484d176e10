"""Requests to a server. What goes wrong is a sentence, and the key goes to no other host: no redirect is followed."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

import spectui
from spectui.attach.address import KEY_VARIABLE, Address
from spectui.errors import SpectuiError
from spectui.text import one_line

CONNECT_S = 10.0
ANSWER_S = 15.0
"""Seconds to wait for an answer to a question about the server. For a reply to a prompt there is no limit."""

LARGEST = 16_000_000
"""Bytes of an answer that is no stream: /props has a chat template in it."""

LONGEST_QUOTED = 300
"""Characters of a server's own words that are quoted."""


_PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")


class ServerTrouble(SpectuiError):
    """A server cannot be asked, or refuses. `status`: its HTTP status, 0 if none came. `table`: the error as it sent it.
    `loading`: it says that it loads its model."""

    def __init__(self, message: str, status: int = 0, table: Mapping[str, Any] | None = None, loading: bool = False) -> None:
        super().__init__(message)
        self.status, self.table, self.loading = status, table or {}, loading


class Connection:
    """Asks one server. Use it in one event loop."""

    def __init__(self, address: Address, key: str) -> None:
        self.address, self.bases = address, address.bases
        self._key = key
        import httpx2  # takes a tenth of a second, so it is imported at first use

        self._http = httpx2
        headers = {"Accept-Encoding": "identity", "User-Agent": f"spectui/{spectui.__version__}"}
        # A proxy of the environment has no way to this machine.
        proxied = not address.here and not proxy_bypass(urlsplit(address.root).hostname or "")
        names = [name for name in os.environ if name.upper() in _PROXIES and os.environ[name]]
        self._proxies = " and ".join(names) if proxied else ""
        # To read the authorities takes longer than a question.
        authorities = _authorities() if address.root.startswith("https:") else False
        try:
            self._client = self._http.AsyncClient(
                headers=headers | ({"Authorization": f"Bearer {key}"} if key else {}),
                # Each request has a connection of its own: one that is kept may have been closed by the server meanwhile.
                limits=self._http.Limits(max_keepalive_connections=0),
                verify=authorities,
                trust_env=proxied,
            )
        except (ImportError, ValueError) as error:  # it reads the proxies of the environment
            raise ServerTrouble(
                f"The proxy in {self._proxies or 'the environment'} cannot be used ({_short(str(error))}): unset it, or name "
                f"{address.short} in NO_PROXY."
            ) from error

    async def close(self) -> None:
        """End it."""
        await self._client.aclose()

    async def get(self, path: str, wait_s: float | None = ANSWER_S) -> Any:
        """The JSON at this path; None for an empty answer. Raises ServerTrouble."""
        return parsed(await self._read(path, wait_s), self.address.root)

    async def text(self, path: str, wait_s: float) -> str:
        """The text at this path. Raises ServerTrouble."""
        return (await self._read(path, wait_s)).decode("utf-8", "replace")

    async def listed(self) -> Any:
        """Its list of models, from the first of the bases that has one, which stays the only one. Raises ServerTrouble."""
        missing = None
        for base in self.bases:
            try:
                answer = await self.get(f"{base}/models")
            except ServerTrouble as error:
                if error.status not in (404, 405):
                    raise
                missing = missing or error
            else:
                self.bases = (base,)
                return answer
        raise missing or ServerTrouble(f"{self.address.root} has no list of models.")

    async def _read(self, path: str, wait_s: float | None) -> bytes:
        async with self._asked("GET", path, wait_s) as pieces:
            return await _whole(pieces, self.address)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that answers this one. Raises ServerTrouble."""
        async with self._asked("POST", path, ANSWER_S, json=dict(body)) as pieces:
            return parsed(await _whole(pieces, self.address), self.address.root)

    @asynccontextmanager
    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[AsyncIterator[bytes]]:
        """The pieces of an answer as they come, however long that takes. Raises ServerTrouble, within the block too."""
        async with self._asked("POST", self.bases[0] + path, None, json=dict(body)) as pieces:
            yield pieces

    @asynccontextmanager
    async def _asked(self, method: str, path: str, wait_s: float | None, **what: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        http, timeout = self._http, self._http.Timeout(wait_s, connect=CONNECT_S)
        try:
            async with self._client.stream(method, self.address.root + path, timeout=timeout, **what) as answer:
                if answer.status_code != 200:
                    raise await self._refused(answer, path)
                yield answer.aiter_bytes()
        except http.HTTPError as error:
            raise ServerTrouble(self._why(error, http)) from None
        except (http.InvalidURL, http.StreamError) as error:
            raise ServerTrouble(f"{self.address.root} cannot be asked ({type(error).__name__}): check --server.") from None

    def _why(self, error: Exception, http: Any) -> str:
        """The sentence for an error of the network."""
        root, said = self.address.root, str(error)
        if "CERTIFICATE" in said or "certificate" in said:
            return (f"The certificate of {self.address.short} cannot be verified ({_short(said)}): use the name that it is "
                    "for, or add its authority to those that this machine trusts.")  # fmt: skip
        if isinstance(error, http.ConnectTimeout):
            return f"{root} does not answer within {CONNECT_S:.0f} seconds: check --server, and the network."
        if isinstance(error, http.ConnectError):
            if self._proxies:
                return (f"Nothing answers at {root}, or at the proxy in {self._proxies} ({_short(said)}): start the server "
                        f"there, check the proxy, or name {self.address.short} in NO_PROXY.")  # fmt: skip
            return f"Nothing answers at {root} ({_short(said)}): start the server there, or check --server."
        if isinstance(error, http.ReadTimeout):
            return f"{root} has taken the question and does not answer: try again, or look into the server's log."
        return f"The connection to {root} broke ({_short(said) or type(error).__name__})."

    async def _refused(self, answer: Any, path: str) -> ServerTrouble:
        status, root = answer.status_code, self.address.root
        if 300 <= status < 400:
            to = _short(answer.headers.get("location", "nowhere"))
            return ServerTrouble(f"{root} sends to {to}, which is not followed: give that address with --server.", status)
        data = await _whole(answer.aiter_bytes(), self.address)
        try:
            table = json.loads(data)
        except (ValueError, RecursionError):
            table = None
        inner = table.get("error", table) if isinstance(table, dict) else None
        said = words(inner)
        quoted = f": {said.rstrip('.')}" if said else ""
        if status in (401, 403):
            what = f"{root} refuses the key{quoted}" if self._key else f"{root} asks for a key{quoted}"
            sentence = f"{what}. Put it into {KEY_VARIABLE}, or into a file that --server-key-file names."
        elif status in (404, 405) and not said:
            sentence = f"{root} has no {path}: check --server, which takes what stands before /v1."
        elif status in (429, 503):
            after = answer.headers.get("Retry-After", "")
            again = f"in {int(after)} seconds" if after.isdecimal() and len(after) < 6 else "later"
            refusal = "takes no more requests now" if status == 429 else "is not ready"
            sentence = f"{root} {refusal}{quoted}{';' if quoted else ':'} try again {again}."
        else:
            at = f" at {path}" if status == 404 else ""
            sentence = f"{root} answers with error {status}{at}{quoted}."
        loading = status == 503 and "loading" in said.casefold()
        if loading:
            sentence = f"{root} is not ready{quoted}. It is asked again until it is."
        return ServerTrouble(sentence, status, inner if isinstance(inner, dict) else None, loading)


def words(error: Any) -> str:
    """What a server's error says, on one line; "" if it says nothing."""
    names = ("message", "detail", "msg", "error_message")
    said = next((error[name] for name in names if name in error), None) if isinstance(error, dict) else error
    if isinstance(said, list) and said:  # FastAPI lists what it refuses
        return words(said[0]) if not isinstance(said[0], list) else ""
    return _short(said) if isinstance(said, str) else ""


def _short(text: str) -> str:
    text = one_line(" ".join(text[: 4 * LONGEST_QUOTED].split()))
    return text if len(text) <= LONGEST_QUOTED else f"{text[:LONGEST_QUOTED]}…"


def _authorities() -> ssl.SSLContext | bool:
    """Whom certificates are believed: those in SSL_CERT_FILE, where it is set, also for a server on this machine."""
    if not (file := os.environ.get("SSL_CERT_FILE", "")):
        return True
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:  # also of what is no certificate
        raise ServerTrouble(f"SSL_CERT_FILE names {file}, which cannot be read ({_short(str(error))}): unset it.") from error


async def _whole(pieces: AsyncIterator[bytes], address: Address) -> bytes:
    data = bytearray()
    async for piece in pieces:
        data += piece
        if len(data) > LARGEST:
            raise ServerTrouble(
                f"{address.root} sends more than {LARGEST // 10**6} MB where JSON was asked for: check --server."
            )
    return bytes(data)


def parsed(data: bytes, root: str) -> Any:
    """The value of this JSON; None for no text. Raises ServerTrouble for any other one. `root`: what the sentence calls the
    server."""
    try:
        return json.loads(data.decode("utf-8-sig", "replace")) if data.strip() else None
    except (ValueError, RecursionError):
        what = "a web page" if data.lstrip()[:1] == b"<" else "something that is no JSON"
        raise ServerTrouble(
            f"{root} sends {what}: check --server, which takes what stands before /v1, or look into the server's log."
        ) from None
