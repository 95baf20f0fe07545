"""Shows a check of a backup, for people: a headline, then everything damaged, missing, different or left over, by name.

Also the findings of a proof (differences, uncompared parts, and holes of the backup), and the deletion of leftovers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsite.model.head import Head
from offsite.model.units import format_duration, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from offsite.archives.import_staging import Staging
    from offsite.reports.point_report import HoleReport
    from offsite.restore.compare.proof import ProofFinding, ProvenTopic, UncomparedPartition
    from offsite.restore.compare.run import CompareResult
    from offsite.upkeep.collection.leftovers import LeftoversPlan
    from offsite.upkeep.verification.leftovers import Leftovers
    from offsite.upkeep.verification.run import VerifyResult


_SHOWN = 24
"""Holes shown: a backup with thousands is read in the JSON output."""


def render_lacking(console: Console, holes: Sequence[HoleReport]) -> None:
    """Show a line for each of the first holes."""
    for hole in holes[:_SHOWN]:
        where = f"{hole.topic}/{hole.partition} [{hole.start}, {hole.end})"
        console.print(f"    {where} {hole.reason}")
    if len(holes) > _SHOWN:
        console.print(f"    and {len(holes) - _SHOWN:,} more (all of them with -o json)")


def render_open(console: Console, findings: Sequence[ProofFinding], uncompared: Sequence[UncomparedPartition]) -> None:
    """Show all differences, and all uncompared partitions."""
    for finding in findings:
        console.print(f"  DIFFERENT: {finding.where}: {finding.what}")
    for partition in uncompared:
        hint = f" ({partition.hint})" if partition.hint else ""
        console.print(f"  NOT COMPARED: {partition.topic}/{partition.partition}: {partition.message}{hint}")


def render_verification(console: Console, result: VerifyResult, *, listed: bool) -> None:
    console.print(
        f"backup {result.backup}, {result.depth} check: {_headline(result)} "
        f"({result.commits} restore points, {result.segments} segments, {result.records:,} records, "
        f"{format_size(result.bytes)})"
    )
    if result.head_commit:
        console.print(f"  head {Head(commit=result.head_commit, hash=result.head_hash).short}")
    _render_history(console, result)
    for damage in result.damaged:
        console.print(
            f"  {damage.topic}/{damage.partition} [{damage.start}, {damage.end}): {damage.problem}",
            f"    needed by restore points {damage.first_commit} to {damage.last_commit}; object {damage.key}",
            sep="\n",
        )
    _render_coverage(console, result)
    _render_unvouched(console, result)
    if result.strangers:
        from offsite.repository.repository import describe_strangers

        console.print(f"  {describe_strangers(result.strangers)}")
    for snapshot in result.damaged_snapshots:
        console.print(f"  DAMAGED snapshot of commit {snapshot.first_commit}: {snapshot.problem}")
    if result.leftovers is not None:
        (render_leftovers if listed else render_leftovers_count)(console, result.leftovers)
    if result.against is not None:
        _render_comparison(console, result.against)
    elif result.ok and result.depth == "quick":
        console.print(f"next: offsite verify --backup {result.backup} --deep reads every byte")


def _render_history(console: Console, result: VerifyResult) -> None:
    for gone in result.missing_head:
        console.print(f"  GONE: {gone}")
    for commit in result.damaged_commits:
        lost = f"restore points {commit.first_commit} to {commit.last_commit} cannot be used"
        console.print(f"  DAMAGED commit: {commit.problem}", f"    {lost}", sep="\n")
    for damaged_object in result.damaged_objects:
        console.print(f"  DAMAGED object: {damaged_object.problem}", f"    {damaged_object.key}", sep="\n")


def _render_unvouched(console: Console, result: VerifyResult) -> None:
    if count := len(result.unvouched):
        objects = "object of an earlier version has" if count == 1 else "objects of earlier versions have"
        console.print(f"  {count} {objects} no digest, so their content cannot be checked; -o json lists them")


def _headline(result: VerifyResult) -> str:
    """Return `ok` if, and only if, the exit code is 0."""
    if result.verdict == "different":
        return "the backup is whole, the cluster is DIFFERENT"
    if result.verdict == "unknown":
        return "the backup is whole, the cluster was NOT fully COMPARED"
    return ", ".join(_damages(result)) or ("ok" if result.ok else "DAMAGED")


def _damages(result: VerifyResult) -> Iterator[str]:
    if result.damaged:
        yield f"{len(result.damaged)} of {result.segments} segments are DAMAGED"
    if lost := sum(
        damaged_commit.last_commit - damaged_commit.first_commit + 1 for damaged_commit in result.damaged_commits
    ):
        yield f"{lost} restore point{' is' if lost == 1 else 's are'} LOST"
    if result.missing_head:
        yield "commits that were seen before are GONE"
    if records := len(result.damaged_objects):
        yield f"{records} object{' is' if records == 1 else 's are'} DAMAGED (no data)"
    if missing := len(result.damaged_snapshots):
        yield f"{missing} snapshot{' is' if missing == 1 else 's are'} DAMAGED"
    if ranges := len(result.unaccounted):
        yield f"{ranges} range{' of offsets is' if ranges == 1 else 's of offsets are'} NOT ACCOUNTED FOR"


def _render_coverage(console: Console, result: VerifyResult) -> None:
    for gap in result.unaccounted:
        console.print(
            f"  {gap.topic}/{gap.partition} [{gap.start}, {gap.end}): NOT ACCOUNTED FOR by commit {gap.commit}: "
            "no segment, no hole, and no proof that the source had no records"
        )
    if result.unproven:
        console.print(
            f"  {len(result.unproven)} ranges of commits by earlier versions have no records and no proof of emptiness "
            "(normal for compacted topics); -o json lists them"
        )


def _render_comparison(console: Console, against: CompareResult) -> None:
    by = f"restore {against.restore}" if against.restore else f"commit {against.commit}"
    console.print(f"cluster {against.cluster_id} against {by}: {_verdict(against)} ({_amount(against)})")
    render_open(console, against.findings, against.uncompared)
    for remark in (*against.left_out, *against.branches):
        console.print(f"  {remark}")
    for name in against.by_name:
        console.print(f"  {name}: matched by name only, these brokers have no topic ids")
    for name, topic in against.topics.items():
        if not any(partition.verified is not None or partition.problem for partition in topic.partitions):
            console.print(f"  {name}: nothing to compare")
        figures = _figures(topic)
        if any(figures.values()):
            amounts = ", ".join(f"{count:,} {figure}" for figure, count in figures.items() if count)
            console.print(f"  {name}: {amounts} (not compared)")
    if against.lacking:
        console.print("  the backup itself lacks:")
        render_lacking(console, against.lacking)


def _verdict(against: CompareResult) -> str:
    if against.verified is not None:
        return "the same" if against.verified else f"DIFFERENT, {len(against.findings)} findings"
    if against.uncompared:
        return f"NOT KNOWN, {len(against.uncompared)} partitions could not be compared"
    return "NOTHING TO COMPARE"


def _amount(against: CompareResult) -> str:
    topics, partitions = len(against.topics), against.compared_partitions
    amounts = [
        f"{topics} topic{'' if topics == 1 else 's'}",
        f"{partitions} partition{'' if partitions == 1 else 's'} compared",
        *([f"{against.empty_partitions} with nothing to compare"] if against.empty_partitions else []),
        f"{against.records:,} records equal",
    ]
    return ", ".join(amounts)


def _figures(topic: ProvenTopic) -> dict[str, int]:
    return {
        "written since": sum(partition.later_offsets for partition in topic.partitions),
        "deleted since": sum(partition.expired_offsets for partition in topic.partitions),
        "compacted since": sum(partition.compacted_records for partition in topic.partitions),
        "in holes of the backup": sum(partition.hole_offsets for partition in topic.partitions),
    }


def render_leftovers_count(console: Console, leftovers: Leftovers) -> None:
    """Show a line about leftovers, if any."""
    parts = []
    if leftovers.objects:
        objects = _plural(leftovers.objects, "object")
        parts.append(f"{leftovers.objects} {objects} that no restore needs ({format_size(leftovers.bytes)})")
    if leftovers.restores:
        parts.append(f"{len(leftovers.restores)} unfinished {_plural(len(leftovers.restores), 'restore')}")
    if leftovers.folders:
        size = format_size(sum(folder.bytes for folder in leftovers.folders))
        parts.append(f"{len(leftovers.folders)} {_plural(len(leftovers.folders), 'copy', 'copies')} beside it ({size})")
    if leftovers.problem:
        parts.append("restores whose records are damaged")
    if parts:
        console.print(f"  left over: {', '.join(parts)}; --leftovers lists them")


def render_leftovers(console: Console, leftovers: Leftovers) -> None:
    """Show all leftovers in the backup and around the backup, with advice."""
    quiet = format_duration(leftovers.quiet_for_s)
    console.print(f"left over, unchanged for at least {quiet} by the store's clock; nothing is deleted")
    for leftover in leftovers.listed:
        written = format_time(leftover.written_ms)
        console.print(f"  {leftover.kind}: {leftover.key} ({format_size(leftover.bytes)}, written {written})")
    if any(leftover.kind in {"segment", "index"} for leftover in leftovers.listed):
        console.print(
            "  the segments include segments that a roll-up replaced: offsite collect plan lists them, collect run "
            "deletes them"
        )
    for restore in leftovers.restores:
        console.print(
            f"  unfinished restore {restore.restore} to cluster {restore.cluster_id}, begun "
            f"{format_time(restore.began_ms)}, quiet since {format_time(restore.quiet_since_ms)}: {restore.next_step}"
        )
    for folder in leftovers.folders:
        console.print(
            f"  {folder.place}: {folder.objects} {_plural(folder.objects, 'object')}, {format_size(folder.bytes)}, "
            f"quiet since {format_time(folder.quiet_since_ms)}: {folder.next_step}"
        )
    if leftovers.problem:
        console.print(f"  unfinished restores are not known: {leftovers.problem}")
    if not (leftovers.listed or leftovers.restores or leftovers.folders):
        console.print("  nothing")


def _plural(count: int, singular: str, plural: str = "") -> str:
    return singular if count == 1 else plural or f"{singular}s"


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


def render_leftovers_plan(console: Console, report: LeftoversReport) -> None:
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
