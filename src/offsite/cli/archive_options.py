"""Options of all commands about archives, written once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import checked_places
from offsite.model.options import EmptyAs

if TYPE_CHECKING:
    from offsite.archives.inspection import ArchiveSource


ArchivePlace = Annotated[
    str, typer.Argument(help="The archive: a folder or a URL (s3://, gs://, az://).", callback=checked_places)
]
FormatToRead = Annotated[
    str,
    typer.Option("--format", help="Format of the archive: avro, kafka-backup, osodevops, parquet, jsonl, trivadis."),
]
_FORMAT_TO_WRITE = typer.Option(
    "--format", help="Format of the archive: avro, kafka-backup, osodevops, parquet, jsonl."
)
FormatToWrite = Annotated[str, _FORMAT_TO_WRITE]
OptionalFormatToWrite = Annotated[str | None, _FORMAT_TO_WRITE]
SkipDamaged = Annotated[
    bool,
    typer.Option("--skip-damaged", help="Take the intact parts of damaged files, and report the rest (exit code 3)."),
]


EmptyBlobsAs = Annotated[
    EmptyAs | None,
    typer.Option(
        "--empty-as",
        help="trivadis, kafka-backup: meaning of an empty key or value, if the archive does not say [default: null in "
        "trivadis, empty in kafka-backup].",
    ),
]
AdoptOrphans = Annotated[
    bool, typer.Option("--adopt-orphans", help="osodevops: also read segments that the manifest does not list.")
]
BackupId = Annotated[str, typer.Option("--backup-id", help="osodevops: id of the backup to read.")]
DropControlLike = Annotated[
    bool, typer.Option("--drop-control-like", help="osodevops: leave out records that look like transaction markers.")
]
OwnGroup = Annotated[
    str,
    typer.Option("--own-group", help="kafka-backup: the group of the tool's own connector; this group is left out."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveReadOptions:
    """Options that name an archive and say how to read the archive, as typed."""

    path: ArchivePlace
    format: FormatToRead
    empty_as: EmptyBlobsAs = None
    adopt_orphans: AdoptOrphans = False
    backup_id: BackupId = ""
    drop_control_like: DropControlLike = False
    own_group: OwnGroup = ""


def archive_source(options: ArchiveReadOptions) -> ArchiveSource:
    """Open the archive named by the options. Raises `BadOption`, `BadRepositoryUrl`."""
    from offsite.archives.formats import ReadOptions
    from offsite.archives.inspection import open_source

    read = ReadOptions(
        empty_as=options.empty_as,
        adopt_orphans=options.adopt_orphans,
        backup_id=options.backup_id,
        drop_control_like=options.drop_control_like,
        own_group=options.own_group,
    )
    return open_source(options.format, options.path, read)
