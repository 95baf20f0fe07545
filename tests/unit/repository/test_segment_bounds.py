"""Whatever a segment and its sidecar hold, reading them stays within what the commit says, and ends as damage."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import zstandard

from offsite.log.markers import Marker, Markers
from offsite.model.errors import DamagedObject
from offsite.model.units import MIB
from offsite.model.untrusted.json_object import JsonValue
from offsite.repository.json_form import encode_canonical
from offsite.repository.segments.body import content_hash
from offsite.repository.segments.index import Frame, SegmentIndex, decode_index, decode_markers, encode_index
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.stores.posix_store import PosixStore, open_folder
from tests.batches import chunk_of, make_batch
from tests.unit.repository.test_segment_writer import writer_for


@cache
def bomb_of(*, states_its_size: bool) -> bytes:
    """Made when a test asks: every process of a run imports this file."""
    made = zstandard.ZstdCompressor(write_content_size=states_its_size).compress(bytes(192 * MIB))
    assert len(made) < 32_000
    return made


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    store = open_folder(tmp_path / "repo")
    store.prepare()
    return store


def written(store: PosixStore, *, batches: int = 1, compression: str = "zstd") -> Segment:
    """A segment of batches of 3 MiB each."""
    end = 10 * batches
    with writer_for(store, 0, end, compression=compression) as writer:  # type: ignore[arg-type]
        for base in range(0, end, 10):
            writer.append(chunk_of(make_batch(base, value=bytes(range(256)) * 1200)))
        (segment,) = writer.close()
    return segment


def with_object(store: PosixStore, segment: Segment, data: bytes) -> Segment:
    """The commit of somebody who can hash."""
    (store.root / segment.key).write_bytes(data)
    return replace(segment, stored_bytes=len(data), hash=content_hash(data))


def with_index(store: PosixStore, segment: Segment, data: bytes) -> Segment:
    (store.root / str(segment.index_key)).write_bytes(data)
    return replace(segment, index_hash=content_hash(data))


def read(store: PosixStore, segment: Segment) -> int:
    return sum(len(chunk.batches) for chunk in SegmentReader(store=store, segment=segment).chunks())


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        with suppress(DamagedObject):
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("states_its_size", [False, True])
def test_an_object_read_at_once_is_hashed_before_it_is_expanded(store: PosixStore, states_its_size: bool) -> None:
    segment = written(store)
    forged = replace(with_object(store, segment, bomb_of(states_its_size=states_its_size)), hash=segment.hash)
    with pytest.raises(DamagedObject, match="recorded hash"):
        read(store, forged)
    assert peak_bytes(lambda: read(store, forged)) < 4 * MIB


@pytest.mark.parametrize("states_its_size", [False, True])
def test_a_segment_grows_no_larger_than_its_commit_says(store: PosixStore, states_its_size: bool) -> None:
    forged = with_object(store, written(store), bomb_of(states_its_size=states_its_size))
    with pytest.raises(DamagedObject, match="more than"):
        read(store, forged)
    assert peak_bytes(lambda: read(store, forged)) < 40 * MIB


def test_a_frame_grows_no_larger_than_its_index_says(store: PosixStore) -> None:
    segment = written(store, batches=3)
    (first, second) = SegmentReader(store=store, segment=segment).index().frames
    bomb = bomb_of(states_its_size=False)
    forged = with_object(store, replace(segment, raw_bytes=100 * MIB), bomb + b"rest")
    frames = (first, replace(second, stored_position=len(bomb)))
    forged = with_index(store, forged, encode_index(SegmentIndex(segment_key=segment.key, frames=frames)))
    with pytest.raises(DamagedObject, match="more than"):
        read(store, forged)
    assert peak_bytes(lambda: read(store, forged)) < 40 * MIB


def test_without_its_index_a_segment_is_expanded_part_by_part(store: PosixStore) -> None:
    segment = written(store, batches=20)
    (store.root / str(segment.index_key)).unlink()
    assert read(store, segment) == 20
    assert peak_bytes(lambda: read(store, segment)) < 40 * MIB
    forged = with_object(store, segment, bomb_of(states_its_size=False))
    with pytest.raises(DamagedObject):
        read(store, forged)
    assert peak_bytes(lambda: read(store, forged)) < 60 * MIB


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_announces_a_batch_larger_than_any_is_not_collected(store: PosixStore, compression: str) -> None:
    segment = written(store, batches=3, compression=compression)
    (store.root / str(segment.index_key)).unlink()
    endless = struct.pack(">qiib", 0, (1 << 31) - 1, 0, 2) + bytes(64 * MIB)
    stored = endless if compression == "none" else zstandard.ZstdCompressor().compress(endless)
    forged = replace(with_object(store, segment, stored), raw_bytes=len(endless))
    with pytest.raises(DamagedObject, match="larger than the largest batch of the segment"):
        read(store, forged)
    assert peak_bytes(lambda: read(store, forged)) < 60 * MIB


@pytest.mark.parametrize("has_index", [True, False])
def test_sizes_that_no_object_has_are_damage(store: PosixStore, has_index: bool) -> None:
    segment = written(store, batches=3 if has_index else 1)
    for size in (1 << 40, 1 << 62, 1 << 70):
        with pytest.raises(DamagedObject):
            read(store, replace(segment, stored_bytes=size, raw_bytes=size))
    with suppress(FileNotFoundError):
        (store.root / str(segment.index_key)).unlink()
    with pytest.raises(DamagedObject):
        read(store, replace(segment, stored_bytes=1 << 62, raw_bytes=1 << 62))


def packed(text: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(text)


HEAD = b'{"format":1,"frames":[[0,0,0,-1,7]],"markers":['
TAIL = b'],"segment":"k"}\n'


@pytest.mark.parametrize(
    "make_text",
    [
        lambda: b'{"format":1,"frames":[' + b"[],[]," * (8 * MIB) + b"[]]," + HEAD[1:] + TAIL,
        lambda: HEAD + b"1," * (32 * MIB) + b"1" + TAIL,
        lambda: HEAD + b"1" * (64 * MIB) + TAIL,
        lambda: HEAD + b"]" + b"," + b'"a":"' + b"x" * (64 * MIB) + b'"' + TAIL[1:],
        lambda: b'{"x":"' + b"x" * (64 * MIB) + b'",' + HEAD[1:] + TAIL,
    ],
    ids=["frames", "a marker of many numbers", "a marker of one number", "behind", "before"],
)
def test_a_sidecar_takes_no_more_than_a_sidecar_may(make_text: Callable[[], bytes]) -> None:
    data = packed(make_text())
    assert len(data) < 20_000
    for work in (decode_index, lambda data, key: list(decode_markers(data, key=key))):
        with pytest.raises(DamagedObject):
            work(data, key="k")
        assert peak_bytes(lambda work=work: work(data, key="k")) < 40 * MIB  # type: ignore[misc]


@pytest.mark.parametrize("depth", [900, 60_000])
def test_text_that_is_too_deep_is_damage(depth: int) -> None:
    for text in (HEAD + b"[" * depth + TAIL, HEAD + b"[" * depth + b"1],[1" + b"]" * depth + TAIL):
        with pytest.raises(DamagedObject):
            decode_index(packed(text), key="k")


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [[-1, 0, 0, 5, 7]],
        [[0, 1, 0, 5, 7]],
        [[0, 0, 1, 5, 7]],
        [[0, 0, 0, 5, -1]],
        [[0, 0, 0, 5, 1 << 32]],
        [[0, 0, 0, 1 << 63, 7]],
        [[0, 0, 0, 5, 7], [0, 9, 9, 5, 7]],
        [[0, 0, 0, 5, 7], [9, 0, 9, 5, 7]],
        [[0, 0, 0, 5, 7], [9, 9, 0, 5, 7]],
        [[0, 0, 0, 5, 7], [9, 9, 1 << 63, 5, 7]],
    ],
)
def test_frames_that_do_not_follow_each_other_are_damage(frames: JsonValue) -> None:
    with pytest.raises(DamagedObject):
        decode_index(packed(encode_canonical({"format": 1, "frames": frames, "markers": [], "segment": "k"})), key="k")


def test_markers_that_do_not_rise_are_damage() -> None:
    frames = (Frame(first_offset=0, raw_position=0, stored_position=0, timestamp_max_ms=-1, raw_crc=7),)
    for offsets in ([5, 5], [-1], [6, 5], [*range(20_000), 0]):
        markers = Markers(Marker(offset, 7, 0, True, -1) for offset in offsets)
        data = encode_index(SegmentIndex(segment_key="k", frames=frames, markers=markers))
        with pytest.raises(DamagedObject, match="do not rise"):
            decode_index(data, key="k")
        with pytest.raises(DamagedObject, match="do not rise"):
            list(decode_markers(data, key="k"))


def test_markers_of_another_form_with_large_numbers_are_damage() -> None:
    text = b'{"format": 1, "frames": [[0,0,0,-1,7]], "markers": [[99999999999999999999,2,3,1,0]], "segment": "k"}'
    with pytest.raises(DamagedObject):
        decode_index(packed(text), key="k")


@pytest.mark.parametrize("row", [[1 << 63, 0, 0], [0, -1, 0], [0, 0, 1 << 70]])
def test_open_transactions_outside_of_what_kafka_can_number_are_damage(row: list[int]) -> None:
    fields = {"format": 1, "frames": [[0, 0, 0, -1, 7]], "markers": [], "open": [row], "segment": "k"}
    with pytest.raises(DamagedObject):
        decode_index(packed(encode_canonical(fields)), key="k")


def test_an_index_of_more_than_the_segment_has_is_of_no_use(store: PosixStore) -> None:
    segment = written(store, batches=3)
    with pytest.raises(DamagedObject, match="more bytes than the object has"):
        SegmentReader(store=store, segment=replace(segment, raw_bytes=1000)).index()
    with pytest.raises(DamagedObject, match="more bytes than the object has"):
        SegmentReader(store=store, segment=replace(segment, stored_bytes=10)).index()
