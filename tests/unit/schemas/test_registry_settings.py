"""The file of `--registry-config`, by Confluent's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.kafka.config import TokenSource
from offsite.model.errors import BadOption, BadRegistry
from offsite.schemas.registry_client import BasicLogin, RegistryAddress
from offsite.schemas.registry_settings import (
    parse_registry_config,
    read_registry_config,
    read_registry_if_named,
    registry_at,
)


def read(*lines: str) -> RegistryAddress:
    return parse_registry_config("\n".join(lines), source="registry.properties")


@pytest.mark.parametrize("prefix", ["", "schema.registry."])
def test_a_user_and_a_password(prefix: str) -> None:
    login = read("bootstrap.servers=ignored:9092", f"{prefix}basic.auth.user.info=me:a:b").login
    assert isinstance(login, BasicLogin)
    assert (login.user, login.password.reveal()) == ("me", "a:b")


def test_a_token_and_the_headers_of_a_cloud() -> None:
    address = read("bearer.auth.token=T", "bearer.auth.logical.cluster=lsrc-1", "bearer.auth.identity.pool.id=pool-1")
    assert isinstance(address.login, TokenSource)
    assert address.login.static is not None
    assert address.login.static.reveal() == "T"
    assert address.headers == (("target-sr-cluster", "lsrc-1"), ("Confluent-Identity-Pool-Id", "pool-1"))


def test_tokens_of_an_endpoint() -> None:
    lines = ["bearer.auth.credentials.source=OAUTHBEARER", "bearer.auth.issuer.endpoint.url=https://login/token"]
    login = read(*lines, "bearer.auth.client.id=me", "bearer.auth.client.secret=s", "bearer.auth.scope=schemas").login
    assert isinstance(login, TokenSource)
    assert login.endpoint is not None
    assert (login.endpoint.url, login.endpoint.client_id, login.endpoint.scope) == (
        "https://login/token",
        "me",
        "schemas",
    )


def test_certificates_are_those_of_the_registry() -> None:
    pem = "-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----"
    assert "AAAA" in read(f"schema.registry.ssl.truststore.certificates={pem}").tls.ca_pem


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("basic.auth.user.info=secret", "registry.properties:1: basic.auth.user.info: it is not USER:PASSWORD"),
        ("basic.auth.credentials.source=SASL_INHERIT", "'SASL_INHERIT' is not one of USER_INFO"),
        ("bearer.auth.issuer.endpoint.url=https://x", "bearer.auth.client.id: it is not set"),
        ("bearer.auth.logical.cluster=a\\u0001b", "it is not plain text"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line_and_without_the_secret(line: str, problem: str) -> None:
    with pytest.raises(BadRegistry, match=problem) as refused:
        read(line)
    assert "secret" not in refused.value.message


def test_a_login_without_a_registry_is_refused(tmp_path: Path) -> None:
    assert read_registry_if_named(None, None) is None
    with pytest.raises(BadOption, match="works only with a registry"):
        read_registry_if_named(None, tmp_path / "login.properties")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRegistry, match="cannot read"):
        read_registry_config(tmp_path / "absent")


def test_a_login_goes_over_a_network_in_clear_text_only_where_the_file_allows_it() -> None:
    login = "basic.auth.user.info=me:secret"
    with pytest.raises(BadRegistry, match="clear text") as refused:
        registry_at("http://registry:8081", read(login))
    assert "offsite.registry.in.clear=true" in refused.value.hint
    assert registry_at("http://registry:8081", read(login, "offsite.registry.in.clear=true")).url
    assert registry_at("http://127.0.0.1:8081", read(login)).url
    assert registry_at("https://registry:8081", read(login)).url
    with pytest.raises(BadOption):
        registry_at("registry:8081", read())
