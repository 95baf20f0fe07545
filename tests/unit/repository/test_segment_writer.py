from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import zstandard
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.range import LogRange
from offsite.model.errors import Bug, ObjectTaken
from offsite.model.options import CompressionChoice
from offsite.model.units import MIB
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Compression, Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.stores.posix_store import PosixStore, open_folder
from tests.batches import FIRST_TIME_MS, chunk_of, chunks_of, make_batch, make_control_batch, make_log
from tests.examples import examples

LAYOUT = BackupLayout(backup="b")


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    store = open_folder(tmp_path / "repo")
    store.prepare()
    return store


def writer_for(
    store: PosixStore,
    start: int,
    end: int,
    *,
    compression: CompressionChoice = "none",
    target_bytes: int = 128 * MIB,
    attempts: list[str] | None = None,
) -> SegmentWriter:
    names = iter(attempts or [f"{number:08x}" for number in range(100)])
    return SegmentWriter(
        store=store,
        layout=LAYOUT,
        log_range=LogRange(topic="t", partition=3, start=start, end=end),
        topic_id="id",
        compression=compression,
        target_bytes=target_bytes,
        attempts=lambda: next(names),
    )


def read_back(store: PosixStore, segments: Iterable[Segment], **span: int) -> bytes:
    return b"".join(
        bytes(header.view(chunk.data))
        for segment in segments
        for chunk in SegmentReader(store=store, segment=segment).chunks(**span)
        for header in chunk.batches
    )


def test_a_segment_holds_the_batches_as_they_came(store: PosixStore) -> None:
    log = make_log(100, 200)
    with writer_for(store, 90, 250) as writer:
        writer.append(chunk_of(log))
        (segment,) = writer.close()
    assert segment.key == f"backups/b/topics/t/partition=3/t+3-{90:020d}-00000000.log"
    assert store.get(segment.key) == log
    assert (segment.start, segment.end, segment.first_offset, segment.last_offset) == (90, 250, 100, 199)
    assert (segment.records, segment.batches, segment.raw_bytes, segment.stored_bytes) == (100, 10, len(log), len(log))
    assert (segment.base_timestamp_min_ms, segment.timestamp_max_ms) == (FIRST_TIME_MS + 100, FIRST_TIME_MS + 199)
    assert segment.hash == f"blake3:{blake3(log).hexdigest()}"
    assert segment.index_key is None


def test_a_range_without_batches_gives_no_segment(store: PosixStore) -> None:
    with writer_for(store, 0, 100) as writer:
        assert writer.close() == ()
    assert list(store.list("")) == []


def test_segments_rotate_by_size_and_share_the_range_without_gaps(store: PosixStore) -> None:
    batches = [make_batch(base, value=b"x" * 1000) for base in range(0, 1000, 10)]
    with writer_for(store, 0, 1005, target_bytes=200_000) as writer:
        for chunk in chunks_of(batches, per_chunk=5):
            writer.append(chunk)
        segments = writer.close()
    assert len(segments) > 3
    assert [s.start for s in segments] == [0, *(s.end for s in segments[:-1])]
    assert segments[-1].end == 1005
    assert read_back(store, segments) == b"".join(batches)


def test_where_the_log_starts_anew_inside_a_batch_a_segment_begins(store: PosixStore) -> None:
    with writer_for(store, 0, 100) as writer:
        writer.append(chunk_of(make_batch(0)))
        writer.skip_to(44)
        writer.append(chunk_of(make_batch(40)))
        writer.append(chunk_of(make_batch(50)))
        segments = writer.close()
    assert [(s.start, s.end, s.first_offset, s.last_offset) for s in segments] == [(0, 44, 0, 9), (44, 100, 40, 59)]


def test_a_log_that_starts_behind_the_range_leaves_what_was_read_before(store: PosixStore) -> None:
    with writer_for(store, 0, 100) as writer:
        writer.append(chunk_of(make_batch(0)))
        writer.skip_to(100)
        (segment,) = writer.close()
    assert (segment.start, segment.end) == (0, 100)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_large_segment_is_framed_and_can_be_read_from_any_offset(
    store: PosixStore, compression: CompressionChoice
) -> None:
    batches = [make_batch(base, value=bytes(range(256)) * 400) for base in range(0, 200, 10)]
    with writer_for(store, 0, 200, compression=compression) as writer:
        for chunk in chunks_of(batches, per_chunk=7):
            writer.append(chunk)
        (segment,) = writer.close()
    reader = SegmentReader(store=store, segment=segment)
    frames = reader.index().frames
    assert len(frames) == 4
    assert [frame.timestamp_max_ms for frame in frames][-1] == segment.timestamp_max_ms
    assert read_back(store, [segment]) == b"".join(batches)
    for start, end in [(0, 1), (10, 20), (35, 95), (100, 200), (199, 200), (190, 200), (0, 0)]:
        wanted = b"".join(b for base, b in zip(range(0, 200, 10), batches, strict=True) if start <= base < end)
        assert read_back(store, [segment], start=start, end=end) == wanted


