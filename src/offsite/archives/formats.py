"""The archive formats by name, with constructors of readers and writers. The code of a format is imported on first use,
because some formats need large libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from offsite.archives.archive import ArchiveReader, ArchiveWriter
from offsite.archives.files import Files
from offsite.archives.retention import RetentionArchive
from offsite.model.errors import BadOption
from offsite.model.options import EmptyAs
from offsite.model.schema_registry import RegistrySnapshot

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from offsite.archives.indexed.reading import IndexedReader

_FOR_ALL = frozenset({"lossy", "segment_bytes", "cluster_id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options for reading an archive, where formats leave a choice.

    `empty_as` (trivadis, kafka-backup): meaning of an empty key or value, `null` or `empty`; None: the format decides.
    osodevops: `backup_id` where the place holds several backups, `adopt_orphans` to read files missing from every
    manifest, `drop_control_like` to leave out records that look like transaction markers. `own_group` (kafka-backup):
    the group of the tool's own connector, always left out.
    """

    empty_as: EmptyAs | None = None
    adopt_orphans: bool = False
    backup_id: str = ""
    drop_control_like: bool = False
    own_group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options for writing an archive, where formats leave a choice.

    `lossy`: leave out and count properties beyond the format. `segment_bytes`: size at which a file ends; `compression`
    (avro, jsonl); None: the format's default. `plain` (avro): use the published schema, which holds less. osodevops:
    `backup_id` for a folder of the name, `offset_headers` to add the tool's own headers. `cluster_id`: of the source,
    for formats that store the cluster. `decode` (jsonl): the schemas by which keys and values are decoded, too.
    """

    lossy: bool = False
    plain: bool = False
    segment_bytes: int | None = None
    compression: str | None = None
    backup_id: str = ""
    offset_headers: bool = False
    cluster_id: str = ""
    decode: RegistrySnapshot | None = None


MakeReader = Callable[[Files, ReadOptions], ArchiveReader]
MakeWriter = Callable[[Files, WriteOptions], ArchiveWriter]
MakeRetention = Callable[[Files, ReadOptions], RetentionArchive]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFormat:
    """An archive format. `writer` and `retention` are None for a read-only format. `reads_with`, `writes_with`: fields
    of `ReadOptions` and `WriteOptions` supported by the format."""

    name: str
    summary: str
    reader: MakeReader
    writer: MakeWriter | None
    retention: MakeRetention | None = None
    reads_with: frozenset[str] = frozenset()
    writes_with: frozenset[str] = frozenset()


def find_format(name: str) -> ArchiveFormat:
    """Return the format called `name`. Raises `BadOption` for a name outside `FORMATS`."""
    if name not in FORMATS:
        raise BadOption(f"there is no archive format {name!r}", hint=f"formats: {', '.join(FORMATS)}")
    return FORMATS[name]


def open_reader(name: str, files: Files, options: ReadOptions = ReadOptions()) -> ArchiveReader:
    """Make a reader. Touches nothing. Raises `BadOption` for an unknown format, and for an option unknown to the
    format."""
    chosen_format = find_format(name)
    _check_options(chosen_format, options, ReadOptions(), lambda archive_format: archive_format.reads_with)
    return chosen_format.reader(files, options)


def open_writer(name: str, files: Files, options: WriteOptions = WriteOptions()) -> ArchiveWriter:
    """Make a writer. Touches nothing. Raises `BadOption` also for a read-only format, and for a format that appends to
    files when the place is an object store."""
    chosen_format = find_format(name)
    _check_options(chosen_format, options, WriteOptions(), lambda archive_format: archive_format.writes_with | _FOR_ALL)
    if chosen_format.writer is None:
        writable = ", ".join(candidate.name for candidate in FORMATS.values() if candidate.writer is not None)
        raise BadOption(f"{name} archives can only be read", hint=f"formats to write: {writable}")
    return chosen_format.writer(files, options)


def open_retention(name: str, files: Files, options: ReadOptions = ReadOptions()) -> RetentionArchive:
    """Make the retention of an archive. Touches nothing. Raises `BadOption` like `open_reader`, and for a read-only
    format."""
    chosen_format = find_format(name)
    _check_options(chosen_format, options, ReadOptions(), lambda archive_format: archive_format.reads_with)
    if chosen_format.retention is None:
        deletable = ", ".join(candidate.name for candidate in FORMATS.values() if candidate.retention is not None)
        raise BadOption(f"{name} archives can only be read", hint=f"retention supports {deletable}")
    return chosen_format.retention(files, options)


WriterT = TypeVar("WriterT", bound="DataclassInstance")
OptionsT = TypeVar("OptionsT", ReadOptions, WriteOptions)


def _check_options(
    chosen_format: ArchiveFormat,
    options: OptionsT,
    default: OptionsT,
    allowed_names: Callable[[ArchiveFormat], frozenset[str]],
) -> None:
    for name in (option_field.name for option_field in fields(options)):
        if getattr(options, name) != getattr(default, name) and name not in allowed_names(chosen_format):
            owners = ", ".join(candidate.name for candidate in FORMATS.values() if name in allowed_names(candidate))
            option = f"--{name.replace('_', '-')}"
            raise BadOption(f"{option} cannot be used with {chosen_format.name} archives", hint=f"it is for {owners}")


def _avro_reader(files: Files, _: ReadOptions) -> ArchiveReader:
    from offsite.archives.avro import AvroReader

    return AvroReader(files=files)


def _avro_writer(files: Files, options: WriteOptions) -> ArchiveWriter:
    from offsite.archives.avro import CODECS, AvroWriter

    writer = AvroWriter(files=files, plain=options.plain, lossy=options.lossy)
    _check_compression(options.compression, CODECS)
    return _with_given(writer, codec=options.compression, file_bytes=options.segment_bytes)


def _kafka_backup_reader(files: Files, options: ReadOptions) -> ArchiveReader:
    from offsite.archives.kafka_backup import KafkaBackupReader

    return KafkaBackupReader(files=files, empty_as_null=options.empty_as == EmptyAs.NULL, own_group=options.own_group)


def _kafka_backup_writer(files: Files, options: WriteOptions) -> ArchiveWriter:
    from offsite.archives.kafka_backup import KafkaBackupWriter

    if (folder := files.appendable) is None:
        raise BadOption(
            f"a kafka-backup archive grows by appending to its files, and {files.url} does not support that",
            hint="export into a folder, or choose another format",
        )
    writer = KafkaBackupWriter(files=folder, lossy=options.lossy)
    return _with_given(writer, segment_bytes=options.segment_bytes)


def _osodevops_reader(files: Files, options: ReadOptions) -> ArchiveReader:
    from offsite.archives.osodevops import OsodevopsReader

    return OsodevopsReader(
        files=files,
        backup_id=options.backup_id,
        adopt_orphans=options.adopt_orphans,
        drop_control_like=options.drop_control_like,
    )


def _osodevops_writer(files: Files, options: WriteOptions) -> ArchiveWriter:
    from offsite.archives.osodevops import OsodevopsWriter

    writer = OsodevopsWriter(
        files=files,
        backup_id=options.backup_id,
        cluster_id=options.cluster_id,
        offset_headers=options.offset_headers,
        lossy=options.lossy,
    )
    return _with_given(writer, segment_bytes=options.segment_bytes)


def _parquet_reader(files: Files, _: ReadOptions) -> ArchiveReader:
    from offsite.archives.parquet import ParquetReader

    return ParquetReader(files=files)


def _parquet_writer(files: Files, options: WriteOptions) -> ArchiveWriter:
    from offsite.archives.parquet import ParquetWriter

    writer = ParquetWriter(files=files, lossy=options.lossy)
    return _with_given(writer, file_bytes=options.segment_bytes)


def _jsonl_reader(files: Files, _: ReadOptions) -> ArchiveReader:
    from offsite.archives.jsonl import JsonlReader

    return JsonlReader(files=files)


def _jsonl_writer(files: Files, options: WriteOptions) -> ArchiveWriter:
    from offsite.archives.jsonl import COMPRESSIONS, JsonlWriter

    writer = JsonlWriter(files=files, lossy=options.lossy, decode=options.decode)
    _check_compression(options.compression, COMPRESSIONS)
    return _with_given(writer, compression=options.compression, file_bytes=options.segment_bytes)


def _retention_of_index(files: Files, options: ReadOptions, make_reader: MakeReader) -> RetentionArchive:
    from offsite.archives.retention_indexed import IndexedRetention

    reader = cast("IndexedReader", make_reader(files, options))
    return IndexedRetention(archive=reader.archive)


def _kafka_backup_retention(files: Files, _: ReadOptions) -> RetentionArchive:
    from offsite.archives.kafka_backup.retention import KafkaBackupRetention

    return KafkaBackupRetention(files=files)


def _osodevops_retention(files: Files, options: ReadOptions) -> RetentionArchive:
    from offsite.archives.osodevops.retention import OsodevopsRetention

    return OsodevopsRetention(files=files, backup_id=options.backup_id)


def _trivadis_reader(files: Files, options: ReadOptions) -> ArchiveReader:
    from offsite.archives.trivadis import TrivadisReader

    return TrivadisReader(files=files, empty_as=options.empty_as or EmptyAs.NULL)


def _with_given(writer: WriterT, **options: str | int | None) -> WriterT:
    """Return the writer with the options that a person gave: others have the format's default."""
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return replace(writer, **given)


