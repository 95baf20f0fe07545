"""Groups go on where they were: on another cluster, by the maps of a restore, judged by an independent client."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from offsite.kafka.groups import FetchedGroups, GroupFailure
from offsite.log.range import TopicPartition
from offsite.model.errors import NoSuchRestore, NoSuchRestorePoint, OtherCluster
from offsite.model.group_patterns import ALL_GROUPS, NO_GROUPS, GroupPatterns, parse_groups
from offsite.model.rename import parse_renames
from offsite.model.selection import parse_selection
from offsite.pipeline.runner import Runner
from offsite.repository.open_store import open_store
from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.services.backup import BackupPlan, BackupRequest, BackupResult, plan_backup, run_backup
from offsite.services.demo.data import BASE_MS, Message
from offsite.services.group_report import report_groups, show_groups
from offsite.services.groups import GroupsApplied, GroupsRequest, apply_groups, find_change, prepare_groups, undo_groups
from offsite.services.restore import prepare_restore, run_restore
from offsite.services.restore_request import RestoreRequest
from offsite.services.restored_offsets import map_offset
from offsite.services.verify import verify_deep, verify_quick
from tests.integration.e2e.site import BACKUP, SLOTS, Site, new_name
from tests.integration.e2e.transactions import with_transaction
from tests.integration.kafka.cluster import Cluster, wait_until

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
        site = self.site
        return run_backup(plan, repository=site.repository, kafka=self.source.config, runner=site.spark)

    def restore(self, *topics: str, rename: str = "", commit: int | None = None, offsets: str = "translate") -> str:
        """Onto the target; returns the restore's id."""
        request = RestoreRequest(
            selection=parse_selection(list(topics)), renames=parse_renames([rename]), commit=commit, offsets=offsets
        )
        prepared = prepare_restore(self.site.backup, self.target.admin, request)
        return run_restore(prepared, admin=self.target.admin, kafka=self.target.config, runner=self.site.spark).restore

    def apply(self, **request: object) -> GroupsApplied:
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


@pytest.fixture
def groups(broker: SandboxInfo, second_broker: SandboxInfo, tmp_path: Path, spark: Runner) -> Groups:
    repository = Repository.init(open_store(str(tmp_path / "repository")))
    return Groups(Cluster(broker.bootstrap), Cluster(second_broker.bootstrap), repository, spark)


def new_group() -> str:
    return f"group-{next(_numbers)}"


def new_topic(groups: Groups, *, partitions: int = 1, **configs: str) -> str:
    """A topic of the source whose name is free on the target as well."""
    topic = groups.source.make_topic(partitions=partitions, **configs)
    assert topic not in groups.target.admin.topics()
    return topic


def numbered(count: int, *, start: int = 0, partition: int = 0) -> list[Message]:
    return [
        Message(key=b"%d" % each, value=b"value %d" % each, timestamp_ms=BASE_MS + each, partition=partition)
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
        }
    )


def commit(cluster: Cluster, group: str, *positions: Position) -> None:
    member = client(cluster, group)
    member.commit(offsets=list(positions), asynchronous=False)
    member.close()


def next_value(cluster: Cluster, group: str, topic: str, partition: int = 0) -> bytes | None:
    """What a member of the group reads first."""
    member = client(cluster, group)
    (position,) = member.committed([Position(topic, partition)], timeout=10)
    member.assign([position])
    message = member.poll(20)
    member.close()
    assert message is not None, "nothing to read"
    assert message.error() is None, message.error()
    return message.value()


def committed(cluster: Cluster, group: str, topic: str, partition: int = 0) -> int:
    member = client(cluster, group)
    (position,) = member.committed([Position(topic, partition)], timeout=10)
    member.close()
    return position.offset


