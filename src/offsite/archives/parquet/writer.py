"""Writes the Parquet archive: ranges in order into files readable as a table by Spark and other tools."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from offsite.archives.indexed_archive import IndexedArchive
from offsite.archives.indexed_writing import IndexedWriter, Losses, NewFile
from offsite.archives.parquet.place import PARQUET, parquet_archive
from offsite.archives.parquet.table import make_table, table_schema
from offsite.log.buffer import Buffer
from offsite.log.records.record_columns import RecordColumns

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["ParquetWriter"]

_ROW_GROUP_BYTES = 8 << 20
_ROW_GROUP_RECORDS = 64 << 10
"""A row group ends with the group of records that reaches either limit: a reader takes a row group into memory."""
_REPEATING = ["timestampType"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetWriter(IndexedWriter):
    """Refuses header names outside UTF-8 and times beyond the year 294,246, unless `lossy`."""

    @property
    def _archive(self) -> IndexedArchive:
        return parquet_archive(self.files)

    @property
    def _kind(self) -> str:
        return PARQUET

    def _new_file(self, losses: Losses) -> NewFile:
        return lambda _: _ParquetFile(losses)


class _ParquetFile:
    """Builds a file."""

    def __init__(self, losses: Losses) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._losses = losses
        self._sink = pa.BufferOutputStream()
        self._writer = parquet.ParquetWriter(
            self._sink,
            table_schema(),
            compression="zstd",
            compression_level=1,
            use_dictionary=_REPEATING,
            write_page_checksum=True,
            store_schema=False,
        )
        self._waiting: list[RecordColumns] = []
        self._waiting_bytes = self._waiting_records = self._plain_bytes = 0

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def add(self, columns: RecordColumns) -> None:
        self._waiting.append(columns)
        self._waiting_bytes += columns.size_bytes()
        self._waiting_records += len(columns.offsets)
        if self._waiting_bytes >= _ROW_GROUP_BYTES or self._waiting_records >= _ROW_GROUP_RECORDS:
            self._end_row_group()

    def close(self) -> tuple[Buffer, int]:
        if self._waiting:
            self._end_row_group()
        self._writer.close()
        return memoryview(self._sink.getvalue()), self._plain_bytes

    def _end_row_group(self) -> None:
        self._writer.write_table(self._table(), row_group_size=self._waiting_records)
        self._plain_bytes += self._waiting_bytes
        self._waiting, self._waiting_bytes, self._waiting_records = [], 0, 0

    def _table(self) -> pa.Table:
        columns = (tuple(chain.from_iterable(column)) for column in zip(*self._waiting, strict=True))
        return make_table(RecordColumns._make(columns), self._losses)
