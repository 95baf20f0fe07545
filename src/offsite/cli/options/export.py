"""The options that say what to export, and into what."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options.archive import ArchivePlace, FormatToWrite
from offsite.cli.options.common import Bootstrap, KafkaConfigFile, OptionalBackup, OptionalRepo
from offsite.cli.options.option_group import Taken
from offsite.cli.options.restore import named_backup
from offsite.cli.wiring import connect
from offsite.model.errors import BadOption
from offsite.services.restore.options import PointWords, parse_point

if TYPE_CHECKING:
    from offsite.services.archives.export_job import ExportJob
    from offsite.services.archives.export_plan import ExportRequest
    from offsite.services.archives.run_export import ExportTarget


class SourceOption(StrEnum):
    BACKUP = "backup"
    KAFKA = "kafka"


From = Annotated[
    SourceOption, typer.Option("--from", help="kafka: straight from the cluster at --bootstrap, without a repository.")
]
Words = Annotated[PointWords, Taken(help={"topics": "Topics to export [default: all]."})]
Groups = Annotated[
    list[str] | None,
    typer.Option("--groups", help="Consumer groups whose offsets go along: all, none, or patterns [default: all]."),
]
Lossy = Annotated[
    bool, typer.Option("--lossy", help="Leave out what the format cannot hold of a record, and count it.")
]
Plain = Annotated[bool, typer.Option("--plain", help="avro: the plain schema, which holds less than ours.")]
SegmentBytes = Annotated[
    int | None, typer.Option("--segment-bytes", min=1, help="Size at which a file ends, and the next one begins.")
]
Compression = Annotated[
    str | None,
    typer.Option("--compression", help="avro: null, deflate, snappy, zstandard. jsonl: none, gzip, zstd."),
]
BackupId = Annotated[
    str, typer.Option("--backup-id", help="osodevops: write below a folder of this name, as the tool does.")
]
OffsetHeaders = Annotated[
    bool, typer.Option("--offset-headers", help="osodevops: add the tool's x-original-* headers to each record.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """One field for each option, as typed."""

    path: ArchivePlace
    format: FormatToWrite
    repo: OptionalRepo = None
    backup: OptionalBackup = None
    source: From = SourceOption.BACKUP
    words: Words = field(default_factory=PointWords)
    groups: Groups = None
    lossy: Lossy = False
    plain: Plain = False
    segment_bytes: SegmentBytes = None
    compression: Compression = None
    backup_id: BackupId = ""
    offset_headers: OffsetHeaders = False
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None

    @property
    def point_is_fixed(self) -> bool:
        points = ("commit", "committed_at", "checkpoint", "at", "offsets_file", "before")
        return any(self.words.get(each) not in (None, []) for each in points)


def export_job(options: ExportOptions, spark_master: str | None) -> ExportJob:
    """Raises `BadOption` for what cannot be read or contradicts itself, `RepositoryNotFound`, `BackupNotFound`."""
    from offsite.services.archives.export_job import check_no_point, export_of_backup, export_of_cluster
    from offsite.spark.master import slots

    request = _request(options)
    _target(options, "")  # what is wrong with it is told before anybody is asked
    if options.source is SourceOption.KAFKA:
        if options.backup is not None:
            raise BadOption("--from kafka reads no backup", hint="leave out --backup")
        cluster = connect(options.bootstrap, options.kafka_config)
        check_no_point(request)
        target = _target(options, cluster.admin.cluster().cluster_id)
        return export_of_cluster(cluster, target, request, slots=slots(spark_master))
    backup = named_backup(options.repo, options.backup, otherwise=", or export a cluster with --from kafka")
    return export_of_backup(backup, _target(options, backup.descriptor.cluster_id), request)


def _target(options: ExportOptions, cluster_id: str) -> ExportTarget:
    from offsite.archives.formats import WriteOptions
    from offsite.services.archives.export_job import open_target

    write = WriteOptions(
        lossy=options.lossy,
        plain=options.plain,
        segment_bytes=options.segment_bytes,
        compression=options.compression,
        backup_id=options.backup_id,
        offset_headers=options.offset_headers,
        cluster_id=cluster_id,
    )
    return open_target(options.format, options.path, write)


def _request(options: ExportOptions) -> ExportRequest:
    from offsite.model.selections.selection import parse_groups
    from offsite.services.archives.export_plan import ExportRequest

    return ExportRequest(point=parse_point(options.words), groups=parse_groups(options.groups or ()))
