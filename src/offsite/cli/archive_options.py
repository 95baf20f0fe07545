"""Options of all commands about archives, written once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

ArchivePlace = Annotated[str, typer.Argument(help="The archive: a folder or a URL (s3://, gs://, az://).")]
FormatToRead = Annotated[
    str,
    typer.Option("--format", help="Format of the archive: avro, kafka-backup, osodevops, parquet, jsonl, trivadis."),
]
FormatToWrite = Annotated[
    str, typer.Option("--format", help="Format of the archive: avro, kafka-backup, osodevops, parquet, jsonl.")
]
SkipDamaged = Annotated[
    bool,
    typer.Option("--skip-damaged", help="Take what is whole of damaged files, and report what is left out (exit 3)."),
]


class EmptyAsOption(StrEnum):
    NULL = "null"
    EMPTY = "empty"


EmptyAs = Annotated[
    EmptyAsOption,
    typer.Option("--empty-as", help="trivadis: what an empty key or value was; the format does not tell."),
]
AdoptOrphans = Annotated[
    bool, typer.Option("--adopt-orphans", help="osodevops: read segments that the manifest does not list, too.")
]
