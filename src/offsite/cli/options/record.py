"""The options of `cat` and `search` that say which records of which restore point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options.common import BackupName, Repo
from offsite.cli.options.option_group import Taken
from offsite.cli.output import note
from offsite.model.errors import BadOption
from offsite.model.untrusted.bounds import MAX_OFFSET
from offsite.services.restore.options import PointWords, parse_point

if TYPE_CHECKING:
    from offsite.copy.restore_point import PointRequest
    from offsite.services.records.find import RecordsPlan

From = Annotated[
    str | None,
    typer.Option("--from", help="Begin at this offset, or with records of this time (2026-11-20T14:00Z, 2h-ago)."),
]
To = Annotated[str | None, typer.Option("--to", help="End before this offset, or before this time.")]
Words = Annotated[
    PointWords,
    Taken(
        but=("topics", "exclude", "partitions", "offsets_file", "before"),
        help={"isolation": "Whether records of aborted transactions are shown."},
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """One field for each option, as typed."""

    repo: Repo
    backup: BackupName
    start: From = None
    end: To = None
    words: Words = field(default_factory=PointWords)


def record_point(
    options: RecordOptions, *, topics: list[str] | None, partitions: list[str] | None = None
) -> PointRequest:
    """The restore point, and what of it. Raises `BadOption`, `BadName`."""
    return parse_point({**options.words, "topics": topics, "partitions": partitions})


def note_incarnations(plan: RecordsPlan) -> None:
    """On stderr, which one is shown of topics that were deleted and made anew."""
    from offsite.copy.incarnations import incarnation_notes

    for line in incarnation_notes(plan.point.incarnations):
        note(line)


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise BadOption(f"--limit {limit} shows nothing", hint="leave it out to see all")
    if limit is not None and limit >= MAX_OFFSET:
        raise BadOption("--limit is more than any partition can hold", hint="leave it out to see all")
