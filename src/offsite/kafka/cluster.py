"""A Kafka cluster to work with, from user input: from addresses, or from the settings of Kafka users (Java's names or
librdkafka's).

Unknown settings are reported, not refused: the file usually serves further tools. Bad values are refused with file and
line, and no error holds a value that may be a secret. Certificate files are read here, once: on the driver, or on every
executor where secrets are read on executors.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.config import PROTOCOLS, BrokerAddress, KafkaConfig, SaslConfig, parse_bootstrap
from offsite.kafka.config_providers import is_of_providers, named_files, resolve
from offsite.kafka.net.routing import shared_router
from offsite.kafka.oauth_settings import OAUTH_KEY_FILES, OAUTH_SETTINGS, oauth_warnings, read_token_source
from offsite.kafka.security_settings import (
    SASL_SETTINGS,
    TLS_SETTINGS,
    ClientSettings,
    read_sasl,
    read_tls,
    tls_warnings,
)
from offsite.model.errors import BadKafkaConfig
from offsite.model.journal import warned
from offsite.model.machine import exposure
from offsite.model.secret import Secret
from offsite.model.untrusted.text import NotUtf8, decode_text, parse_properties

_SERVERS = ("bootstrap.servers", "metadata.broker.list")
_RACK = ("client.rack", "rack.id")
_TIMEOUT = ("request.timeout.ms", "socket.timeout.ms")
_OWN = frozenset({*_SERVERS, *_RACK, *_TIMEOUT, "client.id", "security.protocol"})
_KNOWN = _OWN | TLS_SETTINGS | SASL_SETTINGS | OAUTH_SETTINGS
_DEFAULT_TIMEOUT_MS = 30_000
_OF_SECRETS = ("password", "secret", "jaas", "keystore.key", "key.pem")
"""Words in the names of settings whose values are secrets."""
_KEY_FILES = frozenset({"ssl.keystore.location", "ssl.key.location"}) | OAUTH_KEY_FILES


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Kafka cluster: the configuration for workers, and the driver's own connection. `warnings`: unused
    properties."""

    config: KafkaConfig
    admin: ClusterAdmin
    warnings: tuple[str, ...] = ()


def connect(bootstrap: str | None, kafka_config: Path | None) -> Cluster:
    """The cluster at `bootstrap`, which overrides the file's `bootstrap.servers`. Asks nothing of the cluster. Raises
    `BadKafkaConfig`."""
    if kafka_config is not None:
        properties = read_client_properties(kafka_config, bootstrap=bootstrap or "")
        return _cluster(properties.config, tuple(properties.warnings))
    if not bootstrap:
        raise BadKafkaConfig(
            "no Kafka cluster given",
            hint="give its brokers with --bootstrap host:9092, OFFSITE_BOOTSTRAP or --kafka-config",
        )
    return _cluster(KafkaConfig(bootstrap=parse_bootstrap(bootstrap, protocol="PLAINTEXT")))


def connect_as(bootstrap: str, username: str, password: str) -> Cluster:
    """A cluster on the local machine with a single user, by PLAIN."""
    sasl = SaslConfig(mechanism="PLAIN", username=username, password=Secret(password))
    return _cluster(KafkaConfig(bootstrap=parse_bootstrap(bootstrap), sasl=sasl))


