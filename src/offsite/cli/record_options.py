"""The options of `cat` and `search` that say which records of which restore point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import BackupName, Repo
from offsite.cli.output import note
from offsite.cli.restore_options import At, Checkpoint, Commit, CommittedAt, Incarnation
from offsite.model.bounds import MAX_OFFSET
from offsite.model.choices import Isolation
from offsite.model.errors import BadOption

if TYPE_CHECKING:
    from offsite.services.records import RecordsPlan
    from offsite.services.restore_request import RestoreRequest

From = Annotated[
    str | None,
    typer.Option("--from", help="Begin at this offset, or with records of this time (2026-11-20T14:00Z, 2h-ago)."),
]
To = Annotated[str | None, typer.Option("--to", help="End before this offset, or before this time.")]
IsolationLevel = Annotated[
    Isolation, typer.Option("--isolation", help="Whether records of aborted transactions are shown.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """One field for each option, as typed."""

    repo: Repo
    backup: BackupName
    start: From = None
    end: To = None
    commit: Commit = None
    committed_at: CommittedAt = None
    checkpoint: Checkpoint = None
    at: At = None
    incarnation: Incarnation = None
    isolation: IsolationLevel = Isolation.DEFAULT


def record_point(
    options: RecordOptions, *, topics: list[str] | None, partitions: list[str] | None = None
) -> RestoreRequest:
    """The restore point, and what of it. Raises `BadOption`, `BadName`."""
    from offsite.services.restore_words import parse_restore

    return parse_restore(
        {
            "topics": topics,
            "partitions": partitions,
            "commit": options.commit,
            "committed_at": options.committed_at,
            "checkpoint": options.checkpoint,
            "at": options.at,
            "incarnation": options.incarnation,
            "isolation": options.isolation.value,
        }
    )


def note_incarnations(plan: RecordsPlan) -> None:
    """On stderr, which one is shown of topics that were deleted and made anew."""
    from offsite.pipeline.incarnations import incarnation_notes

    for line in incarnation_notes(plan.point.incarnations):
        note(line)


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise BadOption(f"--limit {limit} shows nothing", hint="leave it out to see all")
    if limit is not None and limit >= MAX_OFFSET:
        raise BadOption("--limit is more than any partition can hold", hint="leave it out to see all")
