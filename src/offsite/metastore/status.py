"""The state of a command topic's backup, for people and for metrics: of a running backup, or of a folder
by its files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from offsite.metastore.backup_file import load, sidecar_of
from offsite.metastore.folder import BackupName, exposure_warning, parse_name, service_of_topic
from offsite.model.errors import OffsiteError
from offsite.stores.plain_files import wrap_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreStatus:
    """The backup of one topic. `service`: the ksqlDB service id in the topic's name, empty without one. `file`: the
    newest file; `older`: the number of files before it, one for each former topic. Times are epoch ms, -1 if unknown:
    of the newest command, and of the last write to the file. `problems`: why the backup is not safe. `unchecked`:
    commands in no sidecar, of which only the form was checked."""

    topic: str
    service: str
    file: Path
    safe: bool
    commands: int
    size_bytes: int
    last_command_ms: int
    written_ms: int
    older: int
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    unchecked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreStatusReport:
    location: Path
    safe: bool
    backups: tuple[MetastoreStatus, ...]


def metastore_status(location: Path) -> MetastoreStatusReport:
    """The status of all backups in a folder; empty without a folder. An unreadable file is a problem of its backup, and
    hides no other backup."""
    names = filter(None, (parse_name(path.name) for path in location.iterdir())) if location.is_dir() else ()
    by_topic: dict[str, list[BackupName]] = {}
    for name in names:
        by_topic.setdefault(name.topic, []).append(name)
    statuses = tuple(_status(location, topic, by_topic[topic]) for topic in sorted(by_topic))
    return MetastoreStatusReport(
        location=location, safe=bool(statuses) and all(status.safe for status in statuses), backups=statuses
    )


def _status(location: Path, topic: str, names: Iterable[BackupName]) -> MetastoreStatus:
    ordered = sorted(names, key=lambda name: (name.made_ms, name.form))
    path = location / str(ordered[-1])
    commands, unchecked, times, problems = 0, 0, [-1], list[str]()
    size_bytes, written_ms = 0, -1
    try:
        read = load(path)
        with wrap_errors("read", str(path)):
            stat = path.stat()
            size_bytes, written_ms = stat.st_size, int(stat.st_mtime * 1000)
    except OffsiteError as error:
        problems.append(f"{error.id}: {error.message}")
    else:
        commands, unchecked = len(read.commands), sum(not command.described for command in read.commands)
        times += [command.record.timestamp_ms for command in read.commands]
        problems += [
            f"line {problem.line}: {problem.what}" if problem.line else problem.what for problem in read.problems
        ]
        if not commands:
            problems.append("it has no commands")
    return MetastoreStatus(
        topic=topic,
        service=service_of_topic(topic),
        file=path,
        safe=not problems,
        commands=commands,
        size_bytes=size_bytes,
        last_command_ms=max(times),
        written_ms=written_ms,
        older=len(ordered) - 1,
        problems=tuple(problems),
        warnings=tuple(
            filter(
                None,
                (
                    exposure_warning(exposed_path)
                    for exposed_path in (location, path, sidecar_of(path))
                    if exposed_path.exists()
                ),
            )
        ),
        unchecked=unchecked,
    )


class MetastoreVerdict(StrEnum):
    CURRENT = "current"
    """The file has all commands of the topic, and no more."""
    EMPTY = "empty"
    """Neither the topic, if any, nor a file has a command."""
    GONE = "gone"
    """The topic is gone, and the file has commands."""
    EMPTIED = "emptied"
    """The topic has no command, and the file has commands."""
    SHORTENED = "shortened"
    """The topic ends before its file does."""
    TRIMMED = "trimmed"
    """The file has all commands of the topic, and an older file has more commands of the same topic."""

    @property
    def is_alarm(self) -> bool:
        return self in {
            MetastoreVerdict.GONE,
            MetastoreVerdict.EMPTIED,
            MetastoreVerdict.SHORTENED,
            MetastoreVerdict.TRIMMED,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreView:
    """The state of a backup. `commands`: in the file; `appended`: by this process; `missing`: no longer in the topic.
    `last_command_ms`: the time of the newest command; `seen_ms`: when the topic was last read to its end; both epoch
    ms, -1 for never. `flush_s`: seconds until the newest commands were on disk. `diverged`: the reason for a new file
    begun by this process; `repairs`: repaired damage; empty for none. `older`: the file with the missing commands, if
    not `file`. `undecided`: unreadable offsets from the oldest open transaction on, and since when (epoch ms, -1 for
    none). `is_there`: whether the topic exists."""

    topic: str
    verdict: MetastoreVerdict
    file: Path | None
    commands: int = 0
    appended: int = 0
    missing: int = 0
    size_bytes: int = 0
    last_command_ms: int = -1
    seen_ms: int = -1
    flush_s: float = 0.0
    diverged: str = ""
    repairs: tuple[str, ...] = ()
    older: Path | None = None
    undecided: int = 0
    undecided_since_ms: int = -1
    is_there: bool = True
