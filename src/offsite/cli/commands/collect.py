"""`offsite collect`: delete objects replaced by a roll-up, like a following run, and leftovers of killed runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import COLLECT_AFTER, BackupName, Bootstrap, KafkaConfigFile, Output, Repo, Yes, takes
from offsite.cli.output import REST_IN_JSON, Line, OutputFormat, confirm, emit, emit_notice, first_lines
from offsite.cli.views.verify import (
    DeletedLeftovers,
    make_leftovers_report,
    render_leftovers_done,
    render_leftovers_plan,
)
from offsite.cli.wiring import SparkOptions, connect, open_backup, open_repository, spark
from offsite.model.clock import SystemClock
from offsite.model.names import amount
from offsite.model.units import format_size, parse_duration_s
from offsite.upkeep.retention.policy import OFF, parse_retain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsite.archives.import_staging import Staging
    from offsite.repository.backup import Backup
    from offsite.upkeep.collection.agreement import DisbelievedCommit, RetentionInForce
    from offsite.upkeep.collection.leftovers import LeftoversPlan
    from offsite.upkeep.collection.plan import CollectionPlan
    from offsite.upkeep.collection.run import CollectionResult

app = typer.Typer(help="Delete replaced objects, and leftovers of killed runs.", no_args_is_help=True)

_LISTED_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """Options of plan and run, as typed."""

    repo: Repo
    backup: BackupName
    collect_after: Annotated[
        str,
        typer.Option(
            "--collect-after",
            help="How long to keep objects that a roll-up replaced, by the store's clock. Objects that retention "
            "removed are kept three times as long, from the time when this machine first saw the removal.",
        ),
    ] = COLLECT_AFTER
    retain: Annotated[
        str,
        typer.Option(
            "--retain",
            help="The retention of this backup, as for backup run --follow: data that another machine removed is "
            "deleted only if these rules also remove it. Removals by commands of this machine need no rules.",
        ),
    ] = OFF
    accept_upto: Annotated[
        int,
        typer.Option(
            "--accept-upto", help="Removals by commits up to this number are correct: do not ask again.", min=0
        ),
    ] = 0
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None


Leftovers = Annotated[
    bool,
    typer.Option(
        "--leftovers", help="Instead, only leftovers of runs that never ended, as listed by verify --leftovers."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionReport:
    """The planned deletion: objects replaced or expired by commits up to `upto`, and `bytes_to_read`, the size of the
    replacements read first. `is_last`: nothing else is old enough. `kept`: commits that expired data and are not
    believed, with the claimed author and the reason; because of such a commit nothing is deleted."""

    backup: str
    upto: int
    objects: int
    bytes: int
    bytes_to_read: int
    is_last: bool
    keys: tuple[str, ...]
    kept: tuple[DisbelievedCommit, ...] = ()


@app.command()
@takes(CollectOptions)
def plan(options: CollectOptions, leftovers: Leftovers = False, output: Output = OutputFormat.TABLE) -> None:
    """Show what would be deleted, and what must be read first. Changes nothing."""
    grace_ms = int(parse_duration_s(options.collect_after) * 1000)
    opened = open_backup(options.repo, options.backup, looks=True)
    if leftovers:
        _plan_leftovers(options.repo, opened, grace_ms, output)
        return
    emit(_report(_planned(opened, grace_ms, _in_force(options))), output=output, render=_render_plan)


@app.command()
@takes(CollectOptions, SparkOptions)
def run(
    options: CollectOptions,
    engine: SparkOptions,
    yes: Yes = False,
    leftovers: Leftovers = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Delete objects that a roll-up replaced, after reading the objects with the same records, and data that retention
    removed.

    Every restore point is kept. Removed data is deleted when this machine has known of the removal for three times
    --collect-after, and this machine removed the data itself or --retain agrees; the rest is listed. Exit code 13: a
    replacement is damaged; then nothing is deleted.

    With --leftovers: objects named by no commit are deleted once a later run has completed, and both the write and the
    completion were a day ago or longer.
    """
    from offsite.upkeep.collection.run import CollectionResult

    grace_ms = int(parse_duration_s(options.collect_after) * 1000)
    opened = open_backup(options.repo, options.backup)
    if leftovers:
        _run_leftovers(options.repo, opened, grace_ms, output, yes=yes)
        return
    in_force = _in_force(options)
    planned = _planned(opened, grace_ms, in_force)
    if not planned.objects and planned.is_last:
        nothing = CollectionResult(objects=0, bytes=0, upto=planned.upto, is_last=True, kept=planned.disbelieved)
        emit(nothing, output=output, render=_render_collected)
        return
    if not yes:
        emit_notice(_report(planned), render=_render_plan)
        confirm(f"delete replaced and removed objects of backup {options.backup}?")
    result = _collect(opened, planned, grace_ms, in_force, engine)
    emit(result, output=output, render=_render_collected)


def _in_force(options: CollectOptions) -> RetentionInForce:
    from functools import partial

    from offsite.upkeep.collection.agreement import RetentionInForce
    from offsite.upkeep.retention.mirror import read_cluster_retention

    policy = parse_retain(options.retain)
    is_asked = policy is not None and policy.mirrors and (options.bootstrap or options.kafka_config)
    if not is_asked:
        return RetentionInForce(policy=policy, accepted=options.accept_upto)
    cluster = connect(options.bootstrap, options.kafka_config)
    return RetentionInForce(
        policy=policy, accepted=options.accept_upto, cluster_retention=partial(read_cluster_retention, cluster.admin)
    )


