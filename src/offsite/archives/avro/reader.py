"""Reads the Avro archive, with our schema, the plain one, or one that resolves to ours; with its index or without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.avro.block_codec import CHECKED_CODECS
from offsite.archives.avro.container import ContainerReader, read_header
from offsite.archives.avro.decoding import BadRecords, block_decoding, decode_block
from offsite.archives.avro.place import avro_archive
from offsite.archives.file_window import SourceFile
from offsite.archives.indexed_archive import IndexedArchive
from offsite.archives.indexed_reading import FileFormat, IndexedReader
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record

__all__ = ["AvroReader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroReader(IndexedReader):
    @property
    def _archive(self) -> IndexedArchive:
        return avro_archive(self.files)

    @property
    def _format(self) -> FileFormat:
        return _AvroFiles()


class _AvroFiles:
    """How one object container file is read."""

    def records(self, source: SourceFile, of: TopicPartition, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        header = read_header(source.window, source.key, on_damage)
        if header is None:
            return
        try:
            decoding = block_decoding(header.schema, of, must_be_known=source.intact is False)
        except BadRecords as error:
            on_damage(Damage(file=source.key, position=0, problem=str(error)))
            return
        for block in ContainerReader(source, header, on_damage).blocks():
            try:
                records = decode_block(block, decoding)
            except BadRecords as error:
                on_damage(Damage(file=source.key, position=block.position, problem=str(error)))
                continue
            yield records

    def checks_parts(self, source: SourceFile) -> bool:
        header = read_header(source.window, source.key, _pass_over)
        source.window.back_to(0)
        return header is not None and header.codec in CHECKED_CODECS


def _pass_over(damage: Damage) -> None:
    """Reported when the file is read."""