def test_zst_objects_are_plain_zstd_to_any_reader(store: PosixStore) -> None:
    log = make_log(0, 100, value=b"v" * 1000)
    with writer_for(store, 0, 100, compression="zstd") as writer:
        writer.append(chunk_of(log))
        (segment,) = writer.close()
    stored = store.get(segment.key)
    assert segment.key.endswith(".log.zst")
    assert stored is not None
    assert len(stored) == segment.stored_bytes < segment.raw_bytes == len(log)
    assert zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(stored) == log


def test_auto_compresses_only_what_the_producer_left_uncompressed(store: PosixStore) -> None:
    kinds = {}
    for codec in (0, 2, 3, 4):
        with writer_for(store, 0, 100, compression="auto", attempts=[f"0000000{codec}"]) as writer:
            writer.append(chunk_of(make_log(0, 100, value=b"v" * 1000, codec=codec)))
            kinds[codec] = writer.close()[0].compression
    assert kinds == {0: Compression.ZSTD, 2: Compression.NONE, 3: Compression.NONE, 4: Compression.NONE}


def test_markers_of_transactions_are_in_the_index(store: PosixStore) -> None:
    log = make_batch(0) + make_control_batch(10, producer_id=7, committed=True)
    log += make_control_batch(11, producer_id=8, committed=False)
    with writer_for(store, 0, 12) as writer:
        writer.append(chunk_of(log))
        (segment,) = writer.close()
    markers = SegmentReader(store=store, segment=segment).index().markers
    assert [(m.offset, m.producer_id, m.committed) for m in markers] == [(10, 7, True), (11, 8, False)]
    assert (segment.records, segment.control_batches, segment.has_transactions) == (10, 2, True)
    assert read_back(store, [segment]) == log


def test_an_aborted_writer_leaves_no_visible_object(store: PosixStore) -> None:
    with writer_for(store, 0, 100) as writer:
        writer.append(chunk_of(make_log(0, 100)))
    assert list(store.list("")) == []
    assert list((store.root / "~tmp").iterdir()) == []


def test_a_name_that_is_taken_is_refused_and_left_alone(store: PosixStore) -> None:
    with writer_for(store, 0, 100) as writer:
        writer.append(chunk_of(make_log(0, 100)))
        (segment,) = writer.close()
    before = store.get(segment.key)
    with writer_for(store, 0, 100) as writer:
        writer.append(chunk_of(make_log(0, 50)))
        with pytest.raises(ObjectTaken):
            writer.close()
    assert store.get(segment.key) == before


def test_batches_out_of_order_or_out_of_range_are_a_bug(store: PosixStore) -> None:
    with pytest.raises(Bug), writer_for(store, 50, 100) as writer:
        writer.append(chunk_of(make_batch(40)))
    with pytest.raises(Bug), writer_for(store, 0, 100) as writer:
        writer.append(chunk_of(make_batch(100)))
    with writer_for(store, 0, 100) as writer:
        writer.append(chunk_of(make_batch(20)))
        with pytest.raises(Bug):
            writer.append(chunk_of(make_batch(20)))


@examples(30)
@given(
    sizes=st.lists(st.integers(1, 60_000), min_size=1, max_size=25),
    per_chunk=st.integers(1, 6),
    compression=st.sampled_from(["none", "zstd", "auto"]),
    target_bytes=st.sampled_from([1, 100_000, 128 * MIB]),
)
def test_whatever_goes_in_comes_out(
    sizes: list[int],
    per_chunk: int,
    compression: CompressionChoice,
    target_bytes: int,
) -> None:
    batches = [make_batch(10 * number, value=bytes(size)) for number, size in enumerate(sizes)]
    with TemporaryDirectory() as folder:
        store = open_folder(Path(folder))
        with writer_for(store, 0, 10 * len(sizes), compression=compression, target_bytes=target_bytes) as writer:
            for chunk in chunks_of(batches, per_chunk=per_chunk):
                writer.append(chunk)
            segments = writer.close()
        assert read_back(store, segments) == b"".join(batches)
    assert sum(s.records for s in segments) == 10 * len(sizes)
