"""Key and trust stores made by Java's own keytool, and such that nobody can read."""

from __future__ import annotations

import os
import shutil
import ssl
import struct
import subprocess
from pathlib import Path

import pytest

from offsite.kafka import keystores
from offsite.kafka.cluster import parse_client_properties
from offsite.kafka.config import TlsConfig
from offsite.kafka.net.broker_socket import tls_context
from offsite.model.errors import BadKafkaConfig
from offsite.model.secret import Secret, SecretHandling, handle_secrets
from tests.certificates import Certificates, make_certificates
from tests.java_stores import KEY_PASSWORD, PASSWORD, key_store, trust_store

SHORT = "abc"
KINDS = ["JKS", "PKCS12", "JCEKS"]

pytestmark = pytest.mark.skipif(shutil.which("keytool") is None, reason="Java's keytool is not here")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def read_tls(**settings: str | Path) -> TlsConfig:
    lines = ["bootstrap.servers=b:9093", "security.protocol=SSL"]
    lines += [f"{name.replace('__', '.')}={value}" for name, value in settings.items()]
    tls = parse_client_properties("\n".join(lines), source="client.properties").config.tls
    assert tls is not None
    return tls


@pytest.mark.parametrize("kind", KINDS)
def test_a_trust_store_gives_its_certificates(tmp_path: Path, certificates: Certificates, kind: str) -> None:
    store = trust_store(tmp_path, kind, certificates.authority, certificates.client_certificate)
    tls = read_tls(ssl__truststore__type=kind, ssl__truststore__location=store, ssl__truststore__password=PASSWORD)
    ours = {ssl.PEM_cert_to_DER_cert(part + "-----END CERTIFICATE-----\n") for part in _parts(tls.ca_pem)}
    files = (certificates.authority, certificates.client_certificate)
    assert ours == {ssl.PEM_cert_to_DER_cert(file.read_text()) for file in files}


