"""Logins by tokens of an identity provider, at a broker that validates them as Kafka does (signature, issuer, audience,
end) and ends every session after seconds; and sessions of the other mechanisms, which end as well (KIP-368)."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from offsite.kafka.cluster import parse_client_properties
from offsite.kafka.config import BrokerAddress, KafkaConfig
from offsite.kafka.log_writer import LogWriter
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import ConnectionPool, Router
from offsite.kafka.producer import new_producer
from offsite.kafka.reader import PartitionReader
from offsite.log.range import LogRange, TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.clock import SystemClock
from offsite.model.errors import KafkaAuthenticationFailed, OffsiteError, TargetDisturbed, TokenRefused
from offsite.sandbox import SandboxInfo, SandboxSettings, Security
from tests.certificates import Certificates, make_certificates
from tests.identity_provider import CLIENT, SECRET, IdentityProvider, serving
from tests.integration.kafka.cluster import Cluster, batches_of
from tests.shared_brokers import running
from tests.unit.kafka.test_token_endpoint import key_pem, public_pem

MODULES = "org.apache.kafka.common.security"
USERS = {"alice": "alice-secret"}
SESSION_S, TOKEN_S = 3, 8
RUN_S = 10
"""Several sessions, and more than one token."""
BURST = 20
"""Batches of 18 kB that are sent in a row."""
FEW = 5
"""Of them, so that the buffers of a socket hold all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBroker:
    info: SandboxInfo
    provider: IdentityProvider
    certificates: Certificates

    def config(self, *lines: str, secret: str = SECRET, jaas: str = "") -> KafkaConfig:
        """For a login by client id and secret, and what else `lines` say."""
        credentials = f'clientId="{CLIENT}" clientSecret="{secret}"' * bool(secret)
        return self._config(
            "sasl.mechanism=OAUTHBEARER",
            f"sasl.oauthbearer.token.endpoint.url={self.provider.url}",
            f"sasl.jaas.config={MODULES}.oauthbearer.OAuthBearerLoginModule required {credentials} {jaas};",
            f"ssl.truststore.location={self.certificates.authority}",
            *lines,
        )

    def password_config(self, mechanism: str) -> KafkaConfig:
        name = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        login = f'username="alice" password="{USERS["alice"]}"'
        return self._config(
            f"sasl.mechanism={mechanism}", f"sasl.jaas.config={MODULES}.{name}LoginModule required {login};"
        )

    def _config(self, *lines: str) -> KafkaConfig:
        servers = self.info.listeners["SASL_PLAINTEXT"]
        head = (f"bootstrap.servers={servers}", "security.protocol=SASL_PLAINTEXT")
        return parse_client_properties("\n".join([*head, *lines]), source="test").config


def validating(provider: IdentityProvider, *, session_s: float) -> SandboxSettings:
    """A broker with Kafka's validator, and sessions of all mechanisms that end. The validator has to be named: what
    Kafka 4.1 takes by default is the client's, which checks no signature, issuer and audience."""
    listener = "listener.name.sasl_plaintext"
    prefix = f"{listener}.oauthbearer.sasl"
    return SandboxSettings(
        security=Security(users=USERS),
        properties={
            f"{listener}.sasl.oauthbearer.jwt.validator.class": f"{MODULES}.oauthbearer.BrokerJwtValidator",
            f"{prefix}.server.callback.handler.class": f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            f"{prefix}.oauthbearer.jwks.endpoint.url": provider.jwks_url,
            f"{prefix}.oauthbearer.expected.audience": "kafka",
            f"{prefix}.oauthbearer.expected.issuer": "tests",
            f"{prefix}.oauthbearer.clock.skew.seconds": "0",
            "connections.max.reauth.ms": str(int(session_s * 1000)),
        },
    )


@contextmanager
def allowed(provider: IdentityProvider) -> Iterator[None]:
    """A block in which Java starts with Kafka's list of URLs that a broker may ask; by default there is none."""
    with pytest.MonkeyPatch.context() as patch:
        option = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.jwks_url}"
        patch.setenv("JAVA_TOOL_OPTIONS", option)
        yield


