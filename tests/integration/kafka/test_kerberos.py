"""Logins by Kerberos: a real KDC, a real broker with a GSSAPI listener, keytabs, ticket caches, and their errors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import parse_client_properties
from offsite.kafka.net.routing import ConnectionPool, Router
from offsite.model.errors import KafkaAuthenticationFailed, KafkaUnavailable
from offsite.sandbox import SandboxInfo, SandboxSettings
from offsite.sandbox.settings import Security
from tests.fetched_tools import NoTool
from tests.integration.e2e.command import started
from tests.integration.e2e.site import new_name, produce_to
from tests.integration.kafka.cluster import Cluster
from tests.kdc import REALM, Kdc, running_kdc
from tests.shared_brokers import running

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
LISTENER = "listener.name.sasl_plaintext"


@dataclass(frozen=True, slots=True, kw_only=True)
class Realm:
    kdc: Kdc
    broker: SandboxInfo
    keytab: Path


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with kerberos_site(tmp_path_factory.mktemp("realm")) as site:
        yield site


@contextmanager
def kerberos_site(
    folder: Path, *, properties: Mapping[str, str] = MappingProxyType({}), ticket_s: int = 3600
) -> Iterator[Realm]:
    """A KDC, a broker with a listener for its tickets, and in the environment the way to both. `properties`: more of
    the broker. Skips the test where no KDC can be had."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            with running_kdc(folder) as kdc:
                patch.setenv("KRB5_CONFIG", str(kdc.config))
                patch.setenv("JDK_JAVA_OPTIONS", f"-Djava.security.krb5.conf={kdc.config}")
                keytab, keytab_of_broker = kdc.add("backup", ticket_s=ticket_s), kdc.add("kafka/127.0.0.1")
                login = f'useKeyTab=true storeKey=true keyTab="{keytab_of_broker}" principal="kafka/127.0.0.1@{REALM}"'
                own = {
                    f"{LISTENER}.sasl.enabled.mechanisms": "GSSAPI",
                    f"{LISTENER}.gssapi.sasl.jaas.config": f"{MODULE} {login};",
                    "sasl.enabled.mechanisms": "GSSAPI",
                    "sasl.kerberos.service.name": "kafka",
                }
                settings = SandboxSettings(security=Security(users={}), properties={**own, **properties})
                with running(folder / "broker", settings) as (_, info):
                    patch.delenv("JDK_JAVA_OPTIONS")
                    yield Realm(kdc=kdc, broker=info, keytab=keytab)
        except NoTool as error:
            pytest.skip(f"no KDC of Kerberos: {error}")


def lines(realm: Realm, *login: str) -> str:
    head = [f"bootstrap.servers={realm.broker.listeners['SASL_PLAINTEXT']}", "security.protocol=SASL_PLAINTEXT"]
    return "\n".join([*head, "sasl.mechanism=GSSAPI", *login])


def by_keytab(keytab: Path, principal: str = f"backup@{REALM}") -> str:
    return f'sasl.jaas.config={MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";'


def ask(realm: Realm, *login: str) -> str:
    pool = ConnectionPool()
    try:
        config = parse_client_properties(lines(realm, *login), source="test").config
        return ClusterAdmin(Router(config, pool=pool)).cluster().cluster_id
    finally:
        pool.close()


def test_a_keytab_logs_in_and_its_ticket_serves_later_logins(realm: Realm) -> None:
    keytab = realm.kdc.add("often")
    for _ in range(2):
        assert ask(realm, "sasl.kerberos.service.name=kafka", by_keytab(keytab, "often"))
    assert realm.kdc.tickets_of("often") == 1


def test_a_ticket_near_its_end_is_renewed_by_the_next_login(realm: Realm) -> None:
    keytab = realm.kdc.add("seldom", ticket_s=20)
    for _ in range(2):
        assert ask(realm, by_keytab(keytab, "seldom"))
    assert realm.kdc.tickets_of("seldom") >= 2


def test_a_ticket_cache_logs_in(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = realm.kdc.ticket_cache("backup", realm.keytab)
    assert ask(realm, f'sasl.jaas.config={MODULE} useTicketCache=true ticketCache="{cache}";')
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    assert ask(realm, f"sasl.jaas.config={MODULE} useTicketCache=true;")


def test_the_names_of_librdkafka_log_in(realm: Realm) -> None:
    names = [f"sasl.kerberos.keytab={realm.keytab}", f"sasl.kerberos.principal=backup@{REALM}"]
    assert ask(realm, *names, "sasl.kerberos.service.name=kafka")


def test_what_is_wrong_is_named_within_ten_seconds(realm: Realm, tmp_path: Path) -> None:
    stale = realm.kdc.add("stale")
    realm.kdc.change_key("stale")
    wrong = {
        "Decrypt integrity check failed": by_keytab(stale, "stale"),
        "cannot read the keytab .*: No such file": by_keytab(tmp_path / "none"),
        "has no key of stranger": by_keytab(realm.keytab, "stranger"),
        "No credentials cache found": f'sasl.jaas.config={MODULE} useTicketCache=true ticketCache="{tmp_path}/none";',
        "Server other/127.0.0.1@.* not found": f"sasl.kerberos.service.name=other\n{by_keytab(realm.keytab)}",
    }
    for why, login in wrong.items():
        began_s = time.monotonic()
        with pytest.raises(KafkaAuthenticationFailed, match=why) as caught:
            ask(realm, login)
        assert "krb5.conf" in caught.value.hint
        assert time.monotonic() - began_s < 10


def test_a_kdc_that_is_down_is_an_outage_for_who_needs_a_ticket(realm: Realm) -> None:
    keytab = realm.kdc.add("late")
    assert ask(realm, by_keytab(realm.keytab))
    realm.kdc.stop()
    try:
        assert ask(realm, by_keytab(realm.keytab))
        began_s = time.monotonic()
        with pytest.raises(KafkaUnavailable, match="Cannot contact any KDC"):
            ask(realm, by_keytab(keytab, "late"))
        assert time.monotonic() - began_s < 10
    finally:
        realm.kdc.start()


@pytest.mark.timeout(300)
@pytest.mark.soak
def test_a_backup_and_a_restore_log_in_by_a_keytab(realm: Realm, tmp_path: Path) -> None:
    topic = Cluster(realm.broker.bootstrap).make_topic()
    produce_to(realm.broker.bootstrap, topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)] * 100)
    (config := tmp_path / "client.properties").write_text(lines(realm, by_keytab(realm.keytab)))
    login = ["--kafka-config", config, "--backup", "b"]
    done = [
        started(*command, environment={"OFFSITE_REPO": f"{tmp_path}/repository"})
        for command in (
            ["init"],
            ["backup", "run", *login, "--topics", topic],
            ["restore", "run", *login, "--rename", f"{topic}={new_name(topic)}", "--yes"],
        )
    ]
    assert [command_run.exit_code for command_run in done] == [0, 0, 0], [command_run.stderr for command_run in done]
    assert done[2].result["verified"] is True