def _planned(opened: Backup, grace_ms: int, in_force: RetentionInForce) -> CollectionPlan:
    from offsite.upkeep.collection.run import plan_collection

    return plan_collection(opened, clock=SystemClock(), grace_ms=grace_ms, in_force=in_force)


def _collect(
    opened: Backup, planned: CollectionPlan, grace_ms: int, in_force: RetentionInForce, engine: SparkOptions
) -> CollectionResult:
    """Run passes until nothing old enough is left."""
    from offsite.cli.progress import progress
    from offsite.upkeep.collection.run import collect

    objects = size_bytes = 0
    locked: tuple[str, ...] = ()
    with spark(engine.choice(), preload="offsite.upkeep.verification.segments") as runner:
        while True:
            with progress(
                "collect", total_bytes=sum(replacement.raw_bytes for replacement in planned.replacements)
            ) as on_progress:
                result = collect(opened, planned, runner=runner, on_progress=on_progress)
            objects, size_bytes = objects + result.objects, size_bytes + result.bytes
            locked += result.locked
            if result.is_last:
                return replace(result, objects=objects, bytes=size_bytes, locked=locked)
            planned = _planned(opened, grace_ms, in_force)


def _plan_leftovers(repo: str, opened: Backup, grace_ms: int, output: OutputFormat) -> None:
    """Show the planned deletion. Changes nothing."""
    planned, copies = _planned_leftovers(repo, opened, grace_ms)
    emit(make_leftovers_report(planned, copies), output=output, render=render_leftovers_plan)


def _run_leftovers(repo: str, opened: Backup, grace_ms: int, output: OutputFormat, *, yes: bool) -> None:
    """Delete leftovers, after a question unless `yes`."""
    from offsite.archives.import_staging import remove_dead_copy
    from offsite.upkeep.collection.leftovers import collect_leftovers

    planned, copies = _planned_leftovers(repo, opened, grace_ms)
    if not yes and (planned.objects or copies):
        emit_notice(make_leftovers_report(planned, copies), render=render_leftovers_plan)
        confirm(f"delete leftovers of killed runs in backup {planned.head.backup}?")
    result = collect_leftovers(opened, planned, clock=SystemClock())
    removed = tuple(staging.backup for staging, _ in copies if remove_dead_copy(staging))
    report = DeletedLeftovers(
        backup=planned.head.backup,
        objects=result.objects,
        bytes=result.bytes,
        copies=removed,
        locked=result.locked,
        unfinished=result.unfinished,
        kept=result.undecided,
    )
    emit(report, output=output, render=render_leftovers_done)


def _planned_leftovers(repo: str, opened: Backup, grace_ms: int) -> tuple[LeftoversPlan, list[tuple[Staging, int]]]:
    from offsite.archives.import_staging import find_dead_copies
    from offsite.upkeep.collection.leftovers import plan_leftovers

    planned = plan_leftovers(opened, clock=SystemClock(), grace_ms=grace_ms)
    copies = [(staging, folder.size_bytes) for staging, folder in find_dead_copies(open_repository(repo))]
    return planned, copies


def _report(planned: CollectionPlan) -> CollectionReport:
    return CollectionReport(
        backup=planned.head.backup,
        upto=planned.upto,
        objects=len(planned.objects),
        bytes=planned.bytes,
        bytes_to_read=planned.bytes_to_read,
        is_last=planned.is_last,
        keys=tuple(stored_object.key for stored_object in planned.objects),
        kept=planned.disbelieved,
    )


def _render_plan(report: CollectionReport) -> Iterator[Line]:
    yield from _print_kept(report.kept)
    if not report.objects:
        yield f"backup {report.backup}: nothing to collect"
        return
    yield (
        f"backup {report.backup}: {amount(report.objects, 'object')} ({format_size(report.bytes)}) that no restore "
        f"needs, replaced or removed by commits up to {report.upto}; {format_size(report.bytes_to_read)} with the "
        "same records are read first"
    )
    yield from first_lines(report.keys, "  {}".format, most=_LISTED_MAX, more=REST_IN_JSON)
    if not report.is_last:
        yield "  more objects follow in the next pass, which starts by itself"


def _print_kept(commits: Sequence[DisbelievedCommit]) -> Iterator[Line]:
    for commit in commits[:_LISTED_MAX]:
        by = f"by {commit.who}, as the audit says" if commit.who else "without a line in the audit"
        yield f"  commit {commit.commit} removes data, {by}: nothing is deleted for this commit: {commit.why}"
    if len(commits) > _LISTED_MAX:
        yield f"  and {amount(len(commits) - _LISTED_MAX, 'more commit')}; -o json lists them"
    if any(not commit.waits for commit in commits):
        yield (
            "  next: offsite retention log; if the removal is correct: offsite collect run --retain …, or "
            "--accept-upto N"
        )


def _render_collected(result: CollectionResult) -> Iterator[Line]:
    yield from _print_kept(result.kept)
    for key in result.locked[:_LISTED_MAX]:
        yield f"protected by the store, not deleted: {key}"
    if not result.objects:
        yield "nothing to collect"
        return
    yield (
        f"collected {amount(result.objects, 'object')} ({format_size(result.bytes)}), replaced or removed by commits "
        f"up to {result.upto}"
    )
