"""Lines of a history as a Parquet object: rising or repeating numbers take a bit or two instead of eight bytes."""

from __future__ import annotations

import io

from offsite.repository.catalogs.parquet_form import damaged_catalog, from_parquet, integers_of
from offsite.repository.history import COLUMNS, Columns


def encode_lines(lines: Columns) -> bytes:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import parquet

    columns = [pa.array(memoryview(column), type=pa.int64()) for column in lines]
    sink = io.BytesIO()
    parquet.write_table(
        pa.table(columns, names=list(COLUMNS)),
        sink,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        column_encoding=dict.fromkeys(COLUMNS, "DELTA_BINARY_PACKED"),
    )
    return sink.getvalue()


def decode_lines(data: bytes, *, key: str) -> Columns:
    """The lines in the object `key`. Raises `DamagedObject`."""
    table = from_parquet(data, key)
    if tuple(table.column_names) != COLUMNS:
        raise damaged_catalog(f"{key}: its columns are not the columns of a history")
    return tuple(integers_of(column, key) for column in table.columns)
