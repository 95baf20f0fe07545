"""The part of a segment on one side of an offset. After a truncation inside a segment, each history keeps one part.

The object stays unchanged and is shared. The figures of both parts are exact, because splitting reads the segment once:
a restore decides by counts (gaps, transactions), which must not be guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from offsite.log.batch import LastBatch
from offsite.log.stats import LogStats, LogSummary
from offsite.model.errors import SourceTruncated
from offsite.model.untrusted.json_codec import Count, Form, JsonCodec
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.segments.segment import Segment
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPart:
    """The figures of a part of the segment `key`, with the meaning of the fields of `Segment`."""

    key: str
    start: Count
    end: Count
    first_offset: Count
    last_offset: Count
    records: Count
    control_batches: Count
    batches: Count
    largest_batch_bytes: Count
    raw_bytes: Count
    base_timestamp_min_ms: int
    timestamp_max_ms: int
    timestamp_types: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    has_transactions: bool

    def of(self, segment: Segment) -> Segment:
        """The part as a segment. `segment` is the whole, or a larger part."""
        figures = {name: getattr(self, name) for name in _NAMES if name != "key"}
        return replace(segment, **figures, whole=segment.as_written)


_NAMES = tuple(field.name for field in fields(SegmentPart))
_EARLY = ("key", "has_transactions", "timestamp_types", "leader_epochs")
_CODEC = JsonCodec(SegmentPart, early=(*_EARLY, *sorted(_NAMES)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedSegment:
    """A segment, read and split at an offset; None for a part without batches. `border`: the last batch before the
    offset."""

    below: SegmentPart | None
    above: SegmentPart | None
    border: LastBatch | None


def part_segment(segment: Segment, at: int, store: Store) -> PartedSegment:
    """Split `segment` at offset `at`. Reads the segment. Raises `SourceTruncated` if `at` lies inside a batch,
    `DamagedObject`, and errors of the store."""
    below, above, border = LogStats(), LogStats(), None
    from offsite.repository.segments.reader import SegmentReader  # loads codecs and hashes only when needed

    for chunk in SegmentReader(store=store, segment=segment).chunks():
        headers = [header for header in chunk.batches if header.base_offset < at]
        below.add(headers)
        above.add(chunk.batches[len(headers) :])
        border = LastBatch.of(headers[-1]) if headers else border
    if border is not None and border.last_offset >= at:
        raise SourceTruncated(
            f"{segment.key} has a batch that reaches over offset {at}, where its log was cut back according to the "
            "commit"
        )
    return PartedSegment(
        below=_part(segment.key, below.summary(), segment.start, at),
        above=_part(segment.key, above.summary(), at, segment.end),
        border=border,
    )


def _part(key: str, summary: LogSummary, start: int, end: int) -> SegmentPart | None:
    if not summary.batches:
        return None
    return SegmentPart(
        key=key,
        start=start,
        end=max(start + 1, end),
        first_offset=summary.first_base_offset,
        last_offset=summary.last_offset,
        records=summary.records,
        control_batches=summary.control_batches,
        batches=summary.batches,
        largest_batch_bytes=summary.largest_batch_bytes,
        raw_bytes=summary.size_bytes,
        base_timestamp_min_ms=summary.base_timestamp_min_ms,
        timestamp_max_ms=summary.timestamp_max_ms,
        timestamp_types=summary.timestamp_types,
        leader_epochs=summary.leader_epochs,
        has_transactions=summary.has_transactions,
    )


def part_of(segment: Segment) -> SegmentPart | None:
    """The figures of `segment` if it is a part of another segment."""
    return None if segment.whole is None else SegmentPart(**{name: getattr(segment, name) for name in _NAMES})


def read_part(document: JsonObject) -> SegmentPart:
    """Read a part; its figures must be consistent."""
    part = _CODEC.read(document)
    if not part.first_offset <= part.last_offset or not max(part.start, part.first_offset) < part.end:
        raise document.wrong("first_offset", "an offset before its end and its last one")
    if part.start > part.last_offset:
        raise document.wrong("last_offset", "an offset of its range")
    return part


def write_part(part: SegmentPart) -> dict[str, JsonValue]:
    return _CODEC.write(part)


PART_FORM = Form(lambda document, name: read_part(document.child(name)), write_part)
