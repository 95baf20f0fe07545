"""`offsite operator agent` and `expire`: processes started by an operator. People need not call either."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options.common import (
    GIVE_UP_AFTER,
    Bootstrap,
    GiveUpAfter,
    KafkaConfigFile,
    Output,
    Repo,
    checked_places,
)
from offsite.cli.options.option_group import takes
from offsite.cli.options.spark import SparkOptions
from offsite.cli.output import OutputFormat, emit, note, report_damage
from offsite.cli.views.backup_view import render_commit
from offsite.cli.views.outage_view import OutageLines
from offsite.cli.wiring import connect, open_repository, spark

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.engine.rate_limits import RateLimits
    from offsite.engine.runner import Runner
    from offsite.follow.follower import Round
    from offsite.operator.work.expire import ExpiryResult
    from offsite.operator.work.signs import ProgressLog
    from offsite.repository.repository import Repository

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
    from offsite.model.clock import SystemClock
    from offsite.model.uninterrupted import notify_interruption
    from offsite.model.units import parse_duration_s
    from offsite.operator.work.assembly import AgentTools, expiry_policy, make_agent

    clock = SystemClock()
    lines = OutageLines(clock)
    form = OutputFormat.TABLE if output is OutputFormat.TABLE else OutputFormat.JSONL

    def open_spark(limits: RateLimits) -> AbstractContextManager[Runner]:
        return spark(engine.choice(), preload="offsite.backup.bundle", limits=limits)

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
    from offsite.model.clock import SystemClock
    from offsite.operator.work.assembly import make_expiry_request
    from offsite.operator.work.expire import expire as do
    from offsite.operator.work.signs import ProgressLog

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


def _render_expired(console: Console, result: ExpiryResult) -> None:
    if result.left_to:
        console.print(f"nothing to do: {result.left_to}")
        return
    console.print(f"{result.points} restore points were deleted")
    for name in result.removed:
        console.print(f"deleted: {name}")
    for kept_backup in result.kept:
        console.print(f"kept: {kept_backup}")


def register(app: typer.Typer) -> None:
    app.command(hidden=True)(agent)
    app.command(hidden=True)(expire)
