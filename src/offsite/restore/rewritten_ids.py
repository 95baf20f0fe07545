"""The ids of schemas in restored records, changed to those of the target's registry, in workers: the value that travels
with a chain, and what it does batch by batch.

A worker reads once, from the store, what the restore decided, and the schemas of both registries. The same batch
becomes the same bytes in every attempt and in the proof. A batch that grew beyond what the target takes is split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.log.batch import BatchHeader, scan
from offsite.log.difference import RecordDifference
from offsite.log.range import PartitionId
from offsite.log.records.batch_records import decode
from offsite.log.records.record import Record
from offsite.log.rewrite import change_beginnings, split_to_fit
from offsite.model.options import SchemaIdsWay
from offsite.points.record_rewrite import LeftFields, RewriteCounts
from offsite.repository.backup import Backup
from offsite.repository.commit import SnapshotRef
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.schema_ids import get_named_ids, get_schema_ids, get_schemas
from offsite.schemas.framing import FramedReader, FramedValue
from offsite.schemas.id_rewrite import TopicIds
from offsite.stores.store import Store

SAMPLED_EVERY = 1_000
"""Of so many fields with ids, the proof decodes one by both registries, and the first of each id and partition."""
_OPENED_MAX = 2
_NO_LIMIT = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRewrite:
    """A `RecordRewrite`: change ids as the object `ref` of the restore says."""

    ref: SnapshotRef

    def begin(self, source: PartitionId, records: Store, *, proves: bool) -> IdRewriting:
        """See `RecordRewrite`."""
        return IdRewriting(_opened(self.ref, records), source, proves=proves)


def stored_rewrite(backup: Backup, restore: str) -> IdRewrite | None:
    """How an earlier restore of `backup` changed ids; None where it did not. Raises `DamagedObject`, and the errors of
    the store."""
    stored = get_schema_ids(backup.record_store, RestoreLayout(backup=backup.layout, restore=restore))
    return IdRewrite(ref=stored[1]) if stored is not None and stored[0].way is SchemaIdsWay.REWRITE else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """What `ref` names, read. The readers keep the parsed schemas of each registry."""

    ids: Mapping[int, int]
    limits: Mapping[str, int]
    source: FramedReader
    there: FramedReader


_OPENED: dict[SnapshotRef, _Opened] = {}
"""Of this process: the tasks of a worker are of one restore."""


def _opened(ref: SnapshotRef, records: Store) -> _Opened:
    opened = _OPENED.get(ref)
    if opened is None:
        stored = get_named_ids(records, ref)
        schemas, there = get_schemas(records, stored.schemas), get_schemas(records, stored.there)
        opened = _Opened(
            ids=stored.by_id,
            limits={limit.topic: limit.size_bytes for limit in stored.limits},
            source=FramedReader(lambda: schemas),
            there=FramedReader(lambda: there),
        )
        while len(_OPENED) >= _OPENED_MAX:
            del _OPENED[next(iter(_OPENED))]
        _OPENED[ref] = opened
    return opened


class IdRewriting:
    """A `Rewriting` of ids. `proves`: samples of the changed fields are decoded by both registries."""

    def __init__(self, opened: _Opened, source: PartitionId, *, proves: bool) -> None:
        self._opened, self._source = opened, source
        self._samples = _Samples() if proves else None
        self._ids = TopicIds(
            opened.source.registry,
            source.topic,
            opened.ids,
            reader=opened.source,
            on_mapped=None if self._samples is None else self._samples.take,
        )
        self._limit_bytes = opened.limits.get(source.topic, _NO_LIMIT)
        self.finding: RecordDifference | None = None

    @property
    def counts(self) -> RewriteCounts:
        counts = self._ids.counts
        return RewriteCounts(
            changed=counts.rewritten,
            left=tuple(
                LeftFields(
                    reason=reason,
                    partition=self._source.partition,
                    first_offset=counts.first[reason],
                    fields=counts.left[reason],
                )
                for reason in sorted(counts.left)
            ),
        )

    def change(
        self, batch: memoryview, header: BatchHeader, counted: Sequence[Record] | None
    ) -> Sequence[memoryview] | None:
        """See `Rewriting`."""
        changed, count = change_beginnings(batch, header, self._ids if counted is None else self._ids.uncounted)
        for record in counted or ():
            for is_key, content in ((True, record.key), (False, record.value)):
                if content is not None:
                    self._ids(record.offset, content, is_key)
        written = memoryview(changed)
        (written_header,) = scan(written) if count else (header._replace(position=0),)
        if self._samples is not None and self._samples.fields:
            self._compare(written, written_header)
        if not count:
            return None
        return [memoryview(part) for part in split_to_fit(written, written_header, self._limit_bytes)]

    def _compare(self, written: memoryview, header: BatchHeader) -> None:
        """Decode the samples of the batch by both registries. The new bytes are those that were written."""
        samples = self._samples.fields if self._samples is not None else []
        records = {record.offset: record for record in decode(written, header)}
        for offset, content, is_key, schema_id in samples:
            record = records[offset]
            now = record.key if is_key else record.value
            before, after = self._opened.source.read_plain(content), self._opened.there.read_plain(now or b"")
            if self.finding is None and not _is_same(before, after):
                self.finding = _other_meaning(offset, schema_id, self._opened.ids[schema_id], is_key=is_key)
        samples.clear()


class _Samples:
    """The sampled fields of a batch: offset, content, whether it is a key, id."""

    def __init__(self) -> None:
        self.fields: list[tuple[int, bytes, bool, int]] = []
        self._seen: set[tuple[int, bool]] = set()
        self._count = 0

    def take(self, offset: int, content: bytes, is_key: bool, schema_id: int) -> None:  # noqa: FBT001  # as `TopicIds` calls
        self._count += 1
        if (schema_id, is_key) not in self._seen or self._count % SAMPLED_EVERY == 0:
            self._seen.add((schema_id, is_key))
            self.fields.append((offset, content, is_key, schema_id))


def _is_same(before: FramedValue | None, after: FramedValue | None) -> bool:
    """Whether both mean the same. A number that is none equals nothing, so texts are compared, too."""
    if before is None or after is None:
        return False
    meanings = [(value.kind, value.type, value.value) for value in (before, after)]
    return meanings[0] == meanings[1] or repr(meanings[0]) == repr(meanings[1])


def _other_meaning(offset: int, schema_id: int, there: int, *, is_key: bool) -> RecordDifference:
    column = "key" if is_key else "value"
    return RecordDifference(
        kind="changed",
        fields=(column,),
        source_offset=offset,
        target_offset=-1,
        records=1,
        detail=f"by the schemas of the target, the {column} (schema id {there}) does not mean what it means by those "
        f"of the backup (schema id {schema_id})",
    )