def test_a_consumer_of_each_group_goes_on_at_the_same_record(groups: Groups) -> None:
    """The log starts late and has gaps of transactions, so that offsets differ on the two clusters."""
    topic = new_topic(groups)
    groups.site.produce(topic, numbered(10))
    with_transaction(groups.site, topic, numbered(3, start=10), commit=False)
    with_transaction(groups.site, topic, numbered(3, start=13), commit=True)
    groups.site.delete_before(topic, 4)
    places = {new_group(): offset for offset in (4, 7, 14, 15, 16)}
    for group, offset in places.items():
        commit(groups.source, group, Position(topic, 0, offset))
    groups.back_up(topic)
    restore = groups.restore(topic)
    result = groups.apply(restore=restore)
    assert (result.groups, result.offsets_set, result.failed) == (5, 5, ())
    for group in places:
        assert next_value(groups.target, group, topic) == next_value(groups.source, group, topic)
    assert committed(groups.target, list(places)[1], topic) == 3


def test_every_place_of_a_committed_offset_has_its_rule(groups: Groups) -> None:
    topic = new_topic(groups, partitions=6)
    for partition in range(6):
        groups.site.produce(topic, numbered(10, partition=partition))
    with_transaction(groups.site, topic, numbered(1, start=10), commit=True)
    groups.site.produce(topic, numbered(1, start=11))
    for partition in (1, 2):
        groups.site.delete_before(topic, 5, partition=partition)
    group, without = new_group(), new_group()
    offsets = {0: 11, 1: 0, 2: 5, 3: 10, 4: 9, 5: 99}  # a marker, below the start, at it, the end, inside, beyond
    commit(groups.source, group, *(Position(topic, partition, offset) for partition, offset in offsets.items()))
    client(groups.source, without).close()
    groups.back_up(topic)
    restore = groups.restore(topic)
    assert groups.how(group, restore=restore) == {
        0: (11, "gap"),
        1: (0, "below"),
        2: (0, "exact"),
        3: (10, "end"),
        4: (9, "exact"),
        5: (10, "above"),
    }
    result = groups.apply(restore=restore)
    assert (result.groups, result.clamped) == (1, 2), "a group without commits has nothing to set"


def test_metadata_is_kept_and_renames_are_followed(groups: Groups) -> None:
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(5))
    commit(groups.source, group, Position(topic, 0, 3, "checkpoint 7"))
    groups.back_up(topic)
    target = new_name(topic)
    restore = groups.restore(topic, rename=f"{topic}={target}")
    groups.apply(restore=restore)
    listed = [each for each in groups.target.admin.groups.list() if each.group == group]
    (row,) = groups.target.admin.groups.offsets(listed).groups[group].topics[0]
    assert (row.offset, row.leader_epoch, row.metadata.rstrip("\0")) == (3, -1, "checkpoint 7")
    assert groups.target.admin.groups.offsets(listed).groups[group].topics[0].topic == target


def test_a_group_with_members_is_reported_and_the_others_are_set(groups: Groups) -> None:
    topic, active, idle = new_topic(groups), new_group(), new_group()
    groups.site.produce(topic, numbered(5))
    for group in (active, idle):
        commit(groups.source, group, Position(topic, 0, 3))
    groups.back_up(topic)
    restore = groups.restore(topic)
    member = client(groups.target, active)
    member.subscribe([topic])
    wait_until(lambda: (member.poll(0.1), bool(member.assignment()))[1])
    planned = prepare_groups(groups.site.backup, groups.target.admin, GroupsRequest(restore=restore))
    result = apply_groups(planned, groups.target.admin)
    member.close()
    assert [each.active for each in report_groups(planned).groups] == [True, False]
    assert [(each.group, "active members" in each.message) for each in result.failed] == [(active, True)]
    assert (result.groups, committed(groups.target, idle, topic)) == (1, 3)
    again = groups.apply(restore=restore)
    assert (again.failed, again.offsets_set, again.unchanged) == ((), 1, 1), "the rest, once it has no members"


