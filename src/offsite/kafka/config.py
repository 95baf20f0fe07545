"""The way to a cluster: a frozen value that pickles to workers and prints without secrets.

Certificates are held as PEM text, never as paths, so a worker on another machine needs no file of the driver.
Exception: a worker with its own file of all settings (`SecretHandling.READ_THERE`).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from offsite.kafka import aws_login, kerberos_login
from offsite.model.bounds import whole_number
from offsite.model.errors import BadKafkaConfig
from offsite.model.machine import is_loopback
from offsite.model.secret import Secret, SecretHandling, secret_handling

DEFAULT_PORT = 9092
_KERBEROS, _AWS = kerberos_login.MECHANISM, aws_login.MECHANISM
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", _KERBEROS, _AWS)
TLS_PROTOCOLS = ("TLSv1.2", "TLSv1.3")
"""By Java's names, the oldest first. Older ones are broken (RFC 8996)."""
BEARER_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_TEXT = re.compile(r"[\x21-\x7e]+")
"""A whole OAUTHBEARER token. A byte 0x01 would end it inside of the login, and begin an extension."""
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MAX_PORT = 65_535
_MAX_HOST = 253  # RFC 1035
_LABEL = "[A-Za-z0-9_-]{1,63}"  # DNS has no underscore, and Docker's names have
_ADDRESS = re.compile(rf"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>{_LABEL}(?:\.{_LABEL})*\.?))(?::(?P<port>[^:]*))?")
_LIKE_IPV4 = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_SENT_IN_CLEAR = frozenset({"PLAIN", "OAUTHBEARER"})  # SCRAM proves the secret without sending it


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BrokerAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """PEM texts. `ca_pem` empty: the machine's own trust store. `cert_pem` and `key_pem`: for mutual TLS."""

    ca_pem: str = ""
    cert_pem: str = ""
    key_pem: Secret | None = None
    key_password: Secret | None = None
    check_hostname: bool = True
    trusts_machine: bool = False
    """Whether the machine's own trust store counts beside `ca_pem`."""
    protocols: tuple[str, ...] = ()
    """Of `TLS_PROTOCOLS`, in that order; empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAssertion:
    """A signed token by which a client proves who it is (RFC 7523), instead of a secret. Either `file` holds the signed
    token, and is read for every request, or each token is signed here by `key_pem`. `template`: a JSON text with
    `header` and `payload`; claims named by settings override the template's, and times override both."""

    file: str = ""
    key_pem: Secret | None = None
    key_password: Secret | None = None
    algorithm: str = "RS256"
    template: str = ""
    claims: tuple[tuple[str, str], ...] = ()
    lifetime_s: int = 300
    backdated_s: int = 60
    has_id: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """The token endpoint of an identity provider, and what a client sends there. Either `client_secret` or `assertion`
    is set. `is_bearer`: the assertion is the grant itself, and no proof beside client credentials. The durations and
    `refresh_*` are Kafka's `sasl.login.*`: a token is fetched anew at `refresh_factor` of its lifetime, plus up to
    `refresh_jitter` by lot, but not within `refresh_min_s` and not later than `refresh_buffer_s` before the end."""

    url: str
    client_id: str = ""
    client_secret: Secret | None = None
    scope: str = ""
    assertion: ClientAssertion | None = None
    is_bearer: bool = False
    encodes_header: bool = False
    tls: TlsConfig = TlsConfig(trusts_machine=True)
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    retry_s: float = 0.1
    retry_max_s: float = 10.0
    refresh_factor: float = 0.8
    refresh_jitter: float = 0.05
    refresh_min_s: float = 60.0
    refresh_buffer_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSource:
    """The source of an OAUTHBEARER token. Exactly one of the first five fields is set. A file and a command are asked
    again for every connection; an endpoint's token is kept until it nears its end. `aws`: signed for each login by the
    credentials of that identity, as Amazon MSK wants it. Arguments of a command may be secrets (`curl -d
    client_secret=…`), and are treated as secrets. `extensions`: sent along with the token, in order."""

    static: Secret | None = None
    file: str = ""
    command: tuple[str, ...] = field(default=(), repr=False)
    endpoint: TokenEndpoint | None = None
    aws: aws_login.AwsLogin | None = None
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def has_secret(self) -> bool:
        endpoint = self.endpoint
        is_signed = endpoint is not None and endpoint.assertion is not None and endpoint.assertion.key_pem is not None
        return self.static is not None or (endpoint is not None and endpoint.client_secret is not None) or is_signed

    def __reduce__(self) -> tuple[Callable[..., TokenSource], tuple[Any, ...]]:
        values = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        return _source, (values | {"command": self.command[:1]}, tuple(map(Secret, self.command[1:])))


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslConfig:
    mechanism: str
    username: str = ""
    password: Secret = field(default_factory=lambda: Secret(""))
    token: TokenSource | None = None
    aws: aws_login.AwsLogin | None = None
    kerberos: kerberos_login.KerberosLogin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConfig:
    """Address and login of one cluster. `tls` and `sasl` decide the security protocol. `rack_id` asks for a replica in
    the same rack (KIP-392). `read_again` reads the same settings in the calling process: picklable, and without
    secrets."""

    bootstrap: tuple[BrokerAddress, ...]
    client_id: str = "offsite"
    rack_id: str = ""
    request_timeout_ms: int = 30_000
    tls: TlsConfig | None = None
    sasl: SaslConfig | None = None
    read_again: Callable[[], KafkaConfig] | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Callable[..., KafkaConfig], tuple[Any, ...]]:
        if self.read_again is not None and secret_handling() is SecretHandling.READ_THERE:
            return self.read_again, ()
        return _rebuilt, tuple(getattr(self, attribute.name) for attribute in fields(self))

    @property
    def has_secret(self) -> bool:
        """Whether the configuration holds a key or a password."""
        key = self.tls is not None and self.tls.key_pem is not None
        token = self.sasl is not None and self.sasl.token is not None and self.sasl.token.has_secret
        return key or token or (self.sasl is not None and bool(self.sasl.password.reveal()))

    @property
    def cleartext_hosts(self) -> tuple[str, ...]:
        """Hosts, except this machine, to which a password or token is sent in clear text."""
        if self.tls is not None or self.sasl is None or self.sasl.mechanism not in _SENT_IN_CLEAR:
            return ()
        return tuple(address.host for address in self.bootstrap if not is_loopback(address.host))

    @property
    def security_protocol(self) -> str:
        if self.sasl is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"


