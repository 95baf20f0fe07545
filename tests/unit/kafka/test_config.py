from __future__ import annotations

import pickle
import traceback

import pytest

from offsite.kafka.config import (
    BrokerAddress,
    KafkaConfig,
    SaslConfig,
    Secret,
    TlsConfig,
    TokenSource,
    parse_bootstrap,
)
from offsite.model.errors import BadKafkaConfig
from offsite.model.secret import SecretHandling, handle_secrets


def config() -> KafkaConfig:
    return KafkaConfig(
        bootstrap=parse_bootstrap("a:1"),
        tls=TlsConfig(key_pem=Secret("hunter2"), key_password=Secret("hunter2")),
        sasl=SaslConfig(
            mechanism="PLAIN", username="alice", password=Secret("hunter2"), token=TokenSource(static=Secret("hunter2"))
        ),
    )


def test_nothing_that_prints_a_configuration_shows_a_secret() -> None:
    for text in (repr(config()), str(config()), f"{config().sasl}", "%s" % Secret("hunter2")):  # noqa: UP031
        assert "hunter2" not in text


def test_a_traceback_that_holds_a_configuration_shows_no_secret() -> None:
    def fail(given: KafkaConfig) -> None:
        raise ValueError(given)

    try:
        fail(config())
    except ValueError as error:
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "hunter2" not in shown
    assert "***" in shown


def test_a_configuration_travels_by_pickle_with_its_secrets() -> None:
    with handle_secrets(SecretHandling.SENT):
        travelled = pickle.loads(pickle.dumps(config()))
    assert travelled == config()
    assert travelled.sasl.password.reveal() == "hunter2"
    assert hash(travelled) == hash(config())


def test_addresses_of_all_kinds_are_read() -> None:
    assert parse_bootstrap("a, b:1 ,[::1]:2,SASL_SSL://c:3,[fe80::1]") == (
        BrokerAddress(host="a", port=9092),
        BrokerAddress(host="b", port=1),
        BrokerAddress(host="::1", port=2),
        BrokerAddress(host="c", port=3),
        BrokerAddress(host="fe80::1", port=9092),
    )


@pytest.mark.parametrize(
    "text",
    [
        "", " , ", "a:", ":9", "a:0", "a:70000", "a:x", "a:" + "9" * 5000, "a:\u00b2", "127.0.0.1;9092",
        "a:9092;b:9092", "a b:9092", '"a:9092"', "a:9092/", "a..b:9092", ".a", "a" * 64, "a." * 130, "300.0.0.1",
        "::1", "::1:9092", "[::1", "[a]:9092", "\u201ca\u201d", "\u00e4:9092", "$HOST:9092", "<host>:9092",
        "http://a:9092", "kafka://a", "://a", "SSL://http://a", "a:1,b;2",
    ],
)  # fmt: skip
def test_an_impossible_address_is_refused(text: str) -> None:
    with pytest.raises(BadKafkaConfig):
        parse_bootstrap(text)


@pytest.mark.parametrize("text", ["a.b.", "my_broker_1:9092", "10.0.0.1", "[fe80::1%eth0]:1", "a:9092\r", "a:9092,"])
def test_an_odd_address_is_taken_as_kafka_takes_it(text: str) -> None:
    assert len(parse_bootstrap(text)) == 1


@pytest.mark.parametrize("scheme", ["SSL", "ssl", "SASL_SSL", "SASL_PLAINTEXT"])
def test_an_address_asks_for_no_other_protocol_than_the_one_that_is_spoken(scheme: str) -> None:
    assert parse_bootstrap(f"{scheme}://a:1", protocol=scheme.upper()) == (BrokerAddress(host="a", port=1),)
    with pytest.raises(BadKafkaConfig, match=r"security\.protocol is PLAINTEXT"):
        parse_bootstrap(f"{scheme}://a:1", protocol="PLAINTEXT")


def test_a_bare_ipv6_address_is_shown_in_brackets() -> None:
    with pytest.raises(BadKafkaConfig) as raised:
        parse_bootstrap("::1")
    assert raised.value.hint == "write it as [::1]:9092"
