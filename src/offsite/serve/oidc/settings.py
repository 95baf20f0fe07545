"""The file of `offsite serve --oidc`: the identity provider, and the rights of its groups."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from offsite.kafka.config import TlsConfig
from offsite.model.errors import BadOption
from offsite.model.machine import can_others_reach, can_others_write, is_loopback
from offsite.model.secret import Secret
from offsite.model.untrusted.strict_yaml import TEXT_MAX_BYTES, BadYaml, YamlDocument, parse_yaml
from offsite.model.untrusted.text import NotUtf8, decode_text
from offsite.serve.browsers import name_of
from offsite.serve.tokens import Caller, parse_rights, with_limits
from offsite.serve.watched_file import WatchedFile

HINT = "see docs/how-to/login.md for such a file"
_SECRET_BYTES_MAX = 4096
_NAMED_MAX = 5
_Text = Annotated[str, Field(min_length=1, max_length=2_000)]
_Texts = Annotated[list[_Text], Field(min_length=1, max_length=1_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class RightsLine(_Strict):
    """The rights of one group."""

    group: _Text
    role: _Text
    backups: _Texts | None = None
    topics: _Texts | None = None
    until: str = ""


class _Document(_Strict):
    issuer: _Text
    client_id: _Text
    client_secret_file: _Text | None = None
    public_url: _Text
    scopes: _Texts = Field(default_factory=lambda: ["openid", "profile"])
    groups_claim: _Text | _Texts
    name_claim: _Text = "preferred_username"
    ca_file: _Text | None = None
    rights: Annotated[list[RightsLine], Field(min_length=1, max_length=1_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """The provider, and this client there. `groups_claim`: a path of names into the claims."""

    issuer: str
    client_id: str
    client_secret: Secret | None
    public_url: str
    scopes: tuple[str, ...]
    groups_claim: tuple[str, ...]
    name_claim: str
    tls: TlsConfig

    @property
    def place(self) -> str:
        """The provider for people."""
        return urlsplit(self.issuer).netloc


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRights:
    """`caller`: with the name of the group. `id`: names the group in a cookie. `tie`: what a session of the group rests
    on."""

    caller: Caller
    id: str
    tie: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """`rights`: the first line that names a group of a person counts."""

    provider: ProviderSettings
    rights: tuple[GroupRights, ...]

    def rights_of(self, groups: Iterable[str], *, now_s: int) -> GroupRights | None:
        held = frozenset(groups)
        return next((rights for rights in self._at(now_s) if rights.caller.name in held), None)

    def rights_by_id(self, id: str, *, now_s: int) -> GroupRights | None:  # noqa: A002  # as in the value
        return next((rights for rights in self._at(now_s) if rights.id == id), None)

    def _at(self, now_s: int) -> Iterator[GroupRights]:
        """The lines that have not expired."""
        return (rights for rights in self.rights if not rights.caller.is_over(now_s))


class OidcFile(WatchedFile[OidcSettings | None]):
    """The present settings of a file: a removed group takes effect at once. None while the file is unreadable or
    invalid: then nobody has rights by it. Raises the errors of `read_oidc`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, read_oidc, nothing=None, event="oidc")


def read_oidc(path: Path) -> OidcSettings:
    """Raises `BadOption` for an unreadable file, or an invalid or unsafe setting."""
    document = _document(path)
    provider = ProviderSettings(
        issuer=_https(document.issuer, "issuer", path),
        client_id=document.client_id,
        client_secret=_secret(path, document.client_secret_file),
        public_url=_public_url(document.public_url, path),
        scopes=_scopes(document.scopes, path),
        groups_claim=(document.groups_claim,) if isinstance(document.groups_claim, str) else (*document.groups_claim,),
        name_claim=document.name_claim,
        tls=TlsConfig(ca_pem=_ca(path, document.ca_file), trusts_machine=True),
    )
    rights = tuple(_rights(line, provider, path) for line in document.rights)
    if len({line.caller.name for line in rights}) < len(rights):
        raise BadOption(f"{path} names a group twice", hint="a person gets the rights of the first line that fits")
    return OidcSettings(provider=provider, rights=rights)


