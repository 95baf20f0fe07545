"""The keys of one restore: record, leases, attempts, offset maps, schema ids, report."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.log.offset_map import OffsetMap
from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import ObjectTaken, RestoreRunning, RestoreTakenOver
from offsite.repository.layout import BackupLayout
from offsite.repository.lease import Lease
from offsite.stores.store import PutResult, Store

TAKE_OVER_HINT = (
    "wait for its end; if it hangs, restore run --take-over continues in its place and stops it from writing"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreLayout:
    """The keys of a restore: `restores/<restore>/…` of a backup. Every object is written once, except the beats of the
    lease."""

    backup: BackupLayout
    restore: str

    @property
    def prefix(self) -> str:
        return self.backup.restores_prefix(self.restore)

    @property
    def record_key(self) -> str:
        return f"{self.prefix}restore.json"

    def targets_key(self, number: int) -> str:
        """The key of the record of created target topics. `number` counts, from 1, how often the target topics were
        created."""
        return f"{self.prefix}targets{'' if number == 1 else f'-{number}'}.json"

    def aside_key(self, number: int) -> str:
        """The key of the set-aside settings. `number` counts, from 1, the changes of these settings."""
        return f"{self.prefix}aside{'' if number == 1 else f'-{number}'}.json"

    @property
    def schema_ids_key(self) -> str:
        return f"{self.prefix}schema-ids.json"

    @property
    def import_modes_key(self) -> str:
        return f"{self.prefix}import-modes.json"

    def schemas_key(self, attempt: str) -> str:
        """The key of schemas that `schema-ids.json` names. `attempt`: random, since a crash may leave one unnamed."""
        return f"{self.prefix}schemas/{attempt}.json"

    @property
    def report_key(self) -> str:
        return f"{self.prefix}report.json"

    @property
    def producer_key(self) -> str:
        return f"{self.prefix}producer.json"

    def attempts_prefix(self, target: TopicPartition) -> str:
        return f"{self.prefix}attempts/{target.topic}/{target.partition}/"

    def attempt_key(self, target: TopicPartition, number: int) -> str:
        """The key of one attempt at a target partition. `number` counts, from 1, the attempts at writing into the
        partition."""
        return f"{self.attempts_prefix(target)}{number:05d}.json"

    def attempt_number(self, key: str) -> int:
        """The attempt number in a key made by `attempt_key`."""
        return int(key.rpartition("/")[2].removesuffix(".json"))

    def lease(self, store: Store) -> Lease:
        """The lease of the process that carries out the restore. A person can take it over."""
        return Lease(
            store=store,
            prefix=f"{self.prefix}lease/",
            resource=f"restore {self.restore}",
            hint=TAKE_OVER_HINT,
            error=RestoreRunning,
            taken_over=RestoreTakenOver,
        )

    def map_key(self, source: PartitionId, making: int = 1) -> str:
        """The key of an offset map.

        `making`: the making of the target topic that the map describes (see `RestoreTargets`).
        """
        suffix = "" if making == 1 else f".{making}"
        return f"{self.prefix}maps/{source.topic}/{source.partition}{suffix}.map"

    def put_map(self, store: Store, source: PartitionId, offset_map: OffsetMap, *, making: int = 1) -> None:
        """Store the offset map of one restored partition. A second attempt produces an equal map, which is no error.

        Raises `ObjectTaken` if a different map exists: the map would be wrong about the target.
        """
        put = store.put_if_absent(self.map_key(source, making), offset_map.to_bytes())
        if put is PutResult.OTHER and self.get_map(store, source, making=making) != offset_map:
            raise ObjectTaken(
                f"the stored offset map of {source} does not match the written records",
                hint="restore under another name with --rename, and please report this error",
            )

    def get_map(self, store: Store, source: PartitionId, *, making: int = 1) -> OffsetMap | None:
        """The stored map, or None if the partition is not yet restored. Raises `DamagedObject`."""
        data = store.get(self.map_key(source, making))
        return None if data is None else OffsetMap.from_bytes(data)
