"""`offsite operator`: backups as declared in a folder. Only `run` starts anything."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.commands.coordinator import operator_work
from offsite.cli.commands.coordinator.operator_kubernetes import (
    KubernetesOptions,
    check_not_given,
    run_in_kubernetes,
    serve_probes,
)
from offsite.cli.options.common import Output, Repo, Yes
from offsite.cli.options.option_group import takes
from offsite.cli.output import OutputFormat, confirm, emit, emit_notice, note
from offsite.cli.views.operator_view import (
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
from offsite.model.time import parse_duration_s

if TYPE_CHECKING:
    from offsite.operator.decide.expiry_queue import QueueRules
    from offsite.operator.folder.layout import FolderLayout
    from offsite.operator.folder.operator import FolderOperator, LookResult

app = typer.Typer(help="Keep backups as they are declared in a folder of YAML files.", no_args_is_help=True)

Folder = Annotated[
    Path, typer.Option("--dir", envvar="OFFSITE_OPERATOR_DIR", show_envvar=True, help="The folder of the operator.")
]
Kind = Annotated[str, typer.Argument(metavar="KIND", help="Backup, Restore or Schedule.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the resource.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(KubernetesOptions):
    """Rules of an operator, as typed."""

    every: Annotated[str, typer.Option("--every", help="From one look to the next.")] = "2s"
    initial_copies: Annotated[
        int,
        typer.Option(
            "--initial-copies",
            min=1,
            help="So many backups copy everything for the first time at once; with --kubernetes of each namespace.",
        ),
    ] = 1
    expiry_at_once: Annotated[int, typer.Option("--expiry-at-once", min=1, help="So many expiry jobs run at once.")] = 1
    expiry_retry: Annotated[
        str, typer.Option("--expiry-retry", help="From one look at the full expiry queue to the next.")
    ] = "10m"
    absent_after: Annotated[
        str,
        typer.Option("--absent-after", help="In a folder: so long no file declares a resource before it is deleted."),
    ] = "1h"
    settle: Annotated[
        str, typer.Option("--settle", help="In a folder: so long a file is the same before what it says counts.")
    ] = "10s"


@app.command()
@takes(RunOptions)
def run(
    options: RunOptions,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="The folder: resources, accounts.yaml, clusters/.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, do one step for each resource, and end.")] = False,
    stop_agents: Annotated[
        bool, typer.Option("--stop-agents", help="At the end, let the processes that copy end as well.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Bring what is declared in a folder, or in Kubernetes, about, until SIGINT or SIGTERM.

    Agents, the copying processes, continue when the operator ends, and the next operator finds the agents. Several
    operators of a folder do no harm.
    """
    from offsite.model.clock import SystemClock
    from offsite.operator.folder.operator import run as go_on

    clock, every_s, lines = SystemClock(), parse_duration_s(options.every), _LookPrinter(output)
    if options.kubernetes:
        if folder is not None or once or stop_agents:
            raise BadOption("--kubernetes goes with neither a folder, --once nor --stop-agents")
        run_in_kubernetes(options, _queue(options), every_s=every_s, initial_copies=options.initial_copies)
        return
    check_not_given(options)
    if folder is None:
        raise BadOption("there is nothing to look after", hint="name a folder, or add --kubernetes")
    if once and options.metrics_port:
        raise BadOption("--once goes without --metrics-port", hint="metrics are of an operator that goes on")
    if once and stop_agents:
        raise BadOption("--once goes without --stop-agents", hint="agents are to copy until the next look")
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
            note("the agents are told to end")
            operator.agents.end_all()
        note("stopped" if stop_agents else "stopped; agents go on")


