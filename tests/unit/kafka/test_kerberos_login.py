"""Settings of Kerberos, as Java's clients and librdkafka have them, and machines where Kerberos cannot work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from offsite.kafka.cluster import parse_client_properties
from offsite.kafka.kerberos_login import KerberosLogin
from offsite.kafka.net import kerberos
from offsite.model.errors import BadKafkaConfig, KafkaAuthenticationFailed, KafkaUnreachable

MODULE = "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required"


def read(*lines: str, mechanism: str = "sasl.mechanism=GSSAPI") -> KerberosLogin:
    head = ["bootstrap.servers=b:9094", "security.protocol=SASL_SSL", mechanism]
    properties = parse_client_properties("\n".join([*head, *lines]), source="client.properties")
    assert properties.warnings == ()
    assert properties.config.sasl is not None
    assert properties.config.sasl.kerberos is not None
    return properties.config.sasl.kerberos


@pytest.mark.parametrize(
    ("lines", "login"),
    [
        (
            [f'{MODULE} useKeyTab=true storeKey=true keyTab="/k" principal="me@R";', "sasl.kerberos.service.name=bus"],
            KerberosLogin(service_name="bus", principal="me@R", keytab="/k"),
        ),
        ([f'{MODULE} useTicketCache=true renewTGT=true serviceName="bus";'], KerberosLogin(service_name="bus")),
        ([f'{MODULE} useTicketCache=true ticketCache="FILE:/c";'], KerberosLogin(ticket_cache="/c")),
        (
            ["sasl.kerberos.keytab=/k", "sasl.kerberos.principal=me@R"],
            KerberosLogin(principal="me@R", keytab="/k"),
        ),
        ([], KerberosLogin()),
    ],
)
def test_settings_are_those_of_java_and_of_librdkafka(lines: list[str], login: KerberosLogin) -> None:
    assert read(*lines) == login


def test_a_service_name_is_enough_to_mean_kerberos_as_in_java() -> None:
    assert read("sasl.kerberos.service.name=kafka", mechanism="") == KerberosLogin()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([f"{MODULE} useKeyTab=true;"], "client.properties:4: sasl.jaas.config: useKeyTab needs a keyTab"),
        ([f'{MODULE} useKeyTab=true keyTab="/k";'], "a keytab needs a principal"),
        ([f'{MODULE} keyTab="/k" principal="me";'], "neither useKeyTab nor useTicketCache is true"),
        ([f"{MODULE} useTicketCache=true tryFirstPass=true;"], "lacks: tryFirstPass"),
        (["sasl.kerberos.keytab=/k"], "client.properties:4: sasl.kerberos.keytab: a keytab needs a principal"),
        (['sasl.jaas.config=PlainLoginModule required username="u" password="p";'], "does not support GSSAPI"),
    ],
)
def test_settings_that_mean_nothing_are_refused(lines: list[str], why: str) -> None:
    with pytest.raises(BadKafkaConfig, match=why):
        read(*lines)


def test_without_the_library_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kerberos._library.cache_clear()
    monkeypatch.setattr(kerberos, "_LIBRARY", "libnone.so.1")
    monkeypatch.setattr(kerberos, "find_library", lambda _: None)
    with pytest.raises(BadKafkaConfig, match="which is not on ") as caught:
        kerberos.Gssapi(KerberosLogin(), "broker")
    assert "libgssapi-krb5-2" in caught.value.hint
    kerberos._library.cache_clear()


def test_a_machine_without_tickets_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        kerberos._library()
    except BadKafkaConfig as error:
        pytest.skip(error.message)
    (config := tmp_path / "krb5.conf").write_text(
        "[libdefaults]\ndefault_realm = NOWHERE.TEST\ndns_lookup_kdc = false\n"
    )
    monkeypatch.setenv("KRB5_CONFIG", str(config))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    with pytest.raises(KafkaAuthenticationFailed, match="No Kerberos credentials available") as caught:
        kerberos.Gssapi(KerberosLogin(), "broker")
    assert "kinit" in caught.value.hint


def test_a_kdc_that_is_away_does_not_hold_up_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """MIT's library asks for 54 seconds, and lets nobody interrupt it."""
    is_over = threading.Event()

    class Library:
        def __getattr__(self, name: str) -> Callable[..., int]:
            def function(*_: object) -> int:
                if name == "gss_acquire_cred_from":
                    is_over.wait(5)
                return 0

            return function

    monkeypatch.setattr(kerberos, "_library", Library)
    monkeypatch.setattr(kerberos, "_KDC_LIMIT_S", 0.2, raising=False)
    began_s = time.monotonic()
    try:
        with pytest.raises(KafkaUnreachable, match="no ticket within"):
            kerberos.Gssapi(KerberosLogin(), "broker")
    finally:
        is_over.set()
    assert time.monotonic() - began_s < 4
