"""`offsite checkpoint`: restore points with ordered ids, taken while producers write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.checkpoint.options import ParticipantWords, ZeebeWords, parse_participants, parse_zeebe, zeebe_participants
from offsite.cli.options.common import BackupName, Bootstrap, KafkaConfigFile, Output, Repo, Yes
from offsite.cli.options.option_group import WordChoice, takes
from offsite.cli.options.spark import SparkOptions
from offsite.cli.output import EXIT_PARTIAL, OutputFormat, confirm, emit, note
from offsite.cli.views.checkpoint_view import render_checkpoint, render_explanation, render_list
from offsite.cli.wiring import connect, open_repository, spark
from offsite.model.errors import OffsiteError
from offsite.model.selection import escape_pattern

if TYPE_CHECKING:
    from offsite.checkpoint.status import CheckpointReport
    from offsite.repository.backup import Backup

app = typer.Typer(help="Take checkpoints: restore points with ordered ids.", no_args_is_help=True)

EXIT_FAILED = OffsiteError.exit_code

OptionalId = Annotated[
    int | None,
    typer.Option(
        "--id", help="Id of the checkpoint, above all earlier ids [default: the time in ms, or the last id plus one]."
    ),
]
CheckpointArgument = Annotated[int | None, typer.Argument(metavar="[ID]", help="Id of the checkpoint.")]
CheckpointOption = Annotated[int | None, typer.Option("--id", help="The checkpoint id as an option.")]
_DELETE_ZEEBE = (
    "A Zeebe cluster whose backup of the same id is also deleted; the same name as when the checkpoint was taken."
)
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
            spark(engine.choice(), preload="offsite.backup.bundle") as runner,
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
    from offsite.model.errors import BadOption

    chosen = argument if argument is not None else option
    if chosen is None or (None not in {argument, option} and argument != option):
        raise BadOption(
            "exactly one checkpoint id is needed", hint="give one id; offsite checkpoint list shows the ids"
        )
    return chosen
