"""What to back up and where, from options and from ksqlDB's own properties file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from offsite.metastore.names import NameForm, topic_of_service
from offsite.model.errors import BadOption, BadRepositoryUrl
from offsite.model.names import is_topic_name
from offsite.model.untrusted.place import parse_local
from offsite.model.untrusted.text import NotUtf8, decode_text, parse_properties

ENABLED = ("ksql.enable.metastore.backup", "ksql.metastore.enable.backup")
"""KLIP-31 spells the property both ways. ksqlDB reads the first spelling, and then keeps a backup of its own as
well."""
LOCATION = "ksql.metastore.backup.location"
SERVICE = "ksql.service.id"
DEFAULT_SERVICE = "default_"
"""ksqlDB's own default of `ksql.service.id`."""


class Switch(StrEnum):
    """Whether backups are wanted. `UNSAID`: absent from the properties, meaning off, as in KLIP-31."""

    ON = "on"
    OFF = "off"
    UNSAID = "unsaid"


_BOOLEANS = {"true": Switch.ON, "false": Switch.OFF}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastorePlace:
    """The command topic, the folder of its files, and the name form of new files."""

    topic: str
    location: Path
    form: NameForm
    switch: Switch = Switch.ON


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreWords:
    """The options, as typed. An option that is None comes from `properties`, a ksql-server.properties file."""

    topic: str | None
    service_id: str | None
    location: str | None
    properties: Path | None
    ksqldb_names: bool = False


def parse_place(words: MetastoreWords) -> MetastorePlace:
    """Raises `BadOption`."""
    settings = _settings(words.properties)
    location = _location(words.location, settings)
    return MetastorePlace(
        topic=parse_topic(words, settings),
        location=location,
        form=NameForm.KSQLDB if words.ksqldb_names else NameForm.KLIP,
        switch=Switch.ON if words.properties is None else _switch(settings, words.properties),
    )


def parse_location(location: str | None, properties: Path | None) -> Path:
    """The folder of the backup files. Raises `BadOption`."""
    return _location(location, _settings(properties))


def parse_topic(words: MetastoreWords, settings: Mapping[str, str] | None = None) -> str:
    """The command topic. Raises `BadOption`."""
    if words.topic and words.service_id is not None:
        raise BadOption("--topic and --service-id both name the topic", hint="give one of them")
    settings = _settings(words.properties) if settings is None else settings
    service = words.service_id if words.service_id is not None else settings.get(SERVICE, DEFAULT_SERVICE)
    if not words.topic and words.service_id is None and words.properties is None:
        raise BadOption(
            "no command topic is named", hint="name --topic, --service-id, or --properties of the ksqlDB server"
        )
    topic = words.topic or topic_of_service(service)
    if not is_topic_name(topic):
        raise BadOption(f"{topic!r} is not a topic name", hint="write letters, digits, '.', '_' and '-'")
    return topic


def _location(location: str | None, settings: Mapping[str, str]) -> Path:
    text = settings.get(LOCATION, "").strip() if location is None else location
    if location is None and not text:
        return _default_location()
    try:
        return Path(parse_local(text))
    except BadRepositoryUrl as error:
        named = LOCATION if location is None else "--location"
        raise BadRepositoryUrl(f"{named}: {error.message}", hint=error.hint) from error


def _default_location() -> Path:
    from offsite.repository.heads import memory_root

    try:
        return memory_root() / "metastore"
    except RuntimeError as error:
        hint = f"name a folder with --location, or {LOCATION} in --properties"
        raise BadOption("no folder for the backup files: this user has no home folder", hint=hint) from error


def _switch(settings: Mapping[str, str], properties: Path) -> Switch:
    said = {name: settings[name].strip().lower() for name in ENABLED if name in settings}
    if odd := next((name for name, text in said.items() if text not in _BOOLEANS), None):
        raise BadOption(f"{properties}: {odd} is neither true nor false", hint="write true")
    if len({*said.values()}) > 1:
        both = " and ".join(f"{name} is {text}" for name, text in said.items())
        raise BadOption(f"{properties}: {both}", hint="omit one of them")
    return _BOOLEANS[said.popitem()[1]] if said else Switch.UNSAID


def _settings(properties: Path | None) -> dict[str, str]:
    if properties is None:
        return {}
    try:
        text = decode_text(properties.read_bytes())
    except (OSError, NotUtf8) as error:
        raise BadOption(f"cannot read {properties}: {error}", hint="check --properties") from error
    return {setting.name: setting.value for setting in parse_properties(text)}