def _document(path: Path) -> _Document:
    try:
        if can_others_write(path.stat()):
            raise BadOption(
                f"{path} can be written by other users, who could give themselves rights",
                hint="become its owner, and: chmod go-w FILE",
            )
        with path.open("rb") as file:
            documents = parse_yaml(decode_text(file.read(TEXT_MAX_BYTES + 1)))
    except (OSError, NotUtf8) as error:
        raise BadOption(f"{path} cannot be read: {error}", hint=HINT) from error
    except BadYaml as error:
        raise BadOption(f"{path} is not valid: {error}", hint=HINT) from error
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise BadOption(f"{path} has to be one YAML document of names and values", hint=HINT)
    try:
        return _Document.model_validate(documents[0].value)
    except ValidationError as error:
        raise _bad_document(path, documents[0], error) from error


def _bad_document(path: Path, document: YamlDocument, error: ValidationError) -> BadOption:
    """Names fields, never values: a secret may be in the wrong field."""
    problems = []
    for detail in error.errors(include_url=False, include_context=False, include_input=False)[:_NAMED_MAX]:
        place = ".".join(str(part)[:60] for part in detail["loc"]) or "the document"
        said = {"extra_forbidden": "there is no such key", "missing": "it is required"}.get(detail["type"])
        problems.append(f"line {document.line_of(detail['loc'])}: {place}: {said or detail['msg']}")
    keys = ", ".join(_Document.model_fields)
    return BadOption(
        f"{path}: {'; '.join(problems)}",
        hint=f"keys are: {keys}; and for each line of rights: {', '.join(RightsLine.model_fields)}",
    )


def _https(url: str, what: str, path: Path) -> str:
    """Check a URL that is compared character by character."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise BadOption(f"{path}: {what} is not a URL", hint=HINT) from error
    if parts.username is not None or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise BadOption(f"{path}: {what} has to be a plain URL, without login, query and fragment", hint=HINT)
    if not parts.hostname or parts.scheme not in {"https", "http"}:
        raise BadOption(f"{path}: {what} is not an https URL", hint=HINT)
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise BadOption(
            f"{path}: {what} is an http URL: everybody on the way could log in as anybody",
            hint="use https; http is for this machine only",
        )
    return url


def _public_url(url: str, path: Path) -> str:
    """The address under which browsers reach this coordinator, without a slash at its end."""
    parts = urlsplit(_https(url, "public_url", path))
    if not name_of(f"//{parts.netloc}"):
        raise BadOption(f"{path}: public_url names no host", hint=HINT)
    if parts.path not in {"", "/"}:
        raise BadOption(
            f"{path}: public_url has a path", hint="pages are at the root of a host name: give it one of its own"
        )
    return url.rstrip("/")


def _scopes(scopes: list[str], path: Path) -> tuple[str, ...]:
    if "openid" not in scopes or any(not scope.isascii() or len(scope.split()) != 1 for scope in scopes):
        raise BadOption(f"{path}: scopes is a list of words with openid", hint="write it as: scopes: [openid, profile]")
    return tuple(scopes)


def _beside(path: Path, file: str) -> Path:
    """A file that is named in the file `path`: relative to its folder."""
    return path.parent / file


def _secret(path: Path, file: str | None) -> Secret | None:
    if file is None:
        return None
    place = _beside(path, file)
    try:
        if can_others_reach(place.stat()):
            raise BadOption(
                f"{place} holds the client secret, and can be read by other users",
                hint="become its owner, and: chmod 600 FILE",
            )
        with place.open("rb") as opened:
            secret = decode_text(opened.read(_SECRET_BYTES_MAX)).strip()
    except (OSError, NotUtf8) as error:
        raise BadOption(f"{place} cannot be read: {error}", hint="client_secret_file names a file") from error
    if not secret:
        raise BadOption(f"{place} is empty", hint="it holds the client secret, and nothing else")
    return Secret(secret)


def _ca(path: Path, file: str | None) -> str:
    if file is None:
        return ""
    place = _beside(path, file)
    try:
        text = place.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"{place} cannot be read: {error}", hint="ca_file names certificates in PEM") from error
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise BadOption(f"{place} holds no certificate", hint="ca_file names certificates in PEM")
    return text


def _rights(line: RightsLine, provider: ProviderSettings, path: Path) -> GroupRights:
    tie = hashlib.sha256(f"{provider.issuer}\0{provider.client_id}\0{line.group}".encode()).hexdigest()
    where = f"{path}, group {line.group[:60]!r}"
    backups, topics = (",".join(patterns or ()) for patterns in (line.backups, line.topics))
    caller = with_limits(
        parse_rights(line.group, line.role, where), where, backups=backups, topics=topics, until=line.until
    )
    return GroupRights(caller=caller, id=tie[:16], tie=tie)
