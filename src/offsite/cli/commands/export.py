"""`offsite export`: write a backup, or a cluster, into an archive for other tools."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.archive_options import ArchivePlace, OptionalFormatToWrite
from offsite.cli.commands.export_strimzi import ResourceOptions, check_for_resources, export_resources
from offsite.cli.commands.restore_source import named_backup
from offsite.cli.options import (
    GIVE_UP_AFTER,
    Bootstrap,
    GiveUpAfter,
    KafkaConfigFile,
    OptionalBackup,
    OptionalRepo,
    Output,
    WordChoice,
    takes,
)
from offsite.cli.output import EXIT_PARTIAL, Line, OutputFormat, Table, emit, remark_lines
from offsite.cli.views.backup import OutageLines
from offsite.cli.views.repository import hole_lines
from offsite.cli.wiring import SparkOptions, connect, spark
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption
from offsite.model.names import amount
from offsite.model.schema_registry import RegistrySnapshot
from offsite.model.selection import parse_groups, split_all
from offsite.model.units import format_size, parse_duration_s
from offsite.restore.options import PointWords, parse_point

if TYPE_CHECKING:
    from offsite.archives.export.plan import ExportRequest
    from offsite.archives.export.run import ExportJob, ExportPlanReport, ExportResult, ExportTarget
    from offsite.engine.runner import Runner
    from offsite.repository.backup import Backup


class SourceOption(StrEnum):
    BACKUP = "backup"
    KAFKA = "kafka"


From = Annotated[
    SourceOption, typer.Option("--from", help="kafka: directly from the cluster at --bootstrap, without a repository.")
]
Words = Annotated[PointWords, WordChoice(help={"topics": "Topics to export [default: all]."})]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--groups",
        help="Consumer groups whose offsets are saved: all, none, or patterns [default: all].",
        callback=split_all,
    ),
]
Lossy = Annotated[
    bool, typer.Option("--lossy", help="Leave out parts of a record that the format cannot store, and count them.")
]
Plain = Annotated[
    bool, typer.Option("--plain", help="avro: the plain schema, which stores less than the schema of offsite.")
]
SegmentBytes = Annotated[int | None, typer.Option("--segment-bytes", min=1, help="Size at which the next file begins.")]
Compression = Annotated[
    str | None,
    typer.Option("--compression", help="avro: null, deflate, snappy, zstandard. jsonl: none, gzip, zstd."),
]
BackupId = Annotated[
    str, typer.Option("--backup-id", help="osodevops: write below a folder of this name, as the tool does.")
]
Decode = Annotated[
    bool,
    typer.Option(
        "--decode",
        help="jsonl: write the decoded form beside each key and value that a schema of the backup explains (Avro, JSON "
        "Schema, Protobuf).",
    ),
]
OffsetHeaders = Annotated[
    bool, typer.Option("--offset-headers", help="osodevops: add the tool's x-original-* headers to each record.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """The data to export, and the target, as typed: a field per option."""

    path: ArchivePlace
    format: OptionalFormatToWrite = None
    repo: OptionalRepo = None
    backup: OptionalBackup = None
    source: From = SourceOption.BACKUP
    words: Words = field(default_factory=PointWords)
    groups: Groups = None
    lossy: Lossy = False
    plain: Plain = False
    segment_bytes: SegmentBytes = None
    compression: Compression = None
    backup_id: BackupId = ""
    offset_headers: OffsetHeaders = False
    decode: Decode = False
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None

    @property
    def point_is_fixed(self) -> bool:
        points = ("commit", "committed_at", "checkpoint", "at", "offsets_file", "before")
        return any(self.words.get(point) not in (None, []) for point in points)


def export_job(options: ExportOptions, master: str | None) -> ExportJob:
    """Make the export described by the options. Raises `BadOption` for unreadable or contradictory options,
    `RepositoryNotFound`, `BackupNotFound`."""
    from offsite.archives.export.run import check_no_point, export_of_backup, export_of_cluster
    from offsite.engine.sessions.master import slots

    request = _request(options)
    empty = RegistrySnapshot() if options.decode else None
    _open_target(options, "", empty)  # what is wrong with it is told before anybody is asked
    if options.source is SourceOption.KAFKA:
        if options.decode:
            raise BadOption("--decode works by the schemas of a backup", hint="export a backup, or leave out --decode")
        if options.backup is not None:
            raise BadOption("--from kafka reads no backup", hint="leave out --backup")
        cluster = connect(options.bootstrap, options.kafka_config)
        check_no_point(request)
        target = _open_target(options, cluster.admin.cluster().cluster_id, None)
        return export_of_cluster(cluster, target, request, slots=slots(master))
    backup = named_backup(options.repo, options.backup, otherwise=", or export a cluster with --from kafka", looks=True)
    schemas = _schemas(backup) if options.decode else None
    return export_of_backup(backup, _open_target(options, backup.descriptor.cluster_id, schemas), request)


def _schemas(backup: Backup) -> RegistrySnapshot:
    from offsite.points.held_schemas import held_schemas

    if not (schemas := held_schemas(backup)).schemas:
        raise BadOption(
            f"backup {backup.descriptor.name} holds no schemas to decode by",
            hint="a backup holds them with: offsite backup run --registry URL; or leave out --decode",
        )
    return schemas


def _open_target(options: ExportOptions, cluster_id: str, schemas: RegistrySnapshot | None) -> ExportTarget:
    from offsite.archives.export.run import open_target
    from offsite.archives.formats import WriteOptions

    if options.format is None:
        raise BadOption("nothing says what to write", hint="give an archive its --format, or write --as strimzi")
    write = WriteOptions(
        lossy=options.lossy,
        plain=options.plain,
        segment_bytes=options.segment_bytes,
        compression=options.compression,
        backup_id=options.backup_id,
        offset_headers=options.offset_headers,
        cluster_id=cluster_id,
        decode=schemas,
    )
    return open_target(options.format, options.path, write)


def _request(options: ExportOptions) -> ExportRequest:
    from offsite.archives.export.plan import ExportRequest

    return ExportRequest(point=parse_point(options.words), groups=parse_groups(options.groups or ()))


Follow = Annotated[
    bool,
    typer.Option(
        "--follow", help="Continue to export new records, until SIGINT or SIGTERM; a started run is finished first."
    ),
]
INTERVAL = "10s"
Interval = Annotated[str, typer.Option("--interval", help="With --follow: how long to wait between runs.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be exported. Repairs leftovers of a crash, writes no record.")
]


@takes(ExportOptions, ResourceOptions, SparkOptions)
def export(
    options: ExportOptions,
    resources: ResourceOptions,
    engine: SparkOptions,
    follow: Follow = False,
    interval: Interval = INTERVAL,
    give_up_after: GiveUpAfter = GIVE_UP_AFTER,
    dry_run: DryRun = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write topics into an archive of another format.

    The topics come from a restore point, or directly from a cluster. The same command again adds new records; an
    interrupted export continues. A record that the format cannot store is refused by name (exit code 14), unless
    --lossy. Exit code 3: all available records are written, but the source had lost records (holes); with --as, the
    resources cannot say everything of the source's users.
    """
    if resources.are_asked_for():
        waits = {"interval": interval != INTERVAL, "give_up_after": give_up_after != GIVE_UP_AFTER}
        check_for_resources(options, ExportOptions(path=options.path), follow=follow, dry_run=dry_run, **waits)
        backup = named_backup(options.repo, options.backup, otherwise="", looks=True)
        export_resources(options.path, backup, parse_point(options.words), resources, output)
        return
    interval_s, give_up_after_s = parse_duration_s(interval), parse_duration_s(give_up_after)
    if follow and (options.point_is_fixed or dry_run):
        raise BadOption("--follow exports new records only", hint="leave out the restore point and --dry-run")
    if follow and options.decode:
        raise BadOption("--decode reads the schemas once, at the start", hint="run the command without --follow again")
    job = export_job(options, engine.spark_master)
    if dry_run:
        _show_plan(job, output)
        return
    with spark(engine.choice(), preload="offsite.archives.export.task") as runner:
        if follow:
            _follow(job, runner, interval_s, give_up_after_s, output)
            return
        result = _run(job, runner, options.backup or "")
    emit(result, output=output, render=_render_result)
    if not result.complete:
        raise typer.Exit(EXIT_PARTIAL)