def test_undo_puts_back_what_was_there_and_removes_what_was_not(groups: Groups) -> None:
    topic, known, unknown = new_topic(groups, partitions=2), new_group(), new_group()
    groups.site.produce(topic, [*numbered(5), *numbered(5, partition=1)])
    for group in (known, unknown):
        commit(groups.source, group, Position(topic, 0, 3), Position(topic, 1, 4))
    groups.back_up(topic)
    restore = groups.restore(topic)
    commit(groups.target, known, Position(topic, 0, 1, "mine"))
    first = groups.apply(restore=restore)
    commit(groups.target, known, Position(topic, 0, 5))
    change = find_change(groups.site.backup, groups.target.admin, None)
    assert change.change == first.change
    undone = undo_groups(groups.site.backup, groups.target.admin, change)
    assert (undone.groups, undone.offsets_put_back, undone.offsets_removed, undone.failed) == (2, 1, 3, ())
    assert committed(groups.target, known, topic) == 1
    assert committed(groups.target, known, topic, 1) < 0
    assert committed(groups.target, unknown, topic) < 0
    with pytest.raises(NoSuchRestore, match="to undo"):
        find_change(groups.site.backup, groups.target.admin, first.change)


def test_offsets_go_unchanged_onto_a_cluster_without_a_restore(groups: Groups) -> None:
    """The same cluster: a bad deploy has moved a group, and the backup knows where it was."""
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(10))
    commit(groups.source, group, Position(topic, 0, 3))
    first = groups.back_up(topic).commit
    commit(groups.source, group, Position(topic, 0, 9))
    groups.back_up()
    groups.target = groups.source
    assert groups.apply(commit=first).offsets_set == 1
    assert committed(groups.source, group, topic) == 3
    groups.site.delete_before(topic, 5)
    assert groups.how(group, commit=first) == {0: (5, "below")}
    assert groups.apply().offsets_set == 1
    assert committed(groups.source, group, topic) == 9


def test_what_is_not_on_the_target_is_listed(groups: Groups) -> None:
    kept, lost, group = new_topic(groups, partitions=2), new_topic(groups), new_group()
    for topic in (kept, lost):
        groups.site.produce(topic, numbered(5))
    commit(groups.source, group, *(Position(topic, 0, 3) for topic in (kept, lost)), Position(kept, 1, 0))
    groups.back_up(kept, lost)
    restore = groups.restore(kept)
    result = groups.apply(restore=restore)
    assert (result.absent_topics, result.offsets_set, result.failed) == ((lost,), 2, ())
    groups.target.admin.delete_topics([kept])
    assert groups.apply(restore=restore).absent_topics == (kept, lost)


