"""TLS for a connection: from PEM texts to an `ssl.SSLSocket`. Imports `ssl` only when TLS is asked for."""

from __future__ import annotations

import socket
import tempfile
from functools import lru_cache
from typing import TYPE_CHECKING

from offsite.kafka.config.config import Address, TlsConfig
from offsite.model.errors import BadKafkaConfig, KafkaAuthenticationFailed, KafkaUnreachable

if TYPE_CHECKING:
    import ssl


def wrap_tls(plain: socket.socket, tls: TlsConfig, address: Address) -> ssl.SSLSocket:
    """Handshake over a connected socket. Raises `KafkaAuthenticationFailed` when a certificate is not accepted and
    `KafkaUnreachable` when the other side does not speak TLS; timeouts pass as `TimeoutError`."""
    import ssl

    context = _context(tls)
    try:
        return context.wrap_socket(plain, server_hostname=address.host)
    except ssl.SSLCertVerificationError as error:
        raise KafkaAuthenticationFailed(
            f"{address}: the broker's certificate is not accepted: {error.verify_message}",
            hint="check ssl.truststore.location and that the certificate names this host",
        ) from error
    except (ssl.SSLError, ConnectionError) as error:
        raise KafkaUnreachable(
            f"{address}: the TLS handshake failed: {error}",
            hint="is this listener plaintext? then use security.protocol=PLAINTEXT or SASL_PLAINTEXT",
        ) from error


@lru_cache(maxsize=8)  # one per cluster of a process; building one reads the whole trust store
def _context(tls: TlsConfig) -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context(cadata=tls.ca_pem or None)
    context.check_hostname = tls.check_hostname
    # Trust anchors of Kafka users are often leaf or intermediate certificates, as Java accepts them.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if tls.cert_pem:
        _load_identity(context, tls)
    return context


def _load_identity(context: ssl.SSLContext, tls: TlsConfig) -> None:
    """`load_cert_chain` takes paths only, so the texts pass through a private file that is gone right after."""
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
