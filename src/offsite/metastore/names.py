"""Names of backup files and of command topics. Pure.

Two forms: `TOPIC_SECONDS.bak`, from KLIP-31, and `backup_TOPIC_MILLISECONDS`, as ksqlDB writes and finds it (class
CommandTopicBackupImpl). ksqlDB searches for its file by a lower-case name, and so never finds the file of a service id
with upper-case letters. Here letter case counts; if no file matches exactly, letter case is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from offsite.model.names import is_topic_name

_KLIP = re.compile(r"(?P<topic>.+)_(?P<number>[0-9]{1,15})\.bak")
_KSQLDB = re.compile(r"backup_(?P<topic>.+)_(?P<number>[0-9]{1,18})")
_MADE_BEFORE_MS = 4_102_444_800_000
"""The year 2100. A file with a later time in its name would be the newest forever, and is foreign."""
_COMMAND_TOPIC = re.compile(r"_confluent-ksql-(?P<service>.+)_command_topic")


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
