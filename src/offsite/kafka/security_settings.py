"""The settings of Kafka users about security: `ssl.*` → `TlsConfig`, `sasl.*` → `SaslConfig`. Settings are read by
name, with file and line of every setting, so that errors can point to the place.

TLS is PEM inside: a binary store of Java becomes PEM where the settings are read (`keystores`). SASL comes from
librdkafka's names or from a JAAS line: a login module with options, in the form of Kafka's Java clients. Where tokens
come from is read in `oauth_settings`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from offsite.kafka import aws_login, kerberos_login, keystores
from offsite.kafka.config import MECHANISMS, TLS_PROTOCOLS, SaslConfig, TlsConfig
from offsite.model.bounds import whole_number
from offsite.model.errors import BadKafkaConfig
from offsite.model.secret import Secret
from offsite.model.untrusted.text import Property

_MAX_MS = (1 << 31) - 1  # about 24 days: sockets and locks refuse much more
T = TypeVar("T")


class ClientSettings:
    """Read-only settings. The later of two settings of a name counts. Errors never hold a value unless asked to."""

    def __init__(self, source: str, properties: Iterable[Property]) -> None:
        self._source = source
        self._properties = {setting.name: setting for setting in properties}

    def get(self, *names: str) -> str:
        """Return the value of the first of `names` that is set, or an empty text."""
        return next((self._properties[name].value.strip() for name in names if name in self._properties), "")

    def secret(self, *names: str) -> Secret | None:
        value = self.get(*names)
        return Secret(value) if value else None

    def has(self, *names: str) -> bool:
        return any(name in self._properties for name in names)

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        value = self.get(name).upper() or default
        if value not in allowed:
            raise self.bad_setting(name, f"{value!r} is not one of {', '.join(allowed)}")
        return value

    def milliseconds(self, *names: str, default: int) -> int:
        name = next((candidate for candidate in names if self.has(candidate)), names[0])
        value = self.get(name) or str(default)
        if not (number := whole_number(value)):
            raise self.bad_setting(name, f"{value[:100]!r} is not a positive number of milliseconds")
        return min(number, _MAX_MS)

    def read_file(self, name: str) -> bytes:
        """Read the file named by the setting."""
        try:
            return Path(self.get(name)).read_bytes()
        except OSError as error:
            raise self.bad_setting(name, f"cannot read {self.get(name)}: {error.strerror}") from error

    def parse(self, name: str, parse: Callable[[str], T]) -> T:
        """Parse the value of a setting by `parse`. Adds file and line to a `BadKafkaConfig` of `parse`."""
        return self.placed(name, lambda: parse(self.get(name)))

    def placed(self, name: str, read: Callable[[], T]) -> T:
        """Return what `read` makes of a setting. Adds file and line to a `BadKafkaConfig` of `read`."""
        try:
            return read()
        except BadKafkaConfig as error:
            raise self.bad_setting(name, error.message, hint=error.hint) from error

    def bad_setting(self, name: str, reason: str, *, hint: str = "") -> BadKafkaConfig:
        return BadKafkaConfig(self.located(name, reason), hint=hint or f"correct {name} in {self._source}")

    def located(self, name: str, text: str) -> str:
        """Return `text` behind file, line and name of the setting."""
        setting = self._properties.get(name)
        place = f"{self._source}:{setting.line}" if setting else self._source
        return f"{place}: {name}: {text}"

    def nested(self, name: str, options: Mapping[str, str]) -> ClientSettings:
        """Return the options inside of the setting, as settings of the same line."""
        line = self._properties[name].line
        inner = (Property(name=option, value=value, line=line) for option, value in options.items())
        return ClientSettings(self._source, inner)

    def unknown(self, supported: Collection[str]) -> tuple[str, ...]:
        """Return one line per setting outside of `supported`."""
        unused = (setting for setting in self._properties.values() if setting.name not in supported)
        return tuple(f"{self._source}:{setting.line}: offsite ignores {setting.name}" for setting in unused)


TLS_SETTINGS = frozenset(
    [
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.enabled.protocols",
        "ssl.protocol",
    ]
)
_PEM_MARK = b"-----BEGIN "
_STORE_HINT = "name PEM files, or JKS or PKCS12 stores by ssl.truststore.location and ssl.keystore.location"
_KEY_STORE, _KEY_FILE, _CHAIN_FILE = "ssl.keystore.location", "ssl.key.location", "ssl.certificate.location"
_KEY_TEXTS = ("ssl.keystore.key", "ssl.key.pem")
_CHAIN_TEXTS = ("ssl.keystore.certificate.chain", "ssl.certificate.pem")
_HALF_HINT = (
    "put both into the PEM file of ssl.keystore.location, or name each: ssl.key.location and ssl.certificate.location"
)
_HOSTNAME_CHECK = "ssl.endpoint.identification.algorithm"
_NO_HOSTNAME_CHECK = frozenset({"", "none"})


def read_tls(settings: ClientSettings) -> TlsConfig:
    """Read the TLS configuration out of the `ssl.*` settings. Raises `BadKafkaConfig` with file and line."""
    certificate, key = _identity(settings)
    return TlsConfig(
        ca_pem=read_trusted(settings),
        cert_pem=certificate,
        key_pem=_secret(key),
        key_password=settings.secret("ssl.key.password"),
        check_hostname=_checks_hostname(settings),
        protocols=_protocols(settings),
    )


def _identity(settings: ClientSettings) -> tuple[str, str]:
    """The certificate chain and the private key of the client, both empty where no setting names one. A text may hold
    both, under each name."""
    both = _key_store(settings)
    chain = settings.get(*_CHAIN_TEXTS) or _pem_file(settings, _CHAIN_FILE) or both
    key = settings.get(*_KEY_TEXTS) or _pem_file(settings, _KEY_FILE) or both
    certificate_pem = _blocks(chain, "CERTIFICATE") or _blocks(key, "CERTIFICATE")
    key_pem = _blocks(key, "PRIVATE KEY") or _blocks(chain, "PRIVATE KEY")
    if (chain or key) and not (certificate_pem and key_pem):
        names = (*_KEY_TEXTS, _KEY_FILE, _KEY_STORE, *_CHAIN_TEXTS, _CHAIN_FILE)
        name = next(name for name in (names if key_pem else reversed(names)) if settings.get(name))
        what = "a private key and no certificate" if key_pem else "a certificate and no private key"
        raise settings.bad_setting(name, f"it has {what}: brokers would see no proof of this client", hint=_HALF_HINT)
    return certificate_pem, key_pem


def _key_store(settings: ClientSettings) -> str:
    def read(content: bytes) -> str:
        identity = keystores.identity_pem(
            content, settings.secret("ssl.keystore.password"), settings.secret("ssl.key.password")
        )
        return f"{identity.key_pem.reveal()}\n{identity.chain_pem}"

    return _store_file(settings, _KEY_STORE, read)


def tls_warnings(settings: ClientSettings, tls: TlsConfig) -> Iterator[str]:
    """Yield a line for each setting that is unsafe, or asks for what offsite does not do."""
    if not tls.check_hostname:
        yield settings.located(
            _HOSTNAME_CHECK,
            "the host names of brokers are not checked: anybody with a certificate of that authority can pose as a "
            "broker",
        )
    for name in ("ssl.enabled.protocols", "ssl.protocol"):
        if old := [protocol for protocol in _listed(settings, name) if _is_old(protocol)]:
            yield settings.located(name, f"offsite never speaks {', '.join(old)}: TLS 1.2 and later only")


def _listed(settings: ClientSettings, name: str) -> list[str]:
    return [protocol.strip() for protocol in settings.get(name).split(",") if protocol.strip()]


def _is_old(protocol: str) -> bool:
    return protocol not in {*TLS_PROTOCOLS, "TLS"}  # "TLS" is Java's name for whatever both ends speak


def _protocols(settings: ClientSettings) -> tuple[str, ...]:
    """The TLS versions that are allowed, empty for all of offsite's."""
    enabled = _listed(settings, "ssl.enabled.protocols")
    return tuple(protocol for protocol in TLS_PROTOCOLS if protocol in enabled)


