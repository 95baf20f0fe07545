"""The `sasl.*` settings → `SaslConfig`, from librdkafka's names or from a JAAS line.

A JAAS line is a login module with options, in the form of Kafka's Java clients.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from offsite.kafka.config.config import MECHANISMS, SaslConfig, TokenSource
from offsite.kafka.config.settings import ClientSettings
from offsite.model.errors import BadKafkaConfig
from offsite.model.secret import Secret

_OPTION = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""", re.DOTALL)
_HEAD = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)", re.IGNORECASE)
_END = re.compile(r"\s*;?\s*")
_HINT = 'write it as: …PlainLoginModule required username="me" password="secret";'
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """One login module of a JAAS line. `name`: the class without package. Options hold secrets, so options are never
    printed."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, options {sorted(self.options)})"


def parse_jaas(text: str) -> LoginModule:
    """Parse a JAAS line into a login module. Raises `BadKafkaConfig` without the text, because the text holds a
    password."""
    head = _HEAD.match(text)
    if head is None:
        raise BadKafkaConfig("sasl.jaas.config is not `<login module> required <options>;`", hint=_HINT)
    options, position = dict[str, str](), head.end()
    while option := _OPTION.match(text, position):
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        position = option.end()
    if not _END.fullmatch(text, position):
        raise BadKafkaConfig(f"sasl.jaas.config cannot be parsed from character {position + 1}", hint=_HINT)
    return LoginModule(name=head[1].rpartition(".")[2], options=options)


def read_sasl(settings: ClientSettings) -> SaslConfig:
    """Read the login out of the `sasl.*` settings. Raises `BadKafkaConfig` with file and line."""
    name = "sasl.mechanisms" if settings.has("sasl.mechanisms") else "sasl.mechanism"
    mechanism = settings.choice(name, MECHANISMS, "GSSAPI")
    if mechanism == "OAUTHBEARER":
        return SaslConfig(mechanism=mechanism, token=_token_source(settings))
    username, password = _credentials(settings, mechanism)
    return SaslConfig(mechanism=mechanism, username=username, password=password)


def _credentials(settings: ClientSettings, mechanism: str) -> tuple[str, Secret]:
    if settings.has("sasl.jaas.config"):
        module = settings.parse("sasl.jaas.config", parse_jaas)
        _check_module(settings, module, mechanism)
        username, password = module.options.get("username", ""), module.options.get("password", "")
    else:
        username, password = settings.get("sasl.username"), settings.get("sasl.password")
    if not username or not password:
        place = "sasl.jaas.config" if settings.has("sasl.jaas.config") else "sasl.username"
        raise settings.bad_setting(place, f"{mechanism} needs a username and a password", hint="set sasl.jaas.config")
    return username, Secret(password)


def _check_module(settings: ClientSettings, module: LoginModule, mechanism: str) -> None:
    if mechanism not in _MODULES.get(module.name, ()):
        modules = ", ".join(name for name, mechanisms in _MODULES.items() if mechanism in mechanisms)
        raise settings.bad_setting(
            "sasl.jaas.config", f"{module.name} does not support {mechanism}", hint=f"use {modules}"
        )


def _token_source(settings: ClientSettings) -> TokenSource:
    url = settings.get("sasl.oauthbearer.token.endpoint.url")
    if static := settings.secret("offsite.oauth.token"):
        return TokenSource(static=static)
    if command := settings.get("offsite.oauth.token.command"):
        return TokenSource(command=tuple(shlex.split(command)))
    if path := settings.get("offsite.oauth.token.file") or url.removeprefix(_FILE_URL) * url.startswith(_FILE_URL):
        return TokenSource(file=path)
    if url:
        raise settings.bad_setting(
            "sasl.oauthbearer.token.endpoint.url", "only file:// is supported", hint=_SOURCE_HINT
        )
    raise settings.bad_setting("sasl.mechanism", "OAUTHBEARER needs a token source", hint=_SOURCE_HINT)
