"""Where a restore of this backup put a record, by what the restore itself recorded: its report, and its offset maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from offsite.log.range import PartitionId
from offsite.log.records.record import Record
from offsite.model.errors import DamagedObject, FormatTooNew
from offsite.model.journal import warned
from offsite.model.units import MIB
from offsite.repository.layout import BackupLayout
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoredPartition, RestoreRecord, find_record, get_outcome, get_targets
from offsite.stores.store import Store

_MAP_MAX_BYTES = 4 * MIB

Unknown = Literal["", "unfinished", "left out", "repartitioned", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRecord:
    """A restore that included the record's partition. `target`: topic and partition there. `offset`: where the record
    is now; None: `why` says why it is not known, or not there."""

    restore: str
    cluster_id: str
    created_at_ms: int
    target: str
    offset: int | None
    why: Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreLookup:
    """Looks a record up in the restores of `store`. `source`: its partition. `is_visible`: no transaction hides it."""

    layout: BackupLayout
    store: Store
    source: PartitionId
    record: Record
    is_visible: bool

    def find(self, restore: str) -> RestoredRecord | None:
        """Where the restore put the record; None if the restore did not include its partition, or cannot be read."""
        layout = RestoreLayout(backup=self.layout, restore=restore)
        try:
            restored = find_record(self.store, layout)
            return None if restored is None else self._in_restore(layout, restored)
        except (DamagedObject, FormatTooNew) as error:
            warned("restore_unread", error=error.id, why=error.message, restore=restore)
            return None

    def _in_restore(self, layout: RestoreLayout, restored: RestoreRecord) -> RestoredRecord | None:
        target = dict(restored.topics).get(self.source.topic)
        topic_id = dict(restored.incarnations).get(self.source.topic, self.source.topic_id)
        if target is None or topic_id != self.source.topic_id:
            return None
        outcome = get_outcome(self.store, layout)
        partitions = outcome.partitions if outcome else ()
        partition = next((partition for partition in partitions if partition.source == self.source), None)
        spread = [
            partition_id for topic in (outcome.repartitioned if outcome else ()) for partition_id, _ in topic.sources
        ]
        if outcome is not None and partition is None and self.source not in spread:
            return None
        offset: int | None = None
        why: Unknown = "unfinished" if outcome is None else "repartitioned"
        if partition is not None:
            offset, why = self._offset(layout, restored, partition)
        return RestoredRecord(
            restore=restored.restore,
            cluster_id=restored.cluster_id,
            created_at_ms=restored.created_at_ms,
            target=target if partition is None else str(partition.target),
            offset=offset,
            why=why,
        )

    def _offset(
        self, layout: RestoreLayout, restored: RestoreRecord, partition: RestoredPartition
    ) -> tuple[int | None, Unknown]:
        is_later = restored.until_ms is not None and self.record.timestamp_ms > restored.until_ms
        if self.record.offset >= partition.source_end or is_later:
            return None, "left out"
        if partition.same_offsets and self.is_visible:
            return self.record.offset, ""
        targets = get_targets(self.store, layout)
        making = 1 if targets is None else dict(targets.makings).get(partition.target.topic, 1)
        info = self.store.head(layout.map_key(self.source, making))
        if info is None or info.size_bytes > _MAP_MAX_BYTES:
            return None, "unknown"
        offset_map = layout.get_map(self.store, self.source, making=making)
        mapped = None if offset_map is None else offset_map.lookup(self.record.offset)
        if mapped is None:
            return None, "unknown"
        return (mapped.target, "") if mapped.match == "exact" else (None, "left out")
