"""`offsite operator`: backups as declared in a folder. Only `run` starts anything."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.commands import operator_processes as operator_work
from offsite.cli.commands.operator_processes import (
    KubernetesOptions,
    check_not_given,
    run_in_kubernetes,
    serve_probes,
)
from offsite.cli.options import Output, Repo, Yes, takes
from offsite.cli.output import OutputFormat, confirm, emit, emit_notice, note
from offsite.cli.views.operator import (
    render_applied,
    render_detail,
    render_look,
    render_members,
    render_move,
    render_release,
    render_removal,
    render_resources,
)
from offsite.cli.wiring import open_repository
from offsite.model.errors import BadOption
from offsite.model.units import parse_duration_s

if TYPE_CHECKING:
    from offsite.operator.core.files import FolderLayout
    from offsite.operator.decide.queue import QueueRules
    from offsite.operator.folder.operator import FolderOperator, LookResult

app = typer.Typer(help="Run backups as declared in a folder of YAML files.", no_args_is_help=True)

Folder = Annotated[
    Path, typer.Option("--dir", envvar="OFFSITE_OPERATOR_DIR", show_envvar=True, help="The folder of the operator.")
]
Kind = Annotated[str, typer.Argument(metavar="KIND", help="Backup, Restore or Schedule.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the resource.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(KubernetesOptions):
    """Rules of an operator, as typed."""

    every: Annotated[str, typer.Option("--every", help="Time from one check of the resources to the next.")] = "2s"
    initial_copies: Annotated[
        int,
        typer.Option(
            "--initial-copies",
            min=1,
            help="Maximum number of first copies at the same time; with --kubernetes in each namespace.",
        ),
    ] = 1
    expiry_at_once: Annotated[
        int, typer.Option("--expiry-at-once", min=1, help="Maximum number of expiry jobs at the same time.")
    ] = 1
    expiry_retry: Annotated[
        str, typer.Option("--expiry-retry", help="Time from one check of the full expiry queue to the next.")
    ] = "10m"
    absent_after: Annotated[
        str,
        typer.Option(
            "--absent-after",
            help="In a folder: time without a file that declares a resource, before the resource is deleted.",
        ),
    ] = "1h"
    settle: Annotated[
        str, typer.Option("--settle", help="In a folder: time that a file must be unchanged before it takes effect.")
    ] = "10s"


@app.command()
@takes(RunOptions)
def run(
    options: RunOptions,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="The folder: resources, accounts.yaml, clusters/.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Check once, do one step for each resource, and end.")] = False,
    stop_agents: Annotated[bool, typer.Option("--stop-agents", help="At the end, also stop the agents.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Bring the resources of a folder, or of Kubernetes, into their declared state, until SIGINT or SIGTERM.

    Agents, the copying processes, continue when the operator ends, and the next operator finds the agents. Several
    operators may run on one folder.
    """
    from offsite.model.clock import SystemClock
    from offsite.operator.folder.operator import run as go_on

    clock, every_s, lines = SystemClock(), parse_duration_s(options.every), _LookPrinter(output)
    if options.kubernetes:
        if folder is not None or once or stop_agents:
            raise BadOption("--kubernetes cannot be used with a folder, --once or --stop-agents")
        run_in_kubernetes(options, _queue(options), every_s=every_s, initial_copies=options.initial_copies)
        return
    check_not_given(options)
    if folder is None:
        raise BadOption("no resources to manage are named", hint="name a folder, or add --kubernetes")
    if once and options.metrics_port:
        raise BadOption("--once cannot be used with --metrics-port", hint="metrics need an operator that keeps running")
    if once and stop_agents:
        raise BadOption("--once cannot be used with --stop-agents", hint="agents copy until the next check")
    operator = _operator(folder, options)
    if once:
        operator.settle()
        emit(operator.look(), output=output, render=render_look)
        return
    try:
        with serve_probes(operator, options.metrics_port, clock):
            go_on(operator, every_s=every_s, clock=clock, on_look=lines.look)
    except KeyboardInterrupt:
        if stop_agents:
            note("stopping the agents")
            operator.agents.end_all()
        note("stopped" if stop_agents else "stopped; agents continue")


