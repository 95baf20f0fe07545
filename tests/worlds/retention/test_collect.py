"""What a collection deletes, what it never does, and what it leaves behind wherever it is broken off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offsite.follow.chores import COLLECTING_REST_S, RETRY_S, collecting
from offsite.log.range import PartitionId
from offsite.model.clock import SystemClock
from offsite.model.errors import Bug, CommitsGone, DamagedCommit, DamagedObject, StoreDenied, StoreUnreachable
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import Commit, CommitChanges, CompactedRange, CutBack, ExpiredRange, Position, TopicShape
from offsite.repository.commit_log import encode_commit
from offsite.repository.json_form import encode_object
from offsite.repository.layout import index_key
from offsite.repository.leftovers import LEFTOVER_AFTER_MS
from offsite.repository.replaced import collected_hint, note_collected
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreRecord, put_record
from offsite.repository.segments.part import part_segment
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.stores.store import ObjectInfo
from offsite.upkeep.collection import plan as collect_plan
from offsite.upkeep.collection.agreement import RetentionInForce
from offsite.upkeep.collection.plan import CollectableObject, CollectionPlan
from offsite.upkeep.collection.run import CollectionResult, collect, collection_steps, plan_collection
from offsite.upkeep.verification import run
from offsite.upkeep.verification.leftovers import find_leftovers
from offsite.upkeep.verification.run import verify_deep, verify_quick
from tests import roll_ups
from tests.backups import PARTITIONS, SELECTION, content, new_backup, run_once, write_segment
from tests.inline_runner import InlineRunner
from tests.memory_store import MemoryStore

ORDERS = PARTITIONS[0]


@pytest.fixture(autouse=True)
def _a_catalog_for_each_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def backup(store: MemoryStore) -> Backup:
    """Four commits."""
    made = new_backup(store)  # type: ignore[arg-type]
    for _ in range(4):
        run_once(made)
    return made


def roll_up(
    backup: Backup, *, alone: bool = True, count: int = 4, partitions: Sequence[PartitionId] = PARTITIONS
) -> BackupState:
    """One commit that makes one segment of the first `count` of each partition, in a pack unless `alone`."""
    return roll_ups.roll_up(backup, firsts(backup, count, partitions), alone=alone)


def firsts(backup: Backup, count: int, partitions: Sequence[PartitionId]) -> list[tuple[Segment, ...]]:
    return [tuple(backup.state().segments[each][:count]) for each in partitions]


def plan_now(backup: Backup, *, grace_ms: int = 0) -> CollectionPlan:
    """What commits let go is believed: see `test_agreement` for what is not."""
    in_force = RetentionInForce(accepted=1_000_000)
    return plan_collection(backup, clock=SystemClock(), grace_ms=grace_ms, in_force=in_force)


def collect_now(backup: Backup, *, grace_ms: int = 0) -> CollectionResult:
    return collect(backup, plan_now(backup, grace_ms=grace_ms), runner=InlineRunner())


def keys(segments: Sequence[Segment]) -> set[str]:
    return {key for each in segments for key in (each.object_key, each.index_key) if key}


def bodies(store: MemoryStore) -> set[str]:
    return {key for key in store.objects if "/topics/" in key or "/packs/" in key}


def contents(backup: Backup) -> list[dict[PartitionId, bytes]]:
    return [content(backup.store, backup.state_at(each.seq)) for each in backup.state().history]


def test_what_was_replaced_goes_and_every_restore_point_stays(backup: Backup, store: MemoryStore) -> None:
    old, before = keys(tuple(backup.state().all_segments())), contents(backup)
    roll_up(backup)
    run_once(backup)
    planned = plan_now(backup)
    assert {each.key for each in planned.objects} == old
    assert planned.bytes == sum(len(store.objects[key]) for key in old)
    assert collect_now(backup) == CollectionResult(objects=len(old), bytes=planned.bytes, upto=5, is_last=True)
    assert not old & bodies(store)
    assert contents(backup)[:4] == before
    assert verify_deep(backup, InlineRunner()).ok
    assert find_leftovers(Repository.open(backup.store), backup, staged=(), listed=True).objects == 0
    assert collect_now(backup).objects == 0


def test_it_goes_on_where_it_ended_and_finds_all_again_without_that(backup: Backup, store: MemoryStore) -> None:
    roll_up(backup)
    run_once(backup)
    collect_now(backup)
    read: list[str] = []
    store.get = lambda key, get=store.get: (read.append(key), get(key))[1]  # type: ignore[method-assign]
    assert plan_now(backup).objects == ()
    assert not any(key.endswith(f"{3:020}.json") for key in read)
    store.delete(backup.layout.collected_key)
    assert plan_now(backup).objects == ()
    assert any(key.endswith(f"{3:020}.json") for key in read)


@pytest.mark.parametrize("noted", [b"{", *(encode_object({"format": 1, "upto": n}) for n in (-1, 7, 10**9))])
def test_a_note_that_no_commit_bears_out_is_not_believed(backup: Backup, noted: bytes) -> None:
    """Forged, damaged, or of commits that are gone since the store was put back: else nothing would ever go again."""
    roll_up(backup)
    run_once(backup)
    backup.store.put_overwrite(backup.layout.collected_key, noted)
    assert plan_now(backup).objects
    assert collect_now(backup).upto == 5
    assert collected_hint(backup).upto == 5


def test_a_note_that_may_be_true_deletes_nothing(backup: Backup) -> None:
    roll_up(backup)
    run_once(backup)
    note_collected(backup, 6)
    assert plan_now(backup).objects == ()
    assert collect_now(backup).objects == 0
    assert collected_hint(backup).upto == 6


def test_nothing_goes_within_the_grace_time_by_the_clock_of_the_store(backup: Backup) -> None:
    roll_up(backup)
    run_once(backup)
    assert plan_now(backup, grace_ms=LEFTOVER_AFTER_MS).objects == ()
    aged = replace(backup, store=_Later(backup.store, LEFTOVER_AFTER_MS))  # type: ignore[arg-type]
    assert plan_now(aged, grace_ms=LEFTOVER_AFTER_MS).objects


class _Later:
    """A store whose clock went on."""

    def __init__(self, store: MemoryStore, by_ms: int) -> None:
        self._store, self._by_ms = store, by_ms

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def now_ms(self) -> int:
        return self._store.now_ms() + self._by_ms


def test_a_commit_that_says_it_is_older_than_its_object_is_young(backup: Backup, store: MemoryStore) -> None:
    """As in a copy of a repository, and as somebody may claim."""
    state = roll_up(backup)
    run_once(backup)
    aged = replace(backup, store=_Later(store, LEFTOVER_AFTER_MS))  # type: ignore[arg-type]
    store._times[backup.layout.commit_key(state.seq)] = aged.store.now_ms()
    assert plan_now(aged, grace_ms=LEFTOVER_AFTER_MS).objects == ()


def test_one_damaged_commit_cannot_bring_a_state_back_that_needs_what_is_gone(
    backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what a catalog vouches for, which a later commit names."""
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 100)
    roll_up(backup)
    run_once(backup)
    assert plan_now(backup).objects == ()


