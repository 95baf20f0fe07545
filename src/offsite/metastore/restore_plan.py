"""The plan of a restore of a command topic, decided in full before any change.

The commands are placed in the new log at their original offsets, if possible. ksqlDB names a query by the offset of its
command: `CSAS_ORDERS_12`. With other offsets a later query could take the name, the state and the consumer group of an
earlier query. ksqlDB writes each command in a transaction of its own, whose marker takes the next offset; so the same
log can be written again. Unused offsets are filled by transactions without data, each with only a marker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path

from offsite.log.records.record import Record
from offsite.metastore.backup_file import load
from offsite.metastore.folder import parse_name
from offsite.metastore.reading import UNKNOWN, ReadBackup
from offsite.metastore.source import CommandSource
from offsite.metastore.stored_command import json_or_none
from offsite.model.errors import BackupFileDamaged, BadOption
from offsite.model.names import amount

FILLED_MAX = 1_000
"""Offsets without a command to fill at most, one after the other, a few milliseconds each. More would take minutes."""
VERSION = 18
"""The newest command version of ksqlDB so far."""
_TOLD_MAX = 1_000_000
_KEY = re.compile(r"(topic|stream|table|cluster|type|pause|resume|terminate)/.+/[a-z_]+", re.DOTALL | re.IGNORECASE)
_NAMED_MAX = 5
KEEPS_ALL: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}
"""Settings of a command topic: a setting that deletes or loses commands would lose a part of the metastore."""
_ROOM_BYTES = 4096
"""Bytes of a batch beside its record, with a margin."""
_HEADER_BYTES = 10
"""Bytes of a header beside name and value, at most: two lengths."""
_DEFAULT_BATCH_BYTES = 1_048_588
"""Kafka's default of max.message.bytes (TopicConfig)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Consecutive records, committed together; `records` may be empty. A marker follows."""

    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The transactions in order. `same_offsets`: each command gets its original offset, if known; else `why` not, and
    each command is in a transaction of its own. `filled`: the number of filled offsets."""

    transactions: tuple[Transaction, ...]
    same_offsets: bool
    filled: int
    why: str = ""


def plan_placement(records: Sequence[Record]) -> Placement:
    """How to write `records` into an empty log."""
    described = list(takewhile(lambda record: record.offset != UNKNOWN, records))
    undescribed = records[len(described) :]  # a crash may leave lines without entries
    if why := _why_not(described, undescribed):
        return Placement(transactions=_each_alone(records), same_offsets=False, filled=0, why=why)
    transactions: list[Transaction] = []
    end = 0
    for run in _runs(described):
        gap = run[0].offset - end
        transactions += [Transaction(records=())] * gap
        transactions.append(Transaction(records=tuple(run)))
        end = run[-1].offset + 2  # the marker takes the next offset
    filled = sum(not transaction.records for transaction in transactions)
    return Placement(transactions=(*transactions, *_each_alone(undescribed)), same_offsets=True, filled=filled)


def at_its_offset(record: Record, expected: Record) -> bool:
    """Whether a command is at its original offset, if known."""
    return expected.offset in {UNKNOWN, record.offset}


def _each_alone(records: Sequence[Record]) -> tuple[Transaction, ...]:
    return tuple(Transaction(records=(record,)) for record in records)


def _why_not(described: Sequence[Record], undescribed: Sequence[Record]) -> str:
    offsets = [record.offset for record in described]
    if not described or any(record.offset != UNKNOWN for record in undescribed):
        return "the file does not record the offsets"
    if any(after <= before for before, after in pairwise(offsets)):
        return "the offsets in the file are not in rising order"
    gaps = offsets[-1] + 2 - sum(len(run) + 1 for run in _runs(described))
    return f"{amount(gaps, 'offset')} without a command would have to be filled" if gaps > FILLED_MAX else ""


def _runs(records: Sequence[Record]) -> list[list[Record]]:
    """Runs of records at consecutive offsets, without a marker between them."""
    runs: list[list[Record]] = []
    for record in records:
        if runs and record.offset == runs[-1][-1].offset + 1:
            runs[-1].append(record)
        else:
            runs.append([record])
    return runs


def why_incompatible(record: Record, *, version: int = VERSION) -> str:
    """Why a ksqlDB with the newest command version `version` refuses the command; empty if it accepts the command.

    ksqlDB refuses a command of an unknown newer version, and an unreadable command (its classes CommandId and Command);
    the server then runs degraded. Its restore refuses the whole file, or skips such commands on request
    (`--skip-incompatible-commands`).
    """
    if record.key is None or record.value is None:
        return "it has no key" if record.key is None else "it has no value"
    key, command = json_or_none(record.key), json_or_none(record.value)
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        return "its key is not TYPE/ENTITY/ACTION"
    if not isinstance(command, dict) or not isinstance(command.get("statement"), str):
        return "its value is not a command with a statement"
    command_version = command.get("version")
    if command_version is None or (type(command_version) is int and command_version <= version):
        return ""
    is_number = (
        type(command_version) is int and command_version < _TOLD_MAX
    )  # other values can be megabytes, and hostile
    return (
        f"it has version {command_version}, but ksqlDB knows {version}"
        if is_number
        else "its version is not a version number"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTopic:
    """The existing topic: its commands, its own settings, and its replication factor. `undecided`: a transaction is
    open, and later commands are not among `records`, committed or not. `end`: the high watermark."""

    records: Sequence[Record]
    configs: Mapping[str, str]
    replication_factor: int
    undecided: bool = False
    end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreRestorePlan:
    """The plan of a restore. `skipped`: (number of the command, reason) of the commands left out; `incompatible`: the
    same for commands restored although ksqlDB would refuse them. `is_there_already`: the topic holds the commands; only
    the settings in `lacking`, by which the topic would lose commands, are corrected. `torn_bytes`: of a line torn by a
    crash, left out."""

    file: Path
    topic: str
    commands: int
    placement: Placement
    existing: ExistingTopic | None
    configs: Mapping[str, str]
    replication_factor: int
    skipped: tuple[tuple[int, str], ...]
    incompatible: tuple[tuple[int, str], ...]
    is_there_already: bool
    lacking: Mapping[str, str]
    torn_bytes: int

    @property
    def changes_nothing(self) -> bool:
        return self.is_there_already and not self.lacking


def plan_restore(
    source: CommandSource, file: Path, *, existing: ExistingTopic | None, brokers: int, skip_incompatible: bool
) -> MetastoreRestorePlan:
    """The plan for a cluster with `brokers` brokers. Raises `BackupFileDamaged`, `BadOption` for a file without
    commands, and errors of reading the file."""
    read = load(file)
    _check_sound(file, read)
    odd = [(command.number, why) for command in read.commands if (why := why_incompatible(command.record))]
    left_out = {number for number, _ in odd} if skip_incompatible else set()
    records = [command.record for command in read.commands if command.number not in left_out]
    if not records:
        raise BadOption(
            f"{file} has no commands to restore",
            hint="check that it is the newest file; an older file may have more commands",
        )
    placement = plan_placement(records)
    return MetastoreRestorePlan(
        file=file,
        topic=source.topic,
        commands=len(records),
        placement=placement,
        existing=existing,
        configs=_configs(existing, read, records),
        replication_factor=_replication_factor(existing, read, brokers),
        skipped=tuple(odd) if skip_incompatible else (),
        incompatible=() if skip_incompatible else tuple(odd),
        is_there_already=existing is not None and _holds(existing, records, at_offsets=placement.same_offsets),
        torn_bytes=read.torn_bytes,
        lacking={name: value for name, value in KEEPS_ALL.items() if existing and existing.configs.get(name) != value},
    )


def topic_of_file(file: Path) -> str:
    """The topic of a backup file, from the name or the sidecar. Raises `BadOption`."""
    if (name := parse_name(file.name)) is not None:
        return name.topic
    header = load(file).header
    if header is None:
        raise BadOption(f"{file.name} does not name its topic", hint="name it with --topic")
    return header.topic


def _check_sound(file: Path, read: ReadBackup) -> None:
    """A line torn by a crash is in no sidecar, because its backup was never confirmed: a torn line alone is no
    obstacle."""
    problems = [f"line {problem.line}: {problem.what}" if problem.line else problem.what for problem in read.problems]
    if read.torn_bytes and read.header is None:
        problems.append(f"its last line is torn ({read.torn_bytes} bytes)")
    if problems:
        more = f", and {len(problems) - _NAMED_MAX} more" if len(problems) > _NAMED_MAX else ""
        raise BackupFileDamaged(
            f"{file}: {'; '.join(problems[:_NAMED_MAX])}{more}",
            hint=(
                f"offsite metastore verify {file} lists all problems; restore an older file, or repair a copy of this "
                "file"
            ),
        )


def _configs(existing: ExistingTopic | None, read: ReadBackup, records: Sequence[Record]) -> dict[str, str]:
    """The settings of the existing topic, or else of the topic at the beginning of the file, without settings that lose
    commands."""
    recorded = read.header.configs if read.header else {}
    configs = {**(existing.configs if existing else recorded), **KEEPS_ALL}
    largest = max(map(_size_bytes, records)) + _ROOM_BYTES
    if largest > int(configs.get("max.message.bytes", _DEFAULT_BATCH_BYTES)):
        configs["max.message.bytes"] = str(largest)
    return configs


def _replication_factor(existing: ExistingTopic | None, read: ReadBackup, brokers: int) -> int:
    """The replication factor of the existing topic, or of the topic at the beginning of the file; -1, the cluster's
    default, if unknown or not possible."""
    factor = existing.replication_factor if existing else read.header.replication_factor if read.header else 0
    return factor if 0 < factor <= brokers else -1


def _size_bytes(record: Record) -> int:
    headers = sum(
        len(name.encode("utf-8", "surrogateescape")) + len(value or b"") + _HEADER_BYTES
        for name, value in record.headers
    )
    return len(record.key or b"") + len(record.value or b"") + headers


def _holds(existing: ExistingTopic, expected: Sequence[Record], *, at_offsets: bool) -> bool:
    actual = existing.records
    contents = [[(record.key, record.value) for record in records] for records in (actual, expected)]
    is_same = contents[0] == contents[1] and not existing.undecided
    return is_same and (not at_offsets or all(map(at_its_offset, actual, expected)))
