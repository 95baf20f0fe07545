"""Parquet objects of a repository, read on the calling thread alone.

Arrow's usual way (`read_table`) lets go of the buffer on a thread of its own, which may happen while Python ends: a
finished command would then die with SIGABRT. `ParquetFile` starts no thread. pyarrow is imported where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def read_parquet(data: bytes) -> pa.Table:
    """The whole table, page checksums verified where it has them. Raises `pa.ArrowException`, `OSError`."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False) as file:
            return file.read(use_threads=False)
    except UnicodeError as error:  # names of columns that are no text
        raise pa.ArrowInvalid(str(error)) from error
