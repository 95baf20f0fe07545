from __future__ import annotations

from pathlib import Path

import pytest

from offsite.kafka.cluster import ClientProperties, parse_client_properties, read_client_properties
from offsite.kafka.config import BrokerAddress
from offsite.model.errors import BadKafkaConfig
from offsite.model.secret import Secret

MODULES = "org.apache.kafka.common.security"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
KEY = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nBBBB\n-----END ENCRYPTED PRIVATE KEY-----"


def parse(*lines: str) -> ClientProperties:
    return parse_client_properties("\n".join(["bootstrap.servers=b:9092", *lines]), source="client.properties")


def test_plaintext_is_the_default() -> None:
    config = parse().config
    assert config.security_protocol == "PLAINTEXT"
    assert config.bootstrap == (BrokerAddress(host="b", port=9092),)


def test_java_names_are_understood() -> None:
    config = parse("client.id=me", "client.rack=r1", "request.timeout.ms=1500").config
    assert (config.client_id, config.rack_id, config.request_timeout_ms) == ("me", "r1", 1500)


def test_a_jaas_line_gives_user_and_password() -> None:
    config = parse(
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=SCRAM-SHA-512",
        f'sasl.jaas.config={MODULES}.scram.ScramLoginModule required username="alice" password="hunter2";',
    ).config
    assert config.sasl is not None
    assert (config.sasl.mechanism, config.sasl.username) == ("SCRAM-SHA-512", "alice")
    assert config.sasl.password == Secret("hunter2")


def test_librdkafka_names_are_understood() -> None:
    config = parse_client_properties(
        "metadata.broker.list=x\nsecurity.protocol=sasl_plaintext\nsasl.mechanisms=PLAIN\n"
        "sasl.username=alice\nsasl.password=hunter2\nrack.id=r2",
        source="f",
    ).config
    assert config.sasl is not None
    assert (config.sasl.mechanism, config.sasl.username, config.rack_id) == ("PLAIN", "alice", "r2")
    assert config.bootstrap == (BrokerAddress(host="x", port=9092),)


def test_unknown_settings_are_told_of_with_their_line() -> None:
    assert parse("group.id=g").warnings == ("client.properties:2: offsite ignores group.id",)


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["security.protocol=TLS"], "client.properties:2: security.protocol"),
        (["# c", "request.timeout.ms=soon"], "client.properties:3: request.timeout.ms"),
        (["request.timeout.ms=" + "9" * 5000], "client.properties:2: request.timeout.ms"),
        (["request.timeout.ms=\u00b2"], "client.properties:2: request.timeout.ms"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=NTLM"], "client.properties:3: sasl.mechanism"),
        (["security.protocol=SASL_SSL"], "client.properties: sasl.mechanism"),
        (["security.protocol=SSL", "ssl.ca.location=/no/such"], "client.properties:3: ssl.ca.location"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN"], "client.properties: sasl.username"),
        (["bootstrap.servers=b:no"], "client.properties:2: bootstrap.servers"),
    ],
)
def test_a_bad_value_is_refused_with_file_and_line(lines: list[str], place: str) -> None:
    with pytest.raises(BadKafkaConfig) as caught:
        parse(*lines)
    assert str(caught.value).startswith(place)


def test_a_module_that_does_not_fit_the_mechanism_is_refused_without_the_password() -> None:
    with pytest.raises(BadKafkaConfig, match="does not support PLAIN") as caught:
        parse(
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=PLAIN",
            f'sasl.jaas.config={MODULES}.scram.ScramLoginModule required username="alice" password="hunter2";',
        )
    assert "hunter2" not in str(caught.value) + repr(caught.value) + caught.value.hint


def test_a_pem_keystore_gives_certificate_and_key(tmp_path: Path) -> None:
    store = tmp_path / "client.pem"
    store.write_text(f"{KEY}\n{CERTIFICATE}\n")
    tls = parse("security.protocol=SSL", f"ssl.keystore.location={store}", "ssl.key.password=hunter2").config.tls
    assert tls is not None
    assert tls.cert_pem == CERTIFICATE
    assert tls.key_pem == Secret(KEY)
    assert tls.key_password == Secret("hunter2")


