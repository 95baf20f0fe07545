"""Two clusters with groups: a source that is backed up, a target, and what an independent client sees of both."""

from __future__ import annotations

import itertools

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from offsite.backup.options import BackupRequest
from offsite.backup.outages import Outages
from offsite.backup.plan import BackupPlan, make_replan, plan_backup
from offsite.backup.run import BackupResult, run_backup
from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.runner import Runner
from offsite.follow.follower import Follower, FollowSettings, FollowTimes
from offsite.groups.report import report_groups
from offsite.groups.run import AppliedGroups, GroupsRequest, apply_groups, prepare_groups
from offsite.kafka.cluster import connect
from offsite.model.clock import SystemClock
from offsite.model.selection import ALL_GROUPS, GroupPatterns, parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from tests.inline_runner import StoppedRunner
from tests.integration.e2e.site import BACKUP, SLOTS, Site
from tests.integration.kafka.cluster import Cluster

_numbers = itertools.count()


class Groups:
    """A source with a backup, a target, and what happens between them."""

    def __init__(self, source: Cluster, target: Cluster, repository: Repository, spark: Runner) -> None:
        self.site = Site(source, repository, spark)
        self.source = source
        self.target = target

    def back_up(self, *topics: str, groups: GroupPatterns = ALL_GROUPS, history: bool = False) -> BackupResult:
        return self.run(self.plan(*topics, groups=groups, history=history))

    def plan(self, *topics: str, groups: GroupPatterns = ALL_GROUPS, history: bool = False) -> BackupPlan:
        request = BackupRequest(
            backup=BACKUP,
            selection=parse_selection(list(topics)) if topics else None,
            groups=groups,
            group_history=history,
        )
        return plan_backup(self.site.repository, self.source.admin, request, slots=SLOTS)

    def run(self, plan: BackupPlan) -> BackupResult:
        site, request = self.site, BackupRequest(backup=BACKUP, selection=None, groups=plan.request.groups)
        again = make_replan(site.repository, self.source.admin, request, slots=SLOTS)
        return run_backup(plan, repository=site.repository, kafka=self.source.config, runner=site.spark, replan=again)

    def follower(self, *topics: str, runner: Runner | None = None) -> Follower:
        """A run that follows `topics` (those of the backup without any), round by round as it is told to."""
        clock, selection = SystemClock(), parse_selection(list(topics)) if topics else None
        follow = FollowSettings(
            repository=self.site.repository,
            cluster=connect(self.source.bootstrap, None),
            runner=runner or self.site.spark,
            request=BackupRequest(backup=BACKUP, selection=selection, groups=ALL_GROUPS),
            times=FollowTimes(interval_s=1),
        )
        outages = Outages(give_up_after_s=1, clock=clock, on_outage=lambda _: None)
        return Follower(follow, outages=outages, clock=clock, on_round=lambda _: None)

    def stopped_amid(self, *topics: str) -> BackupState:
        """The newest commit after a run that follows `topics` was stopped amid its round."""
        follower = self.follower(*topics, runner=StoppedRunner())
        try:
            follower.work()
        except KeyboardInterrupt:
            return self.site.backup.sound_state()
        raise AssertionError("nobody stopped it")

    def restore(self, *topics: str, rename: str = "", commit: int | None = None, offsets: str = "translate") -> str:
        """Onto the target; returns the restore's id."""
        request = RestoreRequest(
            selection=parse_selection(list(topics)), renames=parse_renames([rename]), commit=commit, offsets=offsets
        )
        prepared = prepare_restore(self.site.backup, self.target.admin, request)
        return run_restore(prepared, cluster=self.target, runner=self.site.spark).restore

    def apply(self, **request: object) -> AppliedGroups:
        return apply_groups(
            prepare_groups(self.site.backup, self.target.admin, GroupsRequest(**request)),  # type: ignore[arg-type]
            self.target.admin,
        )

    def how(self, group: str, **request: object) -> dict[int, tuple[int, str]]:
        """Partition → new offset and how it was found, as planned."""
        request.setdefault("groups", GroupPatterns(include=(group,)))
        planned = prepare_groups(self.site.backup, self.target.admin, GroupsRequest(**request))  # type: ignore[arg-type]
        (found,) = report_groups(planned).groups
        return {each.partition: (each.new, each.how) for each in found.offsets}


def new_group() -> str:
    return f"group-{next(_numbers):04}"  # sorted as made


def new_topic(groups: Groups, *, partitions: int = 1, **configs: str) -> str:
    """A topic of the source whose name is free on the target as well."""
    topic = groups.source.make_topic(partitions=partitions, **configs)
    assert topic not in groups.target.admin.topics()
    return topic


def numbered(count: int, *, start: int = 0, partition: int = 0) -> list[DemoMessage]:
    return [
        DemoMessage(key=b"%d" % each, value=b"value %d" % each, timestamp_ms=BASE_MS + each, partition=partition)
        for each in range(start, start + count)
    ]


def client(cluster: Cluster, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,  # a member that has read enough ends as soon as its next request is answered
        }
    )


def commit(cluster: Cluster, group: str, *positions: Position) -> None:
    member = client(cluster, group)
    member.commit(offsets=list(positions), asynchronous=False)
    member.close()


def next_value(cluster: Cluster, group: str, topic: str, partition: int = 0) -> bytes | None:
    """What a member of the group reads first."""
    member = client(cluster, group)
    (position,) = member.committed([Position(topic, partition)], timeout=60)
    member.assign([position])
    message = member.poll(20)
    member.close()
    assert message is not None, "nothing to read"
    assert message.error() is None, message.error()
    return message.value()


def committed(cluster: Cluster, group: str, topic: str, partition: int = 0) -> int:
    member = client(cluster, group)
    (position,) = member.committed([Position(topic, partition)], timeout=60)
    member.close()
    return position.offset


def run_request(groups: Groups, request: RestoreRequest) -> RestoreResult:
    prepared = prepare_restore(groups.site.backup, groups.target.admin, request)
    return run_restore(prepared, cluster=groups.target, runner=groups.site.spark)


def in_transaction(cluster: Cluster, group: str, position: Position, *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"tx-{group}", "log_level": 3})
    producer.init_transactions()
    producer.begin_transaction()
    member = client(cluster, group)
    producer.send_offsets_to_transaction([position], member.consumer_group_metadata())
    member.close()
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


def delete_group(cluster: Cluster, group: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_consumer_groups([group])[group].result()


def prepared_topics(groups: Groups, restore: str) -> tuple[tuple[str, str], ...]:
    from offsite.groups.restored_offsets import load_restored_offsets

    return load_restored_offsets(groups.site.backup, restore).record.topics
