from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from constructs_optim.evaluator.connection import Connection, Exchange, UrlTarget, proxy_for
from constructs_optim.evaluator.options import ClosedLoop, EvaluationError
from constructs_optim.evaluator.requests import ErrorKind

from ..support.model_server import ModelServer, answering, asked, sender, sent


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate of 127.0.0.1 that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "timed")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def secure(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A server with TLS, whose certificate is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    running = ModelServer(context)
    yield running
    running.stop()


class TunnelProxy:
    """An HTTP proxy that opens tunnels to those who may."""

    def __init__(self, status: str = "200 Connection established") -> None:
        self.status, self.asked = status, list[bytes]()
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        writer.write(f"HTTP/1.1 {self.status}\r\n\r\n".encode())
        if not self.status.startswith("200"):
            writer.close()
            return
        host, _, port = head.split()[1].decode().partition(":")
        upstream, sending = await asyncio.open_connection(host, int(port))
        await asyncio.gather(self._copy(reader, sending), self._copy(upstream, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()


def target(server: ModelServer) -> UrlTarget:
    return UrlTarget(server.url.replace("http://", "https://"))


def test_a_server_with_tls_is_measured(secure: ModelServer) -> None:
    records, _ = sent(sender(target(secure), asked("a")), ClosedLoop(concurrency=2, requests=6))
    assert [record.error for record in records] == [None] * 6


def test_an_untrusted_certificate_is_refused(secure: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE")
    records, _ = sent(sender(target(secure), asked("a")), ClosedLoop(concurrency=1, requests=1, warm_up=0))
    assert records[0].error is ErrorKind.CONNECTION
    assert "certificate verify failed" in records[0].message


def test_an_unreadable_ca_bundle_is_reported(secure: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere.pem")
    with pytest.raises(EvaluationError, match=r"the certificates of /nowhere\.pem cannot be read"):
        target(secure)


def test_requests_go_through_the_proxy_of_the_environment(secure: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = TunnelProxy()
    monkeypatch.setenv("https_proxy", f"http://me:pass%20word@127.0.0.1:{proxy.port}")
    records, _ = sent(sender(target(secure), asked("a")), ClosedLoop(concurrency=1, requests=3))
    proxy.stop()
    assert [record.error for record in records] == [None] * 3
    (head,) = proxy.asked
    assert head.startswith(f"CONNECT 127.0.0.1:{secure.port} HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization: Basic bWU6cGFzcyB3b3Jk\r\n" in head


def test_a_proxy_that_refuses_the_tunnel_is_reported(secure: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = TunnelProxy("407 Proxy Authentication Required")
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
    records, _ = sent(sender(target(secure), asked("a")), ClosedLoop(concurrency=1, requests=1, warm_up=0))
    proxy.stop()
    assert records[0].error is ErrorKind.CONNECTION
    assert "did not open a tunnel to 127.0.0.1: status 407" in records[0].message


@pytest.mark.parametrize("interim", ["100 Continue", "103 Early Hints\r\nLink: </style.css>"])
def test_interim_responses_are_skipped(interim: str) -> None:
    async def exchanged() -> Exchange:
        final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nHi"
        async with answering(f"HTTP/1.1 {interim}\r\n\r\n".encode(), final) as url:
            to = UrlTarget(url)
            return await Connection(to.server).send(await to.request(b"{}", "/chat/completions"), 10)

    exchange = asyncio.run(exchanged())
    assert (exchange.status, exchange.headers, exchange.error) == (200, {"content-length": "2"}, None)
    assert b"".join(piece for _, piece in exchange.pieces) == b"Hi"


def test_no_proxy_bypasses_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "runtime.local")
    proxy = proxy_for("https", "elsewhere")
    assert proxy is not None
    assert (proxy.hostname, proxy.port) == ("proxy", 3128)
    assert proxy_for("https", "runtime.local") is None
    monkeypatch.setenv("https_proxy", "socks5://proxy:1080")
    with pytest.raises(EvaluationError, match="only http:// proxies are supported"):
        proxy_for("https", "elsewhere")
