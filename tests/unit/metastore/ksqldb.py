"""What ksqlDB does with its backup files, by the rules of its classes, faults included. ksqlDB's jars are not on Maven
Central, so this stands for them: written from what those classes do, and from nothing of ours.

Source: ksqlDB 7.x, `BackupReplayFile`, `CommandTopicBackupImpl`, `KsqlRestoreCommandTopic`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

Pair = tuple[bytes, bytes]


def read_records(data: bytes) -> list[Pair]:
    """`Files.readAllLines` in UTF-8, each line cut at its first colon. Raises `ValueError` as it throws."""
    text = data.decode()
    lines = re.split("\r\n|\r|\n", text)
    pairs = [line.split(":", 1) for line in (lines[:-1] if not lines[-1] else lines)]
    if any(len(pair) == 1 for pair in pairs):
        raise ValueError("StringIndexOutOfBoundsException")
    return [(key.encode(), value.encode()) for key, value in pairs]


def write_record(key: bytes, value: bytes) -> bytes:
    """The bytes of the topic, whatever they are."""
    return key + b":" + value + b"\n"


def latest_file(names: Iterable[str], topic: str) -> str | None:
    """The file that is taken up: its name in lower case must begin with the prefix as it is."""
    prefix = f"backup_{topic}_"
    met = [name for name in names if name.lower().startswith(prefix)]
    found = [(int(rest), name) for name in met if (rest := name.removeprefix(prefix)).isdecimal()]
    return max(found)[1] if found else None


def is_corrupt(stored: list[Pair], topic: list[tuple[bytes, bytes | None]]) -> bool:
    """Whether a restart on the file finds the topic corrupt: the first differing record, byte by byte."""
    return any(pair != record for pair, record in zip(stored, topic, strict=False))


def check_commands(records: Iterable[Pair]) -> None:
    """What a restore checks before it begins: raises `ValueError` for what it cannot read."""
    for key, value in records:
        if not isinstance(json.loads(key), str) or not isinstance(json.loads(value), dict):
            raise ValueError("Invalid Command string")  # noqa: TRY004
