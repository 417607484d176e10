"""Certificates are verified, and one that fails says so."""

import asyncio
import socket
import ssl
import threading
from contextlib import closing, suppress

import pytest

from spectui.attach.address import address
from spectui.attach.connection import Connection
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


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1", r"The proxy in ALL_PROXY cannot be used \(.*: unset it"),
        ("ALL_PROXY", "socks://127.0.0.1:1", r"The proxy in ALL_PROXY cannot be used \(.*: unset it"),
        ("SSL_CERT_FILE", "/nonexistent", "SSL_CERT_FILE names /nonexistent, which cannot be read"),
    ],
)
def test_what_the_environment_asks_for_and_cannot_be_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SpectuiError, match=said):
        Connection(address("https://192.0.2.1:1"), "")


def test_a_proxy_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    asked = Connection(address("http://192.0.2.1:1"), "").get("/v1/models")
    with pytest.raises(SpectuiError, match="or at the proxy in ALL_PROXY"):
        asyncio.run(asked)


def test_a_proxy_is_not_needed_for_what_no_proxy_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "192.0.2.1")
    Connection(address("http://192.0.2.1:1"), "")


@pytest.mark.parametrize("trusted", [False, True])
def test_a_certificate_that_fails_is_a_sentence_and_the_key_is_not_sent(tmp_path, monkeypatch, trusted):
    """SSL_CERT_FILE names who is believed, also on this machine."""
    file = tmp_path / "both.pem"
    file.write_text(PEM)
    monkeypatch.setenv("SPECTUI_API_KEY", "sk-secret")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
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
    assert (f"The certificate of localhost:{port} cannot be verified (" in str(raised.value)) is not trusted
    assert (b"sk-secret" in b"".join(received)) is trusted and "sk-" not in str(raised.value)
