"""The processes of an operator. `offsite operator run --kubernetes`: the operator of resources declared in Kubernetes.
`offsite operator agent` and `expire`: processes started by an operator. People need not call either.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import (
    GIVE_UP_AFTER,
    Bootstrap,
    GiveUpAfter,
    KafkaConfigFile,
    Output,
    Repo,
    checked_places,
    takes,
)
from offsite.cli.output import Line, OutputFormat, emit, note, report_damage
from offsite.cli.views.backup import OutageLines, render_commit
from offsite.cli.wiring import SparkOptions, connect, open_repository, spark
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption
from offsite.model.names import amount

if TYPE_CHECKING:
    from offsite.engine.rate_limits import RateLimits
    from offsite.engine.runner import Runner
    from offsite.follow.follower import Round
    from offsite.operator.core.monitor import Home
    from offsite.operator.decide.queue import QueueRules
    from offsite.operator.kubernetes.pod import HomeRules
    from offsite.operator.work.expire import ExpiryResult
    from offsite.operator.work.progress import ProgressLog
    from offsite.repository.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """Options for Kubernetes beside the options of all homes, as typed."""

    kubernetes: Annotated[
        bool,
        typer.Option("--kubernetes", help="Manage the resources of a Kubernetes cluster, instead of a folder."),
    ] = False
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            envvar="OFFSITE_NAMESPACES",
            help="With --kubernetes: only this namespace; may be repeated. In the variable, separate namespaces by "
            "blanks.",
        ),
    ] = None
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            help="With --kubernetes: a folder or URL where several operators of the same Backups share the count of "
            "first copies. By default each operator counts its own.",
            callback=checked_places,
        ),
    ] = None
    accounts: Annotated[
        Path, typer.Option("--accounts", help="With --kubernetes: the accounts, as in accounts.yaml of a folder.")
    ] = Path("/etc/offsite/accounts.yaml")
    agent_image: Annotated[
        str | None,
        typer.Option(
            "--agent-image",
            envvar="OFFSITE_AGENT_IMAGE",
            show_envvar=True,
            help="With --kubernetes: the image of agents without an image in their template.",
        ),
    ] = None
    allow_image: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-image",
            envvar="OFFSITE_ALLOWED_IMAGES",
            help="With --kubernetes: an image that templates may name, besides the image of agents; may be repeated. "
            "In the variable, separate images by blanks.",
        ),
    ] = None
    allow_metadata: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-metadata",
            envvar="OFFSITE_ALLOWED_METADATA",
            help="With --kubernetes: name of a label or an annotation that templates may set on pods of agents; may be "
            "repeated. In the variable, separate names by blanks.",
        ),
    ] = None
    metrics_port: Annotated[
        str | None,
        typer.Option("--metrics-port", help="Where to show metrics and answer probes, as 9464 or 0.0.0.0:9464."),
    ] = None


def run_in_kubernetes(options: KubernetesOptions, queue: QueueRules, *, every_s: float, initial_copies: int) -> None:
    """Run until SIGINT or SIGTERM. Raises `BadOption`, and `KubernetesUnavailable` without a login."""
    _check_installed()
    from offsite.operator.kubernetes.api import HttpKubernetesApi
    from offsite.operator.kubernetes.home import KubernetesHome
    from offsite.operator.kubernetes.kopf_operator import log_in, run

    log_in()  # who cannot is told so now: later it may pass
    clock = SystemClock()
    home = KubernetesHome(HttpKubernetesApi(log_in), _rules(options, queue, initial_copies), clock=clock)
    with serve_probes(home, options.metrics_port, clock):
        run(home, namespaces=options.namespace or (), every_s=every_s)
    note("stopped; agents continue")


def check_not_given(options: KubernetesOptions) -> None:
    """Refuse options for Kubernetes in a folder. Raises `BadOption`."""
    kubernetes_only = {"--namespace": options.namespace, "--state": options.state}
    if wrong := [name for name, value in kubernetes_only.items() if value]:
        raise BadOption(f"{', '.join(wrong)} works only with --kubernetes", hint="add --kubernetes, or omit the option")


def _rules(options: KubernetesOptions, queue: QueueRules, initial_copies: int) -> HomeRules:
    from offsite.model.version import __version__
    from offsite.operator.kubernetes.pod import HomeRules

    return HomeRules(
        accounts=options.accounts.absolute(),
        folder=_folder(),
        image=options.agent_image or f"offsite:{__version__}",
        images=options.allow_image or (),
        metadata=options.allow_metadata or (),
        namespaces=options.namespace or (),
        state=options.state or "",
        initial_copies=initial_copies,
        queue=queue,
    )


@contextmanager
def serve_probes(home: Home, port: str | None, clock: Clock) -> Iterator[None]:
    """A context in which probes are answered, if requested."""
    from offsite.monitor.server import StatusServer, parse_address
    from offsite.operator.core.monitor import HomeMonitor

    if port is None:
        yield
        return
    with StatusServer(HomeMonitor(home=home, clock=clock), listen=parse_address(port), clock=clock) as server:
        note(f"metrics on http://{server.address}/metrics")
        yield


def _folder() -> Path:
    """Return the folder for notes of the process about its expiry jobs."""
    states = os.environ.get("XDG_STATE_HOME")
    return Path(states or Path.home() / ".local" / "state").absolute() / "offsite" / "operator"


def _check_installed() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("cronsim", "kopf", "pydantic", "yaml") if find_spec(name) is None]
    if missing:
        raise BadOption(f"{', '.join(missing)} is not installed", hint="install it: pip install 'offsite[kubernetes]'")


Uid = Annotated[str, typer.Option("--uid", help="The uid of the declared backup.")]


MaximumRetention = Annotated[
    str | None, typer.Option("--maximum-retention", help="Delete restore points that are older.")
]
MinimumRestorable = Annotated[
    str | None, typer.Option("--minimum-restorable", help="Time span that always stays restorable.")
]


@takes(SparkOptions)
def agent(
    engine: SparkOptions,
    repo: Repo,
    uid: Uid,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfigFile = None,
    maximum_retention: MaximumRetention = None,
    minimum_restorable: MinimumRestorable = None,
    give_up_after: GiveUpAfter = GIVE_UP_AFTER,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Copy a backup while its declared state is running and no other agent copies it, until SIGINT or SIGTERM."""
    from offsite.backup.outages import Outages
    from offsite.cli.commands.backup_follow import leave_in_time
    from offsite.model.uninterrupted import notify_interruption
    from offsite.model.units import parse_duration_s
    from offsite.operator.work.agent import AgentTools, make_agent
    from offsite.operator.work.expire import expiry_policy

    clock = SystemClock()
    lines = OutageLines(clock)
    form = OutputFormat.TABLE if output is OutputFormat.TABLE else OutputFormat.JSONL

    def open_spark(limits: RateLimits) -> AbstractContextManager[Runner]:
        return spark(engine.choice(), preload="offsite.backup.copy", limits=limits)

    def shown(completed: Round) -> None:
        lines.worked()
        if completed.result is not None:
            emit(completed.result, output=form, render=render_commit)

    tools = AgentTools(
        repository=open_repository(repo),
        cluster=connect(bootstrap, kafka_config),
        open_spark=open_spark,
        outages=Outages(give_up_after_s=parse_duration_s(give_up_after), clock=clock, on_outage=lines),
        clock=clock,
        on_round=shown,
        retain=expiry_policy(maximum_retention, minimum_restorable),
    )
    with notify_interruption(leave_in_time):
        try:
            make_agent(uid, tools).run()
        except KeyboardInterrupt:
            note("stopped")


