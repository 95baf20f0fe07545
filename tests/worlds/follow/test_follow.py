"""Round after round: what a round costs, what it takes along, and what it goes on over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from offsite.backup.options import BackupRequest
from offsite.backup.outages import Outage, Outages
from offsite.backup.plan import plan_backup
from offsite.backup.run import run_backup
from offsite.follow import follower
from offsite.follow.chores import Chore
from offsite.follow.follower import HEARTBEAT_S, Follower, FollowSettings, FollowTimes, Round
from offsite.model.errors import BackupExists, CommitsGone, KafkaUnreachable, NoSuchTopic, StoreUnreachable
from offsite.model.selection import parse_selection
from offsite.model.uninterrupted import interrupt
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, CompactedRange
from offsite.repository.state import BackupState
from offsite.table.datasource import SCHEMA, OffsiteDataSource
from offsite.upkeep import roll_up
from offsite.upkeep.retention.pins import pin_point, unpin_point
from offsite.upkeep.retention.policy import parse_policy
from offsite.upkeep.roll_up import FAN_IN
from offsite.upkeep.verification.run import verify_deep, verify_quick
from tests.fake_cluster.site import BACKUP, Site
from tests.inline_runner import InlineRunner
from tests.tables import CountingStore
from tests.virtual_time import Script


class Breaking(InlineRunner):
    """Runs only the first task of each of the first `breaks` runs, for half an hour, and then `breaking` is called."""

    def __init__(self, clock: Script, breaks: int, breaking: Callable[[], object]) -> None:
        self._clock, self._breaks, self._breaking = clock, breaks, breaking

    def run_each(self, tasks: Any, *arguments: Any, **options: Any) -> Any:
        if self._breaks:
            self._breaks -= 1
            super().run_each(tasks[:1], *arguments, **options)
            self._clock.now_s += 1800
            self._breaking()
        return super().run_each(tasks, *arguments, **options)


def raising(error: BaseException) -> Callable[[], object]:
    def call() -> None:
        raise error

    return call


def follow(
    site: Site, *steps: Callable[[], object], topics: str = "*", interval_s: float = 10, **parts: Any
) -> tuple[list[Round], list[Outage | None]]:
    """Rounds and outages of a run that ends after the steps. `parts` stand for those of the site."""
    rounds: list[Round] = []
    told: list[Outage | None] = []
    clock = parts.get("clock") or Script(*steps)
    following = FollowSettings(
        repository=parts.get("repository", site.repository),
        cluster=site.source.connected,
        runner=parts.get("runner", InlineRunner()),
        request=BackupRequest(backup=BACKUP, selection=parse_selection([topics])),
        times=FollowTimes(
            interval_s=interval_s,
            collect_after_s=parts.get("collect_after_s", 24 * 3600),
            retain=parts.get("retain"),
            retain_every_s=0.0,
        ),
        tends=parts.get("tends", False),
    )
    outages = Outages(give_up_after_s=3600, clock=clock, on_outage=told.append)
    with pytest.raises(KeyboardInterrupt):
        Follower(following, outages=outages, clock=clock, on_round=rounds.append).run()
    return rounds, told


def commits(rounds: list[Round]) -> list[int | None]:
    return [None if each.result is None else each.result.commit for each in rounds]


def nothing() -> None:
    pass


@pytest.fixture
def orders(site: Site) -> Site:
    site.source.make_topic("orders", partitions=4)
    for partition in range(4):
        site.source.write("orders", [b"v"], partition=partition)
    return site


def test_a_round_with_news_makes_a_commit_and_one_without_makes_none(orders: Site) -> None:
    rounds, told = follow(orders, lambda: orders.source.write("orders", [b"new"]), nothing)
    assert commits(rounds) == [1, 2, None]
    assert [each.result.records for each in rounds if each.result] == [4, 1]
    assert told == []


def test_a_run_that_was_asked_to_lets_go_between_its_rounds_and_goes_on_from_there(orders: Site) -> None:
    class OnTime(Script):
        def now_ms(self) -> int:
            return time.time_ns() // 1_000_000

    steps = [partial(orders.source.write, "orders", [b"new"]) for _ in range(3)]
    rounds, told = follow(orders, clock=OnTime(*steps), retain=parse_policy(keep_age="0s"))
    assert told == [], "no round lost the race to the retention of its own run"
    assert [each.result.records for each in rounds if each.result] == [4, 1, 1, 1]
    state = orders.backup.state()
    assert state.seq > len(rounds), "retention has made commits of its own"
    assert len(state.history) <= 3, "the newest, the one that was read, and the retention since"
    assert verify_deep(orders.backup, InlineRunner()).ok


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        ({}, ["collecting"]),
        ({"tends": True}, ["compacting", "collecting", "tidying"]),
        ({"retain": parse_policy(keep_age="9d")}, ["retaining", "compacting", "collecting", "tidying"]),
    ],
)
def test_a_run_has_only_the_chores_that_it_was_asked_for(
    orders: Site, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], made: list[str]
) -> None:
    """Agents of a declared backup tend it, and an expiry job lets its points go."""
    chores = list[str]()

    def make(name: str, factory: Callable[..., Chore], *words: Any, **options: Any) -> Chore:
        chores.append(name)
        return factory(*words, **options)

    for name in ("retaining", "compacting", "collecting", "tidying"):
        monkeypatch.setattr(follower, name, partial(make, name, getattr(follower, name)))
    follow(orders, nothing, **asked)
    assert chores == made
    assert len(orders.backup.state().history) == 1


def test_small_ranges_of_a_round_share_objects(orders: Site) -> None:
    follow(orders)
    segments = [each for found in orders.backup.state().segments.values() for each in found]
    assert len(segments) == 4
    assert len({each.object_key for each in segments}) == 2, "one for each slot"
    assert orders.restore().verified


def test_new_topics_and_partitions_join_at_the_next_round(orders: Site) -> None:
    def grow() -> None:
        orders.source.make_topic("users")
        orders.source.write("users", [b"v"])
        log = orders.source.topics["orders"].partitions
        log.append(type(log[0])())

    rounds, _ = follow(orders, grow)
    assert commits(rounds) == [1, 2]
    assert {(each.topic, each.partitions) for each in rounds[-1].state.topics.values()} == {("orders", 5), ("users", 1)}


def test_topics_that_are_chosen_otherwise_join_and_rest_in_the_same_backup(orders: Site) -> None:
    """As an agent goes on whose backup was told other topics: the history stays."""
    orders.source.make_topic("payments")
    orders.source.write("payments", [b"p"])

    def run(*topics: str) -> BackupState:
        request = BackupRequest(backup=BACKUP, selection=parse_selection(list(topics)), reselects=True)
        plan = plan_backup(orders.repository, orders.source.admin, request, slots=2)
        run_backup(plan, repository=orders.repository, kafka=orders.source.config, runner=InlineRunner())
        return orders.backup.state()

    first = run("orders")
    wide = run("orders", "payments")
    assert {each.topic for each in wide.positions} == {"orders", "payments"}
    for topic in ("orders", "payments"):
        orders.source.write(topic, [b"new"])
    narrow = run("orders")
    assert narrow.completed_at_ms > wide.completed_at_ms > first.completed_at_ms
    ends = {each.topic: position.end for each, position in narrow.positions.items() if each.partition == 0}
    assert ends == {"orders": 2, "payments": 1}
    again = run("orders", "payments")
    assert {each.topic for each in again.positions} == {"orders", "payments"}
    assert sum(position.end for position in again.positions.values()) == 7
    with pytest.raises(BackupExists, match="exists with topics orders"):
        orders.plan_backup("*")


def test_a_round_reads_nothing_of_the_repository_again(orders: Site) -> None:
    orders.back_up("*")
    store = CountingStore(inner=orders.repository.store)
    read: list[int] = []

    def write() -> None:
        read.append(sum(store.read_bytes.values()))
        store.read_bytes.clear()
        orders.source.write("orders", [b"new"])

    follow(orders, write, write, write, write, repository=replace(orders.repository, store=store))
    opened, *later = read
    assert opened > 500
    assert later == [0, 0, 0]


def test_once_in_a_while_a_commit_says_that_the_source_was_seen(orders: Site) -> None:
    rounds, _ = follow(orders, nothing, nothing, interval_s=HEARTBEAT_S - 1)
    assert commits(rounds) == [1, None, 2]


def test_a_commit_of_another_writer_is_gone_on_from(orders: Site) -> None:
    def commit_elsewhere() -> None:
        orders.source.write("orders", [b"theirs"])
        orders.back_up()
        orders.source.write("orders", [b"ours"])

    rounds, told = follow(orders, commit_elsewhere, nothing)
    assert commits(rounds) == [1, 3]
    assert [each.error.id if each else None for each in told] == ["OFF-1101", None]
    assert told[0] is not None
    assert "Use one writer per backup" in told[0].error.hint
    assert [each.end for each in orders.backup.state().positions.values()] == [3, 1, 1, 1]


def pin(site: Site) -> None:
    pin_point(site.backup, 1, reason="the month-end")


def take_pin_off(site: Site) -> None:
    unpin_point(site.backup, 1)


def retain(site: Site) -> None:
    head = site.backup.state()
    site.backup.commit(CommitChanges(forgotten=((1, 2),)), base=head, writer="w")


def compact(site: Site) -> None:
    head = site.backup.state()
    ranges = (CompactedRange(partition_id=next(iter(head.positions)), start=0, end=1),)
    site.backup.commit(CommitChanges(compacted=ranges), base=head, writer="w")


@pytest.mark.parametrize(
    ("made", "told_of"),
    [
        (pin, "pinned a restore point"),
        (take_pin_off, "removed a pin"),
        (retain, "deleted data by retention"),
        (compact, "compacted topics"),
    ],
)
def test_upkeep_that_was_first_is_told_as_what_it_is(
    orders: Site, made: Callable[[Site], None], told_of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes between the plan of a round and its commit."""
    plan = follower.plan_backup

    def plan_and_lose(*arguments: Any, opened: Any, **options: Any) -> Any:
        found = plan(*arguments, opened=opened, **options)
        if opened is not None and not lost:
            lost.append(True)
            made(orders)
        return found

    def write() -> None:
        orders.source.write("orders", [b"ours"])

    lost: list[bool] = []
    monkeypatch.setattr(follower, "plan_backup", plan_and_lose)
    orders.back_up("*")
    if made is take_pin_off:
        pin(orders)
    write()
    _, told = follow(orders, write, nothing)
    outage = told[0]
    assert outage is not None
    assert (outage.error.id, told[1:]) == ("OFF-1101", [None])
    assert told_of in outage.error.message
    assert "one writer" not in outage.error.hint
    assert "repeats its round" in outage.error.hint


