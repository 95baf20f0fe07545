"""Parquet objects of a catalog, and the error for a damaged object. pyarrow is imported on use."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from offsite.model.errors import DamagedObject
from offsite.repository.snapshots.parquet_object import read_parquet

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


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