@pytest.mark.parametrize("name", ["ssl.certificate.location", "ssl.key.location"])
def test_a_key_beside_its_certificate_is_a_secret_whatever_setting_names_the_file(tmp_path: Path, name: str) -> None:
    (file := tmp_path / "client.pem").write_text(f"{CERTIFICATE}\n{KEY}\n")
    tls = parse("security.protocol=SSL", f"{name}={file}").config.tls
    assert tls is not None
    assert (tls.cert_pem, tls.key_pem) == (CERTIFICATE, Secret(KEY))


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        (KEY, "ssl.keystore.location", "has a private key and no certificate"),
        (KEY, "ssl.key.location", "has a private key and no certificate"),
        (CERTIFICATE, "ssl.keystore.location", "has a certificate and no private key"),
        (CERTIFICATE, "ssl.certificate.location", "has a certificate and no private key"),
    ],
)
def test_half_of_an_identity_is_not_passed_over(tmp_path: Path, text: str, name: str, why: str) -> None:
    """The client would log in without the proof that its file promises."""
    (file := tmp_path / "half.pem").write_text(text)
    with pytest.raises(BadKafkaConfig, match=f"test:3: {name}: .*{why}") as caught:
        parse_client_properties(f"bootstrap.servers=a\nsecurity.protocol=SSL\n{name}={file}", source="test")
    assert KEY.splitlines()[1] not in str(caught.value)
    assert "ssl.key" in caught.value.hint


def test_half_of_an_identity_in_the_settings_themselves_is_not_passed_over() -> None:
    escaped = KEY.replace("\n", "\\n")
    with pytest.raises(BadKafkaConfig, match=r"test:3: ssl\.keystore\.key: .* no certificate") as caught:
        parse_client_properties(
            f"bootstrap.servers=a\nsecurity.protocol=SSL\nssl.keystore.key={escaped}", source="test"
        )
    assert KEY.splitlines()[1] not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(("value", "checked"), [("https", True), ("HTTPS", True), ("", False), ("none", False)])
def test_the_hostname_check_can_be_turned_off(value: str, checked: bool) -> None:
    tls = parse("security.protocol=SSL", f"ssl.endpoint.identification.algorithm={value}").config.tls
    assert tls is not None
    assert tls.check_hostname is checked


def test_a_token_may_come_from_a_command_or_a_file() -> None:
    sasl = ["security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER"]
    by_command = parse(*sasl, "offsite.oauth.token.command=get-token --for 'my cluster'").config.sasl
    by_file = parse(*sasl, "sasl.oauthbearer.token.endpoint.url=file:///run/token").config.sasl
    assert by_command is not None
    assert by_command.token is not None
    assert by_command.token.command == ("get-token", "--for", "my cluster")
    assert by_file is not None
    assert by_file.token is not None
    assert by_file.token.file == "/run/token"


