"""`offsite checkpoint`: restore points with ordered ids, taken while producers write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.checkpoint.options import ParticipantWords, ZeebeWords, parse_participants, parse_zeebe, zeebe_participants
from offsite.cli.options import BackupName, Bootstrap, KafkaConfigFile, Output, Repo, WordChoice, Yes, takes
from offsite.cli.output import EXIT_PARTIAL, Line, OutputFormat, Table, confirm, emit, note, remark_lines
from offsite.cli.wiring import SparkOptions, connect, open_repository, spark
from offsite.model.errors import BadOption, OffsiteError
from offsite.model.names import amount
from offsite.model.selection import escape_pattern
from offsite.model.units import format_duration, format_time

if TYPE_CHECKING:
    from offsite.checkpoint.explain import Explanation
    from offsite.checkpoint.status import CheckpointList, CheckpointReport
    from offsite.repository.backup import Backup
    from offsite.repository.snapshots.commit_cut import CheckpointParticipant


_LINES_MAX = 20
"""Partitions, and left-out transactions, shown: the first ones. -o json has all."""

EXIT_FAILED = OffsiteError.exit_code
_DELETE_ZEEBE = (
    "A Zeebe cluster whose backup of the same id is also deleted; the same name as when the checkpoint was taken."
)


def render_list(listing: CheckpointList) -> Iterator[Line]:
    if not listing.total:
        yield f"backup {listing.backup} has no checkpoint; take one with: offsite checkpoint take"
        return
    table = Table("checkpoint", "status", "taken", "partitions", "commit", "why")
    for checkpoint in listing.checkpoints:
        table.add_row(
            str(checkpoint.id),
            checkpoint.status.value,
            format_time(checkpoint.taken_at_ms) if checkpoint.taken_at_ms >= 0 else "-",
            f"{checkpoint.partitions_completed}/{checkpoint.partitions}",
            str(checkpoint.commit) if checkpoint.commit else "-",
            checkpoint.failure_reason or (f"deleted by {checkpoint.deleted_by}" if checkpoint.deleted_by else ""),
        )
    yield table
    if listing.total > len(listing.checkpoints):
        yield f"the newest {len(listing.checkpoints)} of {listing.total}; more with --limit"


def render_checkpoint(report: CheckpointReport) -> Iterator[Line]:
    yield f"checkpoint {report.id} of backup {report.backup}: {report.status.value}"
    if report.taken_at_ms >= 0:
        yield (
            f"  taken {format_time(report.taken_at_ms)}, {format_duration(report.age_s)} ago; "
            f"{report.partitions_completed} of {report.partitions} partitions have reached its end"
        )
    if report.failure_reason:
        yield f"  why: {report.failure_reason}"
    if report.deleted_by:
        yield f"  deleted by {report.deleted_by}"
    if report.commit and report.deleted_by:
        yield f"  commit {report.commit} stays a restore point until retention deletes it"
    elif report.commit:
        yield f"  commit {report.commit}: restore it with: offsite restore plan --checkpoint {report.id}"
    yield from _render_participants(report.participants)
    behind = [partition for partition in report.details if partition.reached < partition.end or partition.end < 0]
    for partition in behind[:_LINES_MAX]:
        at = f"offset {partition.reached:,} of {partition.end:,}" if partition.end >= 0 else "end offset not known"
        yield f"  {partition.topic}/{partition.partition}: {partition.status.value}, {at}"
    if len(behind) > _LINES_MAX:
        yield f"  and {amount(len(behind) - _LINES_MAX, 'more partition')}"


def render_explanation(explanation: Explanation) -> Iterator[Line]:
    yield f"checkpoint {explanation.id} of backup {explanation.backup}, commit {explanation.commit}"
    for topic, kind in explanation.classes:
        yield f"  {topic}: {kind}"
    if not explanation.has_cut:
        yield "  no consistent cut: a restore takes each partition as copied"
    if explanation.refused:
        yield f"  its cut must not be used: {explanation.refused}"
    for partition in explanation.partitions[:_LINES_MAX]:
        end_text = (
            f"ends at {partition.end:,} instead of {partition.copied:,}"
            if partition.end < partition.copied
            else f"ends at {partition.end:,}"
        )
        yield (
            f"  {partition.topic}/{partition.partition} {end_text}, without "
            f"{amount(partition.transactions, 'transaction')}"
        )
    for transaction in explanation.left_out[:_LINES_MAX]:
        yield f"  left out: {transaction.name} in {', '.join(transaction.partitions[:5])}: {transaction.why}"
    if explanation.left_out_count > min(_LINES_MAX, len(explanation.left_out)):
        yield f"  {explanation.left_out_count} are left out in total"
    if explanation.groups:
        yield f"  {amount(explanation.groups, 'group offset is', 'group offsets are')} set to match the cut"
    yield from _render_participants(explanation.participants)
    yield from remark_lines(explanation.notes)
    if explanation.has_cut and not (explanation.partitions or explanation.left_out_count or explanation.groups):
        yield "  nothing is left out"


def _render_participants(participants: Sequence[CheckpointParticipant]) -> Iterator[Line]:
    for participant in participants:
        yield f"  with participant {participant.described}"


app = typer.Typer(help="Take checkpoints: restore points with ordered ids.", no_args_is_help=True)


OptionalId = Annotated[
    int | None,
    typer.Option(
        "--id", help="Id of the checkpoint, above all earlier ids [default: the time in ms, or the last id plus one]."
    ),
]
CheckpointArgument = Annotated[int | None, typer.Argument(metavar="[ID]", help="Id of the checkpoint.")]
CheckpointOption = Annotated[int | None, typer.Option("--id", help="The checkpoint id as an option.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Maximum number, the newest first.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOptions:
    """Where a checkpoint is taken, as typed."""

    repo: Repo
    backup: BackupName
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None
    applications: ParticipantWords = field(default_factory=ParticipantWords)
    clusters: ZeebeWords = field(default_factory=ZeebeWords)

    def arguments(self, checkpoint: int) -> list[str]:
        """Return the options as arguments of a command that waits for the requested checkpoint."""
        options = {
            "--repo": self.repo,
            "--backup": self.backup,
            "--bootstrap": self.bootstrap,
            "--kafka-config": self.kafka_config,
            "--participants": self.applications.get("participants"),
            "--control-topic": self.applications.get("control_topic"),
            "--zeebe-token-file": self.clusters.get("zeebe_token_file"),
            "--id": checkpoint,
        }
        named = [text for name, value in options.items() if value is not None for text in (name, str(value))]
        topics = self.applications.get("participant_topics") or ()
        patterns = [text for pattern in topics for text in ("--participant-topics", escape_pattern(pattern))]
        zeebe = [text for cluster in self.clusters.get("zeebe") or () for text in ("--zeebe", cluster)]
        return ["checkpoint", "take", *named, *patterns, *zeebe, "--wait", "-o", "json"]


@app.command()
@takes(TakeOptions, SparkOptions)
def take(
    options: TakeOptions,
    engine: SparkOptions,
    checkpoint: OptionalId = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the checkpoint is complete or has failed.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Take a checkpoint: answers when every partition has started, and continues in the background.

    An id is used only once. A repeated id takes no second checkpoint: the answer describes the first. If a run follows
    the backup, the run takes the checkpoint in its next round.

    Exit code 1: failed; 3: incomplete, and no process works on the checkpoint; 14: the id is no longer available.
    """
    from offsite.checkpoint.request import request_checkpoint
    from offsite.checkpoint.status import Checkpoints, CheckpointStatus

    backup = open_repository(options.repo).backup(options.backup)
    if options.bootstrap or options.kafka_config or not Checkpoints(backup).is_being_taken:
        connect(options.bootstrap, options.kafka_config)  # whoever cannot take it must not ask for it
    participants = zeebe_participants(parse_zeebe(options.clusters), lambda: backup)
    request = request_checkpoint(
        backup, checkpoint, participants=participants.names, stamping=parse_participants(options.applications)
    )
    report = Checkpoints(backup).report(request.id)
    if wait:
        report = _taken_here(options, engine, backup, request.id)
    elif report.status is CheckpointStatus.REQUESTED:
        report = _taken_elsewhere(options, engine, backup, request.id)
    emit(report, output=output, render=render_checkpoint)
    _end(report)