@pytest.mark.parametrize("error", [KafkaUnreachable("gone", hint=""), StoreUnreachable("gone", hint="")])
def test_an_outage_is_waited_out(orders: Site, error: Exception) -> None:
    class Ailing(InlineRunner):
        failures = 2

        def run_each(self, *arguments: Any, **options: Any) -> Any:
            if self.failures:
                self.failures -= 1
                raise error
            return super().run_each(*arguments, **options)

    rounds, told = follow(orders, nothing, nothing, runner=Ailing())
    assert commits(rounds) == [1]
    assert [each.attempts if each else None for each in told] == [1, 2, None]


def test_a_name_that_matches_nothing_is_a_mistake_at_first(site: Site) -> None:
    with pytest.raises(NoSuchTopic):
        follow(site, topics="orders*")


def test_when_the_last_topic_is_gone_it_goes_on_to_the_next(orders: Site) -> None:
    topics = orders.source.topics

    def make_again() -> None:
        orders.source.make_topic("orders")
        orders.source.write("orders", [b"anew"])

    rounds, told = follow(orders, lambda: topics.pop("orders"), make_again, topics="orders")
    assert [each.result.records for each in rounds if each.result] == [4, 0, 1], "one says that it was deleted"
    assert told == []
    assert len(rounds[-1].state.topics) == 2, "two incarnations"


