"""Logins by Kerberos (`GSSAPI`), in the words of Java's clients and of librdkafka: which service, and who asks.

Holds no secret: a keytab or a ticket cache is read where the connection is made (`kafka/net/kerberos.py`).
Source: Java's `Krb5LoginModule`; librdkafka's `sasl.kerberos.*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsite.model.errors import BadKafkaConfig

MECHANISM = "GSSAPI"
LOGIN_MODULE = "Krb5LoginModule"
SERVICE, KEYTAB, PRINCIPAL = "sasl.kerberos.service.name", "sasl.kerberos.keytab", "sasl.kerberos.principal"
SETTINGS = frozenset({SERVICE, KEYTAB, PRINCIPAL})
_DEFAULT_SERVICE = "kafka"
_OPTIONS = frozenset({"useKeyTab", "keyTab", "principal", "useTicketCache", "ticketCache", "serviceName"})
_WITHOUT_MEANING = frozenset(
    {"storeKey", "renewTGT", "doNotPrompt", "debug", "refreshKrb5Config", "isInitiator", "useFirstPass", "clearPass"}
)
_HINT = 'write it as: …Krb5LoginModule required useKeyTab=true keyTab="/etc/backup.keytab" principal="backup@REALM";'


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """Whose tickets are shown to which service. `keytab`: the file with the key of `principal`. Without one: the
    tickets of the cache at `ticket_cache`, or of the default cache of the place."""

    service_name: str = _DEFAULT_SERVICE
    principal: str = ""
    keytab: str = ""
    ticket_cache: str = ""


def kerberos_login(options: Mapping[str, str], settings: Mapping[str, str]) -> KerberosLogin:
    """The login of a JAAS line's options, or of `sasl.kerberos.*`. Raises `BadKafkaConfig`."""
    if unknown := sorted(options.keys() - _OPTIONS - _WITHOUT_MEANING):
        raise BadKafkaConfig(f"{LOGIN_MODULE} has options that offsite lacks: {', '.join(unknown)}", hint=_HINT)
    keytab = options.get("keyTab", "") if _is_on(options, "useKeyTab") else ""
    if _is_on(options, "useKeyTab") and not keytab:
        raise BadKafkaConfig("useKeyTab needs a keyTab", hint=_HINT)
    keytab = _path(keytab or settings.get(KEYTAB, ""))
    principal = options.get("principal") or settings.get(PRINCIPAL, "")
    if keytab and not principal:
        raise BadKafkaConfig("a keytab needs a principal", hint=_HINT)
    if options and not keytab and not _is_on(options, "useTicketCache"):
        raise BadKafkaConfig("neither useKeyTab nor useTicketCache is true", hint=_HINT)
    return KerberosLogin(
        service_name=settings.get(SERVICE) or options.get("serviceName") or _DEFAULT_SERVICE,
        principal=principal,
        keytab=keytab,
        ticket_cache=_path(options.get("ticketCache", "")),
    )


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _path(text: str) -> str:
    return text.removeprefix("FILE:").removeprefix("file://")