def _source(values: dict[str, Any], arguments: tuple[Secret, ...]) -> TokenSource:
    command = (*values["command"], *(argument.reveal() for argument in arguments))
    return TokenSource(**values | {"command": command})


def _rebuilt(*values: Any) -> KafkaConfig:  # noqa: ANN401  # the values of the fields, in order
    return KafkaConfig(**{attribute.name: value for attribute, value in zip(fields(KafkaConfig), values, strict=True)})


def parse_bootstrap(text: str, *, protocol: str = "") -> tuple[BrokerAddress, ...]:
    """Parse broker addresses such as `host:9092,[::1]:9093`. The port may be left out. A Kafka protocol may precede the
    host (`SSL://host:9093`); with `protocol` given, only `protocol` may. Looks up nothing. Raises `BadKafkaConfig` for
    an impossible address, since a name server may take a minute for the same answer."""
    addresses = tuple(_parse_address(part.strip(), protocol) for part in text.split(",") if part.strip())
    if not addresses:
        raise BadKafkaConfig("no bootstrap servers given", hint="name one with --bootstrap host:9092")
    return addresses


def _parse_address(text: str, protocol: str) -> BrokerAddress:
    scheme, arrow, place = text.rpartition("://")
    if arrow and scheme.upper() not in ({protocol} if protocol else PROTOCOLS):
        why = (
            f"security.protocol is {protocol}"
            if scheme.upper() in PROTOCOLS
            else f"Kafka has no protocol {scheme[:20]!r}"
        )
        raise BadKafkaConfig(
            f"{text[:300]!r} is not a broker address: {why}",
            hint="write it as host:9092; set the protocol with security.protocol in the file of --kafka-config",
        )
    if _is_ip(place, version=6):
        raise BadKafkaConfig(f"{text[:300]!r}: the port is ambiguous", hint=f"write it as [{place}]:{DEFAULT_PORT}")
    parts = _ADDRESS.fullmatch(place)
    number = whole_number(parts["port"], most=_MAX_PORT) if parts and parts["port"] is not None else DEFAULT_PORT
    if parts is None or not number or not _can_be_host(parts["host"] or "", parts["ipv6"] or ""):
        raise BadKafkaConfig(
            f"{text[:300]!r} is not a broker address", hint="write it as host:9092, several as host1:9092,host2:9092"
        )
    return BrokerAddress(host=parts["ipv6"] or parts["host"], port=number)


def _can_be_host(name: str, ipv6: str) -> bool:
    if ipv6:
        return _is_ip(ipv6, version=6)
    return len(name) <= _MAX_HOST and (not _LIKE_IPV4.fullmatch(name) or _is_ip(name, version=4))


def _is_ip(text: str, *, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False
