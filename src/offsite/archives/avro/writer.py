"""Writes the Avro archive: ranges in order into object container files, see `schema` and `archive_layout`."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.archives.avro.block_codec import DEFAULT_CODEC, make_compressor
from offsite.archives.avro.container import ContainerWriter
from offsite.archives.avro.encoding import RecordEncoding, full_tails, plain_tails
from offsite.archives.avro.place import AVRO, AVRO_PLAIN, avro_archive
from offsite.archives.avro.schema import PLAIN_SCHEMA, SCHEMA, encode_schema
from offsite.archives.indexed_archive import IndexedArchive
from offsite.archives.indexed_writing import IndexedWriter, Losses, NewFile
from offsite.log.records.record_columns import RecordColumns

__all__ = ["AvroWriter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroWriter(IndexedWriter):
    """Writes Avro archives. `plain`: use the seed format's schema, and refuse properties beyond the schema, or leave
    the properties out with `lossy`. Raises `BadOption` unless `codec` is in `CODECS`."""

    plain: bool = False
    codec: str = DEFAULT_CODEC

    def __post_init__(self) -> None:
        make_compressor(self.codec)

    @property
    def _archive(self) -> IndexedArchive:
        return avro_archive(self.files)

    @property
    def _kind(self) -> str:
        return AVRO_PLAIN if self.plain else AVRO

    def _new_file(self, losses: Losses) -> NewFile:
        encoding = RecordEncoding(
            topic=losses.log_range.topic,
            partition=losses.log_range.partition,
            tails=plain_tails(losses) if self.plain else full_tails,
        )
        schema = encode_schema(PLAIN_SCHEMA if self.plain else SCHEMA)
        return lambda name: _AvroFile(ContainerWriter(name=name, schema=schema, codec=self.codec), encoding)


class _AvroFile:
    """Builds a file."""

    def __init__(self, container: ContainerWriter, encoding: RecordEncoding) -> None:
        self._container, self._encoding = container, encoding

    @property
    def size_bytes(self) -> int:
        return self._container.size_bytes

    def add(self, columns: RecordColumns) -> None:
        self._container.add(len(columns.offsets), self._encoding.encode(columns))

    def close(self) -> tuple[bytes, int]:
        return self._container.close(), self._container.plain_bytes