@pytest.fixture(scope="module")
def oauth_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OAuthBroker]:
    folder = tmp_path_factory.mktemp("oauth")
    certificates = make_certificates(folder)
    provider = IdentityProvider(certificates.server, lifetime_s=TOKEN_S)
    with ExitStack() as stack:
        stack.enter_context(serving(provider))
        stack.enter_context(allowed(provider))
        _, info = stack.enter_context(running(folder / "broker", validating(provider, session_s=SESSION_S)))
        yield OAuthBroker(info=info, provider=provider, certificates=certificates)


class Counted(ConnectionPool):
    """Counts the connections it opens."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.opened = 0
        open_connection = Connection.open.__func__  # type: ignore[attr-defined]

        def opened(kind: type[Connection], config: KafkaConfig, address: BrokerAddress) -> Any:
            self.opened += 1
            return open_connection(kind, config, address)

        patch.setattr(Connection, "open", classmethod(opened))

    def __enter__(self) -> Self:
        return self


def cluster_id(config: KafkaConfig) -> str:
    with closing(ConnectionPool()) as pool:
        return Router(config, pool=pool).metadata([]).cluster_id


def test_a_client_logs_in_by_its_secret_and_extensions_go_along(oauth_broker: OAuthBroker) -> None:
    assert cluster_id(oauth_broker.config(jaas='extension_logicalCluster="lkc-1" extension_identityPoolId="pool-a"'))


def test_a_client_logs_in_by_a_key(oauth_broker: OAuthBroker, tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    (file := tmp_path / "key.pem").write_text(key_pem(key, password=b"open"))
    oauth_broker.provider.assertion_key = public_pem(key)
    prefix = "sasl.oauthbearer.assertion"
    signed = oauth_broker.config(
        f"{prefix}.private.key.file={file}",
        f"{prefix}.private.key.passphrase=open",
        f"{prefix}.claim.iss={CLIENT}",
        secret="",
    )
    assert cluster_id(signed)


def test_a_wrong_secret_is_one_error_within_seconds_and_never_shown(
    oauth_broker: OAuthBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    began_s = time.monotonic()
    with pytest.raises(TokenRefused, match="refuses the client: 401 \\(invalid_client") as caught:
        cluster_id(oauth_broker.config(secret="hunter2"))
    assert time.monotonic() - began_s < 10
    assert (caught.value.id, caught.value.exit_code) == ("OFF-1706", 17)
    assert "hunter2" not in str(caught.value) + caught.value.hint + caplog.text


def test_a_token_that_the_broker_refuses_is_an_authentication_error(oauth_broker: OAuthBroker) -> None:
    refused = (200, b'{"access_token": "e30.e30.e30", "expires_in": 600}')
    oauth_broker.provider.failures = [refused, refused]
    with pytest.raises(KafkaAuthenticationFailed, match="OAUTHBEARER authentication failed") as caught:
        cluster_id(oauth_broker.config(jaas='scope="other"'))
    assert "audience" in caught.value.hint
    assert cluster_id(oauth_broker.config(jaas='scope="other"')), "it is not kept"


def test_a_token_with_a_signature_of_others_is_refused(oauth_broker: OAuthBroker) -> None:
    """The broker of these tests checks signatures."""
    head, claims, signature = oauth_broker.provider.token().split(".")
    signed = f"{head}.{claims}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"
    login = ("sasl.mechanism=OAUTHBEARER", f"offsite.oauth.token={signed}")
    with pytest.raises(KafkaAuthenticationFailed):
        cluster_id(oauth_broker._config(*login))


def test_a_login_outlives_a_change_of_the_provider_s_keys(oauth_broker: OAuthBroker) -> None:
    """A broker refuses the first token of a key that it does not know, and reads the keys then."""
    assert cluster_id(oauth_broker.config(jaas='scope="before"'))
    oauth_broker.provider.change_keys()
    oauth_broker.provider.tokens.clear()
    assert cluster_id(oauth_broker.config(jaas='scope="after"'))
    assert len(oauth_broker.provider.tokens) == 2


@pytest.mark.parametrize(
    "mechanism", ["OAUTHBEARER", *(pytest.param(name, marks=pytest.mark.soak) for name in ("PLAIN", "SCRAM-SHA-512"))]
)
def test_one_connection_outlives_its_sessions(
    oauth_broker: OAuthBroker, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_token = mechanism == "OAUTHBEARER"
    config = oauth_broker.config(jaas='scope="long"') if is_token else oauth_broker.password_config(mechanism)
    with closing(Counted(monkeypatch)) as pool:
        router, end_s, asked = Router(config, pool=pool), time.monotonic() + RUN_S, 0
        while time.monotonic() < end_s:
            assert router.metadata([]).cluster_id
            asked += 1
            time.sleep(0.05)
        assert asked > 100
        assert pool.opened == 1


def test_what_is_read_and_written_across_sessions_is_all_of_it(
    oauth_broker: OAuthBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many requests in flight at a time, for longer than a token lasts."""
    owner = Cluster(oauth_broker.info.bootstrap)
    where = TopicPartition(topic=owner.make_topic(), partition=0)
    with closing(Counted(monkeypatch)) as pool:
        router = Router(oauth_broker.config(jaas='scope="all"'), pool=pool)
        producer = new_producer(router, SystemClock())
        log = LogWriter(router, where, at=0, unexpected=_unexpected, guard=lambda: None)
        end_s, count = time.monotonic() + RUN_S, 0
        while time.monotonic() < end_s:
            for _ in range(BURST):
                log.send_batch(encode([Record(0, 0, 0, None, value_of(count))]), 1, producer)
                count += 1
            time.sleep(0.1)
        log.flush()
        log.close()
        assert pool.opened <= 2, "one for the leader's lane, one beside it"
        whole, values = LogRange(topic=where.topic, partition=0, start=0, end=count), list[bytes | None]()
        began_s = time.monotonic()
        for item in PartitionReader(router).read(whole):
            values += [record.value for batch in batches_of(iter([item])) for record in batch.records()]
            time.sleep(1)  # as slow as a full disk: the next answer waits
        assert time.monotonic() - began_s > SESSION_S, "several fetches, over more than one session"
        assert pool.opened <= 2
    assert values == [value_of(number) for number in range(count)]
    assert owner.end(where.topic) == count


