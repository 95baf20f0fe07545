"""Certificates for tests, made anew for each run: one authority, one server, one client."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFETIME = datetime.timedelta(days=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """PEM files. `server` and `client_store` hold a key and its chain; the client's parts exist apart as well."""

    authority: Path
    server: Path
    client_store: Path
    client_certificate: Path
    client_key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Issued:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def make_certificates(folder: Path, *, client_group: str = "") -> Certificates:
    """The server's certificate is for `localhost` and 127.0.0.1; the client's name is `CN=client`, its group `O=`."""
    authority = _issue("offsite test authority", issuer=None)
    server = _issue("localhost", issuer=authority)
    client = _issue("client", issuer=authority, group=client_group)
    files = {
        "authority": authority.certificate_pem(),
        "server": server.key_pem() + server.certificate_pem(),
        "client_store": client.key_pem() + client.certificate_pem(),
        "client_certificate": client.certificate_pem(),
        "client_key": client.key_pem(),
    }
    paths = {name: folder / f"{name}.pem" for name in files}
    for name, content in files.items():
        paths[name].write_bytes(content)
    return Certificates(**paths)


def _issue(common_name: str, *, issuer: _Issued | None, group: str = "") -> _Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    organization = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    subject = x509.Name([*organization, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signer = issuer.key if issuer else key
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - LIFETIME)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _Issued(key=key, certificate=certificate)
