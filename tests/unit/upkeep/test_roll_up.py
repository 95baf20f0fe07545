"""Which neighbours become one, and that they do so without a byte of a batch changed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.backup.copy import BackupEnds
from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.log.range import LogRange
from offsite.model.options import CompressionChoice
from offsite.model.units import KIB, MIB
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.reader import SegmentReader, stored_markers
from offsite.repository.segments.segment import Compression, Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.upkeep.roll_up import (
    CLASSES,
    CROWD,
    FAN_IN,
    RollUp,
    RollUpShare,
    deal_roll_ups,
    find_roll_ups,
    roll_up_all,
)
from tests.batches import chunk_of, make_batch, make_control_batch

LAYOUT = BackupLayout(backup="b")
SMALL, MIDDLE, LARGE = 1, CLASSES[0], CLASSES[-1]


def segment(start: int, *, raw_bytes: int = SMALL, **fields: object) -> Segment:
    made = Segment(
        key=LAYOUT.segment_key(topic="t", partition=0, start=start, attempt="0" * 8, compressed=False),
        topic="t",
        topic_id="id",
        partition=0,
        start=start,
        end=start + 10,
        first_offset=start,
        last_offset=start + 9,
        records=10,
        control_batches=0,
        batches=1,
        largest_batch_bytes=1,
        raw_bytes=raw_bytes,
        stored_bytes=raw_bytes,
        compression=Compression.NONE,
        base_timestamp_min_ms=0,
        timestamp_max_ms=0,
        timestamp_types=(0,),
        leader_epochs=(0,),
        has_transactions=False,
        hash="",
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def row(count: int, *, start: int = 0, raw_bytes: int = SMALL) -> list[Segment]:
    return [segment(start + 10 * n, raw_bytes=raw_bytes) for n in range(count)]


def joined(segments: list[Segment], **facts: object) -> list[tuple[int, int]]:
    return [(each.log_range.start, each.log_range.end) for each in find_roll_ups(segments, **facts)]  # type: ignore[arg-type]


def test_enough_small_neighbours_become_one() -> None:
    assert joined(row(FAN_IN - 1)) == []
    assert joined(row(FAN_IN)) == [(0, 10 * FAN_IN)]
    assert joined(row(FAN_IN + 3)) == [(0, 10 * (FAN_IN + 3))]


def test_a_large_one_is_never_written_again() -> None:
    assert joined([segment(0, raw_bytes=LARGE), *row(FAN_IN, start=10)]) == [(10, 10 + 10 * FAN_IN)]
    assert joined(row(100, raw_bytes=LARGE)) == []


def test_one_of_a_higher_class_waits_for_its_like() -> None:
    middle = segment(0, raw_bytes=MIDDLE)
    assert joined([middle, *row(FAN_IN, start=10)]) == [(10, 10 + 10 * FAN_IN)]
    assert joined([*row(FAN_IN, raw_bytes=MIDDLE), *row(2, start=10 * FAN_IN)]) == [(0, 10 * (FAN_IN + 2))]


@pytest.mark.parametrize(
    "apart",
    [
        {"compression": Compression.ZSTD},
        {"start": 85, "first_offset": 85},
        {"first_offset": 75},
        {"first_offset": 82, "start": 80, "last_offset": 91},
    ],
    ids=["another form", "not end to end", "reaches back", "reaches over its end"],
)
def test_what_does_not_fit_together_stays_apart(apart: dict[str, object]) -> None:
    segments = row(FAN_IN + 8)
    segments[8] = replace(segments[8], **apart)  # type: ignore[arg-type]
    assert all(low >= 80 or high <= 80 for low, high in joined(segments)) or "last_offset" in apart
    assert (0, 10 * (FAN_IN + 8)) not in joined(segments)


def test_no_segment_lies_over_a_hole_or_a_border() -> None:
    segments = row(2 * FAN_IN)
    segments[4] = replace(segments[4], last_offset=45)
    middle = [(0, 50), (50, 20 * FAN_IN)]
    assert joined(segments, holes=[(46, 50)]) == [middle[1]]
    assert joined(segments, borders={50}) == [middle[1]]
    assert joined(segments, holes=[(0, 1)]) == [(0, 20 * FAN_IN)], "before all of them"


def test_what_lay_in_a_pack_for_too_long_is_taken_out_with_what_lies_between() -> None:
    segments = row(5)
    for number in (1, 3):
        segments[number] = replace(segments[number], pack=LAYOUT.pack_key(number, "0" * 8))
    (found,) = find_roll_ups(segments, is_old=lambda _: True)
    assert (found.log_range.start, found.log_range.end, found.alone) == (10, 40, True)
    assert joined(segments) == []


classes = st.sampled_from([1, CLASSES[0], CLASSES[1], CLASSES[2]])


@given(st.lists(classes, max_size=120))
def test_rolling_up_again_and_again_ends_with_few_segments_and_each_in_its_place(sizes: list[int]) -> None:
    segments = [segment(10 * n, raw_bytes=size) for n, size in enumerate(sizes)]
    for _ in range(200):
        found = list(find_roll_ups(segments))
        if not found:
            break
        for each in found:
            low, high = segments.index(each.segments[0]), segments.index(each.segments[-1])
            assert tuple(segments[low : high + 1]) == each.segments
            first = each.segments[0]
            merged = replace(
                first, end=each.log_range.end, last_offset=each.log_range.end - 1, raw_bytes=each.raw_bytes
            )
            segments[low : high + 1] = [merged]
    else:
        pytest.fail("it goes on for ever")
    assert sum(each.raw_bytes for each in segments) == sum(sizes)


def log_uniform() -> Iterator[int]:
    chance = random.Random(1)
    while True:
        yield int(2 ** chance.uniform(10, 24))


def small_between_middle_between_large() -> Iterator[int]:
    yield from [*([*[1] * 15, 300 * KIB] * 15), 5 * MIB] * 100


@pytest.mark.parametrize("sizes", [log_uniform, small_between_middle_between_large])
def test_however_sizes_are_mixed_few_small_segments_stand_in_a_partition(sizes: Callable[[], Iterator[int]]) -> None:
    """A producer with bursts: small ones would wait between larger ones for ever."""
    segments: list[Segment] = []
    written = total = most = 0
    for number, size in enumerate(islice(sizes(), 1500)):
        segments.append(segment(10 * number, raw_bytes=size))
        total += size
        while number % FAN_IN == 0 and (found := list(find_roll_ups(segments))):
            for each in found:
                low = segments.index(each.segments[0])
                end, raw_bytes = each.log_range.end, each.raw_bytes
                merged = replace(each.segments[0], end=end, last_offset=end - 1, raw_bytes=raw_bytes)
                segments[low : low + len(each.segments)] = [merged]
                written += raw_bytes
        most = max(most, sum(each.raw_bytes < CLASSES[1] for each in segments))
    assert most <= CROWD * FAN_IN + FAN_IN
    assert written <= 6 * total


@pytest.fixture
def ends(tmp_path: Path) -> BackupEnds:
    store = open_folder(tmp_path / "repo")
    store.prepare()
    kafka = KafkaConfig(bootstrap=parse_bootstrap("127.0.0.1:1"))
    return BackupEnds(kafka=kafka, store=store, layout=LAYOUT, compression=CompressionChoice.NONE)


def written(store: PosixStore, start: int, end: int, *batches: bytes, compression: str = "none") -> Segment:
    log_range = LogRange(topic="t", partition=0, start=start, end=end)
    choice = CompressionChoice(compression)
    with SegmentWriter(store=store, layout=LAYOUT, log_range=log_range, topic_id="id", compression=choice) as writer:
        writer.append(chunk_of(b"".join(batches)))
        (made,) = writer.close()
    return made


def read(store: PosixStore, *segments: Segment) -> bytes:
    readers = [SegmentReader(store=store, segment=each) for each in segments]
    return b"".join(bytes(h.view(c.data)) for reader in readers for c in reader.chunks() for h in c.batches)


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("alone", [True, False])
def test_the_batches_are_as_they_were(ends: BackupEnds, compression: str, alone: bool) -> None:
    store, marker = ends.store, make_control_batch(5, producer_id=7, committed=True)
    parts = (
        written(store, 0, 3, make_batch(0, records=3), compression=compression),
        written(store, 3, 9, make_batch(3, records=2), marker, compression=compression),
        written(store, 9, 12, make_batch(9, records=3), compression=compression),
    )
    (task,) = deal_roll_ups([RollUp(segments=parts, alone=alone)], slots=2)
    (made,) = roll_up_all(task, ends=ends, base=4)
    assert made is not None
    assert read(store, made) == read(store, *parts)
    assert (made.start, made.end, made.first_offset, made.last_offset) == (0, 12, 0, 11)
    assert (made.records, made.batches, made.control_batches) == (8, 4, 1)
    assert (made.pack is None, made.compression) == (alone, parts[0].compression)
    assert [marker.offset for part in stored_markers([made], store) for marker in part] == [5]


def test_a_damaged_segment_is_left_as_it_is_and_spares_the_others(ends: BackupEnds, tmp_path: Path) -> None:
    sound = (written(ends.store, 0, 3, make_batch(0, records=3)), written(ends.store, 3, 6, make_batch(3, records=3)))
    bad = (
        written(ends.store, 10, 13, make_batch(10, records=3)),
        written(ends.store, 13, 16, make_batch(13, records=3)),
    )
    path = tmp_path / "repo" / bad[1].key
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    task = RollUpShare(roll_ups=(RollUp(segments=bad, alone=False), RollUp(segments=sound, alone=False)), packed=True)
    none, made = roll_up_all(task, ends=ends, base=1)
    assert none is None
    assert made is not None
    assert read(ends.store, made) == read(ends.store, *sound)