@app.command()
def apply(
    file: Annotated[str, typer.Option("--file", "-f", help="A YAML file with resources; - for standard input.")],
    folder: Folder,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Check resources, and put them into the folder. Exit code 14: a field that may not change has changed."""
    _check_installed()
    from offsite.operator.folder.documents import read_text
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
    """List resources as the operator saw them last."""
    _check_installed()
    from offsite.model.clock import SystemClock
    from offsite.operator.folder.views import list_resources, parse_kind

    chosen = parse_kind(kind) if kind is not None else None
    resources = list_resources(_layout(folder), kind=chosen, name=name, now_ms=SystemClock().now_ms())
    emit(resources, output=output, render=render_resources)


@app.command()
def describe(kind: Kind, name: Name, folder: Folder, output: Output = OutputFormat.TABLE) -> None:
    """Show all of a resource: spec, conditions, backups, its place in the expiry queue, and who holds its locks."""
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
        bool, typer.Option("--keep-backups", help="Leave its backups in their repositories, whatever it declares.")
    ] = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Ask for the deletion of a resource, and of its backups unless its deletionFinalizer is off. A running operator
    does it."""
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
    """Say that a folder was moved here from another file system or machine, or brought back, and not copied.

    The folder's resources continue here.
    """
    _check_installed()
    from offsite.operator.folder.moves import confirm_move, plan_move

    layout = _layout(folder)
    if not yes:
        plan = plan_move(layout)
        emit_notice(plan, render=render_move)
        confirm(
            f"is nothing left of the folder in {plan.before}?"
            if plan.before != plan.folder
            else "was the folder brought back, and is no copy of it looked after elsewhere?"
        )
    emit(confirm_move(layout), output=output, render=render_move)


@app.command()
def release(
    backup: Annotated[str, typer.Argument(metavar="BACKUP", help="The low-level backup, as describe names it.")],
    repo: Repo,
    reason: Annotated[str, typer.Option("--reason", help="Why it may go: it is kept in the ledger.")] = "",
    refuse: Annotated[
        bool, typer.Option("--refuse", help="Never delete it on this machine because of the present release.")
    ] = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Let an older backup of a declared one go that expiry keeps: the next expiry job deletes it whole, pins and all.

    The release holds for the displayed state: one more commit there voids the release. A running restore is waited for.
    An operator on another machine deletes the backup three days after it first saw the release, or once the release is
    also given there.
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
        confirm(f"let {plan.backup} go for good?")
    emit(let_go(repository, plan, reason=reason), output=output, render=render_release)


@app.command()
def members(
    identity: Annotated[str, typer.Argument(metavar="IDENTITY", help="As spec.identity of the resources has it.")],
    repo: Repo,
    gone: Annotated[
        str | None,
        typer.Option("--gone", metavar="ID", help="Say that this one is gone, and can say so no more itself."),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="How that is known: it is kept in the ledger.")] = "",
    refuse: Annotated[
        bool, typer.Option("--refuse", help="With --gone: never count on this machine that somebody said so.")
    ] = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show which resources share a backup, in whatever Kubernetes cluster; or say that one of them is gone.

    While another resource shares the backup, the deletion of a resource deletes no data. An operator on another machine
    believes the statement three days after it first saw the statement, or once the statement is made there as well.
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
    from offsite.operator.decide.expiry_queue import QueueRules

    return QueueRules(at_once=options.expiry_at_once, retry_s=parse_duration_s(options.expiry_retry))


def _layout(folder: Path) -> FolderLayout:
    from offsite.operator.folder.layout import FolderLayout

    if not folder.is_dir():
        raise BadOption(f"there is no folder {folder}", hint="make it, and put resources into it")
    return FolderLayout(root=folder.absolute())


def _check_installed() -> None:
    from importlib.util import find_spec

    needed = {"cronsim": "cronsim", "pydantic": "pydantic", "pyyaml": "yaml"}
    missing = [package for package, name in needed.items() if find_spec(name) is None]
    if missing:
        raise BadOption(f"{', '.join(missing)} is not installed", hint="install it: pip install 'offsite[operator]'")


operator_work.register(app)
