"""Every listener a cluster may have, entered rightly and wrongly. Each wrong way must say what to change."""

from __future__ import annotations

import base64
import json
import logging
import time
from functools import partial
from pathlib import Path

import pytest

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import parse_client_properties
from offsite.kafka.config import KafkaConfig
from offsite.kafka.net.routing import ConnectionPool, Router
from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.range import TopicPartition
from offsite.model.cluster_settings import Acl
from offsite.model.errors import (
    BadKafkaConfig,
    Denied,
    KafkaAuthenticationFailed,
    KafkaNotAuthorized,
    KafkaUnavailable,
    OffsiteError,
)
from tests.certificates import make_certificates
from tests.conftest import SecureBroker
from tests.integration.kafka.cluster import Cluster
from tests.java_stores import PASSWORD, store_of, trust_store

MODULES = "org.apache.kafka.common.security"


def config(broker: SecureBroker, listener: str, **settings: str) -> KafkaConfig:
    lines = {"bootstrap.servers": broker.info.listeners[listener], "security.protocol": listener}
    lines |= {name.replace("__", "."): value for name, value in settings.items()}
    text = "\n".join(f"{name}={value}" for name, value in lines.items())
    return parse_client_properties(text, source="test").config


def ask(given: KafkaConfig) -> str:
    pool = ConnectionPool()
    try:
        return ClusterAdmin(Router(given, pool=pool)).cluster().cluster_id
    finally:
        pool.close()


def plain(user: str, password: str) -> dict[str, str]:
    jaas = f'{MODULES}.plain.PlainLoginModule required username="{user}" password="{password}";'
    return {"sasl__mechanism": "PLAIN", "sasl__jaas__config": jaas}


def scram(mechanism: str, user: str, password: str) -> dict[str, str]:
    jaas = f'{MODULES}.scram.ScramLoginModule required username="{user}" password="{password}";'
    return {"sasl__mechanism": mechanism, "sasl__jaas__config": jaas}


def trusting(broker: SecureBroker) -> dict[str, str]:
    return {"ssl__truststore__type": "PEM", "ssl__truststore__location": str(broker.certificates.authority)}


def test_a_user_may_log_in_by_plain(secure_broker: SecureBroker) -> None:
    assert ask(config(secure_broker, "SASL_PLAINTEXT", **plain("alice", secure_broker.users["alice"])))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_may_log_in_by_scram(secure_broker: SecureBroker, mechanism: str) -> None:
    given = config(secure_broker, "SASL_PLAINTEXT", **scram(mechanism, "alice", secure_broker.users["alice"]))
    assert ask(given)


def test_a_user_may_log_in_over_tls(secure_broker: SecureBroker) -> None:
    login = scram("SCRAM-SHA-512", "alice", secure_broker.users["alice"])
    assert ask(config(secure_broker, "SASL_SSL", **login, **trusting(secure_broker)))


def test_a_certificate_is_enough_over_tls(secure_broker: SecureBroker) -> None:
    identity = {"ssl__keystore__type": "PEM", "ssl__keystore__location": str(secure_broker.certificates.client_store)}
    assert ask(config(secure_broker, "SSL", **trusting(secure_broker), **identity))


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_stores_of_java_open_the_same_doors(secure_broker: SecureBroker, tmp_path: Path, kind: str) -> None:
    trust = trust_store(tmp_path, kind, secure_broker.certificates.authority)
    keys = store_of(tmp_path, kind, secure_broker.certificates.client_store)
    trusting = {"ssl__truststore__location": str(trust), "ssl__truststore__password": PASSWORD}
    identity = {"ssl__keystore__location": str(keys), "ssl__keystore__password": PASSWORD}
    assert ask(config(secure_broker, "SSL", **trusting, **identity))
    login = scram("SCRAM-SHA-512", "alice", secure_broker.users["alice"])
    assert ask(config(secure_broker, "SASL_SSL", **login, **trusting))