def _taken_here(options: TakeOptions, engine: SparkOptions, backup: Backup, checkpoint: int) -> CheckpointReport:
    """Return the settled report: taken by this process, unless another process takes checkpoints already."""
    from offsite.checkpoint.serve import UNSETTLED, CheckpointServer, is_free, wait_for
    from offsite.cli.progress import progress
    from offsite.model.clock import SystemClock

    def step() -> None:
        if not is_free(backup, checkpoint):
            return
        with (
            spark(engine.choice(), preload="offsite.backup.copy") as runner,
            progress(f"checkpoint {checkpoint}", total_bytes=0) as on_progress,
        ):
            CheckpointServer(
                repository=repository,
                backup=backup,
                cluster=cluster,
                runner=runner,
                on_progress=on_progress,
                participants=zeebe_participants(parse_zeebe(options.clusters), lambda: backup),
                stamping=parse_participants(options.applications),
            ).serve()

    repository, cluster = open_repository(options.repo), connect(options.bootstrap, options.kafka_config)
    return wait_for(backup, checkpoint, clock=SystemClock(), while_in=UNSETTLED, step=step)


def _taken_elsewhere(options: TakeOptions, engine: SparkOptions, backup: Backup, checkpoint: int) -> CheckpointReport:
    """Return the report when every partition has started: in the following run, or in a background process."""
    from offsite.checkpoint.background import Background
    from offsite.checkpoint.serve import is_free, wait_for
    from offsite.checkpoint.status import CheckpointStatus
    from offsite.model.clock import SystemClock

    background = Background(
        arguments=[*options.arguments(checkpoint), *engine.arguments()], environment=engine.environment()
    )

    def step() -> None:
        background.check()
        if is_free(backup, checkpoint):
            background.begin()

    return wait_for(
        backup, checkpoint, clock=SystemClock(), while_in=frozenset({CheckpointStatus.REQUESTED}), step=step
    )