def read_trusted(settings: ClientSettings) -> str:
    """Return the certificates trusted for TLS, as PEM; empty for the machine's own."""

    def read(content: bytes) -> str:
        return keystores.trusted_pem(content, settings.secret("ssl.truststore.password"))

    inline_pem = settings.get("ssl.truststore.certificates", "ssl.ca.pem")
    store = inline_pem or _store_file(settings, "ssl.truststore.location", read)
    return store or _pem_file(settings, "ssl.ca.location")


def _store_file(settings: ClientSettings, name: str, read: Callable[[bytes], str]) -> str:
    """A store as PEM text. What the file contains counts, and not the type of the store, as Java takes JKS for
    PKCS12 and the reverse."""
    content = settings.read_file(name) if settings.get(name) else b""
    if _PEM_MARK in content or not keystores.is_store(content):
        return _pem_text(settings, name, content)
    return settings.placed(name, lambda: read(content))


def _pem_file(settings: ClientSettings, name: str) -> str:
    return _pem_text(settings, name, settings.read_file(name) if settings.get(name) else b"")


def _pem_text(settings: ClientSettings, name: str, content: bytes) -> str:
    if settings.get(name) and _PEM_MARK not in content:
        raise settings.bad_setting(name, "the file is neither PEM nor a store of Java", hint=_STORE_HINT)
    return content.decode("utf-8", errors="replace")


