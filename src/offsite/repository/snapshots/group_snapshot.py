"""Group snapshots: the committed offsets at one moment as one Parquet object, one row per (group, topic, partition).

A snapshot's name ends with the first digits of its hash; a reader of the commit notices damage. Columns, sorted by
group, topic, partition: `group`, `kind`, `state`, `topic`, `topic_id` (text, dictionaries), `partition` (int32),
`offset` (int64), `leader_epoch` (int32), `metadata` (text). Offset -1: no committed offset. Gone groups are named
beside the rows, with the first commit without the group: the last offsets are in the snapshot of the commit before. So
is the reset of a share group, where known. Positions of share groups are rows as well, with -1 for none.
pyarrow is imported on use.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsite.log.group_offsets import SHARE, GroupOffsets, GroupTable, TopicOffsets
from offsite.log.range import TopicIncarnation
from offsite.model.errors import DamagedObject
from offsite.model.untrusted.json_codec import Count, JsonCodec, TopicName
from offsite.model.untrusted.json_object import JsonValue
from offsite.repository.json_form import FORMAT, encode_canonical, parse_part
from offsite.repository.layout import BackupLayout
from offsite.repository.parquet import read_parquet
from offsite.repository.segments.body import HASH_NAME, content_hash
from offsite.stores.store import PutResult, Store

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_ABOUT = b"offsite.groups"
_GONE, _RESETS = "gone", "resets"
_WITH_POSITIONS = 2
"""The format of a snapshot with share groups. A reader of format 1 would commit their positions as offsets, and so make
a consumer group with the name of the share group."""
_ATTEMPT_DIGITS = 8
_GROUP_TEXTS, _TOPIC_TEXTS = ("group", "kind", "state"), ("topic", "topic_id")
_NUMBERS = {"partition": "i", "offset": "q", "leader_epoch": "i"}
_COLUMNS = (*_GROUP_TEXTS, *_TOPIC_TEXTS, *_NUMBERS, "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneGroup:
    """A group with offsets on a topic in the commit before `since`, and none in commit `since`, although the topic
    existed."""

    group: str
    topic: TopicName
    topic_id: str
    since: Count

    @property
    def incarnation(self) -> TopicIncarnation:
        return TopicIncarnation(topic=self.topic, topic_id=self.topic_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupReset:
    """Where share group `group` begins in a partition without a position."""

    group: str
    reset: str


_GONE_GROUP, _GROUP_RESET = JsonCodec(GoneGroup), JsonCodec(_GroupReset)
"""Snapshots of earlier versions name neither gone groups nor resets."""


def incarnation_of(offsets: TopicOffsets) -> TopicIncarnation:
    """The topic of a group's offsets."""
    return TopicIncarnation(topic=offsets.topic, topic_id=offsets.topic_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """The groups of a commit by name, sorted, and the `gone` groups, newest first."""

    groups: GroupTable
    gone: tuple[GoneGroup, ...] = ()


def put_group_snapshot(
    store: Store, layout: BackupLayout, seq: int, groups: GroupTable, gone: Sequence[GoneGroup] = ()
) -> str:
    """Store the snapshot that commit `seq` will name; returns its key. A crash before the commit leaves an orphan."""
    data = encode_groups(groups, gone)
    key = layout.groups_key(seq, _digits(data))
    if store.put_if_absent(key, data) is PutResult.OTHER:
        raise _damaged(f"{key} exists with other bytes")
    return key


def get_group_snapshot(store: Store, key: str) -> GroupTable:
    """The groups of the snapshot named by a commit. Raises as `read_group_snapshot`."""
    return read_group_snapshot(store, key).groups


def read_group_snapshot(store: Store, key: str) -> GroupSnapshot:
    """The snapshot named by a commit. Raises `DamagedObject` if the snapshot is missing or differs from its hash,
    `FormatTooNew`."""
    data = store.get(key)
    if data is None:
        raise _damaged(f"{key} is missing")
    if not key.endswith(f"-{_digits(data)}.parquet"):
        raise _damaged(f"{key} does not have the hash in its name")
    return decode_snapshot(data, key=key)


def encode_groups(groups: GroupTable, gone: Sequence[GoneGroup] = ()) -> bytes:
    """Equal tables give equal bytes (with one version of pyarrow)."""
    from pyarrow import parquet

    sink = io.BytesIO()
    has_positions = any(group.kind == SHARE for group in groups.values())
    about: dict[str, JsonValue] = {"format": _WITH_POSITIONS if has_positions else FORMAT}
    if gone:
        about[_GONE] = list(map(_GONE_GROUP.write, gone))
    if resets := [_GroupReset(group=name, reset=groups[name].reset) for name in sorted(groups) if groups[name].reset]:
        about[_RESETS] = list(map(_GROUP_RESET.write, resets))
    table = _table([groups[name] for name in sorted(groups)])
    table = table.replace_schema_metadata({_ABOUT: encode_canonical(about)})
    parquet.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()


def decode_groups(data: bytes, *, key: str) -> GroupTable:
    """Groups by name, sorted. Raises `DamagedObject`, `FormatTooNew`."""
    return decode_snapshot(data, key=key).groups


def decode_snapshot(data: bytes, *, key: str) -> GroupSnapshot:
    """Read the output of `encode_groups`. Raises `DamagedObject`, `FormatTooNew`."""
    import pyarrow as pa

    try:
        stored = read_parquet(data)
        described = (stored.schema.metadata or {}).get(_ABOUT, b"")
        about = parse_part(described, source=key, damaged=_damaged, newest=_WITH_POSITIONS)
        resets = {reset.group: reset.reset for reset in map(_GROUP_RESET.read, about.children(_RESETS))}
        groups = _groups(stored.select(list(_COLUMNS)).unify_dictionaries(), resets)
        return GroupSnapshot(groups=groups, gone=tuple(map(_GONE_GROUP.read, about.children(_GONE))))
    except (pa.ArrowException, OSError, KeyError, AttributeError) as error:
        raise _damaged(f"{key}: {error}") from error


def _table(groups: list[GroupOffsets]) -> pa.Table:
    import pyarrow as pa

    texts = {name: _TextColumn() for name in (*_GROUP_TEXTS, *_TOPIC_TEXTS)}
    numbers = {name: array(kind) for name, kind in _NUMBERS.items()}
    metadata: list[str] = []
    for group, topic in ((group_offsets, topic) for group_offsets in groups for topic in group_offsets.topics):
        for name, value in zip(texts, (group.group, group.kind, group.state, topic.topic, topic.topic_id), strict=True):
            texts[name].repeat(value, len(topic))
        for column, values in zip(
            numbers.values(), (topic.partitions, topic.offsets, topic.leader_epochs), strict=True
        ):
            column.extend(values)
        metadata.extend(topic.metadata)
    columns = {name: column.to_arrow() for name, column in texts.items()}
    columns |= {name: _to_arrow(column) for name, column in numbers.items()}
    columns["metadata"] = pa.array(metadata, type=pa.string()).dictionary_encode()
    return pa.table(columns)


class _TextColumn:
    """Texts repeated over many rows, as dictionary indices."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._indices = array("i")

    def repeat(self, text: str, times: int) -> None:
        number = self._known.setdefault(text, len(self._known))
        self._indices.extend(array("i", (number,)) * times)

    def to_arrow(self) -> pa.DictionaryArray:
        import pyarrow as pa

        return pa.DictionaryArray.from_arrays(_to_arrow(self._indices), pa.array(self._known, type=pa.string()))


def _to_arrow(column: array[int]) -> pa.Array:
    import pyarrow as pa

    kind = pa.int64() if column.typecode == "q" else pa.int32()
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])


def _groups(table: pa.Table, resets: Mapping[str, str]) -> dict[str, GroupOffsets]:
    texts = {name: _Texts(table, name) for name in (*_GROUP_TEXTS, *_TOPIC_TEXTS, "metadata")}
    numbers = {name: _integers(table, name) for name in _NUMBERS}
    offsets_by_group: dict[str, list[TopicOffsets]] = {}
    abouts: dict[str, tuple[str, str]] = {}
    for start, end in _runs(table):
        group, kind, state, topic, topic_id = (texts[name].at(start) for name in (*_GROUP_TEXTS, *_TOPIC_TEXTS))
        abouts[group] = (kind, state)
        offsets = TopicOffsets(
            topic=topic,
            topic_id=topic_id,
            partitions=numbers["partition"][start:end],
            offsets=numbers["offset"][start:end],
            leader_epochs=numbers["leader_epoch"][start:end],
            metadata=texts["metadata"].between(start, end),
        )
        offsets_by_group.setdefault(group, []).append(offsets)
    return {
        group: GroupOffsets(
            group=group,
            kind=abouts[group][0],
            state=abouts[group][1],
            topics=tuple(topics),
            reset=resets.get(group, ""),
        )
        for group, topics in offsets_by_group.items()
    }


def _runs(table: pa.Table) -> Iterator[tuple[int, int]]:
    """Row ranges `[start, end)` with one group and topic each."""
    from pyarrow import compute

    if not table.num_rows:
        return iter(())
    changes = [_changes(table.column(name).combine_chunks().indices) for name in ("group", "topic")]
    starts = [0, *(at + 1 for at in compute.indices_nonzero(compute.or_(*changes)).to_pylist())]
    return zip(starts, [*starts[1:], table.num_rows], strict=True)


def _changes(indices: pa.Array) -> pa.Array:
    """For each row except the first: whether the row differs from the row before."""
    from pyarrow import compute

    return compute.not_equal(indices[1:], indices[:-1])


class _Texts:
    """A text column as dictionary indices."""

    def __init__(self, table: pa.Table, name: str) -> None:
        column = table.column(name).combine_chunks()
        self._words: list[str] = column.dictionary.to_pylist()
        self._indices = _numbers(column.indices, "i")

    def at(self, row: int) -> str:
        return self._words[self._indices[row]]

    def between(self, start: int, end: int) -> tuple[str, ...]:
        if len(self._words) == 1:
            return (self._words[0],) * (end - start)
        return tuple(map(self._words.__getitem__, self._indices[start:end]))


def _integers(table: pa.Table, name: str) -> array[int]:
    return _numbers(table.column(name).combine_chunks(), _NUMBERS[name])


def _numbers(column: pa.Array, kind: str) -> array[int]:
    numbers = array(kind)
    width = numbers.itemsize
    if len(column):
        content = memoryview(column.buffers()[1])
        numbers.frombytes(content[width * column.offset : width * (column.offset + len(column))])
    return numbers


def _digits(data: bytes) -> str:
    return content_hash(data).removeprefix(f"{HASH_NAME}:")[:_ATTEMPT_DIGITS]


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="the records of the backup are not affected; use another restore point")
