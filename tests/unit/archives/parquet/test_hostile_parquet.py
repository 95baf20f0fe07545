"""Parquet that claims little and comes to much: bounded before and while it is decoded."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from offsite.archives.formats import open_reader
from offsite.archives.parquet.pages import I32, I64, LIST, STRUCT, Page, check_footer, check_levels, window_bytes
from offsite.log.records.record import Record
from offsite.model.errors import DamagedArchive, UnfitArchive
from offsite.stores.archive_files import ArchiveFolder

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


@pytest.mark.slow
def test_a_page_larger_than_any_record_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedArchive, match="a page of 15"):
        read(tmp_path, {"value": pa.array([bytes(150 * MIB)])}, 1, use_dictionary=False)


def test_keys_that_are_no_bytes_are_of_another_table_and_offsets_below_zero_damaged(tmp_path: Path) -> None:
    with pytest.raises(UnfitArchive, match="key of type int64"):
        read(tmp_path / "a", {"key": pa.array([1])}, 1)
    with pytest.raises(DamagedArchive, match="offset -5 is impossible"):
        read(tmp_path / "b", {"offset": pa.array([-5])}, 1)


def test_the_window_is_the_most_that_rows_in_a_row_may_touch() -> None:
    def page(plain_bytes: int, values: int) -> Page:
        return Page(plain_bytes, values, is_dictionary=False, is_named=False, is_growing=False)

    pages = [page(10, 5), page(20, 5), page(40, 1), page(80, 5)]
    assert [window_bytes(pages, values) for values in (1, 2, 3, 7, 8, 100)] == [80, 120, 140, 140, 150, 150]


def _nested() -> bytes:
    sink = io.BytesIO()
    headers = pa.array([[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None])
    parquet.write_table(pa.table({"text": pa.array([b"k", None]), "n": [1, None], "headers": headers}), sink)
    return sink.getvalue()


def _footer_checked(data: bytes) -> None:
    check_footer(lambda start, length: data[start : start + length], len(data))


@pytest.mark.parametrize("name", [b"\x04text", b"\x01n"])
def test_levels_that_are_not_those_of_the_schema_do_not_reach_pyarrow_which_would_end_the_process(name: bytes) -> None:
    data = _nested()
    _footer_checked(data)
    optional, required = b"\x25\x02\x18" + name, b"\x25\x00\x18" + name
    assert data.count(optional) == 1
    with pytest.raises(ValueError, match="other levels"):
        _footer_checked(data.replace(optional, required))


def test_columns_that_the_schema_does_not_have_do_not_either() -> None:
    group = {(2, LIST): [{(5, I32): 1}, {(1, I32): 2, (3, I32): 1}]}
    for chunks, problem in (
        ([{}, {}], "of 2 columns, of 1"),
        ([{(3, STRUCT): {(16, STRUCT): {(1, I64): 5}}}], "sizes of texts"),
    ):
        with pytest.raises(ValueError, match=problem):
            check_levels({**group, (4, LIST): [{(1, LIST): chunks}]})
    with pytest.raises(ValueError, match="truncated"):
        check_levels({(2, LIST): [{(5, I32): 2}, {(1, I32): 2}]})
