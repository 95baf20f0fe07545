"""Where the records of one restore lie: its description, the offset map of each partition, its report."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.log.offset_map import OffsetMap
from offsite.repository.commit import PartitionId
from offsite.repository.layout import BackupLayout
from offsite.repository.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreLayout:
    """`restores/<restore>/…` of a backup. Everything there is written once."""

    backup: BackupLayout
    restore: str

    @property
    def prefix(self) -> str:
        return self.backup.restores_prefix(self.restore)

    @property
    def record_key(self) -> str:
        return f"{self.prefix}restore.json"

    def targets_key(self, number: int) -> str:
        """`number` counts from 1: how often the target topics were made, the first time included."""
        return f"{self.prefix}targets{'' if number == 1 else f'-{number}'}.json"

    def aside_key(self, number: int) -> str:
        """`number` counts from 1: how often it changed which settings are set aside."""
        return f"{self.prefix}aside{'' if number == 1 else f'-{number}'}.json"

    @property
    def report_key(self) -> str:
        return f"{self.prefix}report.json"

    def map_key(self, source: PartitionId) -> str:
        return f"{self.prefix}maps/{source.topic}/{source.partition}.map"

    def put_map(self, store: Store, source: PartitionId, offset_map: OffsetMap) -> None:
        """Store the map of one restored partition. A second attempt arrives at an equal map, which is no error."""
        store.put_if_absent(self.map_key(source), offset_map.to_bytes())

    def get_map(self, store: Store, source: PartitionId) -> OffsetMap | None:
        """The stored map, or None when that partition was not (yet) restored. Raises `DamagedObject`."""
        data = store.get(self.map_key(source))
        return None if data is None else OffsetMap.from_bytes(data)