def _parts(pem: str) -> list[str]:
    return [part.strip() + "\n" for part in pem.split("-----END CERTIFICATE-----") if part.strip()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_store_gives_a_key_that_fits_its_certificate(tmp_path: Path, kind: str) -> None:
    store = key_store(tmp_path, kind, "me")
    tls = read_tls(ssl__keystore__location=store, ssl__keystore__password=PASSWORD)
    assert tls_context(tls)  # OpenSSL refuses a key of another certificate
    assert PASSWORD not in repr(tls)
    assert tls.key_pem is not None
    assert tls.key_pem.reveal().startswith("-----BEGIN PRIVATE KEY-----")


@pytest.mark.parametrize("kind", ["JKS", "JCEKS"])
def test_a_key_may_have_a_password_of_its_own(tmp_path: Path, kind: str) -> None:
    store = key_store(tmp_path, kind, "me", key_password=True)
    passwords = {"ssl__keystore__password": PASSWORD, "ssl__key__password": KEY_PASSWORD}
    assert tls_context(read_tls(ssl__keystore__location=store, **passwords))
    for wrong in ({}, {"ssl__key__password": "wrong-one"}):
        with pytest.raises(BadKafkaConfig, match="the password of the key me is wrong") as caught:
            read_tls(ssl__keystore__location=store, ssl__keystore__password=PASSWORD, **wrong)
        assert "ssl.key.password" in caught.value.hint


def test_the_password_of_a_store_may_be_named_as_that_of_its_key(tmp_path: Path) -> None:
    for kind in KINDS:
        (folder := tmp_path / kind).mkdir()
        passwords = {"ssl__keystore__password": PASSWORD, "ssl__key__password": PASSWORD}
        assert tls_context(read_tls(ssl__keystore__location=key_store(folder, kind, "me"), **passwords))


def test_a_key_has_any_name_in_any_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    store = key_store(tmp_path, "JCEKS", "schl\u00fcssel")
    monkeypatch.setenv("LC_ALL", "POSIX")  # as in a container
    passwords = {"ssl__keystore__password": PASSWORD, "ssl__key__password": PASSWORD}
    assert tls_context(read_tls(ssl__keystore__location=store, **passwords))


OTHER_PASSWORD = """
import java.io.*;
import java.security.*;

public class Seal {
    public static void main(String[] files) throws Exception {
        char[] store = System.getenv("STORE").toCharArray(), key = System.getenv("KEY").toCharArray();
        KeyStore from = KeyStore.getInstance("JKS"), to = KeyStore.getInstance("PKCS12");
        from.load(new FileInputStream(files[0]), store);
        to.load(null, null);
        to.setKeyEntry("me", from.getKey("me", key), key, from.getCertificateChain("me"));
        to.store(new FileOutputStream(files[1]), store);
    }
}
"""
"""A program of Java: keytool makes no PKCS12 store whose key has a password of its own, and reads none."""


@pytest.mark.skipif(shutil.which("javac") is None, reason="Java's compiler is not here")
def test_a_key_of_pkcs12_with_a_password_of_its_own_is_refused_with_the_way_out(tmp_path: Path) -> None:
    jks, store = key_store(tmp_path, "JKS", "me", key_password=True), tmp_path / "store.p12"
    (tmp_path / "Seal.java").write_text(OTHER_PASSWORD)
    subprocess.run(
        ["java", tmp_path / "Seal.java", jks, store],
        env={**os.environ, "STORE": PASSWORD, "KEY": KEY_PASSWORD},
        check=True,
    )
    for key_password in ({}, {"ssl__key__password": KEY_PASSWORD}):
        with pytest.raises(BadKafkaConfig, match="key has another password than the store") as caught:
            read_tls(ssl__keystore__location=store, ssl__keystore__password=PASSWORD, **key_password)
        assert "openssl" in caught.value.hint


def test_a_short_password_of_openssl_is_enough(tmp_path: Path, certificates: Certificates) -> None:
    store = tmp_path / "store.p12"
    subprocess.run(
        ["openssl", "pkcs12", "-export", "-in", certificates.client_store, "-out", store, "-passout", "env:STORE"],
        env={**os.environ, "STORE": SHORT},
        check=True,
    )
    tls = read_tls(ssl__keystore__location=store, ssl__keystore__password=SHORT)
    assert tls_context(tls)
    with pytest.raises(BadKafkaConfig, match="no trusted certificate"):
        read_tls(ssl__truststore__location=_without_key(certificates, store), ssl__truststore__password=SHORT)


def _without_key(certificates: Certificates, store: Path) -> Path:
    subprocess.run(
        ["openssl", "pkcs12", "-export", "-nokeys", "-in", certificates.authority, "-out", store, "-passout", "env:S"],
        env={**os.environ, "S": SHORT},
        check=True,
    )
    return store


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["truststore", "keystore"])
def test_a_wrong_password_is_named_and_not_shown(tmp_path: Path, kind: str, name: str) -> None:
    store = key_store(tmp_path, kind, "me")
    settings = {f"ssl__{name}__location": str(store), f"ssl__{name}__password": "secret-and-wrong"}
    with pytest.raises(BadKafkaConfig, match=f"client.properties:3: ssl.{name}.location: ") as caught:
        read_tls(**settings)
    assert "secret-and-wrong" not in str(caught.value) + caught.value.hint
    assert "the password of the store is wrong" in str(caught.value)


def test_without_a_password_jks_gives_certificates_and_pkcs12_says_what_is_missing(
    tmp_path: Path, certificates: Certificates
) -> None:
    jks = trust_store(tmp_path, "JKS", certificates.authority)
    assert read_tls(ssl__truststore__location=jks).ca_pem
    jks.unlink()
    with pytest.raises(BadKafkaConfig, match="the password of the store is missing"):
        read_tls(ssl__truststore__location=trust_store(tmp_path, "PKCS12", certificates.authority))


def test_a_password_of_jks_may_have_any_letters(tmp_path: Path, certificates: Certificates) -> None:
    password = "hunter2-ö-Ж"
    trust_store(tmp_path, "JKS", certificates.authority, password=password)
    assert read_tls(ssl__truststore__location=tmp_path / "trust", ssl__truststore__password=password).ca_pem


