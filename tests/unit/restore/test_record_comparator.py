"""Two sequences of batches in step: equal ones pass as bytes or as records, and the first difference is named."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.batch import CRC_START, LOG_APPEND_TIME_BIT, BatchHeader, scan
from offsite.log.codec import LZ4, NONE, ZSTD
from offsite.log.records.batch_records import encode, renumber
from offsite.log.records.record import Record
from offsite.points.source_view import RecordBounds, VisibleBatch
from offsite.restore.compare import records as comparator
from offsite.restore.compare.records import Compaction, PartitionProof, RecordComparator, SupersededKeys
from tests.batches import make_control_batch

TIME_MS = 1_700_000_000_000
ALL = RecordBounds(0, 1 << 62)


def record(offset: int, value: bytes | None = None, **changes: Any) -> Record:
    made = Record(
        offset, TIME_MS + offset, 0, b"%d" % offset, value or b"value %d" % offset, (("h", b"1"), ("h", b"2"))
    )
    return made._replace(**changes)


def records(count: int, *, start: int = 0) -> list[Record]:
    return [record(offset) for offset in range(start, start + count)]


def batches(
    found: Sequence[Record], *, size: int = 10, codec: int = NONE, record_bounds: RecordBounds = ALL
) -> Iterable[VisibleBatch]:
    for start in range(0, len(found), size):
        data = memoryview(encode(found[start : start + size], codec=codec))
        yield VisibleBatch(data, scan(data)[0], record_bounds)


def compare(
    source: Iterable[VisibleBatch],
    target: Iterable[VisibleBatch],
    *,
    offsets: bool = False,
    exact: bool = True,
    compaction: Compaction | None = None,
) -> PartitionProof:
    return RecordComparator(source, target, offsets=offsets, exact=exact, compaction=compaction).run()


def keyed(count: int, *, keys: int, start: int = 0) -> list[Record]:
    """Each of the keys in turn."""
    return [record(offset, key=b"k%d" % (offset % keys)) for offset in range(start, start + count)]


def compacted(  # all by keyword
    source: Sequence[Record],
    target: Iterable[VisibleBatch],
    *,
    offsets: bool = True,
    exact: bool = True,
    first: int | None = 0,
    tail_to: int = 1000,
    later: Sequence[Record] = (),
    committed: Callable[[BatchHeader], bool | None] = lambda _: True,
) -> PartitionProof:
    """Against a compacted log, to which the source was written from `first` on where offsets do not count."""
    compaction = Compaction(
        later=lambda: batches(later), committed=committed, first=None if offsets else first, tail_to=tail_to
    )
    return compare(batches(source), target, offsets=offsets, exact=exact, compaction=compaction)


def marker(offset: int, *, committed: bool = True) -> VisibleBatch:
    data = memoryview(bytearray(make_control_batch(offset, producer_id=7, committed=committed)))
    return VisibleBatch(data, scan(data)[0], ALL)


def test_equal_batches_are_never_decoded() -> None:
    found = compare(batches(records(100)), batches(renumber(records(100), start=7)))
    assert (found.difference, found.records, found.decoded_records, found.next_target) == (None, 100, 0, 107)


def test_other_batch_borders_and_codecs_are_no_difference() -> None:
    found = compare(batches(records(100), size=10, codec=LZ4), batches(records(100), size=7, codec=ZSTD))
    assert (found.difference, found.records, found.decoded_records) == (None, 100, 100)


def test_one_batch_of_another_shape_does_not_slow_the_rest_down() -> None:
    target = [*batches(records(10), size=5), *batches(records(90, start=10))]
    found = compare(batches(records(100)), target)
    assert (found.difference, found.records, found.decoded_records) == (None, 100, 10)


def test_the_digest_says_what_the_source_holds_however_the_target_is_cut() -> None:
    digests = {compare(batches(records(50)), batches(records(50), size=size)).digest for size in (10, 3, 50)}
    assert len(digests) == 1
    assert digests != {compare(batches(records(49)), batches(records(49))).digest}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"value": b"value X7"}, "value"),
        ({"value": None}, "value"),
        ({"value": b""}, "value"),
        ({"key": None}, "key"),
        ({"timestamp_ms": TIME_MS + 38}, "timestamp"),
        ({"headers": (("h", b"2"), ("h", b"1"))}, "headers"),
        ({"headers": (("h", b"1"),)}, "headers"),
        ({"headers": (("h", b"1"), ("h", None))}, "headers"),
    ],
)
@pytest.mark.parametrize("size", [10, 3])
def test_one_changed_record_is_named_with_what_changed(change: dict[str, Any], field: str, size: int) -> None:
    target = records(100)
    target[37] = target[37]._replace(**change)
    found = compare(batches(records(100)), batches(renumber(target, start=1000), size=size))
    assert found.difference is not None
    assert (found.difference.kind, found.difference.fields) == ("changed", (field,))
    assert (found.difference.source_offset, found.difference.target_offset) == (37, 1037)
    assert found.records == 37
    assert "value 37" not in found.difference.detail


@pytest.mark.parametrize("size", [10, 3])
@pytest.mark.parametrize(("first", "count"), [(37, 1), (0, 1), (30, 10), (95, 5), (99, 1)])
def test_missing_records_are_named_and_counted(first: int, count: int, size: int) -> None:
    target = records(100)
    del target[first : first + count]
    found = compare(batches(records(100)), batches(renumber(target), size=size))
    assert found.difference is not None
    assert (found.difference.kind, found.difference.source_offset) == ("missing", first)
    assert (found.difference.records, found.records) == (count, first)


@pytest.mark.parametrize("size", [10, 3])
@pytest.mark.parametrize(("first", "count"), [(37, 1), (0, 1), (30, 10), (100, 5)])
def test_extra_records_are_named_and_counted(first: int, count: int, size: int) -> None:
    target = records(100)
    target[first:first] = [record(500 + n) for n in range(count)]
    found = compare(batches(records(100)), batches(renumber(target), size=size))
    assert found.difference is not None
    assert (found.difference.kind, found.difference.target_offset) == ("extra", first)
    assert (found.difference.records, found.records) == (count, first)


def test_a_record_that_came_twice_is_extra() -> None:
    target = records(100)
    target.insert(38, target[37])
    found = compare(batches(records(100)), batches(renumber(target)))
    assert found.difference is not None
    assert (found.difference.kind, found.difference.target_offset, found.difference.records) == ("extra", 38, 1)


@pytest.mark.parametrize("place", [37, 0, 98])
def test_two_records_in_the_wrong_order_are_named(place: int) -> None:
    target = records(100)
    target[place], target[place + 1] = target[place + 1], target[place]
    found = compare(batches(records(100)), batches(renumber(target)))
    assert found.difference is not None
    assert (found.difference.kind, found.difference.source_offset) == ("reordered", place)


def test_a_whole_missing_tail_is_counted_beyond_what_is_looked_at() -> None:
    found = compare(batches(records(5000)), batches(records(1000)))
    assert found.difference is not None
    assert (found.difference.kind, found.difference.source_offset, found.difference.records) == ("missing", 1000, 4000)


def test_what_comes_after_the_end_counts_only_when_asked() -> None:
    found = compare(batches(records(100)), batches(records(5000)), exact=False)
    assert (found.difference, found.records, found.next_target) == (None, 100, 100)
    found = compare(batches(records(100)), batches(records(5000)), exact=True)
    assert found.difference is not None
    assert (found.difference.kind, found.difference.target_offset, found.difference.records) == ("extra", 100, 4900)


def test_where_the_target_goes_on_is_told_when_it_may() -> None:
    assert compare(batches(records(10)), batches(records(25)), exact=False).following == 10
    assert compare(batches(records(10)), batches(records(10)), exact=False).following == -1
    assert compare([], batches(records(5, start=40)), exact=False).following == 40


def test_markers_are_counted_apart_and_must_say_the_same() -> None:
    source = [*batches(records(10)), marker(10), *batches(records(10, start=11)), marker(21)]
    found = compare(source, list(source), offsets=True)
    assert (found.difference, found.records, found.markers) == (None, 20, 2)
    found = compare(source, [*source[:-1], marker(21, committed=False)], offsets=True)
    assert found.difference is not None
    assert (found.difference.kind, found.difference.fields, found.difference.source_offset) == ("changed", ("key",), 21)
    found = compare(source, source[:-1], offsets=True)
    assert found.difference is not None
    assert (found.difference.kind, found.difference.source_offset, found.markers) == ("missing", 21, 1)


def test_compaction_may_take_the_tail_only_of_a_log_that_goes_on() -> None:
    source, again = keyed(100, keys=100), keyed(100, keys=100, start=100)
    goes_on = Compaction(tail_to=100, later=lambda: batches(again))
    found = compare(batches(source), batches(source[:80]), offsets=True, compaction=goes_on)
    assert (found.difference, found.records, found.compacted_records) == (None, 80, 20)
    ends = Compaction(later=lambda: batches(again))
    found = compare(batches(source), batches(source[:80]), offsets=True, compaction=ends)
    assert found.difference is not None
    assert (found.difference.kind, found.difference.source_offset) == ("missing", 80)
    found = compare(batches(source), batches(source[:80]), offsets=True)
    assert found.difference is not None


def test_offsets_count_only_when_asked() -> None:
    shifted = renumber(records(100), start=1)
    assert compare(batches(records(100)), batches(shifted)).difference is None
    found = compare(batches(records(100)), batches(shifted), offsets=True)
    assert found.difference is not None
    assert (found.difference.kind, found.difference.fields, found.difference.target_offset) == (
        "changed",
        ("offset",),
        1,
    )


def test_a_gap_that_closed_is_a_changed_offset() -> None:
    source = [*records(37), *records(60, start=40)]
    assert compare(batches(source), batches(source, size=9), offsets=True).difference is None
    found = compare(batches(source), batches(renumber(source)), offsets=True)
    assert found.difference is not None
    assert (found.difference.source_offset, found.difference.target_offset) == (40, 37)


def test_records_outside_the_bounds_do_not_count() -> None:
    record_bounds = RecordBounds(13, 57, TIME_MS + 51)
    found = compare(batches(records(100), record_bounds=record_bounds), batches(renumber(records(100)[13:52]), size=4))
    assert (found.difference, found.records) == (None, 39)


def test_a_logappendtime_batch_equals_the_createtime_batch_of_its_times() -> None:
    data = memoryview(encode(records(10)))
    struct.pack_into(">h", data, CRC_START, LOG_APPEND_TIME_BIT)
    target = [each._replace(timestamp_ms=TIME_MS + 9) for each in records(10)]
    found = compare([VisibleBatch(data, scan(data)[0], ALL)], batches(target))
    assert (found.difference, found.decoded_records) == (None, 10)


def test_two_empty_sides_are_equal() -> None:
    assert compare([], []).difference is None


@given(
    st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=30),
    st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=30),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_a_difference_is_found_exactly_when_there_is_one(
    source: list[bytes], target: list[bytes], source_size: int, target_size: int
) -> None:
    sides = [[Record(n, TIME_MS, 0, None, value) for n, value in enumerate(side)] for side in (source, target)]
    found = compare(batches(sides[0], size=source_size), batches(sides[1], size=target_size))
    assert (found.difference is None) == (source == target)
    equal = next((n for n, (a, b) in enumerate(zip(source, target, strict=False)) if a != b), None)
    assert found.records == (min(len(source), len(target)) if equal is None else equal)


@pytest.mark.parametrize("size", [10, 3])
@pytest.mark.parametrize("offsets", [True, False])
def test_records_that_compaction_took_are_counted_and_no_difference(size: int, offsets: bool) -> None:
    source = keyed(100, keys=40)
    left = [each for each in source if each.offset % 3 == 0 or each.offset >= 60]
    target = left if offsets else [each._replace(offset=each.offset + 7) for each in left]
    found = compacted(source, batches(target, size=size), offsets=offsets, first=None if offsets else 7)
    assert (found.difference, found.records, found.compacted_records) == (None, len(left), 100 - len(left))
    assert found.unknown == ""


@pytest.mark.parametrize("offsets", [True, False])
def test_a_record_whose_key_does_not_come_again_was_not_taken_by_compaction(offsets: bool) -> None:
    source = records(100)
    found = compacted(source, batches([*source[:30], *source[50:]]), offsets=offsets)
    assert found.difference is not None
    assert (found.difference.kind, found.difference.source_offset, found.difference.records) == ("missing", 30, 20)
    assert (found.records, found.compacted_records) == (80, 0)
    again = [each._replace(offset=each.offset + 100) for each in source[30:49]]
    found = compacted(source, batches([*source[:30], *source[50:]]), offsets=offsets, later=again)
    assert found.difference is not None
    assert (found.difference.source_offset, found.difference.records) == (49, 1)
    again = [each._replace(offset=each.offset + 100) for each in source[30:50]]
    found = compacted(source, batches([*source[:30], *source[50:]]), offsets=offsets, later=again)
    assert (found.difference, found.unknown) == (None, "")


def test_tombstones_and_records_without_a_key_may_go_and_a_tombstone_excuses_what_it_deleted() -> None:
    source = keyed(10, keys=10)
    source[1] = source[1]._replace(key=b"k0", value=None)
    source[2] = source[2]._replace(key=None)
    found = compacted(source, batches(source[3:]))
    assert (found.difference, found.unknown, found.compacted_records) == (None, "", 3)
    source[3] = source[3]._replace(key=b"k0")
    found = compacted(source, batches(source[4:]))
    assert found.difference is not None
    assert (found.difference.source_offset, found.difference.records) == (3, 1)


def test_of_equal_records_that_follow_each_other_the_later_is_the_one_that_stayed() -> None:
    source = [Record(offset, TIME_MS, 0, b"same", b"same") for offset in range(20)]
    target = [source[19]._replace(offset=119)]
    found = compacted(source, batches(target), offsets=False, first=100)
    assert (found.difference, found.records, found.compacted_records, found.next_target) == (None, 1, 19, 120)


def test_behind_a_restore_others_may_write_and_its_end_must_be_in_the_log() -> None:
    source = keyed(20, keys=10)
    later = [each._replace(offset=each.offset + 20) for each in keyed(10, keys=10)]
    found = compacted(source, batches(later), offsets=False, exact=False, tail_to=30)
    assert (found.difference, found.records, found.compacted_records, found.following) == (None, 0, 20, 20)
    found = compacted(source, batches(source[10:15]), offsets=False, exact=False, tail_to=15)
    assert found.difference is not None
    assert (found.difference.kind, found.difference.source_offset, found.difference.records) == ("missing", 15, 5)


def test_what_was_aborted_may_go_and_excuses_nothing() -> None:
    source = keyed(30, keys=10)
    aborted = compacted(source, batches(source[10:]), committed=lambda header: header.base_offset >= 10)
    assert (aborted.difference, aborted.unknown) == (None, "")
    no_witness = compacted(source, batches(source[10:]), committed=lambda header: header.base_offset < 10)
    assert no_witness.difference is not None
    assert (no_witness.difference.source_offset, no_witness.difference.records) == (0, 10)


def test_where_the_end_of_a_transaction_is_not_known_neither_is_the_verdict() -> None:
    source = records(30)
    lacking = compacted(
        source, batches(source[10:]), committed=lambda header: None if header.base_offset < 10 else True
    )
    assert lacking.difference is None
    assert "transactions with an unknown end" in lacking.unknown
    source = keyed(30, keys=10)
    witness = compacted(source, batches(source[10:]), committed=lambda header: None if header.base_offset else True)
    assert witness.difference is None
    assert witness.unknown


def test_more_keys_than_can_be_held_leave_the_verdict_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparator, "SupersededKeys", partial(SupersededKeys, held_max=9))
    source = keyed(40, keys=20)
    found = compacted(source, batches(source[20:]))
    assert (found.difference, found.compacted_records) == (None, 20)
    assert "more than 9 keys" in found.unknown
    changed = [*source[20:39], source[39]._replace(value=b"other")]
    found = compacted(source, batches(changed))
    assert found.difference is not None
    assert (found.difference.kind, found.unknown) == ("changed", "")


@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=40), st.data(), st.booleans())
def test_a_target_is_the_same_exactly_when_it_kept_the_last_of_each_key(
    keys: list[bytes], data: st.DataObject, offsets: bool
) -> None:
    source = [Record(n, TIME_MS, 0, key, b"v") for n, key in enumerate(keys)]
    keeps = data.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)))
    target = [each for each, keep in zip(source, keeps, strict=True) if keep]
    last = {each.key: each.offset for each in source}
    lost = {key for key, offset in last.items() if not any(each.offset == offset for each in target)}
    found = compacted(source, batches(target, size=7), offsets=offsets)
    assert (found.difference.records if found.difference else 0) == len(lost)


def test_a_compacted_topic_may_lack_neither_its_end_nor_what_it_changed() -> None:
    source = keyed(100, keys=20)
    shorter = compacted(source, batches(source[:90]), tail_to=0)
    assert shorter.difference is not None
    assert (shorter.difference.kind, shorter.difference.records) == ("missing", 10)
    changed = [*source[:50], source[50]._replace(value=b"other"), *source[60:]]
    found = compacted(source, batches(changed))
    assert found.difference is not None
    assert (found.difference.kind, found.difference.source_offset) == ("changed", 50)
