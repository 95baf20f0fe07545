"""The record of a restore, so that the same command can finish the restore after a crash.

Three objects below `restores/<restore>/`, each written once: `restore.json` before any change, `targets.json` when the
target topics exist (`targets-2.json` when they were created again), and `report.json` as the last object. A
restore without a report is unfinished.

The report states, for each restored partition, the source range and the target, so the two can be compared again at any
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Annotated

from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import DamagedObject, FormatTooNew, RestoreTakenOver
from offsite.model.names import is_backup_name
from offsite.model.options import CutChoice
from offsite.model.untrusted.json_codec import First, Form, Inline, Key, Later, Spare
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.commit import write_partition
from offsite.repository.json_form import StoredForm
from offsite.repository.layout import BackupLayout, own_objects
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.topic_settings import TargetTopicSettings
from offsite.stores.store import PutResult, Store

_UNREADABLE = (DamagedObject, FormatTooNew)

_LAST_STEPS = frozenset({"groups", "metadata"})

_STAMP_CHARS = len("20260101-000000")
"""A restore's name starts with the second of its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRecord:
    """The plan of a restore, as recorded.

    `request`: the request, as sorted pairs of texts. `until_ms`: only records dated then or before are restored.
    `topics` pairs source names with target names, sorted; `created`: targets that did not exist before. `settings`: the
    decision for each target topic; `preserved`: targets that keep the source's offsets. `incarnations` pairs source
    names with the ids of the selected topics; restores of older versions lack the field, and used the newest
    incarnations. `cut`: consistent or as-copied (see `CutChoice`); older versions knew only as-copied.
    """

    restore: str
    commit: int
    cluster_id: str
    request: tuple[tuple[str, str], ...]
    isolation: str
    offsets: str
    created_at_ms: int
    topics: tuple[tuple[str, str], ...]
    created: tuple[str, ...]
    until_ms: int | None = None
    settings: tuple[TargetTopicSettings, ...] = ()
    preserved: tuple[str, ...] = ()
    incarnations: Later[tuple[tuple[str, str], ...]] = ()
    cut: Later[CutChoice] = CutChoice.AS_COPIED

    @property
    def identity(self) -> tuple[object, ...]:
        """Two restores with equal identity are the same restore: the cluster and the request, without the last steps. A
        continuing command may change the last steps, which run after all records are there."""
        return self.cluster_id, without_last_steps(self.request)


def _read_starts(document: JsonObject, name: str) -> tuple[tuple[TopicPartition, int], ...]:
    return tuple(
        (TopicPartition(topic=start.text("topic"), partition=start.integer("partition")), start.integer("start"))
        for start in document.children(name)
    )


def _write_starts(starts: tuple[tuple[TopicPartition, int], ...]) -> JsonValue:
    return [{"topic": target.topic, "partition": target.partition, "start": start} for target, start in starts]


