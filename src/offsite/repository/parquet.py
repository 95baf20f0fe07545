"""Reads Parquet objects of a repository on the calling thread alone, and names the damage of a catalog's object.

Arrow's usual function (`read_table`) releases the buffer on a separate thread, possibly while Python exits: a finished
command would then die with SIGABRT. `ParquetFile` starts no thread. pyarrow is imported on use.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from offsite.model.errors import DamagedObject

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import parquet


def read_parquet(data: bytes) -> pa.Table:
    """The whole table; page checksums are verified if present. Raises `pa.ArrowException`, `OSError`."""
    import pyarrow as pa

    try:
        with closing(_opened(data)) as file:
            return file.read(use_threads=False)
    except UnicodeError as error:  # invalid column names
        raise pa.ArrowInvalid(str(error)) from error


class ParquetGroups:
    """A Parquet object, read one row group at a time. `rows`: the rows of each group; `columns`: the column names.
    Raises the error made by `damaged`."""

    def __init__(self, data: bytes, *, damaged: Callable[[str], Exception]) -> None:
        self._data = data
        self._damaged = damaged
        self._metadata: parquet.FileMetaData | None = None
        self._metadata = self._with(lambda file: file.metadata)  # saves milliseconds per read with many groups
        self.rows: tuple[int, ...] = self._with(
            lambda file: tuple(file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))
        )
        self.columns: frozenset[str] = self._with(lambda file: frozenset(file.schema_arrow.names))

    def read(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """One row group: all columns, or the existing ones of `columns`."""
        names = None if columns is None else list(columns)
        return self._with(lambda file: file.read_row_group(number, columns=names, use_threads=False))

    def _with(self, read: Callable[[parquet.ParquetFile], pa.Table]) -> pa.Table:
        import pyarrow as pa

        try:
            with closing(_opened(self._data, self._metadata)) as file:
                return read(file)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise self._damaged(str(error)) from error


def _opened(data: bytes, metadata: parquet.FileMetaData | None = None) -> parquet.ParquetFile:
    import pyarrow as pa
    from pyarrow import parquet

    source = pa.BufferReader(data)
    return parquet.ParquetFile(source, metadata=metadata, page_checksum_verification=True, pre_buffer=False)


def damaged_catalog(message: str) -> DamagedObject:
    return DamagedObject(message, hint="nothing is lost: the catalog is rebuilt from the commits")


def from_parquet(data: bytes, key: str) -> pa.Table:
    """The table in the object `key`. Raises `DamagedObject`."""
    import pyarrow as pa

    try:
        return read_parquet(data)
    except (pa.ArrowException, OSError) as error:
        raise damaged_catalog(f"{key}: {error}") from error


def integers_of(column: pa.ChunkedArray, key: str) -> array[int]:
    """The numbers in a column of the object `key`. Raises `DamagedObject`."""
    import pyarrow as pa

    if column.type != pa.int64() or column.null_count:
        raise damaged_catalog(f"{key}: a column does not hold integers")
    numbers = array("q")
    for chunk in column.chunks:
        numbers.frombytes(memoryview(chunk.buffers()[1]).cast("B")[8 * chunk.offset : 8 * (chunk.offset + len(chunk))])
    return numbers
