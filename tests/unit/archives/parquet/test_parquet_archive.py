from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from offsite.archives.archive import Damage, collect_damage
from offsite.archives.parquet import ParquetReader, ParquetWriter
from offsite.archives.parquet.table import table_schema
from offsite.log.records.record import Record
from offsite.model.errors import NotRepresentable, UnfitArchive
from offsite.stores.archive_files import ArchiveFolder
from tests.archive_records import (
    TIME_MS,
    binary_header,
    export,
    files_of,
    odd_records,
    plain_records,
    read_all,
    write_range,
)

FILE = "topic=orders/partition=0/orders+0-00000000000000000000.parquet"


@pytest.fixture
def files(tmp_path: Path) -> ArchiveFolder:
    return ArchiveFolder(root=tmp_path)


def test_every_oddity_of_a_record_comes_back(files: ArchiveFolder) -> None:
    records = [*odd_records(), Record(2_000_000, -(1 << 50), 0, b"k", b"v", ())]
    export(ParquetWriter(files=files), records, start=0, end=2_000_001)
    assert read_all(ParquetReader(files=files)) == records


def test_pyarrow_reads_the_archive_as_one_table(files: ArchiveFolder) -> None:
    export(ParquetWriter(files=files), odd_records(), start=0, end=1_000_001)
    table = parquet.read_table(files.root, use_threads=False)
    assert table["offset"].to_pylist() == [record.offset for record in odd_records()]
    assert (set(table["topic"].to_pylist()), set(table["partition"].to_pylist())) == ({"orders"}, {0})


def test_a_file_has_the_columns_of_sparks_kafka_source(files: ArchiveFolder) -> None:
    export(ParquetWriter(files=files), odd_records(), start=0, end=1_000_001)
    table = parquet.ParquetFile(files.root / FILE).read(use_threads=False)
    assert table.schema.names == table_schema().names
    first, second = table.slice(0, 2).to_pylist()
    assert (first["offset"], first["headers"]) == (0, None)
    assert table["timestamp"].cast(pa.int64()).to_pylist()[:2] == [TIME_MS * 1000, -1000]
    assert (second["key"], second["value"]) == (b"", b"")
    assert table["headers"].to_pylist()[4] == [
        {"key": "a", "value": b"1"},
        {"key": "b", "value": None},
        {"key": "a", "value": b""},
        {"key": "", "value": b"\xff"},
    ]


@pytest.mark.parametrize(
    ("record", "problem", "instead"),
    [
        (binary_header(7), "not UTF-8", Record(7, TIME_MS, 0, b"k", b"v", (("\ufffd\ufffdname", b"x"),))),
        (Record(7, 1 << 62, 0, b"k", b"v", ()), "microseconds", Record(7, -1, 0, b"k", b"v", ())),
    ],
)
def test_what_a_table_cannot_hold_is_refused_or_counted(
    files: ArchiveFolder, record: Record, problem: str, instead: Record
) -> None:
    with pytest.raises(NotRepresentable, match=f"orders/0 offset 7: .*{problem}"):
        write_range(ParquetWriter(files=files), [record], start=0, end=8)
    assert files_of(files.root) == {}
    written = export(ParquetWriter(files=files, lossy=True), [record], start=0, end=8)
    assert [count for _, count in written.losses] == [1]
    assert read_all(ParquetReader(files=files)) == [instead]


@pytest.mark.slow
def test_row_groups_are_bounded_and_files_are_the_same_however_records_come(files: ArchiveFolder) -> None:
    noise = random.Random(7)
    records = [record._replace(value=noise.randbytes(8_000)) for record in plain_records(0, 6_000)]
    writer = ParquetWriter(files=files, file_bytes=9_000_000)
    written = [write_range(writer, records, start=0, end=6_000, at_once=at_once) for at_once in (7, 6_000)]
    assert written[0] == written[1]
    assert len(written[0].files) > 1
    assert parquet.ParquetFile(files.root / written[0].files[0].name).num_row_groups >= 1
    assert written[0].records == 6_000


def test_what_spark_wrote_in_such_folders_is_read(files: ArchiveFolder) -> None:
    table = pa.table(
        {
            "key": pa.array([None, b"k"], pa.binary()),
            "value": pa.array([b"v", None], pa.binary()),
            "offset": pa.array([10, 12], pa.int64()),
            "timestamp": pa.array([TIME_MS * 1_000_000, -1_000_000], pa.timestamp("ns")),
            "timestampType": pa.array([0, 1], pa.int32()),
        }
    )
    folder = files.root / "topic=orders" / "partition=3"
    folder.mkdir(parents=True)
    parquet.write_table(table, folder / "part-00000-c0ffee.snappy.parquet")
    (files.root / "_SUCCESS").touch()
    (piece,) = ParquetReader(files=files).contents().pieces
    assert (piece.topic, piece.partition, piece.start, piece.end) == ("orders", 3, 10, None)
    assert read_all(ParquetReader(files=files)) == [
        Record(10, TIME_MS, 0, None, b"v", ()),
        Record(12, -1, 1, b"k", None, ()),
    ]


def test_a_table_without_kafka_rows_is_named_and_never_skipped(files: ArchiveFolder) -> None:
    folder = files.root / "topic=orders" / "partition=0"
    folder.mkdir(parents=True)
    parquet.write_table(pa.table({"a": [1]}), folder / "x.parquet")
    with pytest.raises(UnfitArchive, match=r"x\.parquet at byte \d+: .*no column 'key'; there are a"):
        read_all(ParquetReader(files=files), collect_damage([], skip=True))


def test_a_large_file_is_read_by_ranges(files: ArchiveFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsite.archives.parquet.archive._WHOLE_BYTES", 10)
    records = plain_records(0, 3_000)
    export(ParquetWriter(files=files), records, start=0, end=3_000)
    files.delete("_archive.json")
    files.delete("topic=orders/_index.json")
    assert read_all(ParquetReader(files=files)) == records


def _taken(files: ArchiveFolder) -> tuple[Sequence[Record], Sequence[Damage]]:
    found: list[Damage] = []
    return read_all(ParquetReader(files=files), found.append), found


def test_a_file_that_is_not_what_its_index_says_is_left_out(files: ArchiveFolder) -> None:
    export(ParquetWriter(files=files), plain_records(0, 3_000), start=0, end=3_000)
    whole = files.get(FILE) or b""
    for position in range(0, len(whole), len(whole) // 60):
        files.put(FILE, whole[:position] + bytes([whole[position] ^ 0x04]) + whole[position + 1 :])
        assert _taken(files)[0] == []
        assert len(_taken(files)[1]) == 1
        files.put(FILE, whole[:position])
        assert _taken(files)[0] == []
        assert len(_taken(files)[1]) == 1


def test_without_an_index_pages_prove_themselves_and_other_files_stay_readable(files: ArchiveFolder) -> None:
    writer = ParquetWriter(files=files)
    export(writer, plain_records(0, 1_000), start=0, end=1_000)
    export(writer, plain_records(1_000, 2_000), start=1_000, end=2_000)
    files.delete("_archive.json")
    files.delete("topic=orders/_index.json")
    whole = files.get(FILE) or b""
    files.put(FILE, whole[:2_000] + bytes([whole[2_000] ^ 0x04]) + whole[2_001:])
    taken, found = _taken(files)
    assert taken == plain_records(1_000, 2_000)
    assert [damage.file for damage in found] == [FILE]
    assert found[0].position == 4