def _check_compression(name: str | None, supported: Sequence[str]) -> None:
    if name is not None and name not in supported:
        raise BadOption(
            f"there is no compression {name!r} in this format", hint=f"choose one of {', '.join(supported)}"
        )


FORMATS = {
    definition.name: definition
    for definition in (
        ArchiveFormat(
            name="avro",
            summary="Avro files, one record for each Kafka record",
            reader=_avro_reader,
            writer=_avro_writer,
            retention=partial(_retention_of_index, make_reader=_avro_reader),
            writes_with=frozenset({"plain", "compression"}),
        ),
        ArchiveFormat(
            name="kafka-backup",
            summary="segments and indexes of itadventurer/kafka-backup",
            reader=_kafka_backup_reader,
            writer=_kafka_backup_writer,
            retention=_kafka_backup_retention,
            reads_with=frozenset({"empty_as", "own_group"}),
        ),
        ArchiveFormat(
            name="osodevops",
            summary="segments and manifest of osodevops/kafka-backup",
            reader=_osodevops_reader,
            writer=_osodevops_writer,
            retention=_osodevops_retention,
            reads_with=frozenset({"backup_id", "adopt_orphans", "drop_control_like"}),
            writes_with=frozenset({"backup_id", "offset_headers"}),
        ),
        ArchiveFormat(
            name="parquet",
            summary="Parquet files with the columns of Spark's Kafka source",
            reader=_parquet_reader,
            writer=_parquet_writer,
            retention=partial(_retention_of_index, make_reader=_parquet_reader),
        ),
        ArchiveFormat(
            name="jsonl",
            summary="one JSON object a line",
            reader=_jsonl_reader,
            writer=_jsonl_writer,
            retention=partial(_retention_of_index, make_reader=_jsonl_reader),
            writes_with=frozenset({"compression", "decode"}),
        ),
        ArchiveFormat(
            name="trivadis",
            summary="Avro files of TrivadisPF/kafka-backup, read only",
            reader=_trivadis_reader,
            writer=None,
            reads_with=frozenset({"empty_as"}),
        ),
    )
}