_STARTS = Form(_read_starts, _write_starts)
_MAKINGS = First(lambda document, name: name not in document.fields or document.child(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTargets:
    """The target topics as found or created by the restore: their ids, and the end of each partition before the
    restore. `makings`: the number of the topic's creation by the restore, if not the first."""

    topic_ids: tuple[tuple[str, str], ...]
    starts: Annotated[tuple[tuple[TopicPartition, int], ...], _STARTS]
    makings: Annotated[Spare[tuple[tuple[str, int], ...]], _MAKINGS] = ()


_RECORD, _TARGETS = StoredForm(RestoreRecord), StoredForm(RestoreTargets)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRestore:
    """An unfinished restore with an unreadable record."""

    restore: str
    problem: str

    def error(self, backup: BackupLayout) -> DamagedObject:
        """The error for a caller that needs the record."""
        folder = backup.restores_prefix(self.restore)
        return DamagedObject(self.problem, hint=f"check the object; if the restore is not yours, delete {folder}")


def without_last_steps(request: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The part of a request that decides which records are restored, and how."""
    return tuple((name, text) for name, text in request if name not in _LAST_STEPS)


def put_record(store: Store, layout: RestoreLayout, record: RestoreRecord) -> None:
    store.put_if_absent(layout.record_key, encode_record(record))


def encode_record(record: RestoreRecord) -> bytes:
    """The bytes of the record, as stored."""
    return _RECORD.encode(record)


def put_first(store: Store, layout: RestoreLayout, key: str, data: bytes, *, otherwise: str) -> None:
    """Store what one process decides for the whole restore. Raises `RestoreTakenOver` if another one was faster, which
    then has done `otherwise` … the restore."""
    if store.put_if_absent(key, data) is PutResult.OTHER:
        raise RestoreTakenOver(
            f"another process {otherwise} restore {layout.restore} at the same time",
            hint="run the same command again when it has ended",
        )


def put_targets(store: Store, layout: RestoreLayout, targets: RestoreTargets, *, number: int) -> None:
    """Record the target topics as created now. `number` is one more than `count_targets`; earlier records stay, and no
    longer count. Raises `RestoreTakenOver` if another process was faster."""
    data = encode_targets(targets)
    put_first(store, layout, layout.targets_key(number), data, otherwise="created the target topics of")


def encode_targets(targets: RestoreTargets) -> bytes:
    """The bytes of the record of target topics, as stored."""
    return _TARGETS.encode(targets)


def get_targets(store: Store, layout: RestoreLayout) -> RestoreTargets | None:
    """The target topics as last created; None before their creation. Raises `DamagedObject`, `FormatTooNew`."""
    key = layout.targets_key(max(count_targets(store, layout), 1))
    data = store.get(key)
    return None if data is None else _TARGETS.decode(data, key=key)


def count_targets(store: Store, layout: RestoreLayout) -> int:
    """How often the target topics were created."""
    return next(number for number in count() if store.head(layout.targets_key(number + 1)) is None)


def find_record(store: Store, layout: RestoreLayout) -> RestoreRecord | None:
    """The record of the restore named by `layout`, finished or not; None without a record. Raises `DamagedObject`."""
    data = store.get(layout.record_key)
    return None if data is None else _RECORD.decode(data, key=layout.record_key)


def unfinished_restores(store: Store, backup: BackupLayout) -> Iterator[RestoreRecord]:
    """Unfinished restores, oldest first. Raises `DamagedObject` at an unreadable record."""
    for restore in try_unfinished_restores(store, backup):
        if isinstance(restore, UnreadableRestore):
            raise restore.error(backup)
        yield restore


def try_unfinished_restores(store: Store, backup: BackupLayout) -> Iterator[RestoreRecord | UnreadableRestore]:
    """As `unfinished_restores`, with an `UnreadableRestore` in place of each unreadable record."""
    for name in sorted(restore_names(store, backup)):
        layout = RestoreLayout(backup=backup, restore=name)
        try:
            if store.head(layout.report_key) is None and (record := find_record(store, layout)) is not None:
                yield record
        except _UNREADABLE as error:
            yield UnreadableRestore(restore=name, problem=error.message)


def find_successor(
    store: Store,
    backup: BackupLayout,
    record: RestoreRecord,
    *,
    accepts: Callable[[RestoreRecord], bool] | None = None,
) -> RestoreRecord | None:
    """A later restore of the same request into the same cluster, finished or not. `record` is then given up, and the
    targets belong to the later restore. Reads no restore that began before `record`. `accepts`: filters the restores
    read; with a filter, an unreadable record is skipped. Raises `DamagedObject` at an unreadable record otherwise."""
    for name in sorted(restore_names(store, backup)):
        if name[:_STAMP_CHARS] < record.restore[:_STAMP_CHARS] or name == record.restore:
            continue
        try:
            other = find_record(store, RestoreLayout(backup=backup, restore=name))
        except _UNREADABLE:
            if accepts is None:
                raise
            continue
        if other is None or _order(other) <= _order(record) or other.identity != record.identity:
            continue
        if accepts is None or accepts(other):
            return other
    return None


def _order(record: RestoreRecord) -> tuple[int, str]:
    return (record.created_at_ms, record.restore)


def restore_names(store: Store, backup: BackupLayout) -> set[str]:
    """The names of all restores in the store. Names that no restore can have are ignored."""
    prefix = f"{backup.prefix}restores/"
    names = {info.key.removeprefix(prefix).split("/")[0] for info in own_objects(store.list(prefix))}
    return set(filter(is_backup_name, names))


def _read_source(document: JsonObject, _: str = "") -> PartitionId:
    """Names and numbers are read as they are: earlier versions restored to any name."""
    return PartitionId(
        topic=document.text("topic"), topic_id=document.text("topic_id"), partition=document.integer("partition")
    )


_SOURCE = Form(_read_source, write_partition)
_SOURCES = Form(
    lambda document, name: tuple((_read_source(child), child.integer("end")) for child in document.children(name)),
    lambda sources: [{**write_partition(source), "end": end} for source, end in sources],
)
_TARGET = Form(
    lambda document, _: TopicPartition(topic=document.text("target"), partition=document.integer("target_partition")),
    lambda target: {"target": target.topic, "target_partition": target.partition},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPartition:
    """The records of `source` below `source_end` went to `target`, from `target_start` on: at their own offsets, or
    without gaps. `digest`: the digest of the proof (see `restore.compare.records`), empty without a proof."""

    source: Annotated[Inline[PartitionId], _SOURCE]
    source_end: Annotated[int, Key("end")]
    target: Annotated[Inline[TopicPartition], _TARGET]
    target_start: int
    same_offsets: bool
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionedTopic:
    """All of `sources` (pairs of partition and end) below their ends went to `partitions` partitions of `target`, by
    key."""

    target: str
    partitions: int
    keyless_in_turn: bool
    sources: Annotated[tuple[tuple[PartitionId, int], ...], _SOURCES]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOutcome:
    """The outcome of a restore. `verified` is None if nothing was compared; `findings`: the first difference of each
    partition."""

    records: int
    size_bytes: Annotated[int, Key("bytes")]
    verified: bool | None
    findings: tuple[str, ...]
    partitions: tuple[RestoredPartition, ...]
    repartitioned: tuple[RepartitionedTopic, ...] = ()


_OUTCOME = StoredForm(RestoreOutcome)


def put_outcome(store: Store, layout: RestoreLayout, outcome: RestoreOutcome) -> None:
    """Write the report: the restore is finished from now on."""
    store.put_if_absent(layout.report_key, _OUTCOME.encode(outcome))


def get_outcome(store: Store, layout: RestoreLayout) -> RestoreOutcome | None:
    """The outcome of a restore; None while the restore is unfinished. Raises `DamagedObject`, `FormatTooNew`."""
    data = store.get(layout.report_key)
    return None if data is None else _OUTCOME.decode(data, key=layout.report_key)