def test_a_commit_between_the_snapshot_and_the_ends_is_not_taken(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot is read first: records and commits that come while the rest is planned lie beyond both."""
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(5))
    commit(groups.source, group, Position(topic, 0, 5))
    order: list[str] = []
    offsets, ends = groups.source.admin.groups.offsets, groups.source.admin.end_offsets
    monkeypatch.setattr(groups.source.admin.groups, "offsets", lambda each: (order.append("groups"), offsets(each))[1])
    monkeypatch.setattr(groups.source.admin, "end_offsets", lambda each: (order.append("ends"), ends(each))[1])
    plan = groups.plan(topic)
    assert order == ["groups", "ends"]
    groups.site.produce(topic, numbered(5, start=5))
    commit(groups.source, group, Position(topic, 0, 10))
    groups.run(plan)
    assert show_groups(groups.site.backup, groups=ALL_GROUPS).groups[0].topics[0].offsets == {0: 5}
    assert groups.how(group, restore=groups.restore(topic)) == {0: (5, "end")}


def test_an_unchanged_snapshot_is_not_stored_again(groups: Groups) -> None:
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(5))
    commit(groups.source, group, Position(topic, 0, 3))
    first = groups.back_up(topic)
    assert first.groups is not None
    assert (first.groups.groups, first.groups.offsets, first.groups.changed) == (1, 1, True)
    key = groups.site.backup.state().groups
    second = groups.back_up()
    assert second.groups is not None
    assert (second.groups.changed, groups.site.backup.state().groups) == (False, key)
    commit(groups.source, group, Position(topic, 0, 4))
    assert groups.back_up().commit == 3
    assert groups.site.backup.state().groups != key
    shown = [show_groups(groups.site.backup, groups=ALL_GROUPS, commit=seq).groups[0] for seq in (2, 3)]
    assert [(each.group, each.topics[0].offsets, each.lag) for each in shown] == [
        (group, {0: 3}, 2),
        (group, {0: 4}, 1),
    ]


def test_an_answer_that_failed_never_replaces_a_good_snapshot(groups: Groups) -> None:
    topic, failing, other = new_topic(groups), new_group(), new_group()
    groups.site.produce(topic, numbered(5))
    for group in (failing, other):
        commit(groups.source, group, Position(topic, 0, 3))
    groups.back_up(topic)
    plan = groups.plan()
    nothing = FetchedGroups(groups={}, failed=())
    empty = groups.run(dataclasses.replace(plan, groups=nothing))
    assert empty.groups is not None
    assert (empty.groups.groups, empty.groups.changed) == (2, False)
    assert "kept" in empty.groups.note
    commit(groups.source, other, Position(topic, 0, 4))
    plan = groups.plan()
    assert plan.groups is not None
    failure = GroupFailure(group=failing, error="NOT_COORDINATOR", message="it moved")
    partly = FetchedGroups(groups={other: plan.groups.groups[other]}, failed=(failure,))
    result = groups.run(dataclasses.replace(plan, groups=partly))
    assert not result.complete
    shown = show_groups(groups.site.backup, groups=ALL_GROUPS).groups
    assert {each.group: each.topics[0].offsets for each in shown} == {failing: {0: 3}, other: {0: 4}}


def test_groups_are_chosen_by_patterns_or_left_out(groups: Groups) -> None:
    topic = new_topic(groups)
    groups.site.produce(topic, numbered(5))
    for group in ("bill-a", "bill-b", "ship"):
        commit(groups.source, group, Position(topic, 0, 3))
    assert groups.back_up(topic, groups=NO_GROUPS).groups is None
    with pytest.raises(NoSuchRestorePoint, match="nothing of groups"):
        show_groups(groups.site.backup, groups=ALL_GROUPS)
    groups.back_up(groups=parse_groups(["bill-*", "regex:^sh"]))
    assert [each.group for each in show_groups(groups.site.backup, groups=ALL_GROUPS).groups] == [
        "bill-a",
        "bill-b",
        "ship",
    ]
    assert groups.apply(groups=parse_groups(["bill-a"])).groups == 0, "the topic is not on the target"
    with pytest.raises(NoSuchRestorePoint, match="no group nobody"):
        groups.apply(groups=parse_groups(["nobody"]))


def test_the_map_of_a_restore_answers_for_single_offsets(groups: Groups) -> None:
    topic = new_topic(groups)
    groups.site.produce(topic, numbered(10))
    groups.site.delete_before(topic, 4)
    groups.back_up(topic)
    restore = groups.restore(topic)
    where = TopicPartition(topic=topic, partition=0)
    answers = {offset: map_offset(groups.site.backup, restore, where, offset) for offset in (0, 4, 9, 10, 11)}
    assert {offset: (each.target_offset, each.match) for offset, each in answers.items()} == {
        0: (0, "below"),
        4: (0, "exact"),
        9: (5, "exact"),
        10: (6, "end"),
        11: (6, "above"),
    }
    with pytest.raises(NoSuchRestore):
        map_offset(groups.site.backup, "20200101-000000-00000000", where, 0)
    groups.target = groups.source
    with pytest.raises(OtherCluster):
        groups.apply(restore=restore)


def test_history_knows_deleted_groups_and_transactions_as_of_any_time(groups: Groups) -> None:
    topic, deleted = new_topic(groups), f"history-{new_group()}"
    groups.site.produce(topic, numbered(10))
    commit(groups.source, deleted, Position(topic, 0, 3))
    in_transaction(groups.source, deleted, Position(topic, 0, 7), commit=False)
    before_ms = groups.site.repository.store.now_ms()
    in_transaction(groups.source, deleted, Position(topic, 0, 8), commit=True)
    wait_until(lambda: committed(groups.source, deleted, topic) == 8)
    between_ms = groups.site.repository.store.now_ms() + 1
    wait_until(lambda: groups.site.repository.store.now_ms() > between_ms)
    delete_group(groups.source, deleted)
    groups.back_up(topic, history=True)
    backup = groups.site.backup
    assert deleted not in {each.group for each in show_groups(backup, groups=ALL_GROUPS).groups}
    only = GroupPatterns(include=(deleted,))
    for time_ms, offset in ((before_ms, 3), (between_ms, 8)):
        shown = show_groups(backup, groups=only, at=str(time_ms))
        assert (shown.origin, shown.groups[0].topics[0].offsets) == ("history", {0: offset})
    with pytest.raises(NoSuchRestorePoint, match="no group history-"):
        show_groups(backup, groups=only, at=str(groups.site.repository.store.now_ms()))
    restore = groups.restore(topic)
    assert "__consumer_offsets" not in dict(prepared_topics(groups, restore)), "never restored as a topic"
    groups.back_up()  # the same backup goes on with its history


def test_a_restore_puts_its_groups_in_place_when_it_is_asked(groups: Groups) -> None:
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(5))
    commit(groups.source, group, Position(topic, 0, 3))
    groups.back_up(topic)
    request = RestoreRequest(
        selection=parse_selection([topic]),
        renames=parse_renames([f"{topic}={topic}-back"]),
        groups=GroupPatterns(include=(group,)),
    )
    prepared = prepare_restore(groups.site.backup, groups.target.admin, request)
    result = run_restore(prepared, admin=groups.target.admin, kafka=groups.target.config, runner=groups.site.spark)
    assert result.groups is not None
    assert (result.groups.offsets_set, result.groups.change) == (1, result.restore)
    assert next_value(groups.target, group, f"{topic}-back") == b"value 3"
    undo_groups(groups.site.backup, groups.target.admin, find_change(groups.site.backup, groups.target.admin, None))
    assert committed(groups.target, group, f"{topic}-back") < 0


def test_groups_are_asked_for_before_anything_is_written(groups: Groups) -> None:
    topic = new_topic(groups)
    groups.site.produce(topic, numbered(5))
    groups.back_up(topic, groups=NO_GROUPS)
    request = RestoreRequest(selection=parse_selection([topic]), groups=ALL_GROUPS)
    with pytest.raises(NoSuchRestorePoint, match="nothing of groups"):
        prepare_restore(groups.site.backup, groups.target.admin, request)


def test_verify_finds_a_damaged_or_missing_snapshot_and_the_records_stay_restorable(groups: Groups) -> None:
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(5))
    commit(groups.source, group, Position(topic, 0, 3))
    groups.back_up(topic)
    commit(groups.source, group, Position(topic, 0, 4))
    groups.back_up()
    assert verify_quick(groups.site.backup).ok
    assert verify_deep(groups.site.backup, groups.site.spark).ok
    first, second = sorted(Path(groups.site.repository.store.url).glob("backups/*/groups/*"))
    first.write_bytes(first.read_bytes()[:-1] + b"?")
    (found,) = verify_deep(groups.site.backup, groups.site.spark).damaged_snapshots
    assert (found.first_commit, Path(found.key).name) == (1, first.name)
    second.unlink()
    result = verify_quick(groups.site.backup)
    assert (result.ok, [each.first_commit for each in result.damaged_snapshots]) == (False, [2])
    groups.restore(topic)
    saved = groups.back_up().groups
    assert saved is not None
    assert saved.changed, "the next backup has a good one again"
    assert verify_quick(groups.site.backup).ok


def prepared_topics(groups: Groups, restore: str) -> tuple[tuple[str, str], ...]:
    from offsite.services.restored_offsets import restored_offsets

    return restored_offsets(groups.site.backup, restore).record.topics


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
