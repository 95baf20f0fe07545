"""Shows leftovers of killed runs in a backup, and their deletion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsite.model.units import format_size

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.archives.import_staging import Staging
    from offsite.upkeep.collection.leftovers_plan import LeftoversPlan

_LISTED_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoverObject:
    """An object without references."""

    key: str
    kind: str
    bytes: int
    written_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoversReport:
    """The planned deletion: `objects` with `bytes`, and whole `copies` of archives, by name. `kept` objects stay: no
    run has completed since, so a run may still continue and need the objects."""

    backup: str
    objects: tuple[LeftoverObject, ...]
    bytes: int
    copies: tuple[str, ...]
    copies_bytes: int
    kept: tuple[LeftoverObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedLeftovers:
    """The result of the deletion. `locked`: keys protected by the store; `unfinished`: removed uploads; `kept`: as in
    the plan."""

    backup: str
    objects: int
    bytes: int
    copies: tuple[str, ...]
    locked: tuple[str, ...]
    unfinished: int
    kept: int


def make_leftovers_report(planned: LeftoversPlan, copies: Sequence[tuple[Staging, int]]) -> LeftoversReport:
    """Make the report of a plan, and of copies of archives with their sizes in bytes."""
    objects, kept_objects = (
        tuple(
            LeftoverObject(
                key=orphan.info.key, kind=orphan.kind, bytes=orphan.info.size_bytes, written_ms=orphan.info.modified_ms
            )
            for orphan in orphans
        )
        for orphans in (planned.objects, planned.undecided)
    )
    return LeftoversReport(
        backup=planned.head.backup,
        objects=objects,
        bytes=planned.bytes,
        copies=tuple(staging.backup for staging, _ in copies),
        copies_bytes=sum(size_bytes for _, size_bytes in copies),
        kept=kept_objects,
    )


def render_leftovers(console: Console, report: LeftoversReport) -> None:
    """Show the deletable leftovers."""
    if not report.objects and not report.copies:
        console.print(f"backup {report.backup}: no leftover may be deleted")
    else:
        size = format_size(report.bytes)
        console.print(
            f"backup {report.backup}: {len(report.objects)} objects ({size}) left by killed runs may be deleted"
        )
    for leftover in report.objects[:_LISTED_MAX]:
        console.print(f"  {leftover.kind}: {leftover.key}")
    if len(report.objects) > _LISTED_MAX:
        console.print(f"  and {len(report.objects) - _LISTED_MAX} more; -o json lists them")
    for name in report.copies:
        console.print(f"  the copy of an archive whose import was killed: {name}")
    if report.kept:
        console.print(f"  {len(report.kept)} objects are kept: no later run completed at least a day ago")


def render_leftovers_done(console: Console, result: DeletedLeftovers) -> None:
    """Show the deleted leftovers."""
    if not (result.objects or result.copies or result.locked or result.unfinished):
        console.print("no leftover may be deleted")
        return
    console.print(f"deleted {result.objects} objects ({format_size(result.bytes)}) left by killed runs")
    for name in result.copies:
        console.print(f"  and the copy of an archive: {name}")
    if result.unfinished:
        console.print(f"  and {result.unfinished} unfinished uploads")
    for key in result.locked:
        console.print(f"  protected by the store, not deleted: {key}")