def _blocks(pem: str, kind: str) -> str:
    """The blocks of a PEM text with a label that ends in `kind`: a Java PEM keystore holds the key and the chain."""
    lines, taking = list[str](), False
    for line in pem.splitlines():
        taking = taking or (line.startswith("-----BEGIN ") and line.rstrip("- ").endswith(kind))
        if taking:
            lines.append(line)
        taking = taking and not line.startswith("-----END ")
    return "\n".join(lines)


def _secret(text: str) -> Secret | None:
    return Secret(text) if text else None


def _checks_hostname(settings: ClientSettings) -> bool:
    if not settings.has(_HOSTNAME_CHECK):
        return True
    value = settings.get(_HOSTNAME_CHECK).lower()
    if value not in _NO_HOSTNAME_CHECK | {"https"}:
        raise settings.bad_setting(_HOSTNAME_CHECK, f"{value!r} is neither https nor empty")
    return value == "https"


_JAAS_OPTION = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""", re.DOTALL)
_JAAS_HEAD = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)", re.IGNORECASE)
_JAAS_END = re.compile(r"\s*;?\s*")
_JAAS_HINT = 'write it as: …PlainLoginModule required username="me" password="secret";'
SASL_SETTINGS = frozenset(
    [
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.jaas.config",
        "sasl.username",
        "sasl.password",
        *aws_login.SETTINGS,
        *kerberos_login.SETTINGS,
    ]
)
_LOGIN_MODULES = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    aws_login.LOGIN_MODULE: (aws_login.MECHANISM,),
    kerberos_login.LOGIN_MODULE: (kerberos_login.MECHANISM,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """One login module of a JAAS line. `name`: the class without package. Options hold secrets, so options are never
    printed."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, options {sorted(self.options)})"


def parse_jaas(text: str) -> LoginModule:
    """Parse a JAAS line into a login module. Raises `BadKafkaConfig` without the text, because the text holds a
    password."""
    head = _JAAS_HEAD.match(text)
    if head is None:
        raise BadKafkaConfig("sasl.jaas.config is not `<login module> required <options>;`", hint=_JAAS_HINT)
    options, position = dict[str, str](), head.end()
    while option := _JAAS_OPTION.match(text, position):
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        position = option.end()
    if not _JAAS_END.fullmatch(text, position):
        raise BadKafkaConfig(f"sasl.jaas.config cannot be parsed from character {position + 1}", hint=_JAAS_HINT)
    return LoginModule(name=head[1].rpartition(".")[2], options=options)