def test_a_restore_under_way_keeps_what_was_live_when_it_began(backup: Backup, store: MemoryStore) -> None:
    layout = RestoreLayout(backup=backup.layout, restore="r")
    record = RestoreRecord(
        restore="r",
        commit=1,
        cluster_id="c",
        request=(),
        isolation="read_committed",
        offsets="auto",
        created_at_ms=store.now_ms(),
        topics=(("orders", "orders"),),
        created=(),
    )
    put_record(backup.store, layout, record)
    roll_up(backup)
    run_once(backup)
    assert plan_now(backup).objects == ()
    for key in store.objects:
        if key.startswith(layout.prefix):
            store._times[key] -= 2 * LEFTOVER_AFTER_MS
    assert plan_now(backup).objects, "one that wrote nothing for a day is not under way"


def test_a_pack_goes_with_the_last_segment_in_it(backup: Backup, store: MemoryStore) -> None:
    (pack,) = {each.pack for each in roll_up(backup, alone=False).all_segments()}
    for _ in range(2):
        run_once(backup)
    roll_up(backup, count=2, partitions=PARTITIONS[:1])
    run_once(backup)
    collect_now(backup)
    assert pack in store.objects
    roll_up(backup, count=2, partitions=PARTITIONS[1:])
    run_once(backup)
    before = contents(backup)
    assert collect_now(backup).objects > 0
    assert pack not in store.objects
    assert contents(backup) == before


def test_a_pack_of_which_something_was_removed_and_not_replaced_stays(backup: Backup, store: MemoryStore) -> None:
    state = roll_up(backup, alone=False)
    lost = state.segments[ORDERS][0]
    backup.commit(CommitChanges(removed=(lost.key,)), base=state, writer="w")
    run_once(backup)
    roll_up(backup, count=2, partitions=PARTITIONS[1:])
    run_once(backup)
    collect_now(backup)
    assert lost.pack in store.objects


