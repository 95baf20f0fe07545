"""The file of `--registry-config`: how to log in at a schema registry, by the names of Confluent's clients, with or
without `schema.registry.` in front. A file may serve further tools, so what is unknown is passed over. No error holds a
value that may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from offsite.kafka.config import TokenEndpoint, TokenSource
from offsite.kafka.security_settings import ClientSettings, read_tls
from offsite.model.errors import BadKafkaConfig, BadOption, BadRegistry
from offsite.model.journal import warned
from offsite.model.machine import exposure
from offsite.model.secret import Secret
from offsite.model.untrusted.text import NotUtf8, decode_text, parse_properties
from offsite.schemas.registry_client import BasicLogin, RegistryAddress, parse_registry_url

_PREFIX = "schema.registry."
_USER_INFO, _TOKEN = "basic.auth.user.info", "bearer.auth.token"
_ISSUER = "bearer.auth.issuer.endpoint.url"
_SOURCES = {
    "basic.auth.credentials.source": ("USER_INFO",),
    "bearer.auth.credentials.source": ("STATIC_TOKEN", "OAUTHBEARER"),
}
_HEADERS = {
    "bearer.auth.logical.cluster": "target-sr-cluster",
    "bearer.auth.identity.pool.id": "Confluent-Identity-Pool-Id",
}
IN_CLEAR = "offsite.registry.in.clear"
_HINT = "check --registry-config"


def read_registry_config(path: Path) -> RegistryAddress:
    """The login in a file, without an address (`url` is empty). Raises `BadRegistry` with file and line."""
    try:
        text = decode_text(path.read_bytes())
    except OSError as error:
        raise BadRegistry(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    except NotUtf8 as error:
        raise BadRegistry(f"cannot read {path}: {error}", hint=_HINT) from error
    address = parse_registry_config(text, source=str(path))
    why = exposure(path.stat()) if address.login is not None else ""
    if why:
        warned("exposed_secret", why=f"{path} contains a secret, and {why}")
    return address


def parse_registry_config(text: str, *, source: str) -> RegistryAddress:
    """The login in the text of a properties file. `source`: the name of the file in errors. Raises `BadRegistry`."""
    named = (replace(setting, name=setting.name.removeprefix(_PREFIX)) for setting in parse_properties(text))
    settings = ClientSettings(source, named)
    try:
        return RegistryAddress(
            url="",
            login=_login(settings),
            tls=read_tls(settings),
            headers=tuple(_headers(settings)),
            allows_clear=settings.choice(IN_CLEAR, ("TRUE", "FALSE"), "FALSE") == "TRUE",
        )
    except BadKafkaConfig as error:
        raise BadRegistry(error.message, hint=error.hint) from error


def registry_at(url: str, access: RegistryAddress) -> RegistryAddress:
    """The registry at `url`, with the login of `access`. Raises `BadOption` for an impossible address, `BadRegistry`
    where a login would go over a network in clear text."""
    address = replace(access, url=parse_registry_url(url))
    if address.sends_login_in_clear and not address.allows_clear:
        raise BadRegistry(
            f"the login would go to {address.url} over the network in clear text",
            hint=f"use https; or set {IN_CLEAR}=true in the file of --registry-config",
        )
    return address


def read_registry_if_named(url: str | None, config: Path | None) -> RegistryAddress | None:
    """As `read_registry_at`; None where no registry is named. Raises `BadOption` for a login without one."""
    if url:
        return read_registry_at(url, config)
    if config is not None:
        raise BadOption("--registry-config works only with a registry", hint="add --registry URL")
    return None


def read_registry_at(url: str, config: Path | None) -> RegistryAddress:
    """The registry at `url`, with the login of the file, if there is one. Raises as `read_registry_config` and
    `registry_at`."""
    return registry_at(url, RegistryAddress(url="") if config is None else read_registry_config(config))


def _login(settings: ClientSettings) -> BasicLogin | TokenSource | None:
    for name, sources in _SOURCES.items():
        settings.choice(name, sources, sources[0])
    if settings.has(_USER_INFO):
        user, colon, password = settings.get(_USER_INFO).partition(":")
        if not user or not colon:
            raise settings.bad_setting(_USER_INFO, "it is not USER:PASSWORD")
        return BasicLogin(user=user, password=Secret(password))
    if token := settings.secret(_TOKEN):
        return TokenSource(static=token)
    if not settings.has(_ISSUER):
        return None
    names = ("bearer.auth.client.id", "bearer.auth.client.secret")
    if missing := [name for name in names if not settings.get(name)]:
        raise settings.bad_setting(missing[0], "it is not set", hint=f"{_ISSUER} needs {' and '.join(names)}")
    endpoint = TokenEndpoint(
        url=settings.get(_ISSUER),
        client_id=settings.get(names[0]),
        client_secret=settings.secret(names[1]),
        scope=settings.get("bearer.auth.scope"),
    )
    return TokenSource(endpoint=endpoint)


def _headers(settings: ClientSettings) -> Iterator[tuple[str, str]]:
    for name, header in _HEADERS.items():
        header_text = settings.get(name)
        if header_text and not (header_text.isascii() and header_text.isprintable()):
            raise settings.bad_setting(name, "it is not plain text")
        if header_text:
            yield header, header_text