def test_a_token_is_asked_from_its_command(secure_broker: SecureBroker, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(unsecured_token("alice"))
    login = {"sasl__mechanism": "OAUTHBEARER", "offsite__oauth__token__command": f"cat {token}"}
    assert ask(config(secure_broker, "SASL_PLAINTEXT", **login))


def test_a_refused_token_is_an_authentication_error(secure_broker: SecureBroker) -> None:
    login = {"sasl__mechanism": "OAUTHBEARER", "offsite__oauth__token": "nonsense"}
    with pytest.raises(KafkaAuthenticationFailed):
        ask(config(secure_broker, "SASL_PLAINTEXT", **login))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_denied_and_never_shown(
    secure_broker: SecureBroker, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    login = plain("alice", "hunter2") if mechanism == "PLAIN" else scram(mechanism, "alice", "hunter2")
    with pytest.raises(KafkaAuthenticationFailed, match="alice") as caught:
        ask(config(secure_broker, "SASL_PLAINTEXT", **login))
    assert caught.value.exit_code == Denied.exit_code == 17
    assert "hunter2" not in str(caught.value) + caught.value.hint + caplog.text


@pytest.mark.parametrize(
    ("listener", "protocol", "hint"),
    [
        ("SSL", "PLAINTEXT", "security.protocol"),
        ("PLAINTEXT", "SSL", "PLAINTEXT"),
        ("SASL_PLAINTEXT", "SSL", "PLAINTEXT"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "security.protocol"),
    ],
)
def test_the_wrong_protocol_for_a_listener_says_so(
    secure_broker: SecureBroker, listener: str, protocol: str, hint: str
) -> None:
    servers = secure_broker.info.listeners[listener]
    given = config(secure_broker, protocol, bootstrap__servers=servers, **trusting(secure_broker))
    with pytest.raises(KafkaUnavailable) as caught:
        ask(given)
    assert hint in caught.value.hint


def test_logging_in_where_nobody_asks_says_so(secure_broker: SecureBroker) -> None:
    given = config(
        secure_broker,
        "SASL_PLAINTEXT",
        bootstrap__servers=secure_broker.info.bootstrap,
        **plain("alice", secure_broker.users["alice"]),
    )
    with pytest.raises(BadKafkaConfig, match="refuses SASL") as caught:
        ask(given)
    assert "PLAINTEXT" in caught.value.hint


def test_an_unknown_authority_is_an_authentication_error(secure_broker: SecureBroker) -> None:
    with pytest.raises(KafkaAuthenticationFailed, match="certificate is not accepted"):
        ask(config(secure_broker, "SSL"))


def test_a_certificate_of_an_authority_that_the_broker_does_not_know_is_denied(
    secure_broker: SecureBroker, tmp_path: Path
) -> None:
    stranger = make_certificates(tmp_path)
    identity = {"ssl__keystore__location": str(stranger.client_store)}
    with pytest.raises(KafkaAuthenticationFailed, match="refuses the certificate of this client") as caught:
        ask(config(secure_broker, "SSL", **trusting(secure_broker), **identity))
    assert "ssl.keystore.location" in caught.value.hint


def test_a_certificate_for_another_host_is_accepted_only_without_the_check(secure_broker: SecureBroker) -> None:
    servers = secure_broker.info.listeners["SSL"].replace("127.0.0.1", "127.0.0.2")
    elsewhere = trusting(secure_broker) | {"bootstrap__servers": servers}
    with pytest.raises(OffsiteError):
        ask(config(secure_broker, "SSL", **elsewhere))


def test_what_a_user_may_not_do_is_denied(secure_broker: SecureBroker) -> None:
    owner = Cluster(secure_broker.info.bootstrap)
    topic = owner.make_topic()
    deny_alice(owner, topic, f"{topic}-hidden")
    given = config(secure_broker, "SASL_PLAINTEXT", **plain("alice", secure_broker.users["alice"]))
    admin = ClusterAdmin(Router(given))
    with pytest.raises(KafkaNotAuthorized):
        admin.end_offsets([TopicPartition(topic=topic, partition=0)])
    assert topic not in admin.topics()
    with pytest.raises(KafkaNotAuthorized):
        admin.topic_configs([topic])
    with pytest.raises(KafkaNotAuthorized):
        admin.create_topics([NewTopic(name=f"{topic}-hidden", partitions=1)])


def deny_alice(owner: Cluster, *topics: str) -> None:
    denied = partial(Acl, resource_type="TOPIC", pattern="LITERAL", principal="User:alice", host="*", permission="DENY")
    owner.add_acls(*(denied(resource=topic, operation="ALL") for topic in topics))


def unsecured_token(subject: str) -> str:
    now_s = int(time.time())
    parts = ({"alg": "none"}, {"sub": subject, "iat": now_s, "exp": now_s + 600})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])
