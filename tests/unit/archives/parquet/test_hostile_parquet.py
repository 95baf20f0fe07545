"""Parquet that claims little and comes to much: bounded before and while it is decoded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from offsite.archives.formats import open_reader
from offsite.archives.parquet.pages import Page, window_bytes
from offsite.log.record import Record
from offsite.model.errors import DamagedArchive
from offsite.repository.archive_folder import ArchiveFolder

MIB = 1 << 20


def read(root: Path, columns: dict[str, object], rows: int, **options: object) -> list[Record]:
    fixed = {"offset": pa.array(range(rows)), "timestamp": pa.array([0] * rows, pa.timestamp("us", tz="UTC"))}
    others = {"key": pa.array([b"k"] * rows), "value": pa.array([b"v"] * rows)}
    path = root / "topic=orders/partition=0/a.parquet"
    path.parent.mkdir(parents=True)
    parquet.write_table(
        pa.table({**fixed, **others, **columns}), path, compression="zstd", store_schema=False, **options
    )
    reader = open_reader("parquet", ArchiveFolder(root=root))
    return [row for piece in reader.contents().pieces for batch in reader.read(piece) for row in batch]


def named(value: bytes, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))


def test_what_a_dictionary_names_is_one_object(tmp_path: Path) -> None:
    records = read(tmp_path, {"value": named(bytes(MIB), 300)}, 300)
    assert len(records) == 300
    assert len({id(record.value) for record in records}) == 1


def test_a_file_that_comes_to_more_than_a_thousand_times_itself_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedArchive, match="comes to more than"):
        read(tmp_path, {"value": named(bytes(MIB), 2_000)}, 2_000)


def test_a_page_larger_than_any_record_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedArchive, match="a page of 15"):
        read(tmp_path, {"value": pa.array([bytes(150 * MIB)])}, 1, use_dictionary=False)


def test_keys_that_are_no_bytes_and_offsets_below_zero_are_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedArchive, match="keys or values of type int64"):
        read(tmp_path / "a", {"key": pa.array([1])}, 1)
    with pytest.raises(DamagedArchive, match="no record has offset -5"):
        read(tmp_path / "b", {"offset": pa.array([-5])}, 1)


def test_the_window_is_the_most_that_rows_in_a_row_may_touch() -> None:
    def page(plain_bytes: int, values: int) -> Page:
        return Page(plain_bytes, values, is_dictionary=False, is_named=False, is_growing=False)

    pages = [page(10, 5), page(20, 5), page(40, 1), page(80, 5)]
    assert [window_bytes(pages, values) for values in (1, 2, 3, 7, 8, 100)] == [80, 120, 140, 140, 150, 150]