def test_several_keys_are_refused_by_their_names(tmp_path: Path) -> None:
    store = key_store(tmp_path, "JKS", "other", "me")
    with pytest.raises(BadKafkaConfig, match="2 private keys: me, other"):
        read_tls(ssl__keystore__location=store, ssl__keystore__password=PASSWORD)


def test_a_trust_store_is_no_key_store(tmp_path: Path, certificates: Certificates) -> None:
    store = trust_store(tmp_path, "JKS", certificates.authority)
    with pytest.raises(BadKafkaConfig, match="no private key"):
        read_tls(ssl__keystore__location=store, ssl__keystore__password=PASSWORD)


def test_a_damaged_store_is_an_error_whatever_is_changed(tmp_path: Path) -> None:
    content = key_store(tmp_path, "JKS", "me").read_bytes()
    password = Secret(PASSWORD)
    for size in range(4, len(content), 37):
        with pytest.raises(BadKafkaConfig):
            keystores.identity_pem(content[:size], password, None)
    for place in range(4, len(content), 37):
        changed = bytearray(content)
        changed[place] ^= 0x81
        with pytest.raises(BadKafkaConfig):
            keystores.identity_pem(bytes(changed), password, None)


def test_a_file_of_another_kind_and_no_file_are_named(tmp_path: Path) -> None:
    (file := tmp_path / "text").write_text("hello")
    with pytest.raises(BadKafkaConfig, match="neither PEM nor a store of Java") as caught:
        read_tls(ssl__truststore__location=file)
    assert "ssl.truststore.location" in caught.value.hint
    with pytest.raises(BadKafkaConfig, match="cannot read"):
        read_tls(ssl__truststore__location=tmp_path / "none")
    file.write_bytes(b"\x30\x82\x00")
    with pytest.raises(BadKafkaConfig, match="Java cannot read the PKCS12 store"):
        read_tls(ssl__truststore__location=file, ssl__truststore__password=PASSWORD)


def test_passwords_are_in_no_process_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bin_folder := tmp_path / "bin").mkdir()
    (bin_folder / "keytool").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$SEEN"\n')
    (bin_folder / "keytool").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("SEEN", str(seen := tmp_path / "seen"))
    with pytest.raises(BadKafkaConfig):
        keystores.trusted_pem(b"\x30\x82", Secret(PASSWORD))
    assert "-importkeystore" in seen.read_text()
    assert PASSWORD not in seen.read_text()


def test_without_keytool_the_other_way_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BadKafkaConfig, match="need Java's keytool") as caught:
        keystores.trusted_pem(b"\x30\x82", Secret(PASSWORD))
    assert "openssl pkcs12" in caught.value.hint


def test_a_key_of_a_store_is_a_secret_that_stays(tmp_path: Path) -> None:
    import pickle

    from offsite.model.errors import SecretStays

    tls = read_tls(ssl__keystore__location=key_store(tmp_path, "JKS", "me"), ssl__keystore__password=PASSWORD)
    with pytest.raises(SecretStays):
        pickle.dumps(tls)
    with handle_secrets(SecretHandling.SENT):
        assert pickle.loads(pickle.dumps(tls)) == tls


def test_a_key_without_a_certificate_is_not_passed_over() -> None:
    body = struct.pack(">IIIIH2sQI1sI", 0xFEEDFEED, 2, 1, 1, 2, b"me", 0, 1, b"k", 0)
    store = body + keystores._sha1(keystores._wide(Secret(PASSWORD)) + keystores._DIGEST_SALT + body)
    with pytest.raises(BadKafkaConfig, match="its key has no certificate"):
        keystores.identity_pem(store, Secret(PASSWORD), None)


@pytest.mark.parametrize("password", ["a\0b", "a\ud83d"], ids=["zero", "half of a letter"])
def test_a_password_that_no_process_can_get_is_an_error_without_it(password: str) -> None:
    with pytest.raises(BadKafkaConfig, match="keytool does not run") as caught:
        keystores.identity_pem(b"0\x80", Secret(password), None)
    assert password not in str(caught.value)