def expire(
    place: Annotated[
        list[str],
        typer.Option(
            "--place", help="A repository with backups of this resource; may be repeated.", callback=checked_places
        ),
    ],
    uid: Uid,
    maximum_retention: MaximumRetention = None,
    minimum_restorable: MinimumRestorable = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete all backups of this resource.")] = False,
    member: Annotated[
        str, typer.Option("--member", help="The deleted resource, if other resources may share the backup.")
    ] = "",
    output: Output = OutputFormat.TABLE,
) -> None:
    """Delete old data of a declared backup, or all of its data. Exit code 14: not yet, the data is read or copied."""
    from offsite.operator.work.expire import expire as do
    from offsite.operator.work.expire import make_expiry_request
    from offsite.operator.work.progress import ProgressLog

    clock = SystemClock()
    signs = ProgressLog(clock=clock, say=note)
    expiry = make_expiry_request(
        uid,
        [_reporting_repository(repository, signs) for repository in _opened(place)],
        maximum_retention=maximum_retention,
        minimum_restorable=minimum_restorable,
        is_deletion=delete,
        member=member,
    )
    emit(do(expiry, clock=clock), output=output, render=_render_expired)


def _reporting_repository(repository: Repository, signs: ProgressLog) -> Repository:
    from dataclasses import replace

    from offsite.stores.wrapped_store import TimedStore

    return replace(repository, store=TimedStore(repository.store, signs.note))


def _opened(places: Sequence[str]) -> list[Repository]:
    """Open the repositories, with the credentials of their accounts if the operator passed credentials."""
    from offsite.operator.core.processes import parse_place_environments
    from offsite.repository.repository import Repository
    from offsite.stores.open_store import open_store

    if not (environments := parse_place_environments(os.environ)):
        return [open_repository(place) for place in places]
    return [
        Repository.open(open_store(place, environment=environment), on_damage=report_damage)
        for place, environment in zip(places, environments, strict=True)
    ]


def _render_expired(result: ExpiryResult) -> Iterator[Line]:
    if result.left_to:
        yield f"nothing to do: {result.left_to}"
        return
    yield f"{amount(result.points, 'restore point was', 'restore points were')} deleted"
    for name in result.removed:
        yield f"deleted: {name}"
    for kept_backup in result.kept:
        yield f"kept: {kept_backup}"


def register(app: typer.Typer) -> None:
    app.command(hidden=True)(agent)
    app.command(hidden=True)(expire)
