"""Reads and writes the Avro archive, in two variants, with their layout and the properties lost by each.

Reads with or without index: records of offsite's schema, of the plain schema, and of foreign schemas that resolve to
offsite's. Writes ranges in order into object container files (see `encoding` and `indexed.layout`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offsite.archives.archive import Damage, OnDamage, ignore_damage
from offsite.archives.avro.container import (
    CHECKED_CODECS,
    DEFAULT_CODEC,
    AvroBlock,
    ContainerReader,
    ContainerWriter,
    make_compressor,
    read_header,
)
from offsite.archives.avro.decoding import ForeignDecoding, OtherSchema, OwnDecoding
from offsite.archives.avro.encoding import PLAIN_SCHEMA, SCHEMA, RecordEncoding, encode_schema, full_tails, plain_tails
from offsite.archives.decoding_process import DecodingEnded
from offsite.archives.file_parts import SourceFile
from offsite.archives.files import Files
from offsite.archives.indexed.archive import RECORDS_ONLY, IndexedArchive
from offsite.archives.indexed.layout import ArchiveLayout
from offsite.archives.indexed.reading import FileFormat, IndexedReader
from offsite.archives.indexed.writing import IndexedWriter, Losses, NewFile
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record
from offsite.log.records.record_columns import RecordColumns
from offsite.model.untrusted.bounded_json import parse_json

AVRO, AVRO_PLAIN = "avro", "avro-plain"
_LAYOUT = ArchiveLayout(topics="topics/", suffixes=(".data",))
_KINDS = {
    AVRO: (RECORDS_ONLY,),
    AVRO_PLAIN: (
        RECORDS_ONLY,
        "plain Avro schema: timestamp types, null values, repeated headers and null header values are not kept",
    ),
}
MAX_BLOCK_RECORDS = 1_000_000
"""Some 300 MiB of small records; common writers end a block at some 64 KiB."""
_WRITE_IT_SO = (
    "write the file again with the fields of offsite's schema, and put each topic and partition into its own folder: "
    "docs/explanation/archives.md"
)
"""Advice for records of another schema."""


def avro_archive(files: Files) -> IndexedArchive:
    return IndexedArchive(files=files, layout=_LAYOUT, kinds=_KINDS)


class BadRecords(ValueError):
    """The bytes hold no records of the schema, or unexpected records."""


BlockDecoding = OwnDecoding | ForeignDecoding
"""Decodes blocks with records of a partition, written with one schema."""


def choose_decoding(writer_schema: bytes, of: TopicPartition, *, must_be_known: bool) -> BlockDecoding:
    """Choose the decoding of records written with a schema (JSON).

    Raises `BadRecords` for bytes without a schema, and `OtherSchema` for a schema of something else. `must_be_known`:
    accept only the schemas written by offsite; in a damaged file a flipped field name might resolve.
    """
    try:
        schema = parse_json(writer_schema)
        if schema in (SCHEMA, PLAIN_SCHEMA):
            return OwnDecoding(of, is_plain=schema == PLAIN_SCHEMA)
        if not must_be_known:
            return ForeignDecoding(of, schema)
    except OtherSchema:
        raise
    except ValueError as error:
        raise BadRecords(f"its schema cannot be read: {error}") from error
    raise BadRecords("its schema differs from the schema that offsite writes")


def decode_block(block: AvroBlock, decoding: BlockDecoding) -> Sequence[Record]:
    """Decode the records of a block, in order. Raises `BadRecords`, `OtherSchema`, `DecodingEnded`."""
    if block.records > MAX_BLOCK_RECORDS:
        raise BadRecords(f"a block of {block.records} records, at most {MAX_BLOCK_RECORDS} are read")
    if block.records > len(block.data):
        raise BadRecords(f"{block.records} records in {len(block.data)} bytes")
    try:
        return decoding.decode(block.data, block.records)
    except (OtherSchema, DecodingEnded):
        raise
    except ValueError as error:
        raise BadRecords(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroReader(IndexedReader):
    @property
    def archive(self) -> IndexedArchive:
        return avro_archive(self.files)

    @property
    def _format(self) -> FileFormat:
        return _AvroFiles()


class _AvroFiles(FileFormat):
    """Reads an object container file."""

    def records(self, source: SourceFile, of: TopicPartition, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        header = read_header(source.window, source.key, on_damage)
        if header is None:
            return
        try:
            decoding = choose_decoding(header.schema, of, must_be_known=source.intact is False)
        except BadRecords as error:
            on_damage(Damage(file=source.key, position=0, problem=str(error)))
            return
        except OtherSchema as error:
            on_damage(Damage(file=source.key, position=0, problem=str(error), unfit=_WRITE_IT_SO))
            return
        for block in ContainerReader(source, header, on_damage).blocks():
            try:
                records = decode_block(block, decoding)
            except BadRecords as error:
                on_damage(Damage(file=source.key, position=block.position, problem=str(error)))
                continue
            except DecodingEnded as error:
                problem = f"{error}: the rest is left out"
                on_damage(Damage(file=source.key, position=block.position, problem=problem))
                return
            except OtherSchema as error:
                on_damage(Damage(file=source.key, position=0, problem=str(error), unfit=_WRITE_IT_SO))
                return
            yield records

    def checks_parts(self, source: SourceFile) -> bool:
        header = read_header(source.window, source.key, ignore_damage)
        source.window.back_to(0)
        return header is not None and header.codec in CHECKED_CODECS


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
