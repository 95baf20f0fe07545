"""A socket connected to a broker, with TLS where configured, and tuned for large answers.

TLS leads from PEM texts to an `ssl.SSLSocket`; `ssl` is imported only where TLS is asked for.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from offsite.kafka.config import TLS_PROTOCOLS, BrokerAddress, KafkaConfig, TlsConfig
from offsite.model.errors import BadKafkaConfig, KafkaAuthenticationFailed, KafkaTimeout, KafkaUnreachable
from offsite.model.units import KIB, MIB

if TYPE_CHECKING:
    import ssl


CONNECT_TIMEOUT_S = 10.0  # a broker slower to accept is as good as down; the router tries another
SOCKET_BUFFER_BYTES = 4 * MIB  # the kernel caps the size; a larger buffer lets the broker run ahead
KEEPALIVE_IDLE_S = 60  # load balancers drop silent connections after minutes
TIMEOUT_HINT = "check the network, or raise request.timeout.ms"


def connected_socket(config: KafkaConfig, address: BrokerAddress) -> socket.socket:
    """Connect to `address`, with TLS where `config` asks for TLS. Raises `KafkaUnreachable`, `KafkaTimeout`,
    `BadKafkaConfig`; leaves nothing open after an error."""
    try:
        sock = socket.create_connection((address.host, address.port), timeout=CONNECT_TIMEOUT_S)
    except socket.gaierror as error:
        raise KafkaUnreachable(f"no such host: {address.host}", hint="check --bootstrap") from error
    except TimeoutError as error:
        raise KafkaTimeout(f"{address} did not accept a connection", hint=TIMEOUT_HINT) from error
    except (ValueError, OverflowError) as error:  # an impossible name or port told by brokers
        raise KafkaUnreachable(f"no such address: {address}", hint="check advertised.listeners") from error
    except OSError as error:
        raise KafkaUnreachable(
            f"cannot connect to {address}: {error.strerror or error}", hint="is the broker running?"
        ) from error
    try:
        _tune(sock)
        return _wrapped(sock, config, address)
    except BaseException:
        sock.close()
        raise


def _wrapped(sock: socket.socket, config: KafkaConfig, address: BrokerAddress) -> socket.socket:
    if config.tls is None:
        return sock
    try:
        return wrap_tls(sock, config.tls, address)
    except TimeoutError as error:
        raise KafkaTimeout(f"{address} did not answer the TLS handshake", hint=TIMEOUT_HINT) from error


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)


def wrap_tls(plain: socket.socket, tls: TlsConfig, address: BrokerAddress) -> ssl.SSLSocket:
    """Do the TLS handshake over a connected socket. Raises `KafkaAuthenticationFailed` when a certificate is not
    accepted and `KafkaUnreachable` when the broker does not speak TLS. Timeouts pass as `TimeoutError`."""
    import ssl

    context = tls_context(tls)
    try:
        return context.wrap_socket(plain, server_hostname=address.host)
    except ssl.SSLCertVerificationError as error:
        raise KafkaAuthenticationFailed(
            f"{address}: the broker's certificate is not accepted: {error.verify_message}",
            hint="check ssl.truststore.location and that the certificate names this host",
        ) from error
    except (ssl.SSLError, ConnectionError) as error:
        if refusal := certificate_refusal(error, address):
            raise refusal from error
        raise KafkaUnreachable(
            f"{address}: the TLS handshake failed: {error}",
            hint="if this listener is plaintext, use security.protocol=PLAINTEXT or SASL_PLAINTEXT",
        ) from error


_CERTIFICATE_ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")


def certificate_refusal(error: OSError | None, address: BrokerAddress) -> KafkaAuthenticationFailed | None:
    """The error for a broker that said by an alert of TLS that it does not take this client's certificate; None for all
    other errors. In TLS 1.3 the alert comes after the handshake, with the first answer."""
    reason = getattr(error, "reason", None) or ""
    if "_ALERT_" not in reason or not any(part in reason for part in _CERTIFICATE_ALERTS):
        return None
    alert = reason.partition("_ALERT_")[2].lower().replace("_", " ")
    return KafkaAuthenticationFailed(
        f"{address} refuses the certificate of this client, or misses one: {alert}",
        hint="check ssl.keystore.location: the brokers have to trust the authority of its certificate",
    )


@lru_cache(maxsize=8)  # one per cluster of a process; a new context reads the whole trust store
def tls_context(tls: TlsConfig) -> ssl.SSLContext:
    """The context of a client. Raises `BadKafkaConfig` for certificates that cannot be used."""
    import ssl

    try:
        context = ssl.create_default_context(cadata=tls.ca_pem or None)
    except (ssl.SSLError, ValueError) as error:
        raise BadKafkaConfig(
            "the trusted certificates cannot be used", hint="check ssl.truststore.*, ssl.ca.* and https.ca.*"
        ) from error
    if tls.trusts_machine:
        context.load_default_certs()
    context.check_hostname = tls.check_hostname
    versions = [ssl.TLSVersion[protocol.replace(".", "_")] for protocol in tls.protocols or TLS_PROTOCOLS]
    context.minimum_version, context.maximum_version = min(versions), max(versions)  # whatever the platform's own are
    # Trust anchors of Kafka users are often leaf or intermediate certificates, as Java accepts them.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if tls.cert_pem:
        _load_identity(context, tls)
    return context


def _load_identity(context: ssl.SSLContext, tls: TlsConfig) -> None:
    """Load the client certificate. `load_cert_chain` takes paths only, so the texts pass through a private file,
    deleted right after."""
    key = tls.key_pem.reveal() if tls.key_pem else ""
    password = tls.key_password.reveal() if tls.key_password else ""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # mode 0600
        file.write(f"{tls.cert_pem}\n{key}\n")
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password)
        except OSError as error:
            raise BadKafkaConfig(
                f"the client certificate or its key cannot be used: {error.strerror or error}",
                hint="check ssl.keystore.* and ssl.key.password",
            ) from None


# The largest response taken: a record is at most 2 GiB by format, but brokers cap records by message.max.bytes, and a
# larger response would not fit a worker's memory several times over.
MAX_RESPONSE_BYTES = 512 * MIB

_FIRST_BYTES = 32 * MIB


class ReceiveBuffer:
    """Grows as responses arrive, and never shrinks. Use one buffer per reader.

    The buffer for responses is reused, so that the hot path allocates nothing. The size announced by a broker is
    believed up to `_FIRST_BYTES`, so usual answers are received at once. Beyond, room is made for the bytes received so
    far, and as much again. Answers are small and many, so one system call receives several (`ReadAhead`).
    """

    __slots__ = ("_view",)

    def __init__(self, size_bytes: int = 0) -> None:
        self._view = memoryview(bytearray(size_bytes))

    def room(self, arrived_bytes: int, size_bytes: int) -> memoryview:
        """Return the view for the next bytes of a response of `size_bytes`, of which `arrived_bytes` have arrived. The
        view is shorter than the rest while the buffer has no room yet. Earlier views are no longer valid."""
        if len(self._view) < size_bytes and len(self._view) <= arrived_bytes:
            larger = memoryview(bytearray(min(size_bytes, max(2 * arrived_bytes, _FIRST_BYTES))))
            larger[:arrived_bytes] = self._view[:arrived_bytes]
            self._view = larger
        return self._view[arrived_bytes:size_bytes]

    def taken(self, size_bytes: int) -> memoryview:
        """A writable view of the response. All `size_bytes` must have arrived."""
        return self._view[:size_bytes]


AHEAD_BYTES = 64 * KIB


class ReadAhead:
    """Received bytes, in order of arrival, until taken."""

    __slots__ = ("_end", "_start", "_view")

    def __init__(self) -> None:
        self._view = memoryview(bytearray(AHEAD_BYTES))
        self._start = self._end = 0

    def __len__(self) -> int:
        return self._end - self._start

    def fill(self, receive: Callable[[memoryview], int]) -> int:
        """Take in the bytes that `receive` writes into memory, after all earlier bytes were taken. Returns the size."""
        self._start, self._end = 0, receive(self._view)
        return self._end

    def take_into(self, view: memoryview) -> int:
        """Move received bytes into `view`, as many as fit. Returns the number of bytes."""
        count = min(len(view), self._end - self._start)
        view[:count] = self._view[self._start : self._start + count]
        self._start += count
        return count