@app.command()
def apply(
    file: Annotated[str, typer.Option("--file", "-f", help="A YAML file with resources; - for standard input.")],
    folder: Folder,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Check resources, and store them in the folder. Exit code 14: an immutable field has changed."""
    _check_installed()
    from offsite.operator.core.files import read_text
    from offsite.operator.folder.edits import apply as put

    text = sys.stdin.read() if file == "-" else read_text(Path(file))
    source = "standard input" if file == "-" else Path(file).name
    emit(put(_layout(folder), text, source=source), output=output, render=render_applied)


@app.command()
def get(
    folder: Folder,
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]", help="Only resources of this kind.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only the resource of this name.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List resources in the state that the operator saw last."""
    _check_installed()
    from offsite.model.clock import SystemClock
    from offsite.operator.folder.views import list_resources, parse_kind

    chosen = parse_kind(kind) if kind is not None else None
    resources = list_resources(_layout(folder), kind=chosen, name=name, now_ms=SystemClock().now_ms())
    emit(resources, output=output, render=render_resources)


@app.command()
def describe(kind: Kind, name: Name, folder: Folder, output: Output = OutputFormat.TABLE) -> None:
    """Show a resource in full: spec, conditions, backups, place in the expiry queue, and holders of its locks."""
    _check_installed()
    from offsite.model.clock import SystemClock
    from offsite.operator.folder.views import describe as tell
    from offsite.operator.folder.views import parse_kind

    detail = tell(_layout(folder), kind=parse_kind(kind), name=name, clock=SystemClock())
    emit(detail, output=output, render=render_detail)


@app.command()
def delete(
    kind: Kind,
    name: Name,
    folder: Folder,
    keep_backups: Annotated[
        bool,
        typer.Option("--keep-backups", help="Keep its backups in their repositories, whatever the resource declares."),
    ] = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Request the deletion of a resource, and of its backups unless its deletionFinalizer is off. A running
    operator deletes them."""
    _check_installed()
    from offsite.model.clock import SystemClock
    from offsite.operator.folder.edits import plan_removal, remove
    from offsite.operator.folder.views import parse_kind, read_backup_names

    layout, key = _layout(folder), (parse_kind(kind), name)
    plan = plan_removal(layout, key, read_backup_names(layout, key), keeps_backups=keep_backups)
    if not yes:
        emit_notice(plan, render=render_removal)
        confirm(f"delete {plan.kind} {plan.name}?")
    remove(layout, plan, now_ms=SystemClock().now_ms())
    emit(plan, output=output, render=render_removal)


@app.command()
def moved(folder: Folder, yes: Yes = False, output: Output = OutputFormat.TABLE) -> None:
    """Confirm that a folder was moved here from another file system or machine, or restored, and not copied.

    The folder's resources continue here.
    """
    _check_installed()
    from offsite.operator.folder.moves import confirm_move, plan_move

    layout = _layout(folder)
    if not yes:
        plan = plan_move(layout)
        emit_notice(plan, render=render_move)
        confirm(
            f"is the folder {plan.before} gone?"
            if plan.before != plan.folder
            else "was the folder restored, and does no operator manage another copy of it?"
        )
    emit(confirm_move(layout), output=output, render=render_move)


@app.command()
def release(
    backup: Annotated[str, typer.Argument(metavar="BACKUP", help="The low-level backup, by its name in describe.")],
    repo: Repo,
    reason: Annotated[str, typer.Option("--reason", help="Why the backup may be deleted; stored in the ledger.")] = "",
    refuse: Annotated[
        bool, typer.Option("--refuse", help="Never delete it on this machine because of the present release.")
    ] = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Allow the deletion of an older backup that expiry keeps: the next expiry job deletes the backup completely, with
    its pins.

    The release is valid for the displayed state: a new commit in the backup voids the release. The job waits for a
    running restore. An operator on another machine deletes the backup three days after it first saw the release, or
    once the release is also given there.
    """
    _check_installed()
    from offsite.operator.work.release import plan_release, refuse_release
    from offsite.operator.work.release import release as let_go

    repository = open_repository(repo)
    if refuse:
        emit(refuse_release(repository, backup), output=output, render=render_release)
        return
    plan = plan_release(repository, backup)
    if not yes:
        emit_notice(plan, render=render_release)
        confirm(f"allow the next expiry job to delete {plan.backup} for ever?")
    emit(let_go(repository, plan, reason=reason), output=output, render=render_release)


@app.command()
def members(
    identity: Annotated[str, typer.Argument(metavar="IDENTITY", help="The value of spec.identity of the resources.")],
    repo: Repo,
    gone: Annotated[
        str | None,
        typer.Option("--gone", metavar="ID", help="Declare that this resource is gone and cannot leave by itself."),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="How you know this; stored in the ledger.")] = "",
    refuse: Annotated[
        bool, typer.Option("--refuse", help="With --gone: never believe this statement on this machine.")
    ] = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show which resources share a backup, in all Kubernetes clusters; or declare that one of them is gone.

    While another resource shares the backup, the deletion of a resource deletes no data. An operator on another machine
    believes the statement three days after it first saw it, or when the statement is also made there.
    """
    _check_installed()
    from offsite.operator.world.membership import dismiss, list_members

    store = open_repository(repo, looks=gone is None).store
    if gone is not None:
        if not (yes or refuse):
            emit_notice(list_members(store, identity), render=render_members)
            confirm(f"is {gone} gone for good?")
        dismiss(store, identity, gone, reason=reason, refuse=refuse)
    emit(list_members(store, identity), output=output, render=render_members)


class _LookPrinter:
    """Prints new looks for people and scripts."""

    def __init__(self, output: OutputFormat) -> None:
        self._output = OutputFormat.TABLE if output is OutputFormat.TABLE else OutputFormat.JSONL
        self._told: LookResult | None = None

    def look(self, look: LookResult) -> None:
        if look != self._told:
            self._told = look
            emit(look, output=self._output, render=render_look)


def _operator(folder: Path, options: RunOptions) -> FolderOperator:
    _check_installed()
    from offsite.model.clock import SystemClock
    from offsite.operator.folder.operator import FolderOperator, OperatorRules

    rules = OperatorRules(
        initial_copies=options.initial_copies,
        queue=_queue(options),
        absent_after_s=parse_duration_s(options.absent_after),
        settle_s=parse_duration_s(options.settle),
    )
    return FolderOperator(_layout(folder), rules, clock=SystemClock())


def _queue(options: RunOptions) -> QueueRules:
    _check_installed()
    from offsite.operator.decide.queue import QueueRules

    return QueueRules(at_once=options.expiry_at_once, retry_s=parse_duration_s(options.expiry_retry))


def _layout(folder: Path) -> FolderLayout:
    from offsite.operator.core.files import FolderLayout

    if not folder.is_dir():
        raise BadOption(f"there is no folder {folder}", hint="create it, and put resources into it")
    return FolderLayout(root=folder.absolute())


def _check_installed() -> None:
    from importlib.util import find_spec

    needed = {"cronsim": "cronsim", "pydantic": "pydantic", "pyyaml": "yaml"}
    missing = [package for package, name in needed.items() if find_spec(name) is None]
    if missing:
        raise BadOption(f"{', '.join(missing)} is not installed", hint="install it: pip install 'offsite[operator]'")


operator_work.register(app)
