"""A broker that does not take the certificate of a client: one error that says so, and no outage."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from offsite.kafka.config import BrokerAddress, KafkaConfig, TlsConfig
from offsite.kafka.net.connection import Connection
from offsite.model.errors import KafkaAuthenticationFailed, OffsiteError
from offsite.model.secret import Secret
from tests.certificates import Certificates, make_certificates


@contextmanager
def asking_for_certificates(certificates: Certificates, version: ssl.TLSVersion) -> Iterator[BrokerAddress]:
    """A TLS listener that trusts the clients of its own authority alone, and says nothing to those who pass."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)
    context.load_verify_locations(certificates.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = version
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                plain, _ = listener.accept()
                with suppress(OSError), plain, context.wrap_socket(plain, server_side=True) as client:
                    client.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield BrokerAddress(host="127.0.0.1", port=listener.getsockname()[1])
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("stranger", ssl.TLSVersion.TLSv1_2),
        ("known", ssl.TLSVersion.TLSv1_2),
        *((kind, ssl.TLSVersion.TLSv1_3) for kind in ("stranger", "none", "known") for _ in range(5)),
    ],
)
def test_a_certificate_that_is_not_taken_is_a_refusal(tmp_path: Path, version: ssl.TLSVersion, kind: str) -> None:
    """In TLS 1.3 the client hears of it after the handshake: when it reads, or after a write that failed."""
    for name in ("broker", "stranger"):
        (tmp_path / name).mkdir()
    broker = make_certificates(tmp_path / "broker")
    mine = broker if kind == "known" else make_certificates(tmp_path / "stranger")
    identity = {} if kind == "none" else {"cert_pem": mine.client_certificate.read_text()}
    key = {} if kind == "none" else {"key_pem": Secret(mine.client_key.read_text())}
    tls = TlsConfig(ca_pem=broker.authority.read_text(), **identity, **key)
    with asking_for_certificates(broker, version) as address, pytest.raises(OffsiteError) as caught:
        Connection.open(KafkaConfig(bootstrap=(address,), tls=tls), address)
    is_refused = isinstance(caught.value, KafkaAuthenticationFailed)
    assert is_refused == (kind != "known"), caught.value
    assert not is_refused or "ssl.keystore.location" in caught.value.hint
