"""What killed runs left in a backup, and what of it was deleted, as it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsite.model.size import format_size

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.services.archives.staging import Staging
    from offsite.services.collect.leftovers_plan import LeftoversPlan

_LISTED_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoverObject:
    """An object that nothing refers to."""

    key: str
    kind: str
    bytes: int
    written_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoversReport:
    """What would be deleted: `objects` with `bytes`, and whole `copies` of archives, by their names; `kept` objects
    stay: no run has completed since, so one may still go on and want them."""

    backup: str
    objects: tuple[LeftoverObject, ...]
    bytes: int
    copies: tuple[str, ...]
    copies_bytes: int
    kept: tuple[LeftoverObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoversDone:
    """What was deleted. `locked` are keys that the store protects; `unfinished` uploads were swept; `kept` as in the
    plan."""

    backup: str
    objects: int
    bytes: int
    copies: tuple[str, ...]
    locked: tuple[str, ...]
    unfinished: int
    kept: int


def reported(planned: LeftoversPlan, copies: Sequence[tuple[Staging, int]]) -> LeftoversReport:
    """The report of a plan, and of copies of archives with their sizes in bytes."""
    objects, kept = (
        tuple(
            LeftoverObject(
                key=each.info.key, kind=each.kind, bytes=each.info.size_bytes, written_ms=each.info.modified_ms
            )
            for each in orphans
        )
        for orphans in (planned.objects, planned.kept)
    )
    return LeftoversReport(
        backup=planned.head.backup,
        objects=objects,
        bytes=planned.bytes,
        copies=tuple(staging.backup for staging, _ in copies),
        copies_bytes=sum(size_bytes for _, size_bytes in copies),
        kept=kept,
    )


def render_leftovers(console: Console, report: LeftoversReport) -> None:
    """What may go."""
    if not report.objects and not report.copies:
        console.print(f"backup {report.backup}: no leftover may go")
    else:
        size = format_size(report.bytes)
        console.print(f"backup {report.backup}: {len(report.objects)} objects ({size}) that killed runs left may go")
    for each in report.objects[:_LISTED_MAX]:
        console.print(f"  {each.kind}: {each.key}")
    if len(report.objects) > _LISTED_MAX:
        console.print(f"  and {len(report.objects) - _LISTED_MAX} more; -o json lists them")
    for name in report.copies:
        console.print(f"  the copy of an archive whose import was killed: {name}")
    if report.kept:
        console.print(f"  {len(report.kept)} objects stay: no run has completed since, a day ago or longer")


def render_leftovers_done(console: Console, done: LeftoversDone) -> None:
    """What went."""
    if not (done.objects or done.copies or done.locked or done.unfinished):
        console.print("no leftover may go")
        return
    console.print(f"deleted {done.objects} objects ({format_size(done.bytes)}) that killed runs left")
    for name in done.copies:
        console.print(f"  and the copy of an archive: {name}")
    if done.unfinished:
        console.print(f"  and {done.unfinished} unfinished uploads")
    for key in done.locked:
        console.print(f"  the store does not let go: {key}")