def read_sasl(settings: ClientSettings) -> SaslConfig:
    """Read the login out of the `sasl.*` settings, without the source of tokens. Raises `BadKafkaConfig` with file and
    line."""
    name = "sasl.mechanisms" if settings.has("sasl.mechanisms") else "sasl.mechanism"
    mechanism = settings.choice(name, MECHANISMS, kerberos_login.MECHANISM)
    if mechanism == "OAUTHBEARER":
        return SaslConfig(mechanism=mechanism)
    if mechanism == aws_login.MECHANISM:
        return SaslConfig(mechanism=mechanism, aws=_aws_login(settings))
    if mechanism == kerberos_login.MECHANISM:
        return SaslConfig(mechanism=mechanism, kerberos=_kerberos_login(settings, name))
    username, password = _credentials(settings, mechanism)
    return SaslConfig(mechanism=mechanism, username=username, password=password)


def _aws_login(settings: ClientSettings) -> aws_login.AwsLogin:
    if settings.get("security.protocol").upper() != "SASL_SSL":
        raise settings.bad_setting(
            "security.protocol", f"{aws_login.MECHANISM} needs TLS", hint="set security.protocol=SASL_SSL"
        )
    options = read_jaas(settings, aws_login.MECHANISM)
    return settings.placed("sasl.jaas.config", lambda: aws_login.aws_login(options))


def _kerberos_login(settings: ClientSettings, mechanism_name: str) -> kerberos_login.KerberosLogin:
    """The login by Kerberos. Java takes Kerberos where no mechanism is named; here something must speak of it."""
    if not settings.get(mechanism_name) and not settings.has(*kerberos_login.SETTINGS):
        raise settings.bad_setting(mechanism_name, "it is not set", hint=f"one of {', '.join(MECHANISMS)}")
    options = read_jaas(settings, kerberos_login.MECHANISM)
    place = "sasl.jaas.config" if options else kerberos_login.KEYTAB
    names = {name: settings.get(name) for name in kerberos_login.SETTINGS}
    return settings.placed(place, lambda: kerberos_login.kerberos_login(options, names))


def _credentials(settings: ClientSettings, mechanism: str) -> tuple[str, Secret]:
    if settings.has("sasl.jaas.config"):
        options = read_jaas(settings, mechanism)
        if options.get("tokenauth", "").lower() == "true":
            raise settings.bad_setting(
                "sasl.jaas.config", "offsite has no login by a delegation token (tokenauth)", hint=_JAAS_HINT
            )
        username, password = options.get("username", ""), options.get("password", "")
    else:
        username, password = settings.get("sasl.username"), settings.get("sasl.password")
    if not username or not password:
        place = "sasl.jaas.config" if settings.has("sasl.jaas.config") else "sasl.username"
        raise settings.bad_setting(place, f"{mechanism} needs a username and a password", hint="set sasl.jaas.config")
    return username, Secret(password)


def read_jaas(settings: ClientSettings, mechanism: str) -> Mapping[str, str]:
    """Return the options of the JAAS line, if there is one. Raises `BadKafkaConfig` for a login module of another
    mechanism."""
    if not settings.has("sasl.jaas.config"):
        return {}
    module = settings.parse("sasl.jaas.config", parse_jaas)
    if mechanism not in _LOGIN_MODULES.get(module.name, ()):
        modules = ", ".join(name for name, mechanisms in _LOGIN_MODULES.items() if mechanism in mechanisms)
        raise settings.bad_setting(
            "sasl.jaas.config", f"{module.name} does not support {mechanism}", hint=f"use {modules}"
        )
    return module.options
