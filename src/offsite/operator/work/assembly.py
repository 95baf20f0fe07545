"""Assembles an agent and an expiry job from the options of their processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from offsite.backup.options import BackupWords, parse_backup, parse_limits
from offsite.backup.outages import Outages
from offsite.backup.plan import check_cluster
from offsite.engine.rate_limits import RateLimits
from offsite.engine.runner import Runner
from offsite.follow.follower import Follower, FollowSettings, Round
from offsite.kafka.cluster import Cluster
from offsite.model.clock import Clock
from offsite.model.errors import BadOption
from offsite.model.selection import stored_patterns
from offsite.model.units import parse_duration_s
from offsite.operator.decide.desired import expiry_fields
from offsite.operator.decide.options import Parameters, parse_parameters
from offsite.operator.resources.backup import expiry_contradiction
from offsite.operator.work.agent import Agent, AgentContext, Guard
from offsite.operator.work.expire import ExpiryRequest
from offsite.operator.work.signs import Heartbeat, ProgressRunner
from offsite.repository.declared.history import LowLevelBackup
from offsite.repository.lease import ProcessIdentity
from offsite.repository.repository import Repository
from offsite.upkeep.retention.policy import RetentionPolicy, parse_policy

OpenSpark = Callable[[RateLimits], AbstractContextManager[Runner]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTools:
    """The means of an agent process. `open_spark`: opens a Spark for a block. `retain`: the retention of the backup,
    applied by another job."""

    repository: Repository
    cluster: Cluster
    open_spark: OpenSpark
    outages: Outages
    clock: Clock
    on_round: Callable[[Round], None]
    retain: RetentionPolicy | None = None


def make_agent(uid: str, tools: AgentTools) -> Agent:
    """Make the agent of the resource with that uid. Raises `BadName`."""

    @contextmanager
    def open_follower(low: LowLevelBackup, guard: Guard, heartbeat: Heartbeat) -> Iterator[Follower]:
        parameters = _parameters(low)

        def report_round(finished: Round) -> None:
            heartbeat.end_round(finished.plan.source.missing)
            tools.on_round(finished)

        with tools.open_spark(parse_limits(_words(low, parameters))) as runner:
            follower = Follower(
                _follow(uid, low, parameters, tools, ProgressRunner(runner, heartbeat.report_progress), guard),
                outages=tools.outages,
                clock=tools.clock,
                on_round=report_round,
            )
            try:
                yield follower
            finally:
                follower.close()

    def check_source(low: LowLevelBackup) -> None:
        check_cluster(tools.repository.backup(low.beginning.backup), tools.cluster.admin.cluster().cluster_id)

    return Agent(
        AgentContext(
            store=tools.repository.store,
            uid=uid,
            open_follower=open_follower,
            interval_of=lambda low: _parameters(low).interval_s,
            check_source=check_source,
            outages=tools.outages,
            clock=tools.clock,
            identity=ProcessIdentity.current(),
        )
    )


def make_expiry_request(  # noqa: PLR0913  # as its process is told
    uid: str,
    repositories: Sequence[Repository],
    *,
    maximum_retention: str | None,
    minimum_restorable: str | None,
    is_deletion: bool,
    member: str = "",
) -> ExpiryRequest:
    """Make the request of an expiry job from the options of its process. Raises `BadOption`."""
    if not repositories:
        raise BadOption("an expiry job needs a repository", hint="give each repository with --place")
    return ExpiryRequest(
        uid=uid,
        repositories=repositories,
        policy=expiry_policy(maximum_retention, minimum_restorable),
        minimum_ms=int(parse_duration_s(minimum_restorable) * 1000) if minimum_restorable else 0,
        is_deletion=is_deletion,
        member=member,
        declared=expiry_fields(maximum_retention or "", minimum_restorable or ""),
    )


def expiry_policy(maximum_retention: str | None, minimum_restorable: str | None) -> RetentionPolicy | None:
    """Return the retention policy; None: no data expire by age. Raises `BadOption`."""
    if not maximum_retention:
        return None
    if problem := expiry_contradiction(maximum_retention, minimum_restorable or ""):
        raise BadOption(problem, hint="fix the resource; until then it deletes nothing")
    return parse_policy(keep_age=maximum_retention, floor=minimum_restorable or None)


def _follow(  # noqa: PLR0913, PLR0917  # whose backup it is, and what it is made with
    uid: str, low: LowLevelBackup, parameters: Parameters, tools: AgentTools, runner: Runner, guard: Guard
) -> FollowSettings:
    request = parse_backup(low.beginning.backup, _words(low, parameters))
    return FollowSettings(
        repository=tools.repository,
        cluster=tools.cluster,
        runner=runner,
        request=replace(request, reselects=True, declared_by=uid),
        tends=True,
        agrees_to=tools.retain,
        interval_s=parameters.interval_s,
        collect_after_s=parameters.collect_after_s,
        checkpoints=True,
        checkpoint_every_s=parse_duration_s(low.settings.snapshot_duration),
        guard=guard,
    )


def _parameters(low: LowLevelBackup) -> Parameters:
    return parse_parameters(dict(low.settings.parameters))


def _words(low: LowLevelBackup, parameters: Parameters) -> BackupWords:
    words = BackupWords(topics=stored_patterns(low.beginning.topics), missing_topics="warn")
    if low.beginning.exclude:
        words["exclude"] = stored_patterns(low.beginning.exclude)
    if parameters.groups:
        words["groups"] = parameters.groups
    if parameters.compression:
        words["compression"] = parameters.compression  # type: ignore[typeddict-item]  # parsed, or refused, by the parser
    if parameters.read_limit:
        words["read_limit"] = parameters.read_limit
    if parameters.write_limit:
        words["write_limit"] = parameters.write_limit
    return words
