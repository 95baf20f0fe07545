"""The `sasl.*` settings → `SaslConfig`, from a JAAS line as Java takes it or from librdkafka's names."""

from __future__ import annotations

import shlex

from offsite.kafka.config.config import MECHANISMS, SaslConfig, TokenSource
from offsite.kafka.config.jaas import LoginModule, parse_jaas
from offsite.kafka.config.secret import Secret
from offsite.kafka.config.settings import Settings

SASL_SETTINGS = frozenset(
    [
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.jaas.config",
        "sasl.username",
        "sasl.password",
        "sasl.oauthbearer.token.endpoint.url",
        "offsite.oauth.token",
        "offsite.oauth.token.file",
        "offsite.oauth.token.command",
    ]
)
_MODULES = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
}
_FILE_URL = "file://"
_SOURCE_HINT = "set offsite.oauth.token.file or offsite.oauth.token.command"


def read_sasl(settings: Settings) -> SaslConfig:
    """Raises `BadKafkaConfig` with file and line."""
    name = "sasl.mechanisms" if settings.has("sasl.mechanisms") else "sasl.mechanism"
    mechanism = settings.choice(name, MECHANISMS, "GSSAPI")
    if mechanism == "OAUTHBEARER":
        return SaslConfig(mechanism=mechanism, token=_token_source(settings))
    username, password = _credentials(settings, mechanism)
    return SaslConfig(mechanism=mechanism, username=username, password=password)


def _credentials(settings: Settings, mechanism: str) -> tuple[str, Secret]:
    if settings.has("sasl.jaas.config"):
        module = settings.parse("sasl.jaas.config", parse_jaas)
        _check_module(settings, module, mechanism)
        username, password = module.options.get("username", ""), module.options.get("password", "")
    else:
        username, password = settings.get("sasl.username"), settings.get("sasl.password")
    if not username or not password:
        place = "sasl.jaas.config" if settings.has("sasl.jaas.config") else "sasl.username"
        raise settings.bad(place, f"{mechanism} needs a username and a password", hint="set sasl.jaas.config")
    return username, Secret(password)


def _check_module(settings: Settings, module: LoginModule, mechanism: str) -> None:
    if mechanism not in _MODULES.get(module.name, ()):
        known = ", ".join(name for name, mechanisms in _MODULES.items() if mechanism in mechanisms)
        raise settings.bad("sasl.jaas.config", f"{module.name} does not do {mechanism}", hint=f"use {known}")


def _token_source(settings: Settings) -> TokenSource:
    url = settings.get("sasl.oauthbearer.token.endpoint.url")
    if static := settings.secret("offsite.oauth.token"):
        return TokenSource(static=static)
    if command := settings.get("offsite.oauth.token.command"):
        return TokenSource(command=tuple(shlex.split(command)))
    if path := settings.get("offsite.oauth.token.file") or url.removeprefix(_FILE_URL) * url.startswith(_FILE_URL):
        return TokenSource(file=path)
    if url:
        raise settings.bad("sasl.oauthbearer.token.endpoint.url", "only file:// is supported", hint=_SOURCE_HINT)
    raise settings.bad("sasl.mechanism", "OAUTHBEARER needs a token source", hint=_SOURCE_HINT)
