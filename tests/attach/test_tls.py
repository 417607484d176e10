"""Certificates are verified, and one that fails says so."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import closing, suppress

import pytest

from spectui.attach.session import ServerSession
from spectui.errors import SpectuiError
from spectui.knobs import Setup

PEM = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgHVSSgs/aevHa2IhT
e4kGkaAQ5koaZ8qk5ojUW3N9LD6hRANCAAT5kVzo0oE6yhZR7hwQEV/Bc8gscrrH
3Rwg9ydO6iN+Qjo/PDlSRq9s5hKnZH3z+GCFuakXlOuyy59uFwFoPlmu
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBnDCCAUGgAwIBAgIUfZtIlN2Teok1Ds75rx3aw8CUKC0wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyNjEzNTg1MFoYDzIxMjYxMTAy
MTM1ODUwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAT5kVzo0oE6yhZR7hwQEV/Bc8gscrrH3Rwg9ydO6iN+Qjo/PDlSRq9s
5hKnZH3z+GCFuakXlOuyy59uFwFoPlmuo28wbTAdBgNVHQ4EFgQUk/79ZUblby0i
FG3iHZqr4QFKzgcwHwYDVR0jBBgwFoAUk/79ZUblby0iFG3iHZqr4QFKzgcwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSQAwRgIhAJWRane23t5OrshG0b0EbA/IZpUM6I2hxKdEpoFjtuW4AiEA
kAkx6kpht2lEgjFq79/4ZzE4r9jUcQ+tUCs12x7EaCA=
-----END CERTIFICATE-----
"""
"""A key and a certificate of localhost that nobody signed."""


def test_a_certificate_that_fails_is_a_sentence_and_the_key_is_not_sent(tmp_path, monkeypatch):
    file = tmp_path / "both.pem"
    file.write_text(PEM)
    monkeypatch.setenv("SPECTUI_API_KEY", "sk-secret")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    received: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
            received.append(secured.recv(1000))

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        with pytest.raises(SpectuiError) as raised:
            ServerSession(lambda event: None, threading.Event()).load(Setup(server=f"https://localhost:{port}"))
        thread.join()
    assert f"The certificate of localhost:{port} cannot be verified (" in str(raised.value)
    assert b"sk-secret" not in b"".join(received) and "sk-" not in str(raised.value)
