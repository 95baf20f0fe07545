"""Segments in a pack read as they would on their own, whatever else went into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.log.range import LogRange
from offsite.model.errors import Bug, DamagedObject, ObjectTaken
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.pack import PackWriter
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.stores.posix_store import PosixStore, open_folder
from tests.batches import chunk_of, make_batch, make_control_batch

LAYOUT = BackupLayout(backup="b")
KEY = LAYOUT.pack_key(7, "0" * 8)


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    store = open_folder(tmp_path / "repo")
    store.prepare()
    return store


def write(pack: PackWriter, partition: int, *batches: bytes, end: int) -> tuple[Segment, ...]:
    log_range = LogRange(topic="t", partition=partition, start=0, end=end)
    with SegmentWriter(store=pack, layout=LAYOUT, log_range=log_range, topic_id="id", compression="none") as writer:
        writer.append(chunk_of(b"".join(batches)))
        return writer.close()


def plain(base: int) -> bytes:
    return make_batch(base, records=3)


def transactional(base: int) -> list[bytes]:
    return [make_batch(base, records=2), make_control_batch(base + 2, producer_id=5, committed=True)]


def stored(store: PosixStore, segment: Segment) -> bytes:
    reader = SegmentReader(store=store, segment=segment)
    return b"".join(bytes(header.view(chunk.data)) for chunk in reader.chunks() for header in chunk.batches)


def test_each_segment_reads_as_it_was_written(store: PosixStore) -> None:
    written = {0: [plain(0), plain(3)], 1: transactional(0), 2: [plain(0)]}
    with PackWriter(store, KEY) as pack:
        segments = {n: write(pack, n, *batches, end=6) for n, batches in written.items()}
        pack.close()
        placed = {n: pack.with_places(each) for n, each in segments.items()}
    assert [info.key for info in store.list("")] == [KEY]
    for number, (segment,) in placed.items():
        assert stored(store, segment) == b"".join(written[number])
        assert segment.pack == segment.object_key == KEY
    (with_markers,) = placed[1]
    index = SegmentReader(store=store, segment=with_markers).index()
    assert [marker.offset for marker in index.markers] == [2]


def test_what_was_given_up_is_passed_over(store: PosixStore) -> None:
    with PackWriter(store, KEY) as pack:
        half = pack.open_write("half")
        half.write(b"garbage")
        half.abort()
        segments = write(pack, 0, plain(0), end=3)
        pack.close()
        (segment,) = pack.with_places(segments)
    assert (segment.position, stored(store, segment)) == (7, plain(0))


def test_a_pack_of_nothing_is_no_object(store: PosixStore) -> None:
    with PackWriter(store, KEY) as pack:
        pack.close()
    assert list(store.list("")) == []


def test_a_pack_that_is_given_up_leaves_nothing(store: PosixStore) -> None:
    pack = PackWriter(store, KEY)
    write(pack, 0, plain(0), end=3)
    pack.abort()
    assert list(store.list("")) == []


def test_two_objects_at_once_are_a_bug(store: PosixStore) -> None:
    with PackWriter(store, KEY) as pack:
        pack.open_write("one")
        with pytest.raises(Bug):
            pack.open_write("other")


def test_a_name_that_is_taken_is_told(store: PosixStore) -> None:
    store.put_if_absent(KEY, b"other")
    with PackWriter(store, KEY) as pack:
        write(pack, 0, plain(0), end=3)
        with pytest.raises(ObjectTaken):
            pack.close()


@pytest.mark.parametrize("damage", [b"", b"short"])
def test_a_pack_that_is_cut_is_told(store: PosixStore, tmp_path: Path, damage: bytes) -> None:
    with PackWriter(store, KEY) as pack:
        write(pack, 0, plain(0), end=3)
        segments = write(pack, 1, *transactional(0), end=3)
        pack.close()
        (segment,) = pack.with_places(segments)
    assert segment.is_all_in(store.head(KEY))
    (tmp_path / "repo" / KEY).write_bytes(damage)
    assert not segment.is_all_in(store.head(KEY))
    with pytest.raises(DamagedObject, match="truncated at byte"):
        stored(store, segment)
    with pytest.raises(DamagedObject, match="index"):
        SegmentReader(store=store, segment=segment).index()
