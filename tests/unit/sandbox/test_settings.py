from __future__ import annotations

from pathlib import Path

from offsite.sandbox.settings import SandboxSettings, Security, Tls, server_properties

TLS = Tls(key_store=Path("/pem/server.pem"), trust_store=Path("/pem/authority.pem"))


def lines_of(settings: SandboxSettings) -> dict[str, str]:
    ports = {name: 9000 + number for number, name in enumerate(settings.listeners())}
    text = server_properties(settings, data=Path("/sandbox/data"), ports=ports)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_plain_broker_listens_on_loopback_only() -> None:
    assert lines_of(SandboxSettings())["listeners"] == "PLAINTEXT://127.0.0.1:9000,CONTROLLER://127.0.0.1:9001"


def test_topics_are_never_made_by_accident_and_records_never_expire_by_default() -> None:
    lines = lines_of(SandboxSettings())
    assert lines["auto.create.topics.enable"] == "false"
    assert lines["log.retention.ms"] == "-1"


def test_a_property_of_the_caller_wins() -> None:
    assert lines_of(SandboxSettings(properties={"log.retention.ms": "1000"}))["log.retention.ms"] == "1000"


def test_a_backslash_is_escaped_as_java_reads_it() -> None:
    assert lines_of(SandboxSettings(properties={"super.users": "a\\b"}))["super.users"] == "a\\\\b"


def test_users_without_tls_get_the_sasl_listener() -> None:
    settings = SandboxSettings(security=Security(users={"alice": "pw"}))
    assert settings.listeners() == ("PLAINTEXT", "CONTROLLER", "SASL_PLAINTEXT")
    assert 'user_alice="pw"' in lines_of(settings)["listener.name.sasl_plaintext.plain.sasl.jaas.config"]


def test_tls_adds_both_encrypted_listeners() -> None:
    settings = SandboxSettings(security=Security(users={}, tls=TLS))
    assert settings.listeners()[-2:] == ("SSL", "SASL_SSL")
    assert lines_of(settings)["ssl.keystore.location"] == "/pem/server.pem"


def test_each_user_is_made_for_each_scram_mechanism() -> None:
    assert SandboxSettings(security=Security(users={"alice": "pw"})).scram_users() == (
        "SCRAM-SHA-256=[name=alice,password=pw]",
        "SCRAM-SHA-512=[name=alice,password=pw]",
    )
