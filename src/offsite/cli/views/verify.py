"""Shows a check of a backup, for people: a headline, then everything damaged, missing, different or left over, by name.

Also the findings of a proof (differences, uncompared parts, and holes of the backup), and the deletion of leftovers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsite.cli.output import REST_IN_JSON, Line, first_lines
from offsite.model.head import Head
from offsite.model.names import amount
from offsite.model.units import format_duration, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsite.archives.import_staging import Staging
    from offsite.reports.point_report import HoleReport
    from offsite.restore.compare.proof import ProofFinding, ProvenTopic, UncomparedPartition
    from offsite.restore.compare.run import CompareResult
    from offsite.upkeep.collection.leftovers import LeftoversPlan
    from offsite.upkeep.verification.leftovers import Leftovers
    from offsite.upkeep.verification.run import VerifyResult


_SHOWN = 24
"""Holes shown: a backup with thousands is read in the JSON output."""

_LISTED_MAX = 20


def render_lacking(holes: Sequence[HoleReport]) -> Iterator[Line]:
    """Show a line for each of the first holes."""
    return first_lines(
        holes,
        lambda hole: f"    {hole.topic}/{hole.partition} [{hole.start}, {hole.end}) {hole.reason}",
        most=_SHOWN,
        more="    and {:,} more (all of them with -o json)",
    )


def render_open(findings: Sequence[ProofFinding], uncompared: Sequence[UncomparedPartition]) -> Iterator[Line]:
    """Show all differences, and all uncompared partitions."""
    for finding in findings:
        yield f"  DIFFERENT: {finding.where}: {finding.what}"
    for partition in uncompared:
        hint = f" ({partition.hint})" if partition.hint else ""
        yield f"  NOT COMPARED: {partition.topic}/{partition.partition}: {partition.message}{hint}"


def render_verification(result: VerifyResult, *, listed: bool) -> Iterator[Line]:
    yield (
        f"backup {result.backup}, {result.depth} check: {_headline(result)} "
        f"({amount(result.commits, 'restore point')}, {amount(result.segments, 'segment')}, "
        f"{amount(result.records, 'record')}, {format_size(result.bytes)})"
    )
    if result.head_commit:
        yield f"  head {Head(commit=result.head_commit, hash=result.head_hash).short}"
    yield from _render_history(result)
    for damage in result.damaged:
        yield f"  {damage.topic}/{damage.partition} [{damage.start}, {damage.end}): {damage.problem}"
        yield f"    needed by restore points {damage.first_commit} to {damage.last_commit}; object {damage.key}"
    yield from _render_coverage(result)
    yield from _render_unvouched(result)
    if result.strangers:
        from offsite.repository.repository import describe_strangers

        yield f"  {describe_strangers(result.strangers)}"
    for snapshot in result.damaged_snapshots:
        yield f"  DAMAGED snapshot of commit {snapshot.first_commit}: {snapshot.problem}"
    if result.leftovers is not None:
        yield from (render_leftovers if listed else render_leftovers_count)(result.leftovers)
    if result.against is not None:
        yield from _render_comparison(result.against)
    elif result.ok and result.depth == "quick":
        yield f"next: offsite verify --backup {result.backup} --deep reads every byte"


def _render_history(result: VerifyResult) -> Iterator[Line]:
    for gone in result.missing_head:
        yield f"  GONE: {gone}"
    for commit in result.damaged_commits:
        lost = f"restore points {commit.first_commit} to {commit.last_commit} cannot be used"
        yield f"  DAMAGED commit: {commit.problem}"
        yield f"    {lost}"
    for damaged_object in result.damaged_objects:
        yield f"  DAMAGED object: {damaged_object.problem}"
        yield f"    {damaged_object.key}"


def _render_unvouched(result: VerifyResult) -> Iterator[Line]:
    if count := len(result.unvouched):
        objects = amount(count, "object of an earlier version has", "objects of earlier versions have")
        yield f"  {objects} no digest, so their content cannot be checked; -o json lists them"


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
        yield f"{amount(lost, 'restore point is', 'restore points are')} LOST"
    if result.missing_head:
        yield "commits that were seen before are GONE"
    if records := len(result.damaged_objects):
        yield f"{amount(records, 'object is', 'objects are')} DAMAGED (no data)"
    if missing := len(result.damaged_snapshots):
        yield f"{amount(missing, 'snapshot is', 'snapshots are')} DAMAGED"
    if ranges := len(result.unaccounted):
        yield f"{amount(ranges, 'range of offsets is', 'ranges of offsets are')} NOT ACCOUNTED FOR"


def _render_coverage(result: VerifyResult) -> Iterator[Line]:
    for gap in result.unaccounted:
        yield (
            f"  {gap.topic}/{gap.partition} [{gap.start}, {gap.end}): NOT ACCOUNTED FOR by commit {gap.commit}: "
            "no segment, no hole, and no proof that the source had no records"
        )
    if result.unproven:
        yield (
            f"  {amount(len(result.unproven), 'range')} without records in commits by earlier versions, and without a "
            "proof of emptiness (normal for compacted topics); -o json lists them"
        )


def _render_comparison(against: CompareResult) -> Iterator[Line]:
    by = f"restore {against.restore}" if against.restore else f"commit {against.commit}"
    yield f"cluster {against.cluster_id} against {by}: {_verdict(against)} ({_amount(against)})"
    yield from render_open(against.findings, against.uncompared)
    for remark in (*against.left_out, *against.branches):
        yield f"  {remark}"
    for name in against.by_name:
        yield f"  {name}: matched by name only, these brokers have no topic ids"
    for name, topic in against.topics.items():
        if not any(partition.verified is not None or partition.problem for partition in topic.partitions):
            yield f"  {name}: nothing to compare"
        figures = _figures(topic)
        if any(figures.values()):
            amounts = ", ".join(f"{count:,} {figure}" for figure, count in figures.items() if count)
            yield f"  {name}: {amounts} (not compared)"
    if against.lacking:
        yield "  the backup itself lacks:"
        yield from render_lacking(against.lacking)


def _verdict(against: CompareResult) -> str:
    if against.verified is not None:
        return "the same" if against.verified else f"DIFFERENT, {amount(len(against.findings), 'finding')}"
    if against.uncompared:
        return f"NOT KNOWN, {amount(len(against.uncompared), 'partition')} could not be compared"
    return "NOTHING TO COMPARE"


def _amount(against: CompareResult) -> str:
    topics, partitions = len(against.topics), against.compared_partitions
    amounts = [
        amount(topics, "topic"),
        f"{amount(partitions, 'partition')} compared",
        *([f"{against.empty_partitions} with nothing to compare"] if against.empty_partitions else []),
        f"{amount(against.records, 'record')} equal",
    ]
    return ", ".join(amounts)


def _figures(topic: ProvenTopic) -> dict[str, int]:
    return {
        "written since": sum(partition.later_offsets for partition in topic.partitions),
        "deleted since": sum(partition.expired_offsets for partition in topic.partitions),
        "compacted since": sum(partition.compacted_records for partition in topic.partitions),
        "in holes of the backup": sum(partition.hole_offsets for partition in topic.partitions),
    }


def render_leftovers_count(leftovers: Leftovers) -> Iterator[Line]:
    """Show a line about leftovers, if any."""
    parts = []
    if leftovers.objects:
        parts.append(f"{amount(leftovers.objects, 'object')} that no restore needs ({format_size(leftovers.bytes)})")
    if leftovers.restores:
        parts.append(amount(len(leftovers.restores), "unfinished restore"))
    if leftovers.folders:
        size = format_size(sum(folder.bytes for folder in leftovers.folders))
        parts.append(f"{amount(len(leftovers.folders), 'copy', 'copies')} beside it ({size})")
    if leftovers.problem:
        parts.append("restores whose records are damaged")
    if parts:
        yield f"  left over: {', '.join(parts)}; --leftovers lists them"


def render_leftovers(leftovers: Leftovers) -> Iterator[Line]:
    """Show all leftovers in the backup and around the backup, with advice."""
    quiet = format_duration(leftovers.quiet_for_s)
    yield f"left over, unchanged for at least {quiet} by the store's clock; nothing is deleted"
    for leftover in leftovers.listed:
        written = format_time(leftover.written_ms)
        yield f"  {leftover.kind}: {leftover.key} ({format_size(leftover.bytes)}, written {written})"
    if any(leftover.kind in {"segment", "index"} for leftover in leftovers.listed):
        yield (
            "  the segments include segments that a roll-up replaced: offsite collect plan lists them, collect run "
            "deletes them"
        )
    for restore in leftovers.restores:
        yield (
            f"  unfinished restore {restore.restore} to cluster {restore.cluster_id}, begun "
            f"{format_time(restore.began_ms)}, quiet since {format_time(restore.quiet_since_ms)}: {restore.next_step}"
        )
    for folder in leftovers.folders:
        yield (
            f"  {folder.place}: {amount(folder.objects, 'object')}, {format_size(folder.bytes)}, "
            f"quiet since {format_time(folder.quiet_since_ms)}: {folder.next_step}"
        )
    if leftovers.problem:
        yield f"  unfinished restores are not known: {leftovers.problem}"
    if not (leftovers.listed or leftovers.restores or leftovers.folders):
        yield "  nothing"


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


def render_leftovers_plan(report: LeftoversReport) -> Iterator[Line]:
    """Show the deletable leftovers."""
    if not report.objects and not report.copies:
        yield f"backup {report.backup}: no leftover may be deleted"
    else:
        size = format_size(report.bytes)
        yield (
            f"backup {report.backup}: {amount(len(report.objects), 'object')} ({size}) left by killed runs may be "
            "deleted"
        )
    yield from first_lines(
        report.objects, lambda leftover: f"  {leftover.kind}: {leftover.key}", most=_LISTED_MAX, more=REST_IN_JSON
    )
    for name in report.copies:
        yield f"  the copy of an archive whose import was killed: {name}"
    if report.kept:
        yield (
            f"  {amount(len(report.kept), 'object is', 'objects are')} kept: no later run completed at least a day ago"
        )


def render_leftovers_done(result: DeletedLeftovers) -> Iterator[Line]:
    """Show the deleted leftovers."""
    if not (result.objects or result.copies or result.locked or result.unfinished):
        yield "no leftover may be deleted"
        return
    yield f"deleted {amount(result.objects, 'object')} ({format_size(result.bytes)}) left by killed runs"
    for name in result.copies:
        yield f"  and the copy of an archive: {name}"
    if result.unfinished:
        yield f"  and {amount(result.unfinished, 'unfinished upload')}"
    for key in result.locked:
        yield f"  protected by the store, not deleted: {key}"
