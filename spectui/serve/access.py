"""What every request passes: who may ask, and how large its body may be."""

from __future__ import annotations

import asyncio
import hmac
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request as HttpRequest

from spectui.serve.fields import BadRequestError, Body

LARGEST_BODY = 32 << 20
BODY_S = 30.0
"""Bytes and seconds that a request's body may take."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Access:
    """Who may ask. `host`: the address that is listened on. `key`: what clients must send; "" for nothing. `cors`: the origin
    of web pages that may ask; "" for none."""

    host: str = "127.0.0.1"
    key: str = ""
    cors: str = ""

    def check(self, request: HttpRequest) -> None:
        """Raises BadRequestError."""
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        if self.host in LOOPBACK and host not in (*LOOPBACK, self.host):
            raise BadRequestError("The Host of the request is not this machine.", 403, "permission_error")
        origin = request.headers.get("origin")
        if origin is not None and origin != self.cors:
            raise BadRequestError("Web pages may not ask this server: --cors names the origin of one.", 403, "permission_error")
        given = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key and not hmac.compare_digest(given.encode(), self.key.encode()):
            raise BadRequestError("The key is missing or wrong.", 401, "authentication_error")


async def body_of(request: HttpRequest) -> Body:
    """The request's object. Raises BadRequestError."""
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.stream():
                data.extend(piece)
                if len(data) > LARGEST_BODY:
                    raise BadRequestError(f"The body is larger than {LARGEST_BODY >> 20} MiB.", 413)
        body = json.loads(data or b"{}")
    except TimeoutError:
        raise BadRequestError("The body took too long to come.", 408) from None
    except (ValueError, RecursionError):
        raise BadRequestError("The body is no JSON.") from None
    if not isinstance(body, dict):
        raise BadRequestError("The body is a JSON object.")
    return body