def test_the_command_lines_bootstrap_wins_over_the_files(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1")
    assert read_client_properties(path, bootstrap="line:2").config.bootstrap == (BrokerAddress(host="line", port=2),)


def test_a_file_that_is_not_there_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(BadKafkaConfig, match="cannot read"):
        read_client_properties(tmp_path / "none")


def test_a_timeout_is_never_longer_than_a_socket_can_wait() -> None:
    assert parse(f"request.timeout.ms={(1 << 63) - 1}").config.request_timeout_ms == (1 << 31) - 1


def test_a_secret_that_everybody_can_read_is_warned_of(tmp_path: Path) -> None:
    (file := tmp_path / "client.properties").write_text(
        "bootstrap.servers=broker:9093\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.username=ann\nsasl.password=secret\nssl.endpoint.identification.algorithm=\n"
    )
    file.chmod(0o604)
    unchecked, exposed = read_client_properties(file).warnings
    assert "the host names of brokers are not checked" in unchecked
    assert "every user of this machine can read or change it" in exposed
    file.chmod(0o640)
    assert len(read_client_properties(file).warnings) == 1
    (key := tmp_path / "key.pem").write_text(f"{KEY}\n{CERTIFICATE}\n")
    key.chmod(0o644)
    file.write_text(f"bootstrap.servers=broker:9093\nsecurity.protocol=SSL\nssl.key.location={key}\n")
    assert [str(key) in each for each in read_client_properties(file).warnings] == [True]


@pytest.mark.parametrize("in_jaas", [True, False])
def test_a_keytab_that_everybody_can_read_is_warned_of(tmp_path: Path, in_jaas: bool) -> None:
    """The properties file has no secret, and may be read by all."""
    (keytab := tmp_path / "backup.keytab").write_bytes(b"\5\2")
    module = "com.sun.security.auth.module.Krb5LoginModule"
    by_jaas = f'sasl.jaas.config={module} required useKeyTab=true keyTab="{keytab}" principal="backup";\n'
    by_name = f"sasl.kerberos.keytab={keytab}\nsasl.kerberos.principal=backup\n"
    (file := tmp_path / "client.properties").write_text(
        "bootstrap.servers=broker:9093\nsecurity.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n"
        + (by_jaas if in_jaas else by_name)
    )
    file.chmod(0o644)
    keytab.chmod(0o644)
    (warning,) = read_client_properties(file).warnings
    assert warning.startswith(f"{keytab} contains a secret, and every user of this machine can read")
    keytab.chmod(0o640)
    assert read_client_properties(file).warnings == ()


def test_a_token_file_that_everybody_can_read_is_warned_of(tmp_path: Path) -> None:
    (token := tmp_path / "token").write_text("token")
    (file := tmp_path / "client.properties").write_text(
        "bootstrap.servers=broker:9093\nsecurity.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        f"offsite.oauth.token.file={token}\n"
    )
    token.chmod(0o644)
    (warning,) = read_client_properties(file).warnings
    assert warning.startswith(f"{token} contains a secret, and every user of this machine can read")


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
@pytest.mark.parametrize("value", ["h;9092", "SSL://h:9092", "http://h:9092", "h:port"])
def test_a_broker_that_cannot_be_one_is_refused_with_its_line(name: str, value: str) -> None:
    with pytest.raises(BadKafkaConfig, match=f"f:1: {name}: .* is not a broker address"):
        parse_client_properties(f"{name}={value}", source="f")
    with pytest.raises(BadKafkaConfig, match="is not a broker address"):
        parse_client_properties("bootstrap.servers=a", source="f", bootstrap=value)


def test_a_host_name_check_that_is_off_and_old_tls_are_named_with_their_line() -> None:
    properties = parse(
        "security.protocol=SSL",
        "ssl.endpoint.identification.algorithm=",
        "ssl.enabled.protocols=TLSv1.3,TLSv1.1, TLSv1",
        "ssl.protocol=TLSv1.1",
    )
    assert [warning.partition(": ")[0] for warning in properties.warnings] == [
        f"client.properties:{n}" for n in (3, 4, 5)
    ]
    unchecked, old, oldest = properties.warnings
    assert "ssl.endpoint.identification.algorithm: the host names of brokers are not checked" in unchecked
    assert "ssl.enabled.protocols: offsite never speaks TLSv1.1, TLSv1:" in old
    assert "ssl.protocol: offsite never speaks TLSv1.1:" in oldest
    assert properties.config.tls is not None
    assert properties.config.tls.protocols == ("TLSv1.3",)


def test_tls_of_today_is_not_warned_of() -> None:
    properties = parse("security.protocol=SSL", "ssl.enabled.protocols=TLSv1.2,TLSv1.3", "ssl.protocol=TLS")
    assert properties.warnings == ()
    assert properties.config.tls is not None
    assert properties.config.tls.protocols == ("TLSv1.2", "TLSv1.3")


def test_a_delegation_token_is_refused_by_name() -> None:
    """The option was passed over, and brokers refused the id and the key of the token as a user and a password."""
    text = (
        "bootstrap.servers=a:9094\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        'sasl.jaas.config=x.ScramLoginModule required username="id" password="key" tokenauth="true";\n'
    )
    with pytest.raises(BadKafkaConfig, match=r"f:4: sasl\.jaas\.config: offsite has no login by a delegation token"):
        parse_client_properties(text, source="f")
