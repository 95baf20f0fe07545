"""The `ssl.*` settings → `TlsConfig`. PEM only: Java's binary stores are refused with the command for a conversion."""

from __future__ import annotations

from offsite.kafka.config.config import TlsConfig
from offsite.kafka.config.settings import ClientSettings
from offsite.model.secret import Secret

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
    ]
)
_PEM_MARK = b"-----BEGIN "
_NO_HOSTNAME_CHECK = frozenset({"", "none"})


def read_tls(settings: ClientSettings) -> TlsConfig:
    """Read the TLS configuration out of the `ssl.*` settings. Raises `BadKafkaConfig` with file and line."""
    both = _pem_file(settings, "ssl.keystore.location")
    certificate = settings.get("ssl.keystore.certificate.chain", "ssl.certificate.pem")
    key = settings.get("ssl.keystore.key", "ssl.key.pem") or _pem_file(settings, "ssl.key.location")
    return TlsConfig(
        ca_pem=_trusted(settings),
        cert_pem=certificate or _pem_file(settings, "ssl.certificate.location") or _blocks(both, "CERTIFICATE"),
        key_pem=_secret(key or _blocks(both, "PRIVATE KEY")),
        key_password=settings.secret("ssl.key.password"),
        check_hostname=_checks_hostname(settings),
    )


def _trusted(settings: ClientSettings) -> str:
    inline_pem = settings.get("ssl.truststore.certificates", "ssl.ca.pem")
    return inline_pem or _pem_file(settings, "ssl.truststore.location") or _pem_file(settings, "ssl.ca.location")


def _pem_file(settings: ClientSettings, name: str) -> str:
    if not settings.get(name):
        return ""
    content = settings.read_file(name)
    if _PEM_MARK not in content:
        raise settings.bad_setting(
            name, "not a PEM file (a Java keystore or PKCS12 file?)", hint=_convert(settings, name)
        )
    return content.decode("utf-8", errors="replace")


def _convert(settings: ClientSettings, name: str) -> str:
    path = settings.get(name)
    flag = "-nokeys" if name == "ssl.truststore.location" else "-nodes"
    return (
        f"keytool -importkeystore -srckeystore {path} -destkeystore store.p12 -deststoretype PKCS12 && "
        f"openssl pkcs12 -in store.p12 {flag} -out store.pem, then set {name}=store.pem"
    )


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
    name = "ssl.endpoint.identification.algorithm"
    if not settings.has(name):
        return True
    value = settings.get(name).lower()
    if value not in _NO_HOSTNAME_CHECK | {"https"}:
        raise settings.bad_setting(name, f"{value!r} is neither https nor empty")
    return value == "https"
