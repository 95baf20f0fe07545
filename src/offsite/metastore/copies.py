"""Copies of a topic's content before its replacement: files in the form of backups, under names outside of the backups'
names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from offsite.log.records.record import Record
from offsite.metastore.backup_file import BackupFile, load
from offsite.metastore.sidecar import Header
from offsite.model.errors import BackupFileDamaged

_SUFFIX = ".replaced"


def keep_copy(folder: Path, header: Header, records: Sequence[Record]) -> Path:
    """Write the commands into a new file in `folder`, and read the file again. Raises `BackupFileDamaged` if it does
    not hold the commands, and errors of writing a file."""
    with BackupFile.create_named(folder, f"{header.topic}_{header.created_at_ms}{_SUFFIX}", header) as file:
        file.append(records)
    read = load(file.path)
    if read.problems or [command.record for command in read.commands] != list(records):
        raise BackupFileDamaged(f"{file.path} differs from the written data", hint="check the disk")
    return file.path
