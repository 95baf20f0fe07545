"""The first difference of two runs of records, and its kind: changed, missing, extra, or reordered.

Pure. Owns the words for a difference. Never prints the content of a record: many people may read a report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

from offsite.log.records.record import Record
from offsite.model.errors import check
from offsite.model.names import amount
from offsite.model.units import format_time

AGREE_RECORDS = 8
"""Equal records in a row after which a difference counts as understood: fewer may agree by chance."""

_FIELDS = ("timestamp", "key", "value", "headers")
record_content = attrgetter("timestamp_ms", "key", "value", "headers")
"""The fields of a record that count at any offset."""
_PLACED_CONTENT = attrgetter("offset", "timestamp_ms", "key", "value", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDifference:
    """A difference between two runs of records, with its position.

    `records` in a row are `missing` from the target, or `extra` in the target; otherwise `records` is 1. The offsets
    are those of the first record: -1 on the side without such a record. `fields` names the changes of a `changed`
    record. `map`: the records are equal, and the stored offset map disagrees.
    """

    kind: Literal["changed", "missing", "extra", "reordered", "map"]
    fields: tuple[str, ...]
    source_offset: int
    target_offset: int
    records: int
    detail: str


def index_of_difference(source: Sequence[Record], target: Sequence[Record], *, offsets: bool) -> int | None:
    """The first index at which two sequences of the same length hold different records, or None.

    Key, value, headers and timestamp count; the timestamp's type does not (a restore turns LogAppendTime records into
    CreateTime records of the same time). Offsets count when `offsets` is set.
    """
    of_interest = _PLACED_CONTENT if offsets else record_content
    if list(map(of_interest, source)) == list(map(of_interest, target)):
        return None
    pairs = enumerate(zip(source, target, strict=True))
    return next(i for i, (a, b) in pairs if not _equal(a, b, offsets=offsets))


def first_difference(source: Sequence[Record], target: Sequence[Record], *, offsets: bool) -> RecordDifference:
    """The kind of difference at `source[0]` and `target[0]`, judged by the records behind. An empty sequence has ended.

    The sequences are the next records of both sides, as far as the caller looks ahead; a shorter sequence has ended.
    """
    check(bool(source or target), "two ends do not differ")
    if not source or not target:
        return _missing(source, len(source)) if source else _extra(target, len(target))
    if _agree(source, 1, target, 1, offsets=offsets):
        return _changed(source[0], target[0], offsets=offsets)
    if offsets and record_content(source[0]) != record_content(target[0]) and source[0].offset != target[0].offset:
        return _by_offset(source, target)
    if (shifted := _shifted(source, target, offsets=offsets)) is not None:
        return shifted
    if _contains(target[1:], source[0]) and _contains(source[1:], target[0]):
        return _reordered(source, target)
    return _changed(source[0], target[0], offsets=offsets)


def _shifted(source: Sequence[Record], target: Sequence[Record], *, offsets: bool) -> RecordDifference | None:
    """One side continues like the other side after a few records of its own."""
    for count in range(1, max(len(source), len(target))):
        if _agree(source, count, target, 0, offsets=offsets):
            return _missing(source, count)
        if _agree(source, 0, target, count, offsets=offsets):
            return _extra(target, count)
    return None


def _by_offset(source: Sequence[Record], target: Sequence[Record]) -> RecordDifference:
    """Where offsets count, the lower offset names the side with the additional record."""
    a, b = source[0].offset, target[0].offset
    if a < b:
        return _missing(source, sum(record.offset < b for record in source))
    return _extra(target, sum(record.offset < a for record in target))


def _equal(a: Record, b: Record, *, offsets: bool) -> bool:
    return record_content(a) == record_content(b) and not (offsets and a.offset != b.offset)


def _agree(source: Sequence[Record], s: int, target: Sequence[Record], t: int, *, offsets: bool) -> bool:
    """Whether both sides continue alike from `s` and `t`: for `AGREE_RECORDS`, or to a common end."""
    lengths = (len(source) - s, len(target) - t)
    count = min(*lengths, AGREE_RECORDS)
    if count < AGREE_RECORDS and lengths[0] != lengths[1]:
        return False
    return all(_equal(source[s + i], target[t + i], offsets=offsets) for i in range(count))


def _contains(records: Sequence[Record], sought: Record) -> bool:
    return any(_equal(record, sought, offsets=False) for record in records)


def _missing(source: Sequence[Record], count: int) -> RecordDifference:
    first, last = source[0].offset, source[count - 1].offset
    return RecordDifference(
        kind="missing",
        fields=(),
        source_offset=first,
        target_offset=-1,
        records=count,
        detail=f"{amount(count, 'record')} of the backup, {_offsets(first, last)}, not in the cluster",
    )


def _extra(target: Sequence[Record], count: int) -> RecordDifference:
    first, last = target[0].offset, target[count - 1].offset
    return RecordDifference(
        kind="extra",
        fields=(),
        source_offset=-1,
        target_offset=first,
        records=count,
        detail=f"{amount(count, 'record')} in the cluster, {_offsets(first, last)}, not in the backup",
    )


def _reordered(source: Sequence[Record], target: Sequence[Record]) -> RecordDifference:
    place = next(i for i, record in enumerate(target) if _equal(record, source[0], offsets=False))
    return RecordDifference(
        kind="reordered",
        fields=(),
        source_offset=source[0].offset,
        target_offset=target[0].offset,
        records=1,
        detail=f"the record comes {amount(place, 'record')} later in the cluster, at offset {target[place].offset}",
    )


def _changed(a: Record, b: Record, *, offsets: bool) -> RecordDifference:
    names = tuple(name for name, x, y in zip(_FIELDS, record_content(a), record_content(b), strict=True) if x != y) + (
        ("offset",) if offsets and a.offset != b.offset else ()
    )
    return RecordDifference(
        kind="changed",
        fields=names,
        source_offset=a.offset,
        target_offset=b.offset,
        records=1,
        detail="; ".join(_change(name, a, b) for name in names),
    )


def _change(name: str, a: Record, b: Record) -> str:
    match name:
        case "timestamp":
            return f"timestamp: {format_time(a.timestamp_ms)} became {format_time(b.timestamp_ms)}"
        case "offset":
            return f"offset: {a.offset} became {b.offset}"
        case "key":
            return f"key: {_blob(a.key)} became {_blob(b.key, other=a.key)}"
        case "value":
            return f"value: {_blob(a.value)} became {_blob(b.value, other=a.value)}"
        case _:
            return f"headers: {_headers(a, b)}"


def _blob(blob: bytes | None, *, other: bytes | None = None) -> str:
    if blob is None:
        return "null"
    different = "other " if other is not None and len(other) == len(blob) else ""
    return f"{different}{len(blob)} bytes"


def _headers(a: Record, b: Record) -> str:
    if len(a.headers) != len(b.headers):
        return f"{len(a.headers)} became {len(b.headers)}"
    place = next(i for i, (x, y) in enumerate(zip(a.headers, b.headers, strict=True)) if x != y)
    return f"number {place + 1} of {len(a.headers)} differs"


def _offsets(first: int, last: int) -> str:
    return f"at offset {first}, is" if first == last else f"at offsets {first} to {last}, are"
