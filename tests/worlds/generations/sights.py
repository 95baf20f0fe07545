"""What a generation holds, seen from outside: in a backup, or in an Avro archive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from offsite.archives.archive import ArchiveReader
from offsite.archives.formats import open_reader
from offsite.generations.archive_target import place_of
from offsite.log.range import PartitionId
from offsite.log.records.batch_records import decode
from offsite.repository.backup import Backup
from offsite.repository.generation_sets.ledger import SetLayout
from offsite.repository.repository import Repository
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.state import BackupState
from offsite.stores.open_store import open_archive_files
from tests.worlds.generations.process import SET

State = Mapping[bytes, bytes | None]


class Sight(Protocol):
    """All raise errors of ours for what is not there as a whole."""

    def ends(self, generation: int) -> tuple[str, Mapping[int, int]]:
        """What tells this state from another one, and how far each partition reaches."""

    def content(self, generation: int) -> Mapping[int, tuple[int, State]]:
        """Of each partition how far it reaches, and the newest value of each key."""


class BackupSight:
    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def ends(self, generation: int) -> tuple[str, Mapping[int, int]]:
        backup = self._backup(generation)
        state = backup.state()
        return content_hash(backup, state.seq), {known.partition: end for known, end in state.accounted_ends().items()}

    def content(self, generation: int) -> Mapping[int, tuple[int, State]]:
        backup = self._backup(generation)
        state = backup.state()
        return {
            known.partition: (position.end, content(backup, state, known))
            for known, position in state.positions.items()
        }

    def _backup(self, generation: int) -> Backup:
        return self._repository.backup(SetLayout(name=SET).backup_name(generation))


def content_hash(backup: Backup, seq: int) -> str:
    """The hash of the newest commit up to `seq` that is no seal: a process that was stopped before its seal adds one
    when it wakes up, behind that of its successor."""
    while (stored := backup.log.get(seq)) is not None and stored.commit.changes.seal:
        seq -= 1
    return stored.hash if stored is not None else ""


def content(backup: Backup, state: BackupState, known: PartitionId) -> State:
    """The newest value of each key in a partition of a backup."""
    found: dict[bytes, bytes | None] = {}
    for segment in state.segments.get(known, ()):
        for chunk in SegmentReader(store=backup.store, segment=segment).chunks(end=state.positions[known].end):
            for header in chunk.batches:
                found.update({record.key or b"": record.value for record in decode(header.view(chunk.data), header)})
    return found


class ArchiveSight:
    """It has no commits that a seal could be behind: that an old one does not grow is not promised."""

    def __init__(self, place: str) -> None:
        self._place = place

    def ends(self, generation: int) -> tuple[str, Mapping[int, int]]:
        found: dict[int, int] = {}
        for piece in self._reader(generation).contents().pieces:
            found[piece.partition] = max(found.get(piece.partition, 0), piece.end or 0)
        return "", found

    def content(self, generation: int) -> Mapping[int, tuple[int, State]]:
        reader = self._reader(generation)
        ends: dict[int, int] = {}
        states: dict[int, dict[bytes, bytes | None]] = {}
        for piece in reader.contents().pieces:
            ends[piece.partition] = max(ends.get(piece.partition, 0), piece.end or 0)
            for records in reader.read(piece):
                states.setdefault(piece.partition, {}).update({each.key or b"": each.value for each in records})
        return {partition: (end, states.get(partition, {})) for partition, end in ends.items()}

    def _reader(self, generation: int) -> ArchiveReader:
        return open_reader("avro", open_archive_files(place_of(self._place, SET, generation)))
