"""Java's binary key and trust stores, as PEM texts.

JKS is read here: its form is short, and no program hands out a private key of it. What else Java reads (PKCS12, JCEKS)
goes through the `keytool` of the Java that is there, which turns a store into JKS in a private folder: a store means
here what it means to Java. Passwords pass through the environment of that process, never through its arguments.
Source: `sun.security.provider.JavaKeyStore` and `KeyProtector` of OpenJDK (form, digest and key encryption of JKS).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from offsite.model.errors import BadKafkaConfig
from offsite.model.secret import Secret
from offsite.model.units import MIB

_MAX_BYTES = 64 * MIB  # far above every store of certificates
_JKS_MAGIC = bytes.fromhex("feedfeed")
_MAGICS = {_JKS_MAGIC: "JKS", bytes.fromhex("cececece"): "JCEKS"}
_DER_SEQUENCE = 0x30
_JKS_VERSIONS = (1, 2)
_KEY, _CERTIFICATE = 1, 2
_DIGEST_BYTES = hashlib.sha1(usedforsecurity=False).digest_size
_DIGEST_SALT = b"Mighty Aphrodite"
_SEALED_BY_JKS = bytes.fromhex("060a2b060104012a02110101")  # the algorithm 1.3.6.1.4.1.42.2.17.1.1 of Sun, as DER
_KEYTOOL_LIMIT_S = 60
_KEYTOOL_FLAGS = ("-J-Xmx128m", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-J-Duser.language=en")
_FROM, _TO, _OF_KEY = "OFFSITE_STORE_PASSWORD", "OFFSITE_COPY_PASSWORD", "OFFSITE_KEY_PASSWORD"
_KEY_SIGNS = ("UnrecoverableKeyException", "Too many failures")
"""What keytool says of a key with another password than it was given, or than the store has: it asks for one thrice."""
_LIST_HINT = "try the password with the store: keytool -list -keystore STORE"
_NO_KEYTOOL_HINT = "install a Java runtime or set JAVA_HOME to one; or convert the store to PEM by openssl pkcs12"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One entry. `sealed_key`: the encrypted private key of a key entry, else empty. `certificates`: DER, the key's own
    first."""

    alias: str
    sealed_key: bytes
    certificates: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A private key (PEM, not encrypted) with its certificates (PEM)."""

    key_pem: Secret
    chain_pem: str


def is_store(content: bytes) -> bool:
    """Whether `content` begins as a binary store does."""
    return content[:4] in _MAGICS or content[:1] == bytes([_DER_SEQUENCE])


def trusted_pem(content: bytes, password: Secret | None) -> str:
    """The certificates that Java trusts by the store: trusted ones, and the first of each key entry. Without a
    password a JKS store is not checked for changes, as in Java. Raises `BadKafkaConfig`."""
    certificates = [entry.certificates[0] for entry in _entries(content, password) if entry.certificates]
    if not certificates:
        raise BadKafkaConfig(
            "the store has no trusted certificate",
            hint="import the authority of the brokers: keytool -importcert -alias ca -file ca.pem -keystore STORE "
            "(in a PKCS12 store made by openssl, Java sees no trusted certificate)",
        )
    return "\n".join(_pem("CERTIFICATE", certificate) for certificate in certificates)


def identity_pem(content: bytes, password: Secret | None, key_password: Secret | None) -> Identity:
    """The only private key of the store, and its certificates. `key_password`: where it differs from the store's.
    Raises `BadKafkaConfig`."""
    keys = [entry for entry in _entries(content, password, key_password) if entry.sealed_key]
    if not keys:
        raise BadKafkaConfig(
            "the store has no private key", hint="name the store with the key and certificate of this client"
        )
    if len(keys) > 1:
        raise BadKafkaConfig(
            f"the store has {len(keys)} private keys: {', '.join(sorted(entry.alias for entry in keys))}",
            hint="leave one in a copy of the store: keytool -delete -alias ALIAS -keystore COPY",
        )
    (entry,) = keys
    if not entry.certificates:
        _damaged("its key has no certificate")  # TLS would go on without the client's proof
    passwords = [secret for secret in (key_password, password) if secret is not None]
    key = _unsealed_key(entry, passwords)
    return Identity(
        key_pem=Secret(_pem("PRIVATE KEY", key)),
        chain_pem="\n".join(_pem("CERTIFICATE", certificate) for certificate in entry.certificates),
    )


def _pem(label: str, der: bytes) -> str:
    lines = textwrap.wrap(base64.b64encode(der).decode(), 64)
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"])


def _entries(content: bytes, password: Secret | None, key_password: Secret | None = None) -> Sequence[_Entry]:
    if content[:4] == _JKS_MAGIC:
        return _read_jks(content, password)
    passwords = _Passwords(store=password, key=key_password, copy=Secret(secrets.token_hex(16)))
    return _read_jks(_as_jks(content, passwords), passwords.copy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passwords:
    """Those of a store, of its key where it differs, and of the copy as JKS."""

    store: Secret | None
    key: Secret | None
    copy: Secret


class _Fields:
    """The fields of a store, in order."""

    def __init__(self, content: bytes) -> None:
        self._content, self._position = content, 0

    @property
    def position(self) -> int:
        return self._position

    def number(self, size_bytes: int) -> int:
        return int.from_bytes(self.bytes(size_bytes), "big")

    def bytes(self, size_bytes: int) -> bytes:
        end = self._position + size_bytes
        if end > len(self._content):
            _damaged("it ends too early")
        self._position, start = end, self._position
        return self._content[start:end]

    def text(self) -> str:
        return self.bytes(self.number(2)).decode("utf-8", errors="replace")


def _damaged(why: str) -> NoReturn:
    raise BadKafkaConfig(f"the store is damaged: {why}", hint="copy the store again, and list it: keytool -list")


def _read_jks(content: bytes, password: Secret | None) -> Sequence[_Entry]:
    fields = _Fields(content)
    version = (fields.bytes(4), fields.number(4))[1]
    if version not in _JKS_VERSIONS:
        _damaged(f"JKS has no version {version}")
    entries = [_entry(fields, version) for _ in range(fields.number(4))]
    body, digest = content[: fields.position], fields.bytes(_DIGEST_BYTES)
    if password is not None and not hmac.compare_digest(digest, _sha1(_wide(password) + _DIGEST_SALT + body)):
        raise BadKafkaConfig("the password of the store is wrong, or the store was changed", hint=_LIST_HINT)
    return entries


def _entry(fields: _Fields, version: int) -> _Entry:
    tag, alias = fields.number(4), fields.text()
    fields.number(8)  # when the entry was made
    if tag not in (_KEY, _CERTIFICATE):
        _damaged(f"JKS has no entry of kind {tag}")
    sealed_key = fields.bytes(fields.number(4)) if tag == _KEY else b""
    count = fields.number(4) if tag == _KEY else 1
    return _Entry(alias=alias, sealed_key=sealed_key, certificates=tuple(_certificates(fields, version, count)))


def _certificates(fields: _Fields, version: int, count: int) -> Iterator[bytes]:
    for _ in range(count):
        kind = fields.text() if version > 1 else "X.509"
        if kind != "X.509":
            _damaged(f"a certificate is of kind {kind[:20]!r}")
        yield fields.bytes(fields.number(4))


def _unsealed_key(entry: _Entry, passwords: Sequence[Secret]) -> bytes:
    """The key as PKCS 8. The passwords are tried in order."""
    if not passwords:
        raise BadKafkaConfig("the store needs a password", hint="set ssl.keystore.password")
    sealed = _sealed_bytes(entry)
    for password in passwords:
        if key := _unsealed(sealed, _wide(password)):
            return key
    raise _wrong_key_password(entry.alias)


def _wrong_key_password(alias: str) -> BadKafkaConfig:
    return BadKafkaConfig(
        f"the password of the key {alias} is wrong", hint="set ssl.key.password, if it differs from the store's"
    )


def _sealed_bytes(entry: _Entry) -> bytes:
    """The encrypted part of EncryptedPrivateKeyInfo: SEQUENCE { algorithm, OCTET STRING }."""
    outer, rest = _der(entry.sealed_key)
    algorithm, rest = _der(outer)
    if not algorithm.startswith(_SEALED_BY_JKS):
        raise BadKafkaConfig(
            f"the key {entry.alias} is encrypted in another way than JKS does", hint="convert the store to PKCS12"
        )
    sealed, _ = _der(rest)
    if len(sealed) < 2 * _DIGEST_BYTES:
        _damaged("a key is too short")
    return sealed


def _der(data: bytes) -> tuple[bytes, bytes]:
    """The content of the first DER value, and what follows it."""
    fields = _Fields(data)
    fields.number(1)
    size_bytes = fields.number(1)
    if size_bytes & 0x80:
        size_bytes = fields.number(size_bytes & 0x7F)
    content = fields.bytes(size_bytes)
    return content, data[fields.position :]


def _unsealed(sealed: bytes, password: bytes) -> bytes:
    """The key, or nothing if the password is wrong. A chain of SHA-1 digests is added to the key bit by bit."""
    salt, body, check = sealed[:_DIGEST_BYTES], sealed[_DIGEST_BYTES:-_DIGEST_BYTES], sealed[-_DIGEST_BYTES:]
    stream, digest = bytearray(), salt
    while len(stream) < len(body):
        digest = _sha1(password + digest)
        stream += digest
    key = bytes(left ^ right for left, right in zip(body, stream, strict=False))
    return key if hmac.compare_digest(check, _sha1(password + key)) else b""


def _wide(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be")


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def _as_jks(content: bytes, passwords: _Passwords) -> bytes:
    """The store as JKS, by keytool: each key with its password of before. Of a JCEKS store with a password for its key,
    that key alone."""
    if len(content) > _MAX_BYTES:
        _damaged(f"{len(content):,} bytes are too many")
    kind = _MAGICS.get(content[:4], "PKCS12")
    alias = _alias_of_key(content) if kind == "JCEKS" else ""
    with tempfile.TemporaryDirectory(prefix="offsite-store-") as folder:  # mode 0700
        source, copy = Path(folder, "store"), Path(folder, "copy.jks")
        source.write_bytes(content)
        command = [_keytool(), *_KEYTOOL_FLAGS, "-importkeystore", "-noprompt"]
        command += ["-srckeystore", str(source), "-srcstoretype", kind, "-srcstorepass:env", _FROM]
        command += ["-destkeystore", str(copy), "-deststoretype", "JKS", "-deststorepass:env", _TO]
        given = passwords.store.reveal() if passwords.store is not None else "changeit"  # nothing is checked without
        variables = {_FROM: given, _TO: passwords.copy.reveal()}
        if alias and passwords.key is not None:
            command += ["-srcalias", alias, "-srckeypass:env", _OF_KEY]
            variables[_OF_KEY] = passwords.key.reveal()
        said = _run(command, variables)
        if copy.exists():
            return copy.read_bytes()
    raise _refused(kind, alias, said.replace(folder, ""), has_password=passwords.store is not None)


def _alias_of_key(content: bytes) -> str:
    """The name of the only private key of a JCEKS store, whose form is that of JKS up to secret keys. Empty where there
    is none, or several, and for a name beyond ASCII: Java reads such an argument by the locale."""
    try:
        aliases = [entry.alias for entry in _read_jks(content, None) if entry.sealed_key]
    except BadKafkaConfig:
        return ""
    return aliases[0] if len(aliases) == 1 and aliases[0].isascii() else ""


def _refused(kind: str, alias: str, said: str, *, has_password: bool) -> BadKafkaConfig:
    """The error for what keytool said."""
    if "password was incorrect" in said:
        return BadKafkaConfig(
            f"the password of the store {'is wrong' if has_password else 'is missing'}", hint=_LIST_HINT
        )
    if alias and any(sign in said for sign in _KEY_SIGNS):
        return _wrong_key_password(alias)
    if any(sign in said for sign in _KEY_SIGNS):
        return BadKafkaConfig(
            f"the key has another password than the store, which Java's keytool does not read in {kind}",
            hint="give both one password, or convert the store to PEM by openssl pkcs12",
        )
    why = next((line for line in said.splitlines() if line.startswith("keytool error: ")), "keytool gives no reason")
    return BadKafkaConfig(
        f"Java cannot read the {kind} store: {why[:300]}", hint="list it: keytool -list -keystore STORE"
    )


def _run(command: list[str], variables: dict[str, str]) -> str:
    try:
        completed = subprocess.run(
            command,
            env={**os.environ, **variables},
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_KEYTOOL_LIMIT_S,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:  # such as a password with a zero
        raise BadKafkaConfig(f"keytool does not run: {type(error).__name__}", hint=_NO_KEYTOOL_HINT) from None
    return completed.stdout + completed.stderr


def _keytool() -> str:
    home = os.environ.get("JAVA_HOME")
    launcher = shutil.which("keytool", path=str(Path(home, "bin"))) if home else shutil.which("keytool")
    if launcher is None:
        raise BadKafkaConfig("PKCS12 and JCEKS stores need Java's keytool, which is not here", hint=_NO_KEYTOOL_HINT)
    return launcher
