"""The schemas that a backup holds: of a schema registry, and of the topic of one."""

from __future__ import annotations

from functools import reduce

from offsite.model.schema_registry import RegistrySnapshot
from offsite.points.point_in_time import PointInTime, chains_of
from offsite.points.source_view import SourceView
from offsite.repository.backup import Backup
from offsite.repository.snapshots.registry_snapshot import get_registry_snapshot
from offsite.repository.state import BackupState
from offsite.schemas.topic import read_schemas_topic, with_schemas_of


def held_schemas(backup: Backup, commit: BackupState | None = None) -> RegistrySnapshot:
    """The schemas as of the newest commit, whatever commit is read: an id never changes its meaning. With `commit`, the
    versions and settings are those of its registry, and only what it lacks is from later ones: a registry may have been
    emptied since. Raises `DamagedObject`, and the errors of the store."""
    state, store = backup.sound_state(), backup.store
    topics = [shape.topic for shape in state.topics.values() if shape.holds_schemas]
    views = (
        SourceView(chain, store, read_committed=True)
        for chain in chains_of(PointInTime(commit=state, state=state), topics).chains
    )
    of_topic = read_schemas_topic(record for view in views for batch in view.batches() for record in batch.iterate())
    of_commit = state.registry if commit is None else commit.registry
    refs = dict.fromkeys(ref for ref in (of_commit, state.registry) if ref is not None)
    return reduce(with_schemas_of, (*(get_registry_snapshot(store, ref) for ref in refs), of_topic))
