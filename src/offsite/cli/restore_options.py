"""The options that say what to restore: the same for `restore plan` and `restore run`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import BackupName, Bootstrap, KafkaConfigFile, Repo
from offsite.model.errors import BadOption

if TYPE_CHECKING:
    from offsite.services.restore_request import RestoreRequest


class IsolationOption(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class OffsetsOption(StrEnum):
    AUTO = "auto"
    PRESERVE = "preserve"
    TRANSLATE = "translate"


Topics = Annotated[list[str] | None, typer.Option("--topics", help="Topics to restore [default: all of the backup].")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", help="Topics to leave out, same syntax.")]
Rename = Annotated[list[str] | None, typer.Option("--rename", help="old=new: restore under another name.")]
Commit = Annotated[int | None, typer.Option("--commit", help="Restore point: a commit number [default: the newest].")]
At = Annotated[str | None, typer.Option("--at", help="Restore point: the newest commit at or before this time.")]
Isolation = Annotated[
    IsolationOption, typer.Option("--isolation", help="Whether records of aborted transactions come back.")
]
Offsets = Annotated[
    OffsetsOption,
    typer.Option(
        "--offsets", help="translate: gap-free from the target's end, with a stored map from old to new offsets."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """One field for each option, as typed."""

    repo: Repo
    backup: BackupName
    topics: Topics = None
    exclude: Exclude = None
    rename: Rename = None
    commit: Commit = None
    at: At = None
    isolation: Isolation = IsolationOption.READ_COMMITTED
    offsets: Offsets = OffsetsOption.AUTO
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None


def restore_request(options: RestoreOptions) -> RestoreRequest:
    """Raises `BadOption` for what cannot be read or contradicts itself."""
    from offsite.model.selection import parse_selection
    from offsite.pipeline.restore_plan import parse_renames
    from offsite.services.restore_request import RestoreRequest

    if options.offsets is OffsetsOption.PRESERVE:
        raise BadOption("this version cannot keep source offsets", hint="use --offsets translate and its stored map")
    if options.commit is not None and options.at is not None:
        raise BadOption("--commit and --at both name the restore point", hint="give one of them")
    return RestoreRequest(
        selection=parse_selection(options.topics or ["*"], options.exclude or ()),
        renames=parse_renames(options.rename or []),
        commit=options.commit,
        committed_at=options.at,
        isolation=options.isolation.value,
    )
