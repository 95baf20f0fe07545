"""Where a cut claims an exactly-once application, and its group offsets are older than its outputs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from offsite.backup import plan as planned
from offsite.backup.cut.readings import ROW
from offsite.backup.run import carry_out, run_backup
from offsite.demo.data import read_topic
from offsite.kafka.groups import FetchedGroups, GroupFailure
from offsite.kafka.watermarks import LogEndReader
from offsite.model.errors import LeaderUnavailable, NoConsistentCut
from offsite.model.options import CutChoice, OffsetsMode
from offsite.model.selection import ALL_GROUPS, GroupPatterns, parse_selection
from offsite.repository.commit import CONSUMED
from offsite.repository.repository import Repository
from offsite.repository.snapshots.commit_cut import CommitCut, get_commit_cut
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.inline_runner import InlineRunner
from tests.integration.e2e.group_site import Groups
from tests.integration.e2e.transacting import member, producer
from tests.integration.kafka.cluster import Cluster, wait_until


def new_groups(source: Cluster, target: Cluster, folder: Path) -> Groups:
    return Groups(source, target, Repository.init(open_store(str(folder / "repository"))), InlineRunner())


@pytest.fixture
def groups(broker: SandboxInfo, second_broker: SandboxInfo, tmp_path: Path) -> Groups:
    return new_groups(Cluster(broker.bootstrap), Cluster(second_broker.bootstrap), tmp_path)


class Payments:
    """Each transaction pays the next order: one record to `paid`, and the offset in `orders` for the group."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.orders, self.paid = cluster.make_topic(**{"retention.ms": "-1"}), cluster.make_topic()
        self.group = f"payers-of-{self.orders}"
        self.member = member(cluster, self.group)
        feed = producer(cluster, f"{self.orders}-feed")
        feed.begin_transaction()
        for number in range(10):
            feed.produce(self.orders, b"%d" % number)
        feed.commit_transaction()
        self.producer = producer(cluster, self.group)
        self.done = 0

    def pay(self) -> None:
        self.producer.begin_transaction()
        self.producer.produce(self.paid, b"%d" % self.done)
        self.done += 1
        self.producer.send_offsets_to_transaction(
            [Position(self.orders, 0, self.done)], self.member.consumer_group_metadata(), 30
        )
        self.producer.commit_transaction()


