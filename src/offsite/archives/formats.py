"""The formats of archives by name, and how to make a reader or a writer of each. A format's code is imported when it
is asked for: some need large libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from offsite.archives.archive import ArchiveReader, ArchiveWriter
from offsite.archives.files import AppendableFiles, Files
from offsite.model.errors import BadOption


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """`empty_as` (trivadis): what an empty key or value is, `null` or `empty`. `adopt_orphans` (osodevops): read files
    that no manifest lists, too."""

    empty_as: str = "null"
    adopt_orphans: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """`lossy`: leave out what the format cannot hold, and count it. `plain` (avro): the seed's own schema, which holds
    less. `segment_bytes`: where a file ends and the next one begins; None: the format's own default."""

    lossy: bool = False
    plain: bool = False
    segment_bytes: int | None = None


MakeReader = Callable[[Files, ReadOptions], ArchiveReader]
MakeWriter = Callable[[AppendableFiles, WriteOptions], ArchiveWriter]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFormat:
    """`writer` is None for a format that is only read. `appends`: writing needs a folder. `options`: those fields of
    `ReadOptions` and `WriteOptions` that mean something to it, beside `lossy`."""

    name: str
    summary: str
    reader: MakeReader
    writer: MakeWriter | None
    appends: bool = False
    options: frozenset[str] = frozenset()


def archive_format(name: str) -> ArchiveFormat:
    """Raises `BadOption` for a name that is not in `FORMATS`."""
    if name not in FORMATS:
        raise BadOption(f"there is no archive format {name!r}", hint=f"formats: {', '.join(FORMATS)}")
    return FORMATS[name]


def open_reader(name: str, files: Files, options: ReadOptions = ReadOptions()) -> ArchiveReader:
    """Touches nothing. Raises `BadOption` for an unknown format, and for an option that the format does not have."""
    found = archive_format(name)
    _check_options(found, options, ReadOptions())
    return found.reader(files, options)


def open_writer(name: str, files: Files, options: WriteOptions = WriteOptions()) -> ArchiveWriter:
    """Touches nothing. Raises `BadOption` as well for a format that is only read, or that an object store cannot hold
    because it appends to files."""
    found = archive_format(name)
    _check_options(found, options, WriteOptions())
    if found.writer is None:
        known = ", ".join(each.name for each in FORMATS.values() if each.writer is not None)
        raise BadOption(f"{name} archives are only read", hint=f"formats to write: {known}")
    if found.appends and not hasattr(files, "append"):
        raise BadOption(
            f"a {name} archive grows by appending to its files, which {files.url} cannot do",
            hint="export into a folder, or choose another format",
        )
    return found.writer(files, options)  # type: ignore[arg-type]  # appends where it has to: just checked


OptionsT = TypeVar("OptionsT", ReadOptions, WriteOptions)


def _check_options(found: ArchiveFormat, given: OptionsT, default: OptionsT) -> None:
    for name in given.__slots__:
        is_given = getattr(given, name) != getattr(default, name)
        if is_given and name != "lossy" and name not in found.options:
            owners = ", ".join(each.name for each in FORMATS.values() if name in each.options)
            raise BadOption(
                f"--{name.replace('_', '-')} means nothing to {found.name} archives", hint=f"it is for {owners}"
            )


def _avro_reader(files: Files, _: ReadOptions) -> ArchiveReader:
    from offsite.archives.avro import AvroReader

    return AvroReader(files=files)


def _avro_writer(files: Files, options: WriteOptions) -> ArchiveWriter:
    from offsite.archives.avro import AvroWriter

    return AvroWriter(files=files, plain=options.plain, lossy=options.lossy)


def _kafka_backup_reader(files: Files, _: ReadOptions) -> ArchiveReader:
    from offsite.archives.kafka_backup import KafkaBackupReader

    return KafkaBackupReader(files=files)


def _kafka_backup_writer(files: AppendableFiles, options: WriteOptions) -> ArchiveWriter:
    from offsite.archives.kafka_backup import KafkaBackupWriter

    if options.segment_bytes is None:
        return KafkaBackupWriter(files=files, lossy=options.lossy)
    return KafkaBackupWriter(files=files, lossy=options.lossy, segment_bytes=options.segment_bytes)


def _osodevops_reader(files: Files, options: ReadOptions) -> ArchiveReader:
    from offsite.archives.osodevops import OsodevopsReader

    return OsodevopsReader(files=files, adopt_orphans=options.adopt_orphans)


def _osodevops_writer(files: Files, options: WriteOptions) -> ArchiveWriter:
    from offsite.archives.osodevops import OsodevopsWriter

    return OsodevopsWriter(files=files, lossy=options.lossy)


def _parquet_reader(files: Files, _: ReadOptions) -> ArchiveReader:
    from offsite.archives.parquet import ParquetReader

    return ParquetReader(files=files)


def _parquet_writer(files: Files, options: WriteOptions) -> ArchiveWriter:
    from offsite.archives.parquet import ParquetWriter

    return ParquetWriter(files=files, lossy=options.lossy)


def _jsonl_reader(files: Files, _: ReadOptions) -> ArchiveReader:
    from offsite.archives.jsonl import JsonlReader

    return JsonlReader(files=files)


def _jsonl_writer(files: Files, options: WriteOptions) -> ArchiveWriter:
    from offsite.archives.jsonl import JsonlWriter

    return JsonlWriter(files=files, lossy=options.lossy)


def _trivadis_reader(files: Files, options: ReadOptions) -> ArchiveReader:
    from offsite.archives.trivadis import TrivadisReader

    return TrivadisReader(files=files, empty_as=options.empty_as)


FORMATS = {
    each.name: each
    for each in (
        ArchiveFormat(
            name="avro",
            summary="Avro files, one record for each Kafka record",
            reader=_avro_reader,
            writer=_avro_writer,
            options=frozenset({"plain"}),
        ),
        ArchiveFormat(
            name="kafka-backup",
            summary="segments and indexes of itadventurer/kafka-backup",
            reader=_kafka_backup_reader,
            writer=_kafka_backup_writer,
            appends=True,
            options=frozenset({"segment_bytes"}),
        ),
        ArchiveFormat(
            name="osodevops",
            summary="segments and manifest of osodevops/kafka-backup",
            reader=_osodevops_reader,
            writer=_osodevops_writer,
            options=frozenset({"adopt_orphans"}),
        ),
        ArchiveFormat(
            name="parquet",
            summary="Parquet files with the columns of Spark's Kafka source",
            reader=_parquet_reader,
            writer=_parquet_writer,
        ),
        ArchiveFormat(name="jsonl", summary="one JSON object a line", reader=_jsonl_reader, writer=_jsonl_writer),
        ArchiveFormat(
            name="trivadis",
            summary="Avro files of TrivadisPF/kafka-backup, read only",
            reader=_trivadis_reader,
            writer=None,
            options=frozenset({"empty_as"}),
        ),
    )
}
