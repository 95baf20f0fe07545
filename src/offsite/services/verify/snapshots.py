"""Are the snapshots beside the commits (groups, settings of the cluster) there and whole? Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.model.errors import DamagedObject
from offsite.repository.backup import Backup
from offsite.repository.snapshots.cluster_snapshot import get_cluster_snapshot
from offsite.repository.snapshots.group_snapshot import get_group_snapshot
from offsite.services.verify.history import CheckedHistory
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDamage:
    """A snapshot that is not what it should be; commit `first_commit` was made with it."""

    key: str
    problem: str
    first_commit: int


def look_up_snapshots(backup: Backup, history: CheckedHistory) -> tuple[SnapshotDamage, ...]:
    """The damage to snapshots of the newest commit, as far as looking them up tells."""
    head = history.head
    keys = [head.groups, head.metadata.key if head.metadata else None]
    problems = {key: _problem(backup.store, key) for key in keys if key is not None}
    return tuple(SnapshotDamage(key=key, problem=why, first_commit=head.seq) for key, why in problems.items() if why)


def read_snapshots(backup: Backup, history: CheckedHistory) -> tuple[SnapshotDamage, ...]:
    """The damage to all snapshots that commits name, which are read."""
    return tuple(_damages(backup.store, history))


def _problem(store: Store, key: str) -> str:
    try:
        return f"{key} is missing" if store.head(key) is None else ""
    except DamagedObject as error:  # the commit names what no key can be
        return error.message


def _damages(store: Store, history: CheckedHistory) -> Iterator[SnapshotDamage]:
    for key, seq in history.groups.items():
        try:
            get_group_snapshot(store, key)
        except DamagedObject as error:
            yield SnapshotDamage(key=key, problem=error.message, first_commit=seq)
    for ref, seq in history.settings.items():
        try:
            get_cluster_snapshot(store, ref)
        except DamagedObject as error:
            yield SnapshotDamage(key=ref.key, problem=error.message, first_commit=seq)