def test_a_pack_waits_for_the_grace_time_of_the_last_segment_in_it(backup: Backup, store: MemoryStore) -> None:
    (pack,) = {each.pack for each in roll_up(backup, alone=False).all_segments()}
    run_once(backup)
    roll_up(backup, count=2, partitions=PARTITIONS[:1])
    run_once(backup)
    first_ms = store.now_ms()
    store.clock.pass_ms(100_000)
    roll_up(backup, count=2, partitions=PARTITIONS[1:])
    run_once(backup)
    assert pack not in {each.key for each in plan_now(backup, grace_ms=store.now_ms() - first_ms).objects}
    assert pack in {each.key for each in plan_now(backup).objects}


def test_the_segments_of_a_pack_that_later_commits_of_its_run_listed_count_too(
    backup: Backup, store: MemoryStore
) -> None:
    """A long run commits again and again; what a pack holds may be listed by several of its commits."""
    state = backup.state()
    both = roll_ups.rolled_up(backup, firsts(backup, 4, PARTITIONS), alone=False).segments
    for n, segment in enumerate(both):
        old = tuple(each.key for each in state.segments[PARTITIONS[n]])
        changes = CommitChanges(segments=(segment,), removed=old, incomplete=n < len(both) - 1)
        state = backup.commit(changes, base=state, writer=f"w{n}")
    run_once(backup)
    roll_up(backup, count=2, partitions=PARTITIONS[:1])
    run_once(backup)
    collect_now(backup)
    assert both[0].pack in store.objects
    roll_up(backup, count=2, partitions=PARTITIONS[1:])
    run_once(backup)
    planned = plan_now(backup)
    assert both[0].pack in {each.key for each in planned.objects}
    assert {(each.topic, each.partition) for each in planned.replacements} >= {
        (p.topic, p.partition) for p in PARTITIONS
    }


