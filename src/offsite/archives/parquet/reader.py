"""Reads the Parquet archive, with its index or without, and what Spark wrote of its Kafka source in the same folders.

Pages have checksums where offsite wrote them. Page headers and footers have none, and pyarrow may end the process over
damaged ones: a file that is not what its index says is never opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.file_window import SourceFile
from offsite.archives.files import Files
from offsite.archives.indexed_reading import IndexedReader, IndexedReading
from offsite.archives.parquet.place import parquet_archive
from offsite.archives.parquet.random_access import RandomAccess
from offsite.archives.parquet.table import records_of
from offsite.log.range import TopicPartition
from offsite.log.record import Record

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]

__all__ = ["ParquetReader"]

_BATCH_RECORDS = 2_000
_OPTIONS = {
    "page_checksum_verification": True,
    "pre_buffer": False,  # that starts threads
    "coerce_int96_timestamp_unit": "us",  # Spark's old timestamps: as nanoseconds those after 2262 would turn over
}
_WHOLE_BYTES = 64 << 20
"""Files up to this size are read as one: what offsite writes is about half of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetReader(IndexedReader):
    @property
    def _reading(self) -> IndexedReading:
        return IndexedReading(archive=parquet_archive(self.files), format=_ParquetFiles(files=self.files))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParquetFiles:
    """How one file is read."""

    files: Files

    def records(self, source: SourceFile, of: TopicPartition, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        from pyarrow import parquet  # type: ignore[import-untyped]

        place = self._place(source)
        try:
            with parquet.ParquetFile(place, **_OPTIONS) as file:
                for number in range(file.num_row_groups):
                    yield from _row_group(_RowGroup(file, number, place, source.key), of, on_damage)
        except _errors() as error:
            on_damage(Damage(file=source.key, position=place.first_start, problem=f"no Parquet file: {error}"))

    def checks_parts(self, source: SourceFile) -> bool:  # noqa: ARG002 - see the module
        return False

    def _place(self, source: SourceFile) -> RandomAccess:
        size_bytes = source.size_bytes or self._size_bytes(source.key)
        if size_bytes > _WHOLE_BYTES:
            return RandomAccess(
                size_bytes, lambda start, length: self.files.get_range(source.key, start, length) or b""
            )
        data = source.window.read(size_bytes)
        return RandomAccess(len(data), lambda start, length: data[start : start + length])

    def _size_bytes(self, key: str) -> int:
        folder = key.rpartition("/")[0] + "/"
        return next((info.size_bytes for info in self.files.list(folder) if info.key == key), 0)


class _RowGroup(NamedTuple):
    file: ParquetFile
    number: int
    place: RandomAccess
    key: str


def _row_group(group: _RowGroup, of: TopicPartition, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
    group.place.mark()
    try:
        for batch in group.file.iter_batches(_BATCH_RECORDS, row_groups=[group.number], use_threads=False):
            yield records_of(batch, of)
    except _errors() as error:
        problem = f"row group {group.number} cannot be read: {error}"
        on_damage(Damage(file=group.key, position=group.place.first_start, problem=problem))


def _errors() -> tuple[type[Exception], ...]:
    """What pyarrow raises for bytes that are no Parquet, and `BadTable`."""
    import pyarrow as pa

    return (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)
