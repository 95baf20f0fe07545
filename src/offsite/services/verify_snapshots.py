"""Are the snapshots beside the commits (groups, settings of the cluster) there and whole? Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.model.errors import DamagedCommit, DamagedObject
from offsite.repository.backup import Backup
from offsite.repository.cluster_snapshot import get_cluster_snapshot
from offsite.repository.commit import SnapshotRef
from offsite.repository.group_snapshot import get_group_snapshot
from offsite.repository.layout import parse_groups_key, parse_metadata_key
from offsite.repository.state import BackupState


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDamage:
    """A snapshot that is not what it should be; commit `first_commit` was made with it."""

    key: str
    problem: str
    first_commit: int


def look_up_snapshots(backup: Backup, head: BackupState) -> tuple[SnapshotDamage, ...]:
    """Whether those of the newest commit exist."""
    keys = [head.groups, head.metadata.key if head.metadata else None]
    problems = {key: _problem(backup, key) for key in keys if key is not None}
    return tuple(SnapshotDamage(key=key, problem=why, first_commit=head.seq) for key, why in problems.items() if why)


def _problem(backup: Backup, key: str) -> str:
    try:
        return f"{key} is missing" if backup.store.head(key) is None else ""
    except DamagedObject as error:  # the commit names what no key can be
        return error.message


def read_snapshots(backup: Backup, head: BackupState) -> tuple[SnapshotDamage, ...]:
    """Read all snapshots there are, and those of the newest commit."""
    return tuple(_damages(backup, head))


def _damages(backup: Backup, head: BackupState) -> Iterator[SnapshotDamage]:
    keys = {info.key for info in backup.store.list(backup.layout.groups_prefix)}
    if head.groups is not None:
        keys.add(head.groups)
    for key in sorted(keys):
        try:
            get_group_snapshot(backup.store, key)
        except DamagedObject as error:
            yield SnapshotDamage(key=key, problem=error.message, first_commit=parse_groups_key(key) or head.seq)
    for ref in dict.fromkeys(_settings(backup, head)):
        try:
            get_cluster_snapshot(backup.store, ref)
        except DamagedObject as error:
            seq = parse_metadata_key(ref.key) or head.seq
            yield SnapshotDamage(key=ref.key, problem=error.message, first_commit=seq)


def _named(backup: Backup, seq: int | None) -> SnapshotRef | None:
    """The settings that commit `seq` names. A damaged commit is told by itself."""
    try:
        stored = None if seq is None else backup.log.get(seq)
    except DamagedCommit:
        return None
    return None if stored is None else stored.commit.changes.metadata


def _settings(backup: Backup, head: BackupState) -> Iterator[SnapshotRef]:
    """As the commits name them, with their hashes: an object that no commit names does not count."""
    for info in backup.store.list(backup.layout.metadata_prefix):
        named = _named(backup, parse_metadata_key(info.key))
        if named is not None and named.key == info.key:
            yield named
    if head.metadata is not None:
        yield head.metadata
