"""Parquet that claims little and comes to much: bounded before and while it is decoded."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from offsite.archives import decoding_process
from offsite.archives.decoding_process import DecodingEnded
from offsite.archives.formats import open_reader
from offsite.archives.parquet import archive, decoding
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
def test_a_page_that_does_not_fit_into_memory_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_process, "MAX_MEMORY_BYTES", 100 * MIB)
    with pytest.raises(DamagedArchive, match=r"memory|malloc"):
        read(tmp_path, {"value": pa.array([bytes(150 * MIB)])}, 1, use_dictionary=False)


def test_keys_that_are_no_bytes_are_of_another_table_and_offsets_below_zero_damaged(tmp_path: Path) -> None:
    with pytest.raises(UnfitArchive, match="key of type int64"):
        read(tmp_path / "a", {"key": pa.array([1])}, 1)
    with pytest.raises(DamagedArchive, match="offset -5 is impossible"):
        read(tmp_path / "b", {"offset": pa.array([-5])}, 1)


def _nested() -> bytes:
    sink = io.BytesIO()
    columns = {
        "offset": pa.array([0, 1]),
        "timestamp": pa.array([0, 0], pa.timestamp("us", tz="UTC")),
        "key": pa.array([b"k", None]),
        "value": pa.array([b"v", b"v"]),
        "timestampType": pa.array([1, None]),
        "headers": pa.array([[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None]),
    }
    parquet.write_table(pa.table(columns), sink, store_schema=False)
    return sink.getvalue()


def _read_bytes(root: Path, data: bytes) -> list[Record]:
    path = root / "topic=orders/partition=0/a.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    reader = open_reader("parquet", ArchiveFolder(root=root))
    return [row for piece in reader.contents().pieces for batch in reader.read(piece) for row in batch]


def test_levels_that_are_not_those_of_the_schema_do_not_end_the_process(tmp_path: Path) -> None:
    """Without a process of its own for each file they would: pyarrow ends by a signal."""
    data = _nested()
    assert len(_read_bytes(tmp_path, data)) == 2
    optional, required = b"\x25\x02\x18\x0dtimestampType", b"\x25\x00\x18\x0dtimestampType"
    assert data.count(optional) == 1
    with pytest.raises(DamagedArchive, match="ends the process"):
        _read_bytes(tmp_path, data.replace(optional, required))


@pytest.mark.slow
@pytest.mark.slow
def test_what_does_not_fit_into_memory_at_once_is_read_in_smaller_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding_process, "MAX_MEMORY_BYTES", 300 * MIB)
    values = pa.array([bytes([number]) * 3 * MIB for number in range(100)])
    records = read(tmp_path, {"value": values}, 100, use_dictionary=False, data_page_size=MIB, write_batch_size=1)
    assert [(record.value or b"")[0] for record in records] == list(range(100))


@pytest.mark.slow
def test_a_page_takes_no_more_of_the_parents_memory_than_a_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may claim any size up to the file's, and only the process that decodes it has a limit."""
    monkeypatch.setattr(archive, "_WHOLE_BYTES", 0)
    lengths = list[int]()
    read_range = ArchiveFolder.get_range

    def noting(self: ArchiveFolder, key: str, start: int, length: int) -> bytes | None:
        lengths.append(length)
        return read_range(self, key, start, length)

    monkeypatch.setattr(ArchiveFolder, "get_range", noting)
    value = random.Random(1).randbytes(40 * MIB)
    assert [record.value for record in read(tmp_path, {"value": pa.array([value])}, 1)] == [value]
    assert 0 < max(lengths) <= 8 * MIB


def test_a_row_group_that_takes_too_much_memory_is_told_with_the_reason() -> None:
    assert decoding._problem(3, MemoryError()).text == "row group 3 cannot be read: it takes too much memory"


def test_what_a_shared_process_does_not_end_is_decoded_again_from_there_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode_apart(_name: str, _answer: object, _size: int, *, alone: bool = False) -> Iterator[str]:
        yield from ("first", "second")
        if not alone:
            error = DecodingEnded("decoding it ends the process")
            error.was_shared = True
            raise error
        yield "third"

    monkeypatch.setattr(archive, "decode_apart", decode_apart)
    place = archive._Place(0, lambda _start, _length: b"", lambda _: True)
    assert list(place.decode("decode_file")) == ["first", "second", "third"]