def between_groups_and_ends(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    read_source = planned.read_source

    def first(*args: object, **options: object) -> object:
        act()
        return read_source(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(planned, "read_source", first)


def cut_of(groups: Groups) -> CommitCut:
    backup = groups.site.backup
    ref = backup.sound_state().cut
    assert ref is not None
    return get_commit_cut(backup.store, ref)


def committed(cluster: Cluster, group: str, topic: str) -> int:
    """0 where there is nothing; on a new cluster the coordinator is not there at once."""
    client = member(cluster, group)
    try:
        while True:
            with suppress(KafkaException):
                (position,) = client.committed([Position(topic, 0)], timeout=60)
                return max(position.offset, 0)
    finally:
        client.close()


def assert_paid_as_often_as_read(groups: Groups, payments: Payments) -> None:
    """Or else nobody says that this restore is exact."""
    request = RestoreRequest(
        selection=parse_selection([payments.orders, payments.paid]),
        offsets=OffsetsMode.PRESERVE,
        groups=ALL_GROUPS,
        cut=CutChoice.CONSISTENT,
    )
    done = run_restore(
        prepare_restore(groups.site.backup, groups.target.admin, request), cluster=groups.target, runner=InlineRunner()
    )
    paid = len(read_topic(groups.target.bootstrap, payments.paid, isolation="read_committed").get(0, []))
    offset = committed(groups.target, payments.group, payments.orders)
    said = done.consistency
    assert said is not None
    assert paid == offset or said.weakest == "uncoordinated", (paid, offset, said.weakest, done.groups, cut_of(groups))


def test_a_group_that_commits_first_behind_the_snapshot(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    payments = Payments(groups.source)
    between_groups_and_ends(monkeypatch, payments.pay)
    groups.back_up(payments.orders, payments.paid)
    assert_paid_as_often_as_read(groups, payments)


def behind_the_readings(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Once: before anything is copied."""
    find_truncations = planned.find_truncations
    acts = [act]

    def first(*args: object, **options: object) -> object:
        for each in acts:
            acts.remove(each)
            each()
        return find_truncations(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(planned, "find_truncations", first)


def pay_and_delete(groups: Groups, payments: Payments) -> None:
    """Pay the next three orders, and delete all that are paid, as applications do."""
    for _ in range(3):
        payments.pay()
    groups.site.delete_before(payments.orders, payments.done)


def test_a_group_that_deletes_what_it_has_read_behind_the_readings(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cut's offset would lie below the log that is copied: the ends are read again."""
    payments = Payments(groups.source)
    payments.pay()
    behind_the_readings(monkeypatch, partial(pay_and_delete, groups, payments))
    result = groups.back_up(payments.orders, payments.paid)
    assert (result.commits, result.no_cut, result.holes) == (2, "", ())
    assert [(each.topic, each.end) for each in result.expected_deletions] == [(payments.orders, 4)]
    assert groups.site.backup.sound_state().holes[0].reason == CONSUMED
    assert_paid_as_often_as_read(groups, payments)
    assert committed(groups.target, payments.group, payments.orders) == 4


def test_a_group_that_commits_first_behind_the_readings_and_deletes(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knew of it at the readings: it would begin behind what it had read and deleted."""
    payments = Payments(groups.source)
    behind_the_readings(monkeypatch, partial(pay_and_delete, groups, payments))
    result = groups.back_up(payments.orders, payments.paid)
    assert (result.commits, result.no_cut, result.holes) == (2, "", ())
    assert_paid_as_often_as_read(groups, payments)
    assert committed(groups.target, payments.group, payments.orders) == 3


def test_a_group_that_was_left_behind_at_the_source_keeps_no_cut_from_anybody(groups: Groups) -> None:
    payments = Payments(groups.source)
    payments.pay()
    groups.site.delete_before(payments.orders, 5)  # the group had read one
    result = groups.back_up(payments.orders, payments.paid)
    assert (result.commits, result.no_cut) == (1, "")
    assert [(each.group, each.offset) for each in cut_of(groups).behind] == [(payments.group, 1)]


def test_without_a_second_pass_such_a_commit_has_no_cut_and_names_the_group(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    payments = Payments(groups.source)
    payments.pay()
    behind_the_readings(
        monkeypatch, lambda: (payments.pay(), groups.site.delete_before(payments.orders, payments.done))
    )
    site, plan = groups.site, groups.plan(payments.orders, payments.paid)
    result = run_backup(plan, repository=site.repository, kafka=groups.source.config, runner=InlineRunner())
    assert (
        f"group {payments.group} had read {payments.orders}/0 up to offset 1, but records up to 2 were deleted"
        in result.no_cut
    )
    request = RestoreRequest(
        selection=parse_selection([payments.orders, payments.paid]), offsets=OffsetsMode.PRESERVE, groups=ALL_GROUPS
    )
    prepared = prepare_restore(site.backup, groups.target.admin, request)
    done = run_restore(prepared, cluster=groups.target, runner=InlineRunner())
    assert done.groups is not None
    assert [(each.group, each.offset) for each in done.groups.refused] == [(payments.group, 1)]
    assert not done.groups.complete


def test_a_group_that_is_known(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    payments = Payments(groups.source)
    payments.pay()
    between_groups_and_ends(monkeypatch, payments.pay)
    groups.back_up(payments.orders, payments.paid)
    assert_paid_as_often_as_read(groups, payments)


def test_offsets_that_are_removed_behind_the_snapshot(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    """The application was reset to do everything again: the group's offset is gone before the ends are read."""
    payments = Payments(groups.source)
    payments.pay()

    payments.member.close()
    client = AdminClient({"bootstrap.servers": groups.source.bootstrap})
    between_groups_and_ends(
        monkeypatch, lambda: client.delete_consumer_groups([payments.group])[payments.group].result(20)
    )
    groups.back_up(payments.orders, payments.paid)
    assert [each.offset for each in cut_of(groups).groups if each.group == payments.group] == [-1]


def test_a_run_without_groups_after_one_with_them(groups: Groups) -> None:
    """The commit has the groups of the one before."""
    payments = Payments(groups.source)
    payments.pay()
    groups.back_up(payments.orders, payments.paid)
    payments.pay()
    groups.back_up(groups=GroupPatterns(include=()))
    assert_paid_as_often_as_read(groups, payments)


def test_a_group_that_does_not_answer_keeps_what_it_had(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    payments = Payments(groups.source)
    payments.pay()
    groups.back_up(payments.orders, payments.paid)
    payments.pay()
    read_groups = planned.read_groups

    def failing(*args: object) -> FetchedGroups | None:
        found = read_groups(*args)  # type: ignore[arg-type]
        assert found is not None
        failure = GroupFailure(group=payments.group, error="OFF-1", message="its coordinator is loading")
        others = {name: each for name, each in found.groups.items() if name != payments.group}
        return replace(found, groups=others, failed=(failure,))

    monkeypatch.setattr(planned, "read_groups", failing)
    groups.back_up()
    assert_paid_as_often_as_read(groups, payments)


def test_a_commit_without_a_cut_keeps_no_cut_of_older_groups(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first cut leaves out a payment whose coordinator was writing *complete* when the ends were read. The second
    run copies nothing new, and reads the groups anew; for it no cut can be found."""
    payments = Payments(groups.source)
    payments.pay()
    amid_the_last_reading(monkeypatch, payments.pay)
    groups.back_up(payments.orders, payments.paid)
    assert cut_of(groups).left_out_count == 1
    monkeypatch.undo()
    monkeypatch.setattr(planned, "begin_if_possible", lambda _: LeaderUnavailable("a broker restarts", hint=""))
    assert groups.back_up().no_cut == "a broker restarts"
    monkeypatch.undo()
    try:
        assert_paid_as_often_as_read(groups, payments)
    except NoConsistentCut:
        return


def test_a_round_without_news_heals_what_the_one_before_left_out(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a run that follows does its rounds. The producer, which reads nothing in Kafka, has ended; all of its records
    and markers are copied, and nobody will do this transaction again."""
    topic = groups.source.make_topic()
    made = producer(groups.source, f"{topic}-import")

    def transact() -> None:
        made.begin_transaction()
        made.produce(topic, b"from a database")
        made.commit_transaction()
        wait_until(lambda: groups.source.end(topic) % 2 == 0)  # with its marker

    transact()
    amid_the_last_reading(monkeypatch, transact)
    groups.back_up(topic)
    assert cut_of(groups).left_out_count == 1
    monkeypatch.undo()
    for _ in range(3):
        site = groups.site
        carry_out(
            groups.plan(),
            site.backup,
            repository=site.repository,
            kafka=groups.source.config,
            runner=InlineRunner(),
            only_news=True,
        )
    assert cut_of(groups).left_out_count == 0


def test_a_backup_with_the_history_of_groups(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds `__consumer_offsets` as well."""
    payments = Payments(groups.source)
    payments.pay()

    def pay() -> None:
        end = sum(groups.source.end("__consumer_offsets", number) for number in group_logs(groups))
        payments.pay()
        wait_until(
            lambda: sum(groups.source.end("__consumer_offsets", number) for number in group_logs(groups)) >= end + 2
        )

    between_groups_and_ends(monkeypatch, pay)
    groups.back_up(payments.orders, payments.paid, history=True)
    monkeypatch.undo()
    assert_paid_as_often_as_read(groups, payments)


def test_one_strange_offset_does_not_take_the_cut_from_all(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction of a stranger to all others commits an offset far beyond the end of a topic of the backup."""
    payments = Payments(groups.source)
    payments.pay()
    payments.done = 10**9
    between_groups_and_ends(monkeypatch, payments.pay)
    others = groups.source.make_topic()
    groups.back_up(payments.orders, payments.paid, others)
    assert cut_of(groups).refused == ""


def group_logs(groups: Groups) -> range:
    return range(len(groups.source.admin.topics()["__consumer_offsets"].partitions))


def amid_the_last_reading(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Between the look at the coordinators before the third reading and its ends."""
    ask, asked = LogEndReader.ask, []

    def counted(ends: LogEndReader) -> object:
        if any(not key.topic.startswith("__") for key in ends._wanted):
            asked.append(ends)
            if len(asked) == 1 + ROW:  # the first warms up
                act()
        return ask(ends)

    monkeypatch.setattr(LogEndReader, "ask", counted)
