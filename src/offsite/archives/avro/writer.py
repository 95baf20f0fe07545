"""Writes the Avro archive: one range after the other into object container files, see `schema` and `archive_layout`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.archives.archive import ArchiveTopic, RangeWriter, Written
from offsite.archives.avro.block_codec import DEFAULT_CODEC, compressor
from offsite.archives.avro.container import ContainerWriter
from offsite.archives.avro.encoding import RecordEncoding, full_tails, plain_tails
from offsite.archives.avro.place import AVRO, AVRO_PLAIN, LAYOUT, avro_archive
from offsite.archives.avro.schema import PLAIN_SCHEMA, SCHEMA, encoded
from offsite.archives.files import Files
from offsite.archives.losses import Losses
from offsite.archives.range_files import FILE_BYTES, RangeFiles
from offsite.archives.record_columns import RecordColumns
from offsite.log.group_offsets import GroupOffsets
from offsite.log.range import LogRange, TopicPartition

__all__ = ["AvroWriter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroWriter:
    """An `ArchiveWriter`. `plain`: with the seed format's schema, which refuses what it cannot hold, or with `lossy`
    leaves it out. A file ends near `file_bytes`, and lies in memory until then. Raises `BadOption` unless `codec` is
    one of `CODECS`."""

    files: Files
    plain: bool = False
    lossy: bool = False
    codec: str = DEFAULT_CODEC
    file_bytes: int = FILE_BYTES

    def __post_init__(self) -> None:
        compressor(self.codec)

    @property
    def divides(self) -> bool:
        return True

    def ends(self) -> Mapping[TopicPartition, int]:
        return avro_archive(self.files).ends(self._kind)

    def topic_ids(self) -> Mapping[str, str]:
        return avro_archive(self.files).topic_ids()

    def left_alone(self) -> tuple[str, ...]:
        return avro_archive(self.files).left_alone()

    def open(self, log_range: LogRange) -> RangeWriter:
        losses = Losses(log_range=log_range, lossy=self.lossy)
        encoding = RecordEncoding(
            topic=log_range.topic,
            partition=log_range.partition,
            tails=plain_tails(losses) if self.plain else full_tails,
        )
        schema = encoded(PLAIN_SCHEMA if self.plain else SCHEMA)
        return RangeFiles(
            files=self.files,
            layout=LAYOUT,
            losses=losses,
            new_file=lambda name: _AvroFile(ContainerWriter(name=name, schema=schema, codec=self.codec), encoding),
            file_bytes=self.file_bytes,
        )

    def finish(
        self, written: Sequence[Written], topics: Sequence[ArchiveTopic], groups: Mapping[str, GroupOffsets]
    ) -> tuple[str, ...]:
        avro_archive(self.files).finish(self._kind, written, topics, groups)
        return ()

    @property
    def _kind(self) -> str:
        return AVRO_PLAIN if self.plain else AVRO


class _AvroFile:
    """One file in the making."""

    def __init__(self, container: ContainerWriter, encoding: RecordEncoding) -> None:
        self._container, self._encoding = container, encoding

    @property
    def size_bytes(self) -> int:
        return self._container.size_bytes

    def add(self, columns: RecordColumns) -> None:
        self._container.add(len(columns.offsets), self._encoding.encode(columns))

    def close(self) -> tuple[bytes, int]:
        return self._container.close(), self._container.plain_bytes
