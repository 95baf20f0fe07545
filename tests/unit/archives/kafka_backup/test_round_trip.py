from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from offsite.archives.kafka_backup import reindex
from offsite.log.records.record import Record
from tests.examples import examples
from tests.unit.archives.kafka_backup.made_archives import read_all, write
from tests.unit.archives.kafka_backup.memory_files import MemoryFiles

payloads = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.sampled_from(["", "a", "ß", "\udcff"]), payloads), max_size=3).map(tuple)
times = st.tuples(st.integers(-1, 1 << 45), st.sampled_from([0, 1])) | st.just((-1, -1))
contents = st.lists(st.tuples(st.integers(1, 5), times, payloads, payloads, headers), min_size=1, max_size=30)


def with_offsets(rows: list[tuple[int, tuple[int, int], bytes | None, bytes | None, tuple[()]]]) -> list[Record]:
    offsets = accumulate(row[0] for row in rows)
    return [Record(offset, *time, *rest) for offset, (_, time, *rest) in zip(offsets, rows, strict=True)]


@given(contents.map(with_offsets), st.integers(1, 400), st.integers(1, 9), st.integers(2, 500))
@examples(60)
def test_every_record_comes_back_however_the_archive_is_cut_into_segments_and_pieces(
    records: list[Record], segment_bytes: int, at_once: int, piece_bytes: int
) -> None:
    files = MemoryFiles()
    write(files, records, segment_bytes=segment_bytes, at_once=at_once)
    assert read_all(files, piece_bytes=piece_bytes) == records
    whole = dict(files.contents)
    files.contents = {key: data for key, data in whole.items() if key.endswith("_records")}
    assert read_all(files, piece_bytes=piece_bytes) == records
    assert not reindex(files).damage
    assert files.contents == whole
