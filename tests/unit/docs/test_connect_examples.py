"""The examples of "Connect" are client.properties: each is read as a user's is, without a warning."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from offsite.kafka.cluster import parse_client_properties
from tests.certificates import make_certificates
from tests.java_stores import PASSWORD, key_store, trust_store

PAGE = Path(__file__).parents[3] / "docs/how-to/connect.md"
PART = re.compile(r"^##+ (.*?)$(.*?)(?=^##+ |\Z)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```properties\n(.*?)^```", re.DOTALL | re.MULTILINE)
MECHANISM = re.compile(r"^sasl\.mechanism=(.*)$", re.MULTILINE)
EXAMPLES = {title: BLOCK.findall(text) for title, text in PART.findall(PAGE.read_text(encoding="utf-8"))}
NAMED = {
    "Amazon MSK by IAM": ["AWS_MSK_IAM", "AWS_MSK_IAM"],
    "Confluent Cloud": ["PLAIN", "OAUTHBEARER"],
    "Azure Event Hubs": ["PLAIN", "OAUTHBEARER"],
    "Aiven": ["", ""],
    "Redpanda": ["SCRAM-SHA-256"],
    "Google Managed Service for Apache Kafka": ["PLAIN", "OAUTHBEARER"],
    "Strimzi": ["", "SCRAM-SHA-512"],
    "Kerberos": ["GSSAPI"],
}
"""By what each cluster is logged in at; an empty word is a client certificate."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the examples name."""
    folder = tmp_path_factory.mktemp("files")
    files = make_certificates(folder)
    for name in ("ca.pem", "ca.crt"):
        shutil.copy(files.authority, folder / name)
    (folder / "login").mkdir()
    (folder / "login" / "sasl.jaas.config").write_text('a.ScramLoginModule required username="u" password="p";')
    shutil.copy(files.client_certificate, folder / "service.cert")
    shutil.copy(files.client_key, folder / "service.key")
    key_store(folder, "PKCS12", "backup").rename(folder / "user.p12")
    for name in ("keystore.p12", "client.keystore.p12"):
        shutil.copy(folder / "user.p12", folder / name)
    trust_store(folder, "JKS", files.authority).rename(folder / "truststore.jks")
    shutil.copy(folder / "truststore.jks", folder / "client.truststore.jks")
    return folder


def test_every_cluster_has_its_examples() -> None:
    assert {title: [mechanism_of(text) for text in EXAMPLES[title]] for title in NAMED} == NAMED


def mechanism_of(text: str) -> str:
    return "".join(MECHANISM.findall(text))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("keytool") is None, reason="Java's keytool is not here")
@pytest.mark.parametrize(("title", "text"), [(title, text) for title, texts in EXAMPLES.items() for text in texts])
def test_an_example_is_understood(title: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    properties = parse_client_properties(re.sub(r"(ssl.*password)=…", rf"\1={PASSWORD}", text), source=title)
    assert properties.warnings == ()
    config = properties.config
    assert config.tls is not None
    assert (config.sasl.mechanism if config.sasl else "") == mechanism_of(text)
    assert config.sasl is not None or title in {"TLS", "Aiven", "Strimzi"}
    assert config.sasl is not None or config.tls.key_pem is not None or "keystore" not in text
