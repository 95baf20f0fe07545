"""Every source offset maps to its own record, or by rule to the next one; in memory and as bytes."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.offset_map import MapChunk, OffsetMap, OffsetMapBuilder
from offsite.model.errors import Bug, DamagedObject, FormatTooNew

Run = tuple[int, int, int]


def map_of(*runs: Run, source: tuple[int, int], target: tuple[int, int]) -> OffsetMap:
    builder = OffsetMapBuilder(source_start=source[0], target_start=target[0])
    for run in runs:
        builder.add(*run)
    return builder.build(source_end=source[1], target_end=target[1])


# Source 100..130: records 105-109 and 115-117 and 118, the rest gaps; the target holds a marker at 6.
EXAMPLE = map_of((105, 1, 5), (115, 7, 3), (118, 10, 1), source=(100, 130), target=(0, 12))


@pytest.mark.parametrize(
    ("offset", "target", "match"),
    [
        (0, 1, "below"),
        (99, 1, "below"),
        (100, 1, "gap"),
        (104, 1, "gap"),
        (105, 1, "exact"),
        (109, 5, "exact"),
        (110, 7, "gap"),
        (114, 7, "gap"),
        (115, 7, "exact"),
        (118, 10, "exact"),
        (119, 12, "gap"),
        (129, 12, "gap"),
        (130, 12, "end"),
        (131, 12, "above"),
    ],
)
def test_each_offset_maps_by_rule(offset: int, target: int, match: str) -> None:
    found = EXAMPLE.lookup(offset)
    assert (found.target, found.match) == (target, match)
    assert found.is_clamped == (match in ("below", "above"))


def test_runs_that_adjoin_on_both_sides_are_merged() -> None:
    assert list(EXAMPLE.runs()) == [(105, 1, 5), (115, 7, 4)]


def test_a_map_without_records_maps_all_to_the_end() -> None:
    empty = map_of(source=(5, 9), target=(70, 70))
    assert [(empty.lookup(o).target, empty.lookup(o).match) for o in (4, 5, 9, 10)] == [
        (70, "below"),
        (70, "gap"),
        (70, "end"),
        (70, "above"),
    ]
    assert OffsetMap.from_bytes(empty.to_bytes()) == empty


def test_ends_default_to_those_of_the_last_run() -> None:
    builder = OffsetMapBuilder(source_start=0, target_start=0)
    builder.add(3, 4, 2)
    assert (builder.build().source_end, builder.build().target_end) == (5, 6)


@pytest.mark.parametrize("run", [(8, 20, 1), (20, 8, 1), (20, 20, -1)])
def test_a_run_that_does_not_rise_is_a_bug(run: Run) -> None:
    builder = OffsetMapBuilder(source_start=5, target_start=5)
    builder.add(5, 5, 5)
    with pytest.raises(Bug):
        builder.add(*run)


def test_an_end_before_the_last_run_is_a_bug() -> None:
    builder = OffsetMapBuilder(source_start=0, target_start=0)
    builder.add(0, 0, 5)
    with pytest.raises(Bug):
        builder.build(source_end=4)


def test_pieces_are_joined_and_their_seam_merged() -> None:
    first = map_of((0, 0, 5), source=(0, 5), target=(0, 5))
    second = map_of((5, 5, 2), (9, 7, 1), source=(5, 20), target=(5, 8))
    third = map_of(source=(20, 30), target=(8, 8))
    joined = OffsetMap.concat([first, second, third])
    assert list(joined.runs()) == [(0, 0, 7), (9, 7, 1)]
    assert (joined.source_start, joined.source_end, joined.target_end) == (0, 30, 8)
    assert OffsetMap.from_bytes(first.to_bytes() + second.to_bytes() + third.to_bytes()) == joined


def test_pieces_out_of_order_are_a_bug() -> None:
    first = map_of((0, 0, 5), source=(0, 5), target=(0, 5))
    with pytest.raises(Bug):
        OffsetMap.concat([first, first])


@st.composite
def offset_maps(draw: st.DrawFn) -> OffsetMap:
    source = source_start = draw(st.integers(0, 2**61))
    target = target_start = draw(st.integers(0, 2**61))
    builder = OffsetMapBuilder(source_start=source_start, target_start=target_start)
    for _ in range(draw(st.integers(0, 8))):
        source += draw(st.integers(0, 4))
        target += draw(st.integers(0, 2))
        count = draw(st.integers(0, 5))
        builder.add(source, target, count)
        source, target = source + count, target + count
    return builder.build(source_end=source + draw(st.integers(0, 3)), target_end=target)


@given(offset_maps())
def test_lookup_equals_a_table_of_every_record(offset_map: OffsetMap) -> None:
    table = {s + n: t + n for s, t, count in offset_map.runs() for n in range(count)}
    for offset in range(offset_map.source_start, offset_map.source_end):
        following = (table[o] for o in range(offset, offset_map.source_end) if o in table)
        found = offset_map.lookup(offset)
        assert found.target == next(following, offset_map.target_end)
        assert (found.match == "exact") == (offset in table)


@given(offset_maps())
def test_a_map_survives_as_bytes(offset_map: OffsetMap) -> None:
    assert OffsetMap.from_bytes(offset_map.to_bytes()) == offset_map


@given(st.data())
def test_damaged_bytes_are_named_damage(data: st.DataObject) -> None:
    stored = EXAMPLE.to_bytes()
    cut = data.draw(st.integers(0, len(stored) - 1))
    with pytest.raises(DamagedObject):
        OffsetMap.from_bytes(stored[:cut])
    with pytest.raises(DamagedObject):
        OffsetMap.from_bytes(b"X" + stored[1:])
    with pytest.raises(DamagedObject):
        OffsetMap.from_bytes(stored + b"OFM")


def test_a_newer_version_is_refused_as_such() -> None:
    newer = bytearray(EXAMPLE.to_bytes())
    newer[4] = 3
    with pytest.raises(FormatTooNew):
        OffsetMap.from_bytes(newer)


def packed(*numbers: int, version: int = 2, runs: int | None = None) -> bytes:
    """A chunk of these numbers, whatever they are; `runs` is put in the fifth place."""
    bounds = numbers[:4] if runs is None else (*numbers[:4], runs)
    plain = struct.pack(f"<{len(bounds) + len(numbers) - 4}q", *bounds, *numbers[4:])
    return chunk_of(zstandard.ZstdCompressor().compress(plain), version)


def chunk_of(payload: bytes, version: int) -> bytes:
    head = struct.pack("<4sBI", b"OFMP", version, len(payload))
    return head + (hashlib.sha256(head + payload).digest() if version > 1 else b"") + payload


def test_maps_without_digest_are_read_for_ever() -> None:
    stored = bytes.fromhex(
        "4f464d50013200000028b52ffd20584d0100a00a001400050009000200"
        "0100010000000000000009003b110002330900038381c1c0606030f000b0"
    )  # as it was written then
    assert OffsetMap.from_bytes(stored) == map_of((11, 5, 2), (15, 8, 1), source=(10, 20), target=(5, 9))


def test_no_flipped_bit_of_a_map_goes_unseen() -> None:
    stored = EXAMPLE.to_bytes() + map_of(source=(1 << 40, 1 << 40), target=(1 << 40, 1 << 40)).to_bytes()
    for bit in range(8 * len(stored)):
        broken = bytearray(stored)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises((DamagedObject, FormatTooNew)):
            OffsetMap.from_bytes(broken)


def test_no_flipped_bit_of_a_map_without_digest_ends_as_anything_but_damage() -> None:
    stored = packed(10, 20, 5, 9, 1, 2, 0, 1, 2, 1, version=1, runs=2)
    for bit in range(8 * len(stored)):
        broken = bytearray(stored)
        broken[bit // 8] ^= 1 << bit % 8
        with suppress(DamagedObject, FormatTooNew):
            OffsetMap.from_bytes(broken)


BIG = (1 << 63) - 1


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "numbers",
    [
        (10, 9, 0, 0),  # ranges that end before they begin
        (0, 0, 10, 9),
        (-1, 9, 0, 9),
        (0, 9, -1, 9),
        (0, 9, 0, 9, -1, 0, 1),  # starts that fall
        (0, 9, 0, 9, 0, -1, 1),
        (0, 9, 0, 9, 0, 0, 0),  # nothing, or less
        (0, 9, 0, 9, 0, 0, -1),
        (0, 9, 0, 9, 9, 0, 1),  # beyond the end
        (0, 9, 0, 9, 0, 0, 10),
        (0, BIG, 0, BIG, BIG, 0, BIG),  # beyond all numbers
        (0, BIG, 0, BIG, 5, 5, 0, 0, BIG, BIG),
    ],
)
def test_numbers_that_cannot_be_are_damage(numbers: tuple[int, ...], version: int) -> None:
    with pytest.raises(DamagedObject):
        OffsetMap.from_bytes(packed(*numbers, version=version, runs=(len(numbers) - 4) // 3))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("runs", [-1, 2, BIG, -BIG])
def test_runs_that_are_not_there_are_damage(runs: int, version: int) -> None:
    with pytest.raises(DamagedObject, match="another number of runs"):
        OffsetMap.from_bytes(packed(0, 9, 0, 9, 0, 0, 1, version=version, runs=runs))


@pytest.mark.parametrize("version", [1, 2])
def test_chunks_that_do_not_rise_are_damage(version: int) -> None:
    one = packed(0, 9, 0, 9, 0, 0, 1, version=version, runs=1)
    with pytest.raises(DamagedObject, match="do not rise"):
        OffsetMap.from_bytes(one + one)


def test_versions_of_both_kinds_may_stand_in_one_map() -> None:
    old, new = packed(0, 5, 0, 5, 0, 0, 5, version=1, runs=1), packed(5, 9, 5, 9, 0, 0, 4, runs=1)
    assert OffsetMap.from_bytes(old + new) == map_of((0, 0, 9), source=(0, 9), target=(0, 9))


@pytest.mark.parametrize("version", [1, 2])
def test_a_map_grows_no_larger_than_it_may(version: int) -> None:
    nothing = chunk_of(zstandard.ZstdCompressor().compress(bytes(64 << 20)), version)
    assert len(nothing) < 10_000
    tracemalloc.start()
    try:
        with pytest.raises(DamagedObject, match="more than 1000000 bytes"):
            list(MapChunk.read_all(nothing, max_bytes=1_000_000))
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    one, two = packed(0, 9, 0, 9, version=version, runs=0), packed(9, 9, 9, 9, version=version, runs=0)
    with pytest.raises(DamagedObject, match="more than 39 bytes"):
        list(MapChunk.read_all(one + two, max_bytes=79))
