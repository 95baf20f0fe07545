"""What lies in the log of a partition, and what partitions send to each other: values, and their form as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

VERSION = 1
COMMAND = -1
ELECTED, IGNORED = "leader:elected", "ignored"
CHECKPOINT_CREATE, CHECKPOINT_CREATED, CHECKPOINT_IGNORED = (
    "checkpoint:create",
    "checkpoint:created",
    "checkpoint:ignored",
)

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a log. Its `position` counts from 0 without a hole, and stays the same when the log is restored
    into another topic: an offset of Kafka does not. `source` is the position of the command that an event follows
    from, `COMMAND` for a command itself; `term`, that of the leader which wrote it."""

    position: int
    term: int
    kind: str
    body: Body
    source: int = COMMAND
    version: int = VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A command on its way to partition `to`: of a client (`checkpoint` 0), or of a partition whose newest checkpoint
    was `checkpoint` when it was sent. A partition names itself in `sender` (0: a client) and wants `name` back."""

    to: int
    kind: str
    body: Body
    sender: int = 0
    name: str = ""
    checkpoint: int = 0


def record_bytes(record: Record) -> bytes:
    return _bytes(asdict(record))


def read_record(data: bytes) -> Record:
    """Raises `ValueError` for one of a version that is not known: who skips it gets another state than its leader."""
    return Record(**_known(data))


def message_bytes(message: Message) -> bytes:
    return _bytes({**asdict(message), "version": VERSION})


def read_message(data: bytes) -> Message:
    """Raises `ValueError` as `read_record`."""
    fields = _known(data)
    del fields["version"]
    return Message(**fields)


def _bytes(fields: Body) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _known(data: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(data)
    if fields.get("version") != VERSION:
        raise ValueError(f"a record of version {fields.get('version')}; this engine knows {VERSION}")
    return fields