@pytest.mark.parametrize("kind", ["late", "stopped"])
def test_what_is_in_flight_when_a_session_ends_is_written_once(
    oauth_broker: OAuthBroker, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The broker hangs up on the first request that it sees behind the end. Requests are lost then: those of a client
    that comes too late, and those that were sent in time to a broker that stood still. The writer reads the log, and
    sends again what is not there."""
    owner = Cluster(oauth_broker.info.bootstrap)
    where = TopicPartition(topic=owner.make_topic(), partition=0)
    with closing(Counted(monkeypatch)) as pool:
        router = Router(oauth_broker.config(jaas=f'scope="{kind}"'), pool=pool)
        producer, count = new_producer(router, SystemClock()), 0
        log = LogWriter(router, where, at=0, unexpected=_unexpected, guard=lambda: None)

        def send() -> None:
            nonlocal count
            for _ in range(FEW):
                log.send_batch(encode([Record(0, 0, 0, None, value_of(count))]), 1, producer)
                count += 1

        send()
        opened = pool.opened
        with past_its_session() if kind == "late" else stopped(oauth_broker.info.pid):
            send()
            time.sleep(SESSION_S + 0.5 if kind == "late" else 0)
            send()
        log.flush()
        assert pool.opened > opened, "the broker has hung up"
        log.close()
    assert [record.value for record in owner.records(where.topic)] == [value_of(number) for number in range(count)]
    assert owner.end(where.topic) == count


@contextmanager
def past_its_session() -> Iterator[None]:
    """A block in which clients believe that sessions go on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "login_due", False)
        yield


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that stands still from the begin of the block on, until its sessions are over."""
    os.kill(pid, signal.SIGSTOP)
    goes_on = threading.Timer(SESSION_S + 0.5, os.kill, (pid, signal.SIGCONT))
    goes_on.start()
    try:
        yield
    finally:
        goes_on.join()


def value_of(number: int) -> bytes:
    return b"%09d" % number * 2000


def _unexpected(start: int, end: int) -> OffsiteError:
    return TargetDisturbed(f"{start} to {end}")
