"""`offsite compact`: keep of compacted topics the latest record of every key, at every restore point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import BackupName, Output, Repo, Yes, takes
from offsite.cli.output import REST_IN_JSON, Line, OutputFormat, confirm, emit, emit_notice, first_lines
from offsite.cli.wiring import SparkOptions, open_backup, spark
from offsite.model.errors import BadOption
from offsite.model.names import amount
from offsite.model.selection import parse_selection, split_all
from offsite.model.units import format_size

if TYPE_CHECKING:
    from offsite.repository.backup import Backup
    from offsite.upkeep.compaction.plan import CompactionPlan, CompactionRequest
    from offsite.upkeep.compaction.run import CompactionResult

app = typer.Typer(help="Keep the latest record of each key of compacted topics.", no_args_is_help=True)

_LISTED_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    """Options of plan and run, as typed."""

    repo: Repo
    backup: BackupName
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", help="Compacted topics to compact [default: all of the backup].", callback=split_all),
    ] = None
    min_dirty_ratio: Annotated[
        float | None,
        typer.Option(
            "--min-dirty-ratio",
            help="Compact if at least this part of the bytes is new [default: the topic's "
            "min.cleanable.dirty.ratio, else 0.5].",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionReport:
    """Offsets `[start, end)` of a partition compacted together, in `stretches` between restore points: the present
    contents, and the bytes never compacted."""

    topic: str
    partition: int
    start: int
    end: int
    stretches: int
    segments: int
    records: int
    bytes: int
    dirty_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """The planned compaction. `not_due`: number of further regions with too little new data. `restore_runs`: a restore
    runs, and nothing is compacted before its end."""

    backup: str
    commit: int
    records: int
    bytes: int
    not_due: int
    restore_runs: bool
    regions: tuple[RegionReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedReport:
    """The result of a compaction. `commit`: now the newest; `left_alone`: regions unreadable or changed meanwhile."""

    backup: str
    commit: int
    regions: int
    left_alone: int
    segments_before: int
    segments_after: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


@app.command()
@takes(CompactOptions)
def plan(options: CompactOptions, output: Output = OutputFormat.TABLE) -> None:
    """Show what would be compacted. Changes nothing."""
    request, opened = _request(options), open_backup(options.repo, options.backup, looks=True)
    emit(_report(_planned(opened, request)), output=output, render=_render_plan)


@app.command()
@takes(CompactOptions, SparkOptions)
def run(
    options: CompactOptions,
    engine: SparkOptions,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Remove records that later records of the same key replaced, between the kept restore points.

    At every restore point the latest record of every key stays unchanged, at its offset. Replaced objects are deleted
    later, by offsite collect or by a following run.
    """
    request, opened = _request(options), open_backup(options.repo, options.backup)
    planned = _planned(opened, request)
    if planned.regions and not yes:
        emit_notice(_report(planned), render=_render_plan)
        confirm(f"compact these topics of backup {options.backup}?")
    result = _compacted(opened, planned, engine)
    emit(_done_report(planned, result), output=output, render=_render_done)


def _request(options: CompactOptions) -> CompactionRequest:
    from offsite.upkeep.compaction.plan import ALL_TOPICS, CompactionRequest

    ratio = options.min_dirty_ratio
    if ratio is not None and not 0 <= ratio <= 1:
        raise BadOption(f"--min-dirty-ratio must be from 0 to 1, not {ratio}")
    selection = parse_selection(options.topics) if options.topics else ALL_TOPICS
    return CompactionRequest(selection=selection, min_dirty_ratio=ratio)


def _planned(opened: Backup, request: CompactionRequest) -> CompactionPlan:
    from offsite.upkeep.compaction.plan import plan_compaction

    return plan_compaction(opened, request)


def _compacted(opened: Backup, planned: CompactionPlan, engine: SparkOptions) -> CompactionResult:
    from offsite.cli.progress import progress
    from offsite.upkeep.compaction.run import CompactionResult, compact

    if not planned.regions:
        return CompactionResult(state=planned.head)
    with (
        spark(engine.choice(), preload="offsite.upkeep.compaction.rewrite") as runner,
        progress("compact", total_bytes=2 * planned.raw_bytes) as on_progress,  # all is read twice
    ):
        return compact(opened, planned, runner=runner, on_progress=on_progress)


def _report(planned: CompactionPlan) -> CompactionReport:
    return CompactionReport(
        backup=planned.head.backup,
        commit=planned.head.seq,
        records=planned.records,
        bytes=planned.raw_bytes,
        not_due=planned.not_due,
        restore_runs=planned.restore_runs,
        regions=tuple(
            RegionReport(
                topic=region.partition.topic,
                partition=region.partition.partition,
                start=region.start,
                end=region.end,
                stretches=len(region.stretches),
                segments=len(region.segments),
                records=region.records,
                bytes=region.raw_bytes,
                dirty_bytes=region.dirty_bytes,
            )
            for region in planned.regions
        ),
    )


def _done_report(planned: CompactionPlan, result: CompactionResult) -> CompactedReport:
    return CompactedReport(
        backup=planned.head.backup, commit=result.state.seq, **{name: getattr(result, name) for name in _FIGURES}
    )


_FIGURES = tuple(field.name for field in fields(CompactedReport) if field.name not in {"backup", "commit"})


def _render_plan(report: CompactionReport) -> Iterator[Line]:
    if not report.regions:
        why = ", a restore is running" if report.restore_runs else ""
        yield f"backup {report.backup}: nothing to compact{why}"
        return
    yield (
        f"backup {report.backup}: {amount(report.records, 'record')} ({format_size(report.bytes)}) to compact; the "
        "latest record of each key at each restore point is kept"
    )
    yield from first_lines(report.regions, _region, most=_LISTED_MAX, more=REST_IN_JSON)


def _region(region: RegionReport) -> str:
    return (
        f"  {region.topic}/{region.partition} [{region.start}, {region.end}): {amount(region.records, 'record')} in "
        f"{amount(region.segments, 'segment')}, {format_size(region.dirty_bytes)} of {format_size(region.bytes)} new"
    )


def _render_done(report: CompactedReport) -> Iterator[Line]:
    if not report.regions:
        yield f"backup {report.backup}: nothing was compacted"
    else:
        yield (
            f"compacted {amount(report.records_before, 'record')} ({format_size(report.bytes_before)}) to "
            f"{report.records_after} ({format_size(report.bytes_after)}) in commit {report.commit}"
        )
    if report.left_alone:
        yield f"  {amount(report.left_alone, 'region was', 'regions were')} not changed; the log says why"
