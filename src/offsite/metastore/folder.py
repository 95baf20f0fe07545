"""The folder of a metastore's backup files: named by options or by ksqlDB's own properties file, created for its owner
alone, listed, and locked for one writer per topic.

Names have two forms: `TOPIC_SECONDS.bak`, from KLIP-31, and `backup_TOPIC_MILLISECONDS`, as ksqlDB writes and finds it
(class CommandTopicBackupImpl). ksqlDB searches for its file by a lower-case name, and so never finds the file of a
service id with upper-case letters. Here letter case counts; if no file matches exactly, letter case is ignored.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from offsite.model.errors import BackupFileInUse, BadOption, BadRepositoryUrl
from offsite.model.names import is_topic_name
from offsite.model.untrusted.place import parse_local
from offsite.model.untrusted.text import NotUtf8, decode_text, parse_properties
from offsite.stores.plain_files import wrap_errors

_KLIP = re.compile(r"(?P<topic>.+)_(?P<number>[0-9]{1,15})\.bak")
_KSQLDB = re.compile(r"backup_(?P<topic>.+)_(?P<number>[0-9]{1,18})")
_MADE_BEFORE_MS = 4_102_444_800_000
"""The year 2100. A file with a later time in its name would be the newest forever, and is foreign."""
_COMMAND_TOPIC = re.compile(r"_confluent-ksql-(?P<service>.+)_command_topic")
_MODE = 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
ENABLED = ("ksql.enable.metastore.backup", "ksql.metastore.enable.backup")
"""KLIP-31 spells the property both ways. ksqlDB reads the first spelling, and then keeps a backup of its own as
well."""
LOCATION = "ksql.metastore.backup.location"
SERVICE = "ksql.service.id"
DEFAULT_SERVICE = "default_"
"""ksqlDB's own default of `ksql.service.id`."""


class NameForm(StrEnum):
    KLIP = "klip"
    KSQLDB = "ksqldb"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupName:
    """The name of a backup file. `made_ms`: when the file was begun, epoch ms, by the clock of its machine."""

    topic: str
    made_ms: int
    form: NameForm

    def __str__(self) -> str:
        if self.form is NameForm.KSQLDB:
            return f"backup_{self.topic}_{self.made_ms}"
        return f"{self.topic}_{self.made_ms // 1000}.bak"

    def next(self) -> BackupName:
        """The first name after this name."""
        step_ms = 1 if self.form is NameForm.KSQLDB else 1000
        return BackupName(topic=self.topic, made_ms=self.made_ms + step_ms, form=self.form)


def parse_name(text: str) -> BackupName | None:
    """None if the text is not the name of a backup file. Excludes sidecars, working files of ksqlDB, and non-canonical
    names."""
    for form, pattern, unit_ms in ((NameForm.KSQLDB, _KSQLDB, 1), (NameForm.KLIP, _KLIP, 1000)):
        if match := pattern.fullmatch(text):
            name = BackupName(topic=match["topic"], made_ms=int(match["number"]) * unit_ms, form=form)
            is_one = str(name) == text and is_topic_name(name.topic) and name.made_ms < _MADE_BEFORE_MS
            return name if is_one else None
    return None


def backups_of(topic: str, names: Iterable[str]) -> list[BackupName]:
    """The backup files of a topic among the names of a folder, oldest first. If no name has the topic's letter case:
    names in other cases, if all agree."""
    parsed = sorted(filter(None, map(parse_name, names)), key=lambda name: (name.made_ms, name.form))
    exact = [name for name in parsed if name.topic == topic]
    alike = [name for name in parsed if name.topic.lower() == topic.lower()]
    return exact or (alike if len({name.topic for name in alike}) == 1 else [])


def topic_of_service(service_id: str) -> str:
    """The command topic of a ksqlDB service (property `ksql.service.id`)."""
    return f"_confluent-ksql-{service_id}_command_topic"


def service_of_topic(topic: str) -> str:
    """The service id in the name of a command topic; empty for other names."""
    match = _COMMAND_TOPIC.fullmatch(topic)
    return match["service"] if match else ""


def make_folder(folder: Path) -> None:
    """Create the folder if missing. Raises `BadOption` if the path is no folder or may not be used, and errors of
    creating a folder."""
    with wrap_errors("make", str(folder)):
        folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise BadOption(
            f"{folder} may not be read and written",
            hint="give the user that runs offsite read and write access to the folder",
        )


def exposure_warning(path: Path) -> str:
    """A warning if others than the owner may read a file or folder: the commands of a metastore can hold secrets. Empty
    if only the owner may."""
    mode = path.stat().st_mode
    if not mode & _OTHERS:
        return ""
    return f"{path} can be read by others than its owner ({stat.filemode(mode)}): chmod go= {path}"


def list_backups(folder: Path, topic: str) -> list[BackupName]:
    """The backup files of a topic, oldest first; none without a folder."""
    return backups_of(topic, (path.name for path in folder.iterdir() if path.is_file())) if folder.is_dir() else []


@contextmanager
def locked(folder: Path, topic: str) -> Iterator[None]:
    """A block that alone writes backup files of the topic in this folder. The lock ends with the process. Raises
    `BackupFileInUse`."""
    path = folder / f".{topic.lower()}.lock"
    with wrap_errors("lock", str(path)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupFileInUse(
                f"another process backs {topic} up into {folder}",
                hint="one process is enough; stop the other process first, or use another folder",
            ) from error
        yield
    finally:
        os.close(file)


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