def _cluster(config: KafkaConfig, warnings: tuple[str, ...] = ()) -> Cluster:
    if hosts := config.cleartext_hosts:
        mechanism = _mechanism(config)
        secret = "token" if mechanism == "OAUTHBEARER" else "password"
        why = f"{mechanism} sends the {secret} over the network unencrypted: use security.protocol=SASL_SSL, or SCRAM"
        warned("unencrypted", why=why, hosts=",".join(hosts))
    return Cluster(config=config, admin=ClusterAdmin(shared_router(config)), warnings=warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProperties:
    """The configuration, and one line per unknown setting."""

    config: KafkaConfig
    warnings: tuple[str, ...] = ()


def read_client_properties(path: Path, *, bootstrap: str = "") -> ClientProperties:
    """Read a properties file. `bootstrap`, if given, wins over the file. Raises `BadKafkaConfig`."""
    try:
        text = decode_text(path.read_bytes())
    except OSError as error:
        raise BadKafkaConfig(f"cannot read {path}: {error.strerror}", hint="check --kafka-config") from error
    except NotUtf8 as error:
        raise BadKafkaConfig(f"cannot read {path}: {error}", hint="check --kafka-config") from error
    properties = parse_client_properties(text, source=str(path), bootstrap=bootstrap)
    config = properties.config
    files = [(file, exposure(file.stat())) for file in _secret_files(path, text, config) if file.is_file()]
    exposure_warnings = (f"{file} contains a secret, and {why}" for file, why in files if why)
    properties = replace(properties, warnings=(*properties.warnings, *exposure_warnings))
    again = ExecutorConfigReader(
        path=str(path),
        bootstrap=",".join(map(str, config.bootstrap)),
        protocol=config.security_protocol,
        mechanism=_mechanism(config),
    )
    return replace(properties, config=replace(config, read_again=again))


def _secret_files(path: Path, text: str, config: KafkaConfig) -> Iterator[Path]:
    if config.has_secret:
        yield path
    properties = parse_properties(text)
    yield from (file for name, file in named_files(properties) if any(word in name for word in _OF_SECRETS))
    for setting in properties:
        if setting.name in _KEY_FILES and setting.value:
            yield Path(setting.value)
    if config.sasl is not None and config.sasl.kerberos is not None:
        yield from map(Path, filter(None, (config.sasl.kerberos.keytab, config.sasl.kerberos.ticket_cache)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorConfigReader:
    """Reads the properties file of the executor at `path`, as the driver read the driver's file; a relative path begins
    at the working folder of the process. `bootstrap`: the driver's brokers, whatever the executor's file says, because
    a run must not move data of two clusters. `protocol` and `mechanism` (empty without SASL): the driver's. The
    executor's file must name the same, because the file must not switch off encryption or login in silence. Raises
    `BadKafkaConfig` with the executor's name."""

    path: str
    bootstrap: str
    protocol: str
    mechanism: str

    def __call__(self) -> KafkaConfig:
        try:
            return self._as_secured(read_client_properties(Path(self.path), bootstrap=self.bootstrap).config)
        except BadKafkaConfig as error:
            raise BadKafkaConfig(
                f"on the executor {socket.gethostname()}: {error.message}",
                hint="--secrets on-executors reads the file of --kafka-config there: put it at the same path on each",
            ) from error

    def _as_secured(self, config: KafkaConfig) -> KafkaConfig:
        self._check_same("security.protocol", config.security_protocol, self.protocol)
        self._check_same("sasl.mechanism", _mechanism(config), self.mechanism)
        return config

    def _check_same(self, name: str, here: str, of_driver: str) -> None:
        if here != of_driver:
            raise BadKafkaConfig(f"{self.path}: {name} is {here} here, and {of_driver} where the command runs")


def _mechanism(config: KafkaConfig) -> str:
    return "" if config.sasl is None else config.sasl.mechanism


def parse_client_properties(text: str, *, source: str, bootstrap: str = "") -> ClientProperties:
    """Read the text of a properties file. `source`: the file's name in errors. Raises `BadKafkaConfig`."""
    properties = resolve(parse_properties(text), source=source)
    settings = ClientSettings(source, (setting for setting in properties if not is_of_providers(setting.name)))
    protocol = settings.choice("security.protocol", PROTOCOLS, "PLAINTEXT")
    config = KafkaConfig(
        bootstrap=_bootstrap(settings, bootstrap, protocol),
        client_id=settings.get("client.id") or "offsite",
        rack_id=settings.get(*_RACK),
        request_timeout_ms=settings.milliseconds(*_TIMEOUT, default=_DEFAULT_TIMEOUT_MS),
        tls=read_tls(settings) if protocol.endswith("SSL") else None,
        sasl=_read_login(settings) if protocol.startswith("SASL") else None,
    )
    warnings = list(settings.unknown(_KNOWN))
    if config.tls is not None:
        warnings += tls_warnings(settings, config.tls)
    if config.sasl is not None and config.sasl.token is not None:
        warnings += oauth_warnings(settings, config.sasl.token)
    return ClientProperties(config=config, warnings=tuple(warnings))


def _read_login(settings: ClientSettings) -> SaslConfig:
    sasl = read_sasl(settings)
    return replace(sasl, token=read_token_source(settings)) if sasl.mechanism == "OAUTHBEARER" else sasl


def _bootstrap(settings: ClientSettings, override: str, protocol: str) -> tuple[BrokerAddress, ...]:
    parse = partial(parse_bootstrap, protocol=protocol)
    if override:
        return parse(override)
    return settings.parse(next((name for name in _SERVERS if settings.has(name)), _SERVERS[0]), parse)
