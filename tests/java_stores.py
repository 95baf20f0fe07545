"""Key and trust stores as Java's own keytool makes them, of every kind. One of a kind is made once in a process."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

PASSWORD, KEY_PASSWORD = "hunter2", "hunter3-key"  # Java takes ASCII alone for PKCS12
FLAGS = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-J-Dfile.encoding=UTF-8")


def keytool(*arguments: str | Path, password: str = PASSWORD, into: bool = False) -> None:
    command = ["keytool", *FLAGS, *map(str, arguments)]
    done = subprocess.run(
        [*command, "-deststorepass:env" if into else "-storepass:env", "STORE"],
        env={**os.environ, "STORE": password, "KEY": KEY_PASSWORD, "LC_ALL": "C.UTF-8"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def trust_store(folder: Path, kind: str, *authorities: Path, password: str = PASSWORD) -> Path:
    store = folder / "trust"
    for number, authority in enumerate(authorities):
        keytool(
            *("-importcert", "-noprompt", "-alias", f"ca{number}", "-file", authority),
            *("-keystore", store, "-storetype", kind),
            password=password,
        )
    return store


def key_store(folder: Path, kind: str, *aliases: str, key_password: bool = False) -> Path:
    store = folder / "keys"
    store.write_bytes(_key_store(kind, aliases, key_password))
    return store


@cache
def _key_store(kind: str, aliases: tuple[str, ...], key_password: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "keys")
        for alias in aliases:
            other = ("-keypass:env", "KEY") if key_password else ()
            keytool(
                *("-genkeypair", "-alias", alias, "-keyalg", "RSA", "-keysize", "2048", "-dname", f"CN={alias}"),
                *("-keystore", store, "-storetype", kind, *other),
            )
        return store.read_bytes()


def store_of(folder: Path, kind: str, pem: Path) -> Path:
    """A store with the key and the certificate of a PEM file."""
    between, store = folder / "between.p12", folder / f"keys.{kind.lower()}"
    subprocess.run(
        ["openssl", "pkcs12", "-export", "-in", pem, "-out", between, "-passout", "env:STORE"],
        env={**os.environ, "STORE": PASSWORD},
        check=True,
    )
    keytool(
        *("-importkeystore", "-noprompt", "-srckeystore", between, "-srcstorepass:env", "STORE"),
        *("-destkeystore", store, "-deststoretype", kind),
        into=True,
    )
    return store
