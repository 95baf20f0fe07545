"""Where tokens come from, by the names of Kafka's Java client, of its JAAS line, and of librdkafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.kafka.cluster import ClientProperties, parse_client_properties, read_client_properties
from offsite.kafka.config import TokenEndpoint, TokenSource
from offsite.model.errors import BadKafkaConfig
from offsite.model.secret import Secret

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
URL = "sasl.oauthbearer.token.endpoint.url=https://login.example.com/oauth2/token"
HEAD = ("bootstrap.servers=b:9092", "security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER")
JAAS = f'sasl.jaas.config={MODULE} required clientId="me" clientSecret="hunter2" scope="kafka";'
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"


def parse(*lines: str) -> ClientProperties:
    return parse_client_properties("\n".join([*HEAD, *lines]), source="f")


def source(*lines: str) -> TokenSource:
    sasl = parse(*lines).config.sasl
    assert sasl is not None
    assert sasl.token is not None
    return sasl.token


def endpoint(*lines: str) -> TokenEndpoint:
    token_endpoint = source(*lines).endpoint
    assert token_endpoint is not None
    return token_endpoint


def test_the_jaas_line_names_the_client() -> None:
    asked = endpoint(URL, JAAS)
    assert (asked.url, asked.client_id, asked.client_secret, asked.scope) == (
        "https://login.example.com/oauth2/token",
        "me",
        Secret("hunter2"),
        "kafka",
    )
    assert not parse(URL, JAAS).warnings


def test_a_setting_wins_over_the_jaas_line() -> None:
    names = "sasl.oauthbearer.client.credentials.client"
    asked = endpoint(URL, JAAS, f"{names}.id=you", f"{names}.secret=hunter3", "sasl.oauthbearer.scope=all")
    assert (asked.client_id, asked.client_secret, asked.scope) == ("you", Secret("hunter3"), "all")


def test_librdkafka_names_are_understood() -> None:
    lines = (
        URL,
        "sasl.oauthbearer.method=oidc",
        "sasl.oauthbearer.client.id=me",
        "sasl.oauthbearer.client.secret=hunter2",
        "sasl.oauthbearer.scope=kafka",
        "sasl.oauthbearer.extensions=logicalCluster=lkc-1,identityPoolId=pool-a",
    )
    properties, tokens = parse(*lines), source(*lines)
    assert tokens.endpoint == endpoint(URL, JAAS)
    assert tokens.extensions == (("identityPoolId", "pool-a"), ("logicalCluster", "lkc-1"))
    assert properties.warnings == ()


def test_extensions_of_the_jaas_line_go_with_every_source() -> None:
    jaas = f'sasl.jaas.config={MODULE} required extension_logicalCluster="lkc-1" extension_identityPoolId="pool-a";'
    expected = (("identityPoolId", "pool-a"), ("logicalCluster", "lkc-1"))
    for where in ("offsite.oauth.token.file=/run/token", "offsite.oauth.token.command=get", "offsite.oauth.token=abc"):
        assert source(where, jaas).extensions == expected


@pytest.mark.parametrize("extension", ["auth=x", "a_b=x", "ab=", "ab=\u00e9", "=x", "ab"])
def test_an_extension_that_kafka_would_refuse_is_refused_with_its_line(extension: str) -> None:
    with pytest.raises(BadKafkaConfig, match=r"f:6: sasl.oauthbearer.extensions: the SASL extension"):
        parse(URL, JAAS, f"sasl.oauthbearer.extensions={extension}")


def test_the_ends_and_waits_of_kafkas_client_are_understood() -> None:
    asked = endpoint(
        URL,
        JAAS,
        "sasl.login.connect.timeout.ms=1500",
        "sasl.login.read.timeout.ms=2500",
        "sasl.login.retry.backoff.ms=50",
        "sasl.login.retry.backoff.max.ms=500",
        "sasl.login.refresh.window.factor=0.6",
        "sasl.login.refresh.window.jitter=0.1",
        "sasl.login.refresh.min.period.seconds=5",
        "sasl.login.refresh.buffer.seconds=10",
        "sasl.oauthbearer.header.urlencode=true",
    )
    assert (asked.connect_timeout_s, asked.read_timeout_s, asked.retry_s, asked.retry_max_s) == (1.5, 2.5, 0.05, 0.5)
    assert (asked.refresh_factor, asked.refresh_jitter, asked.refresh_min_s, asked.refresh_buffer_s) == (
        0.6,
        0.1,
        5,
        10,
    )
    assert asked.encodes_header


def test_an_assertion_is_signed_by_a_key_that_is_read_here(tmp_path: Path) -> None:
    (key := tmp_path / "key.pem").write_text("-----BEGIN PRIVATE KEY-----")
    (template := tmp_path / "template.json").write_text('{"payload": {"aud": "x"}}')
    prefix = "sasl.oauthbearer.assertion"
    asked = endpoint(
        URL,
        f"{prefix}.private.key.file={key}",
        f"{prefix}.private.key.passphrase=open",
        f"{prefix}.algorithm=ES256",
        f"{prefix}.claim.iss=me",
        f"{prefix}.claim.exp.seconds=60",
        f"{prefix}.claim.nbf.seconds=0",
        f"{prefix}.claim.jti.include=true",
        f"{prefix}.template.file={template}",
        "sasl.oauthbearer.client.credentials.client.id=me",
    )
    assertion = asked.assertion
    assert assertion is not None
    assert (assertion.key_pem, assertion.key_password) == (Secret("-----BEGIN PRIVATE KEY-----"), Secret("open"))
    assert (assertion.algorithm, assertion.claims, assertion.has_id) == ("ES256", (("iss", "me"),), True)
    assert (assertion.lifetime_s, assertion.backdated_s) == (60, 0)
    assert assertion.template == template.read_text()
    assert (asked.client_id, asked.client_secret, asked.is_bearer) == ("me", None, False)


def test_an_assertion_wins_over_a_secret_where_kafkas_client_prefers_it(tmp_path: Path) -> None:
    (key := tmp_path / "key.pem").write_text("-----BEGIN PRIVATE KEY-----")
    file = endpoint(URL, JAAS, "sasl.oauthbearer.assertion.file=/run/assertion")
    named = "sasl.oauthbearer.assertion.private.key.file"
    without_issuer, with_issuer = (
        endpoint(URL, JAAS, f"{named}={key}", *issuer) for issuer in ((), ("sasl.oauthbearer.assertion.claim.iss=me",))
    )
    assert file.assertion is not None
    assert file.assertion.file == "/run/assertion"
    assert (file.client_secret, file.client_id) == (None, "me")
    assert with_issuer.assertion is not None
    assert without_issuer.assertion is None
    assert without_issuer.client_secret == Secret("hunter2")


@pytest.mark.parametrize(
    "line",
    [
        "sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever",
        "sasl.oauthbearer.grant.type=urn:ietf:params:oauth:grant-type:jwt-bearer",
    ],
)
def test_the_assertion_may_be_the_grant(line: str) -> None:
    assert endpoint(URL, line, "sasl.oauthbearer.assertion.file=/run/assertion").is_bearer
    with pytest.raises(BadKafkaConfig, match="needs an assertion"):
        parse(URL, JAAS, line)


def test_a_truststore_counts_for_the_endpoint_beside_the_machines(tmp_path: Path) -> None:
    (authority := tmp_path / "ca.pem").write_text(CERTIFICATE)
    tls = endpoint(URL, JAAS, f"ssl.truststore.location={authority}").tls
    assert (tls.ca_pem, tls.trusts_machine) == (CERTIFICATE, True)
    assert endpoint(URL, JAAS).tls.trusts_machine


def test_what_is_said_of_the_endpoint_alone_counts_alone(tmp_path: Path) -> None:
    (authority := tmp_path / "ca.pem").write_text(CERTIFICATE)
    of_jaas = endpoint(URL, JAAS.replace(" scope=", f' ssl.truststore.location="{authority}" scope=')).tls
    of_librdkafka = endpoint(URL, JAAS, f"https.ca.location={authority}").tls
    for tls in (of_jaas, of_librdkafka):
        assert (tls.ca_pem, tls.trusts_machine) == (CERTIFICATE, False)


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ((), "f:3: sasl.mechanism: OAUTHBEARER needs a token source"),
        ((URL,), "f:4: sasl.oauthbearer.token.endpoint.url: the token endpoint needs a client id"),
        ((URL, JAAS.replace("hunter2", "")), "f:4: sasl.oauthbearer.token.endpoint.url: the token endpoint needs a"),
        (("sasl.oauthbearer.token.endpoint.url=ftp://x/y", JAAS), "f:4: .*: not a URL of https"),
        (("sasl.oauthbearer.token.endpoint.url=https:///y", JAAS), "f:4: .*: not a URL of https"),
        (("sasl.oauthbearer.token.endpoint.url=https://x:y/", JAAS), "f:4: .*: not a URL of https"),
        (("sasl.oauthbearer.token.endpoint.url=https://me:hunter2@x/", JAAS), "f:4: .*: a URL with a password"),
        ((URL, JAAS, "sasl.oauthbearer.jwt.retriever.class=com.example.Mine"), "f:6: .*: offsite has no Mine"),
        ((URL, JAAS, "sasl.oauthbearer.grant.type=password"), "f:6: sasl.oauthbearer.grant.type"),
        ((URL, JAAS, "sasl.login.refresh.window.factor=2"), "f:6: .*: '2' is not a number from 0.5 to 1"),
        ((URL, JAAS, "sasl.login.refresh.window.factor=nan"), "f:6: .*: 'nan' is not a number"),
        ((URL, JAAS, "sasl.login.connect.timeout.ms=soon"), "f:6: sasl.login.connect.timeout.ms"),
        ((URL, "sasl.oauthbearer.assertion.claim.iss=me"), "f:5: .*: a client assertion needs a key"),
        ((URL, "sasl.oauthbearer.assertion.private.key.file=/no/such"), "f:5: .*: cannot read /no/such"),
        ((URL, JAAS.replace("OAuthBearer", "Plain")), "f:5: sasl.jaas.config: PlainLoginModule does not support"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line_and_without_a_secret(lines: tuple[str, ...], place: str) -> None:
    with pytest.raises(BadKafkaConfig, match=place) as caught:
        parse(*lines)
    assert "hunter2" not in str(caught.value) + caught.value.hint


def test_a_template_that_is_none_is_refused(tmp_path: Path) -> None:
    template, key = tmp_path / "template.json", "sasl.oauthbearer.assertion.private.key.pem=KEY"
    for text in ("{", "[]", '{"header": []}', "[" * 100_000):
        template.write_text(text)
        with pytest.raises(BadKafkaConfig, match="not a JSON object with the objects header and payload"):
            parse(URL, key, f"sasl.oauthbearer.assertion.template.file={template}")


def test_a_secret_over_http_and_a_foreign_handler_are_warned_of_by_name() -> None:
    clear = "sasl.oauthbearer.token.endpoint.url=http://login.example.com/token"
    (warning,) = parse(clear, JAAS).warnings
    assert warning.startswith("f:4: sasl.oauthbearer.token.endpoint.url: the client's secret")
    assert not parse("sasl.oauthbearer.token.endpoint.url=http://127.0.0.1/token", JAAS).warnings
    (foreign,) = parse(URL, JAAS, "sasl.login.callback.handler.class=com.example.Mine").warnings
    assert foreign.startswith("f:6: sasl.login.callback.handler.class: offsite has no com.example.Mine")
    own = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    assert not parse(URL, JAAS, f"sasl.login.callback.handler.class={own}").warnings


def test_a_file_with_a_clients_secret_that_everybody_can_read_is_warned_of(tmp_path: Path) -> None:
    (file := tmp_path / "client.properties").write_text("\n".join([*HEAD, URL, JAAS]))
    file.chmod(0o604)
    (exposed,) = read_client_properties(file).warnings
    assert "every user of this machine can read or change it" in exposed


def test_a_token_endpoint_whose_name_is_not_checked_is_warned_of() -> None:
    text = (
        "bootstrap.servers=b:9094\nsecurity.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.oauthbearer.token.endpoint.url=https://login.example.com/token\n"
        'sasl.jaas.config=OAuthBearerLoginModule required clientId="a" clientSecret="hunter2" '
        'ssl.endpoint.identification.algorithm="";'
    )
    (warning,) = parse_client_properties(text, source="f").warnings
    assert warning.startswith("f:5: sasl.jaas.config: the host name of the token endpoint is not checked")
    assert "hunter2" not in warning