def test_small_segments_are_rolled_up_and_all_restore_points_stay_what_they_were(orders: Site) -> None:
    def write() -> None:
        for partition in range(4):
            orders.source.write("orders", [b"new"], partition=partition)

    rounds, told = follow(orders, *[write] * 20)
    assert told == []
    backup = orders.backup
    head = backup.state()
    assert [len(head.segments[known]) for known in sorted(head.segments)] == [21 - FAN_IN + 1] * 4
    assert head.seq == 21 + 1, "a commit more, for the roll-up"
    for seq in (1, 9, 16, 22):
        point = backup.state_at(seq)
        assert point.holes == ()
        assert {each.end for each in point.positions.values()} == {min(seq, 21) if seq < 17 else 21}
    assert orders.restore(commit=9).records == 4 * 9
    assert verify_deep(backup, InlineRunner()).ok
    assert rounds[-1].state == head


def test_a_partition_is_looked_at_again_after_something_was_made_in_it(
    orders: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made may be the last of 16 of its class; the next turn of all partitions is hours away."""
    looked_at: list[int] = []

    def counting(backup: Any, state: Any, partitions: Any, **options: Any) -> Any:
        looked_at.append(len(partitions))
        return roll_up.roll_up_step(backup, state, partitions, **options)

    monkeypatch.setattr(follower, "roll_up_step", counting)

    def write() -> None:
        for partition in range(4):
            orders.source.write("orders", [b"new"], partition=partition)

    follow(orders, *[write] * (FAN_IN + 1))
    assert looked_at == [4, *[0] * (FAN_IN - 2), 4, 4, 0]


def test_a_roll_up_does_not_hide_what_the_round_before_could_not_back_up(orders: Site) -> None:
    orders.source.make_topic("users")
    orders.source.write("users", [b"v"])

    def write() -> None:
        orders.source.hidden.add("users")
        for partition in range(4):
            orders.source.write("orders", [b"new"], partition=partition)

    follow(orders, *[write] * (FAN_IN - 1))
    rolled_up = orders.backup.state()
    assert rolled_up.seq == FAN_IN + 1, "the newest commit is that of the roll-up"
    assert [each.partition_id.topic for each in rolled_up.left_behind] == ["users"]


def test_rounds_that_get_on_are_no_outage_however_often_they_break(orders: Site) -> None:
    def write() -> None:
        for partition in range(4):
            orders.source.write("orders", [b"new"], partition=partition)

    clock = Script(*[write] * 5)
    breaking = Breaking(clock, 5, raising(KafkaUnreachable("gone", hint="")))
    rounds, told = follow(orders, clock=clock, runner=breaking)
    assert commits(rounds) == [6], "each round that broke has committed what it had"
    assert [each.attempts if each else None for each in told] == [1, None] * 5, "more than two hours, never one"


def test_who_interrupts_a_run_that_cannot_commit_any_more_ends_it(
    orders: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backup, "commit", lambda *_, **__: raising(StoreUnreachable("gone", hint=""))())
    clock = Script(nothing)
    rounds, told = follow(orders, clock=clock, runner=Breaking(clock, 1, raising(KeyboardInterrupt())))
    assert (rounds, told) == ([], [])


def test_an_interruption_amid_a_commit_that_fails_is_not_forgotten(
    orders: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        interrupt()
        raise StoreUnreachable("gone", hint="")

    monkeypatch.setattr(Backup, "commit", fail)
    rounds, told = follow(orders, nothing)
    assert (rounds, told) == ([], [])


def test_a_store_that_was_put_back_to_an_older_state_is_not_gone_on_with(orders: Site) -> None:
    def put_back() -> None:
        orders.source.write("orders", [b"new"])
        orders.repository.store.delete(orders.backup.layout.commit_key(2))

    with pytest.raises(CommitsGone, match="commit 2 of nightly was made by this run and is missing now"):
        follow(orders, lambda: orders.source.write("orders", [b"v"]), put_back)
    assert orders.backup.state().seq == 1, "no commit 3 behind a gap"


def rolled_up(site: Site) -> Backup:
    """Four partitions of 16 segments each, made by as many commits, that are one now."""

    def write() -> None:
        for partition in range(4):
            site.source.write("orders", [b"new"], partition=partition)

    follow(site, *[write] * (FAN_IN - 1))
    assert site.backup.state().seq == FAN_IN + 1
    return site.backup


def test_a_damaged_segment_of_a_roll_up_damages_all_restore_points_that_it_serves(orders: Site) -> None:
    backup = rolled_up(orders)
    segment = next(backup.state().all_segments())
    backup.store.delete(segment.object_key)
    damaged = verify_quick(backup).damaged
    assert {(each.first_commit, each.last_commit) for each in damaged} == {(1, FAN_IN + 1)}


@pytest.mark.parametrize("commit", [5, None])
def test_a_table_tells_the_commit_that_brought_a_record_after_a_roll_up(orders: Site, commit: int | None) -> None:
    backup = rolled_up(orders)
    options = {} if commit is None else {"commit": str(commit)}
    reader = OffsiteDataSource({"repo": backup.store.url, "backup": BACKUP, **options}).reader(SCHEMA)  # type: ignore[arg-type]
    rows = [row for each in reader.partitions() for batch in reader.read(each) for row in batch.to_pylist()]
    assert [(row["partition"], row["offset"], row["commit"]) for row in rows] == [
        (partition, offset, offset + 1) for partition in range(4) for offset in range(commit or FAN_IN)
    ]


def test_what_one_step_of_a_roll_up_has_no_room_for_is_in_the_next(
    orders: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roll_up, "STEP_BYTES", 1)

    def write() -> None:
        for partition in range(4):
            orders.source.write("orders", [b"new"], partition=partition)

    follow(orders, *[write] * (FAN_IN + 2))
    head = orders.backup.state()
    assert head.seq == FAN_IN + 3 + 4
    assert [len(head.segments[known]) for known in sorted(head.segments)] == [4, 3, 2, 1]


@pytest.mark.parametrize("collect_after_s", [0, 24 * 3600])
def test_what_a_roll_up_replaced_is_collected_between_rounds(
    orders: Site, monkeypatch: pytest.MonkeyPatch, collect_after_s: float
) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)

    def write() -> None:
        for partition in range(4):
            orders.source.write("orders", [b"new"], partition=partition)

    rounds, told = follow(orders, *[write] * 40, collect_after_s=collect_after_s)
    assert told == []
    backup = orders.backup
    needed = {each.object_key for each in backup.state().stored_segments()}
    there = {each.key for each in backup.store.list(backup.layout.packs_prefix)}
    assert needed <= there
    assert (len(there - needed) < 10) is (collect_after_s == 0), "2 for each round, 32 rolled up"
    for seq in (1, 9, 16, 30, backup.state().seq):
        assert backup.state_at(seq).holes == ()
    assert orders.restore(commit=9).records == 4 * 9
    assert verify_deep(backup, InlineRunner()).ok
    assert rounds[-1].state == backup.state()


def test_a_collection_that_fails_is_told_and_the_rounds_go_on(orders: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    before: set[str] = set()

    def write() -> None:
        for partition in range(4):
            orders.source.write("orders", [b"new"], partition=partition)

    def damage() -> None:
        before.update(each.key for each in orders.backup.store.list(orders.backup.layout.packs_prefix))
        segment = next(orders.backup.state().all_segments())
        orders.backup.store.delete(segment.object_key)
        before.remove(segment.object_key)

    steps = [*[write] * (FAN_IN - 1), damage, *[write] * 5]
    rounds, told = follow(orders, *steps, collect_after_s=0)
    assert told == []
    assert rounds[-1].result is not None
    assert before <= {each.key for each in orders.backup.store.list(orders.backup.layout.packs_prefix)}