def test_where_what_replaced_others_is_damaged_nothing_goes_and_it_is_told(backup: Backup, store: MemoryStore) -> None:
    made = tuple(roll_up(backup).all_segments())
    run_once(backup)
    planned = plan_now(backup)
    data = bytearray(store.objects[made[-1].key])
    data[len(data) // 2] ^= 1
    store.objects[made[-1].key] = bytes(data)
    before = dict(store.objects)
    with pytest.raises(
        DamagedObject, match=r"replaced other segments and is damaged.* the replaced segments still exist"
    ):
        collect(backup, planned, runner=InlineRunner())
    assert store.objects == before


def test_what_the_newest_state_needs_is_spared_whatever_was_planned(backup: Backup, store: MemoryStore) -> None:
    first = backup.state().segments[ORDERS][0]
    made = roll_up(backup).segments[ORDERS][0]
    run_once(backup)
    planned = plan_now(backup)
    assert first.key in {each.key for each in planned.objects}
    state = backup.state()
    backup.commit(CommitChanges(removed=(made.key,)), base=state, writer="w")
    backup.commit(CommitChanges(segments=(first,)), base=backup.state(), writer="w2")
    collect(backup, planned, runner=InlineRunner())
    assert first.key in store.objects


def test_a_history_that_ends_before_the_plan_ends_the_collection(backup: Backup, store: MemoryStore) -> None:
    roll_up(backup)
    run_once(backup)
    planned = plan_now(backup)
    for n in (5, 6):
        store.delete(backup.layout.commit_key(n))
    for key in [key for key in store.objects if "/catalog/" in key and not key.endswith(f"{4:020}.json")]:
        store.delete(key)
    before = bodies(store)
    with pytest.raises((CommitsGone, DamagedCommit)):
        collect(backup, planned, runner=InlineRunner())
    assert bodies(store) == before


def test_what_was_removed_and_not_replaced_stays(backup: Backup, store: MemoryStore) -> None:
    before = bodies(store)
    first = backup.state().segments[ORDERS][0]
    backup.commit(CommitChanges(removed=(first.key,)), base=backup.state(), writer="w")
    run_once(backup)
    assert plan_now(backup).objects == ()
    assert bodies(store) >= before


def test_what_only_seems_to_replace_stays(backup: Backup, store: MemoryStore) -> None:
    """A segment of the same offsets that holds less: somebody else's, or a fault of ours."""
    state = backup.state()
    old = state.segments[ORDERS][:2]
    less = write_segment(backup.store, backup, ORDERS, 0, 40)
    less = replace(less, records=less.records - 1)
    backup.commit(CommitChanges(segments=(less,), removed=tuple(each.key for each in old)), base=state, writer="w")
    run_once(backup)
    assert plan_now(backup).objects == ()


def test_a_branch_keeps_what_it_needs(backup: Backup, store: MemoryStore) -> None:
    """The log was cut back behind what is rolled up: the old history needs the rest."""
    state = backup.state()
    cut = CutBack(partition_id=ORDERS, at=40, end=80, epoch=0, leader_epoch=1)
    backup.commit(CommitChanges(cut_back=(cut,)), base=state, writer="w")
    run_once(backup)
    before = contents(backup)
    roll_up(backup, count=2)
    run_once(backup)
    assert collect_now(backup).objects > 0
    assert contents(backup)[: len(before)] == before


def test_what_was_replaced_before_the_log_was_cut_back_is_held_by_the_branch(
    backup: Backup, store: MemoryStore
) -> None:
    old = keys(backup.state().segments[ORDERS])
    state = roll_up(backup)
    cut = CutBack(partition_id=ORDERS, at=0, end=80, epoch=0, leader_epoch=1)
    backup.commit(CommitChanges(cut_back=(cut,)), base=state, writer="w")
    run_once(backup)
    before = contents(backup)
    collect_now(backup)
    assert not old & bodies(store)
    assert contents(backup) == before


@pytest.mark.parametrize("name", ["other/segment", "other/pack", "outside"])
def test_a_commit_that_names_what_is_not_of_this_backup_deletes_nothing_of_it(
    backup: Backup, store: MemoryStore, name: str
) -> None:
    """Whoever can write a commit may write anything into it; it is not read, or not believed."""
    other = Repository.open(backup.store).create_backup("other", cluster_id="cluster", selection=SELECTION)
    for _ in range(5):
        run_once(other)
    theirs = other.state().segments[ORDERS][4]
    state = backup.state()
    mine = write_segment(backup.store, backup, ORDERS, 80, 100)
    victim = {
        "other/segment": theirs,
        "other/pack": replace(mine, pack="backups/other/packs/00000000000000000001-00000000.pack"),
        "outside": replace(mine, pack="offsite.json"),
    }[name]
    store.objects.setdefault("backups/other/packs/00000000000000000001-00000000.pack", b"x" * 10**5)
    before = {key for key in store.objects if not key.startswith("backups/b/")}
    position = Position(partition_id=ORDERS, log_start=0, end=100)
    forged = Commit(
        backup="b",
        seq=5,
        previous=state.head_hash,
        writer="w",
        committed_at_ms=state.committed_at_ms,
        changes=CommitChanges(segments=(victim,), positions=(position,)),
    )
    store.put_if_absent(backup.layout.commit_key(5), encode_commit(forged))
    with pytest.raises(DamagedCommit, match=r"which is not a (pack|segment) of backup b"):
        plan_now(backup)
    assert {key for key in store.objects if not key.startswith("backups/b/")} == before


def test_a_plan_that_names_what_no_collection_deletes_is_not_carried_out(backup: Backup, store: MemoryStore) -> None:
    state = backup.state()
    for key in ("offsite.json", backup.layout.commit_key(1), "backups/other/packs/00000000000000000001-00000000.pack"):
        forged = CollectionPlan(head=state, upto=4, objects=(CollectableObject(key=key, body=key, bytes=1),))
        with pytest.raises(Bug, match="not an object that a collection deletes"):
            collect(backup, forged, runner=InlineRunner())
    assert store.get("offsite.json")


def test_a_key_that_two_incarnations_of_a_topic_list_is_no_statement(backup: Backup, store: MemoryStore) -> None:
    """A forged incarnation lists a live segment's key, and replaces it."""
    state = backup.state()
    live = state.segments[ORDERS][0]
    fake = replace(live, topic_id="id-forged")
    forged = PartitionId(topic="orders", topic_id="id-forged", partition=0)
    shape = TopicShape(topic="orders", topic_id="id-forged", partitions=1, replication_factor=1)
    position = Position(partition_id=forged, log_start=0, end=live.end)
    state = backup.commit(
        CommitChanges(segments=(fake,), positions=(position,), topics=(shape,)), base=state, writer="w"
    )
    made = replace(write_segment(backup.store, backup, ORDERS, live.start, live.end), topic_id="id-forged")
    backup.commit(CommitChanges(segments=(made,), removed=(live.key,)), base=state, writer="w2")
    run_once(backup)
    assert live.key not in {each.key for each in plan_now(backup).objects}


@pytest.mark.parametrize("killed_after", range(0, 26, 5))
def test_broken_off_anywhere_it_goes_on(backup: Backup, store: MemoryStore, killed_after: int) -> None:
    before = contents(backup)
    roll_up(backup)
    run_once(backup)
    left = killed_after
    delete = store.delete

    def dying(key: str) -> None:
        nonlocal left
        if not left:
            raise StoreUnreachable("killed")
        left -= 1
        delete(key)

    store.delete = dying  # type: ignore[method-assign]
    try:
        collect_now(backup)
    except StoreUnreachable:
        assert contents(backup)[:4] == before
    left = 1000
    collect_now(backup)
    assert contents(backup)[:4] == before
    assert bodies(store) == keys(tuple(backup.state().all_segments()))


def test_two_at_once_delete_the_same(backup: Backup, store: MemoryStore) -> None:
    before = contents(backup)
    roll_up(backup)
    run_once(backup)
    one = collection_steps(backup, runner=InlineRunner(), clock=SystemClock(), grace_ms=0)
    other = collection_steps(backup, runner=InlineRunner(), clock=SystemClock(), grace_ms=0)
    running = [one, other]
    while running:
        for each in tuple(running):
            try:
                next(each)
            except StopIteration:
                running.remove(each)
    assert contents(backup)[:4] == before
    assert bodies(store) == keys(tuple(backup.state().all_segments()))


def test_a_replacement_that_another_process_has_collected_meanwhile_is_no_damage(
    backup: Backup, store: MemoryStore
) -> None:
    roll_up(backup, count=2)
    run_once(backup)
    planned = plan_now(backup)
    roll_up(backup, count=3)
    run_once(backup)
    collect_now(backup)
    assert collect(backup, planned, runner=InlineRunner()) == CollectionResult(
        objects=0, bytes=0, upto=0, is_last=False
    )


def test_a_plan_that_is_full_is_gone_on_with(backup: Backup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect_plan, "OBJECTS_MAX", 1)
    roll_up(backup, count=2)
    run_once(backup)
    roll_up(backup, count=2)
    run_once(backup)
    done = [collect_now(backup) for _ in range(3)]
    assert [each.is_last for each in done] == [False, False, True]
    assert [bool(each.objects) for each in done] == [True, True, False]


class Overtaken(InlineRunner):
    """While it runs for the first time, what it looks at is rolled up and collected, by a run beside it."""

    def __init__(self, backup: Backup) -> None:
        self._backup, self._left = backup, 1

    def run(self, tasks: Sequence[Any], function: Any, **options: Any) -> list[Any]:
        if self._left:
            self._left = 0
            roll_up(self._backup)
            run_once(self._backup)
            collect_now(self._backup)
        return super().run(tasks, function, **options)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_check_that_takes_longer_than_the_grace_time_tells_no_damage_but_what_there_is(
    backup: Backup, store: MemoryStore, damaged: bool
) -> None:
    class Damaging(Overtaken):
        def run(self, tasks: Sequence[Any], function: Any, **options: Any) -> list[Any]:
            found = super().run(tasks, function, **options)
            if damaged:
                store.objects[backup.state().segments[ORDERS][0].key] = b"x"
            return found

    result = verify_deep(backup, Damaging(backup))
    assert result.ok is not damaged
    assert {each.key for each in result.damaged} == ({backup.state().segments[ORDERS][0].key} if damaged else set())


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("is_rolled_up", [False, True])
def test_a_quick_check_tells_no_damage_where_objects_go_while_it_lists_them(
    backup: Backup, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, is_rolled_up: bool, damaged: bool
) -> None:
    """What is looked up first is rolled up, or let go, and collected just before."""
    head, began = store.head, threading.Lock()

    def overtake() -> None:
        if is_rolled_up:
            roll_up(backup)
        else:
            let_go(backup, (0, 20, 0))
        run_once(backup)
        collect_now(backup)
        if damaged:
            store.delete(backup.state().segments[ORDERS][0].object_key)

    def look_up(key: str) -> ObjectInfo | None:
        if key in objects and began.acquire(blocking=False):
            monkeypatch.setattr(store, "head", head)
            overtake()
        return head(key)

    objects = {each.object_key for each in backup.state().all_segments()}
    monkeypatch.setattr(store, "head", look_up)
    monkeypatch.setattr(run, "HEADS_AT_ONCE", 1)
    result = verify_quick(backup)
    assert began.locked()
    assert {each.key for each in result.damaged} == ({backup.state().segments[ORDERS][0].key} if damaged else set())
    assert result.ok is not damaged


def test_who_may_not_delete_is_told_before_anything_is_read(backup: Backup, store: MemoryStore) -> None:
    """A run that follows tries again every few hours: reading a day of data each time would be paid for nothing."""
    roll_up(backup)
    run_once(backup)
    planned = plan_now(backup)
    read: list[str] = []
    store.get_range = lambda key, *at, get=store.get_range: (read.append(key), get(key, *at))[1]  # type: ignore[method-assign]

    def denied(key: str) -> None:
        raise StoreDenied(key)

    store.delete = denied  # type: ignore[method-assign]
    with pytest.raises(StoreDenied):
        collect(backup, planned, runner=InlineRunner())
    assert read == []


def test_what_the_store_protects_is_passed_over_and_named(backup: Backup, store: MemoryStore) -> None:
    roll_up(backup)
    run_once(backup)
    planned = plan_now(backup)
    protected, delete = planned.objects[0].key, store.delete

    def denied(key: str) -> None:
        if key == protected:
            raise StoreDenied(key)
        delete(key)

    store.delete = denied  # type: ignore[method-assign]
    done = collect(backup, planned, runner=InlineRunner())
    assert (done.locked, done.objects) == ((protected,), len(planned.objects) - 1)
    assert done.bytes == planned.bytes - planned.objects[0].bytes
    assert {each.key for each in planned.objects} & set(store.objects) == {protected}


@pytest.mark.parametrize(("damages", "pause_s"), [(True, COLLECTING_REST_S), (False, RETRY_S)])
def test_what_does_not_mend_itself_is_not_read_again_every_few_minutes(
    backup: Backup, store: MemoryStore, damages: bool, pause_s: float
) -> None:
    made = tuple(roll_up(backup).all_segments())
    run_once(backup)
    state = backup.state()
    now_s, read = [0.0], list[str]()

    class Clock(SystemClock):
        def monotonic_s(self) -> float:
            return now_s[0]

    def get_range(key: str, *at: int, get: Callable[..., bytes | None] = store.get_range) -> bytes | None:
        read.append(key)
        if not damages:
            raise StoreUnreachable(key)
        return get(key, *at)

    data = bytearray(store.objects[made[-1].key])
    data[len(data) // 2] ^= 1
    store.objects[made[-1].key] = bytes(data)
    store.get_range = get_range  # type: ignore[method-assign]
    chore = collecting(runner=InlineRunner(), clock=Clock(), grace_s=0)
    for at_s, is_read in ((0.0, True), (pause_s - 1, False), (pause_s + 1, True)):
        now_s[0] = at_s
        read.clear()
        for _ in range(3):
            chore.step(backup, state)
        assert bool(read) is is_read


def let_go(backup: Backup, *ranges: tuple[int, int, int], known: PartitionId = ORDERS) -> None:
    """One commit that lets go of ranges of a partition: start, end, branch."""
    expired = tuple(ExpiredRange(partition_id=known, start=low, end=high, branch=of) for low, high, of in ranges)
    backup.commit(CommitChanges(expired=expired), base=backup.state(), writer="w")


def test_what_retention_let_go_is_collected(backup: Backup, store: MemoryStore) -> None:
    first, second = backup.state().segments[ORDERS][:2]
    let_go(backup, (0, 20, 0))
    assert plan_now(backup).objects == ()  # no later commit names a catalog with it
    run_once(backup)
    planned = plan_now(backup)
    assert {each.key for each in planned.objects} == keys([first])
    assert planned.replacements == ()
    assert plan_now(backup, grace_ms=1_000_000_000).objects == ()
    collect_now(backup)
    assert not keys([first]) & bodies(store)
    assert keys([second]) <= bodies(store)
    assert verify_deep(backup, InlineRunner()).ok


def is_border(backup: Backup, segment: Segment, at: int) -> bool:
    chunks = SegmentReader(store=backup.store, segment=segment).chunks()
    return any(header.base_offset == at for chunk in chunks for header in chunk.batches)


def test_a_pack_goes_when_all_of_it_was_rolled_up_or_let_go(backup: Backup, store: MemoryStore) -> None:
    state = roll_up(backup, alone=False, count=2)
    (pack,) = {segment.pack for segment in state.all_segments() if segment.pack}
    let_go(backup, (0, 40, 0))
    run_once(backup)
    collect_now(backup)
    assert pack in bodies(store), "other partitions need it"
    for known in PARTITIONS[1:]:
        let_go(backup, (0, 40, 0), known=known)
    run_once(backup)
    collect_now(backup)
    assert pack not in bodies(store)
    assert verify_deep(backup, InlineRunner()).ok


def test_what_an_old_history_needs_stays_until_that_lets_it_go_too(backup: Backup, store: MemoryStore) -> None:
    parted = backup.state().segments[ORDERS][1]  # [20, 40)
    at = next(start for start in range(22, 38) if is_border(backup, parted, start))
    found = part_segment(parted, at, backup.store)
    parts = {"below": found.below, "above": found.above}
    cut = CutBack(partition_id=ORDERS, at=at, end=80, epoch=0, leader_epoch=1, **parts)
    backup.commit(CommitChanges(cut_back=(cut,)), base=backup.state(), writer="w")
    run_once(backup)
    let_go(backup, (0, at, 0))
    run_once(backup)
    collect_now(backup)
    assert keys([parted]) <= bodies(store)
    let_go(backup, (at, 40, 1))
    run_once(backup)
    collect_now(backup)
    assert not keys([parted]) & bodies(store)
    assert verify_deep(backup, InlineRunner()).ok


@pytest.mark.parametrize("how", ["expired", "rolled up"])
@pytest.mark.parametrize("disputed", [0, 1])
def test_a_parted_segment_stays_while_a_disputed_commit_dropped_one_of_its_parts(
    backup: Backup, store: MemoryStore, how: str, disputed: int
) -> None:
    """Each part is in a list of its own: nobody lists the object once a stranger dropped the other part."""
    parted = backup.state().segments[ORDERS][1]  # [20, 40)
    at = next(start for start in range(22, 38) if is_border(backup, parted, start))
    parts = part_segment(parted, at, backup.store)
    cut = CutBack(partition_id=ORDERS, at=at, end=80, epoch=0, leader_epoch=1, below=parts.below, above=parts.above)
    backup.commit(CommitChanges(cut_back=(cut,)), base=backup.state(), writer="w")
    run_once(backup)
    sides = [(20, at, 0), (at, 40, 1)]
    if how == "rolled up":  # without anybody's word about what is dropped
        let_go(backup, sides[1])
        roll_up(backup, count=2, partitions=[ORDERS])
        accepted = 0
    else:
        let_go(backup, sides[1 - disputed])
        accepted = backup.state().seq
        let_go(backup, sides[disputed])
    run_once(backup)
    in_force = RetentionInForce(accepted=accepted)
    for _ in range(2):
        plan = plan_collection(backup, clock=SystemClock(), grace_ms=0, in_force=in_force)
        collect(backup, plan, runner=InlineRunner())
        assert keys([parted]) <= bodies(store)
    collect_now(backup)  # a person accepts the other commit too
    assert not keys([parted]) & bodies(store)
    assert verify_deep(backup, InlineRunner()).ok


def test_a_segment_goes_that_one_cut_parted_and_a_second_cut_left_below(backup: Backup, store: MemoryStore) -> None:
    """The second cut closes the history that lists the lower part: that history knows the first cut alone."""
    parted = backup.state().segments[ORDERS][1]  # [20, 40)
    at = next(start for start in range(22, 38) if is_border(backup, parted, start))
    parts = part_segment(parted, at, backup.store)
    first = CutBack(partition_id=ORDERS, at=at, end=80, epoch=0, leader_epoch=1, below=parts.below, above=parts.above)
    second = CutBack(partition_id=ORDERS, at=20, end=at, epoch=1, leader_epoch=2)
    for cut in (first, second):
        backup.commit(CommitChanges(cut_back=(cut,)), base=backup.state(), writer="w")
    run_once(backup)
    let_go(backup, (at, 40, 1))
    run_once(backup)
    collect_now(backup)
    assert keys([parted]) <= bodies(store)
    let_go(backup, (20, at, 2))
    run_once(backup)
    collect_now(backup)
    assert not keys([parted]) & bodies(store)
    assert verify_deep(backup, InlineRunner()).ok


@pytest.mark.parametrize("claimed", ["the index", "a body beside the index"])
def test_an_index_stays_whoever_lists_it_elsewhere(backup: Backup, store: MemoryStore, claimed: str) -> None:
    """In a made-up topic of the same name, which retention drops: as a segment, or as the index of another body."""
    made = write_segment(backup.store, backup, ORDERS, 80, 100)
    made = replace(made, index_key=index_key(made.key), index_hash=made.hash)
    store.put_if_absent(index_key(made.key), b"index")
    position = replace(backup.state().positions[ORDERS], end=100)
    backup.commit(CommitChanges(segments=(made,), positions=(position,)), base=backup.state(), writer="w")
    twin = TopicShape(topic="orders", topic_id="twin", partitions=1, replication_factor=1, deleted_ms=1)
    (twin_id,) = twin.partition_ids
    if claimed == "the index":
        listed = replace(made, key=index_key(made.key), stored_bytes=5, index_key=None, index_hash=None)
    else:
        listed = replace(made, key=made.key.removesuffix(".zst"))
        store.put_if_absent(listed.key, store.objects[made.key])
    assert listed.key != made.key
    changes = CommitChanges(
        topics=(twin,),
        segments=(replace(listed, topic_id="twin"),),
        positions=(Position(partition_id=twin_id, log_start=80, end=100),),
    )
    backup.commit(changes, base=backup.state(), writer="forged")
    let_go(backup, (0, 100, 0), known=twin_id)
    backup.commit(CommitChanges(positions=(position,)), base=backup.state(), writer="w")
    collect_now(backup)
    assert keys([made]) <= bodies(store)


@pytest.mark.parametrize("is_below", [False, True])
def test_a_range_without_batches_on_one_side_of_a_cut_holds_no_pack_back(
    backup: Backup, store: MemoryStore, is_below: bool
) -> None:
    """All batches of a packed segment lie on one side of the cut, so the other side has no part of the segment."""
    made = write_segment(store, backup, ORDERS, *((80, 90) if is_below else (90, 100)))
    last = made.last_offset + 1
    at, end = (last, last + 5) if is_below else (made.first_offset, last)
    assert at > 80
    pack = backup.layout.pack_key(backup.state().seq, "a" * 8)
    store.put_if_absent(pack, store.get(made.key) or b"")
    key = made.key.replace(f"{made.start:020}", f"{80:020}")
    made = replace(made, key=key, start=80, end=end, pack=pack, index_key=None, index_hash=None)
    position = replace(backup.state().positions[ORDERS], end=end, last_batch=None)
    changes = CommitChanges(segments=(made,), positions=(position,))
    backup.commit(changes, base=backup.state(), writer="w")
    parts = part_segment(made, at, store)
    cut = CutBack(partition_id=ORDERS, at=at, end=end, epoch=0, leader_epoch=1, below=parts.below, above=parts.above)
    backup.commit(CommitChanges(cut_back=(cut,)), base=backup.state(), writer="w")
    let_go(backup, *([(0, at, 0)] if is_below else [(0, 80, 0), (at, end, 1)]))
    run_once(backup)
    collect_now(backup)
    assert pack not in bodies(store)
    assert verify_deep(backup, InlineRunner()).ok


def test_what_a_compaction_replaced_goes_while_the_next_one_of_the_region_waits(
    backup: Backup, store: MemoryStore
) -> None:
    old = backup.state().segments[ORDERS][:2]
    replaced: Sequence[Segment] = old
    done, compactions = CompactedRange(partition_id=ORDERS, start=0, end=40), []
    for _ in range(2):
        left = write_segment(backup.store, backup, ORDERS, 10, 30)
        removed = tuple(segment.key for segment in replaced)
        changes = CommitChanges(segments=(left,), removed=removed, compacted=(done,))
        compactions.append(backup.commit(changes, base=backup.state(), writer="w").seq)
        replaced = (left,)
    run_once(backup)
    in_force = RetentionInForce(accepted=compactions[0])
    plan = plan_collection(backup, clock=SystemClock(), grace_ms=0, in_force=in_force)
    assert {collectable.key for collectable in plan.objects} == keys(old)
    assert plan.pending == (compactions[1],)


def test_what_a_compaction_replaced_is_collected_after_what_is_left_was_read(
    backup: Backup, store: MemoryStore
) -> None:
    old = backup.state().segments[ORDERS][:2]
    left = write_segment(backup.store, backup, ORDERS, 10, 30)
    done = CompactedRange(partition_id=ORDERS, start=0, end=40)
    changes = CommitChanges(segments=(left,), removed=tuple(each.key for each in old), compacted=(done,))
    backup.commit(changes, base=backup.state(), writer="w")
    run_once(backup)
    planned = plan_now(backup)
    assert {each.key for each in planned.objects} == keys(old)
    assert [each.key for each in planned.replacements] == [left.key]
    store.objects[left.key] = store.objects[left.key][:-1] + b"?"
    with pytest.raises(DamagedObject, match="nothing is collected"):
        collect_now(backup)
    assert keys(old) <= bodies(store)