def _end(report: CheckpointReport) -> None:
    from offsite.checkpoint.status import CheckpointStatus

    if report.status is CheckpointStatus.FAILED:
        raise typer.Exit(EXIT_FAILED)
    if report.status is CheckpointStatus.INCOMPLETE:
        raise typer.Exit(EXIT_PARTIAL)


@app.command(name="list")
def list_(repo: Repo, backup: BackupName, limit: Limit = 20, output: Output = OutputFormat.TABLE) -> None:
    """List checkpoints, newest first, from the store only."""
    from offsite.checkpoint.status import Checkpoints

    checkpoints = Checkpoints(open_repository(repo, looks=True).backup(backup)).list(most=limit)
    emit(checkpoints, output=output, render=render_list)


@app.command()
def show(
    repo: Repo,
    backup: BackupName,
    checkpoint: CheckpointArgument = None,
    id_: CheckpointOption = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show a checkpoint and its partitions, from the store only: works without the cluster.

    The status is doesNotExist, requested, ongoing, completed, failed, incomplete or deleted.
    """
    from offsite.checkpoint.status import Checkpoints

    opened = open_repository(repo, looks=True).backup(backup)
    emit(Checkpoints(opened).report(_chosen(checkpoint, id_)), output=output, render=render_checkpoint)


@app.command()
def explain(
    repo: Repo,
    backup: BackupName,
    checkpoint: CheckpointArgument = None,
    id_: CheckpointOption = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show which transactions a restore of a checkpoint leaves out, and why; and the guarantee of each topic."""
    from offsite.checkpoint.explain import explain_checkpoint

    opened = open_repository(repo, looks=True).backup(backup)
    emit(explain_checkpoint(opened, _chosen(checkpoint, id_)), output=output, render=render_explanation)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """Where a checkpoint is deleted, as typed."""

    repo: Repo
    backup: BackupName
    clusters: Annotated[ZeebeWords, WordChoice(help={"zeebe": _DELETE_ZEEBE})] = field(default_factory=ZeebeWords)


@app.command()
@takes(DeleteOptions)
def delete(
    options: DeleteOptions,
    checkpoint: CheckpointArgument = None,
    id_: CheckpointOption = None,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Delete a checkpoint with its restore point; its id is never used again.

    Exit code 14: the checkpoint is being taken, the restore point is pinned, or a restore reads the point.
    """
    from offsite.checkpoint.request import delete_checkpoint
    from offsite.checkpoint.status import Checkpoints, check_exists

    opened, chosen = open_repository(options.repo).backup(options.backup), _chosen(checkpoint, id_)
    participants = zeebe_participants(parse_zeebe(options.clusters), lambda: opened)
    current = check_exists(Checkpoints(opened).report(chosen))
    if not yes:
        confirm(f"delete checkpoint {chosen} ({current.status}) of backup {options.backup}, and its restore point?")
    report = delete_checkpoint(opened, chosen, participants=participants)
    if untouched := sorted({participant.name for participant in current.participants} - set(participants.names)):
        note(
            f"note: data that {', '.join(untouched)} saved for the checkpoint is kept there; --zeebe also deletes the "
            "data of Zeebe"
        )
    emit(report, output=output, render=render_checkpoint)


def _chosen(argument: int | None, option: int | None) -> int:
    chosen = argument if argument is not None else option
    if chosen is None or (None not in {argument, option} and argument != option):
        raise BadOption(
            "exactly one checkpoint id is needed", hint="give one id; offsite checkpoint list shows the ids"
        )
    return chosen