def _show_plan(job: ExportJob, output: OutputFormat) -> None:
    from offsite.archives.export.run import report_export

    with job.alone():  # planning repairs what a crash left
        plan = job.plan()
    emit(report_export(plan, job.target), output=output, render=_render_plan)


def _run(job: ExportJob, runner: Runner, label: str) -> ExportResult:
    from offsite.cli.progress import progress

    with job.alone():
        plan = job.plan()
        with progress(f"export {label}".strip(), total_bytes=plan.estimated_bytes) as on_progress:
            return job.run(plan, runner, on_progress=on_progress)


def _follow(job: ExportJob, runner: Runner, interval_s: float, give_up_after_s: float, output: OutputFormat) -> None:
    from offsite.backup.outages import Outages

    with _stop_on_signal() as stop:
        clock = _StoppableClock(stop)
        job.follow(
            runner,
            interval_s=interval_s,
            stop=stop,
            on_result=lambda result: emit(result, output=output, render=_render_result),
            outages=Outages(give_up_after_s=give_up_after_s, clock=clock, on_outage=OutageLines(clock)),
        )


class _StoppableClock(SystemClock):
    """A clock whose sleep ends when the run is asked to stop."""

    def __init__(self, stop: Event) -> None:
        self._stop = stop

    def sleep(self, duration_s: float) -> None:
        self._stop.wait(duration_s)


@contextmanager
def _stop_on_signal() -> Iterator[Event]:
    """Yield an event set by the first SIGINT or SIGTERM; the next SIGINT interrupts."""
    stop = Event()

    def stop_once(number: int, _: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {signum: signal.signal(signum, stop_once) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _render_plan(report: ExportPlanReport) -> Iterator[Line]:
    table = Table("topic", "partition", "from offset", "to offset", "offsets")
    for part in report.partitions:
        table.add_row(part.topic, str(part.partition), f"{part.start:,}", f"{part.end:,}", f"{part.end - part.start:,}")
    yield table
    yield (
        f"export {report.source} into the {report.format} archive {report.archive}: about "
        f"{format_size(report.estimated_bytes)} in {amount(report.tasks, 'task')}, "
        f"{amount(len(report.holes), 'hole')}; {amount(report.groups, 'group')}"
    )
    yield from remark_lines(report.notes)


def _render_result(result: ExportResult) -> Iterator[Line]:
    yield f"export of {result.source} into the {result.format} archive {result.archive}"
    yield (
        f"  {amount(result.records, 'record')} of {amount(result.topics, 'topic')} in {amount(result.files, 'file')}, "
        f"{format_size(result.size_bytes)}; {amount(result.groups, 'group')} with "
        f"{amount(result.group_offsets, 'offset')}"
    )
    yield from hole_lines(result.holes)
    for loss, records in result.losses:
        yield f"  lost: {loss}, in {amount(records, 'record')}"
    for lack in result.not_held:
        yield f"  not in this format: {lack}"
    for sick in result.sick:
        yield f"  not read: {sick}"
    for stop in result.postponed:
        yield f"  later: {stop.topic}/{stop.partition} from {stop.offset}, where a transaction is open"
    yield from remark_lines(result.notes)
