"""What a collection of leftovers deletes, and what it leaves because nobody knows that it is of no use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.log.range import PartitionId
from offsite.model.clock import SystemClock
from offsite.model.errors import ClocksDiffer, CommitsGone, DamagedCommit, DamagedObject, StoreDenied
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.catalogs.seal import CatalogSeal, decode_seal
from offsite.repository.commit import CommitChanges
from offsite.repository.layout import index_key, parse_part_key
from offsite.repository.leftovers import LEFTOVER_AFTER_MS, find_orphans
from offsite.repository.segments.segment import Segment
from offsite.upkeep.collection import leftovers
from offsite.upkeep.collection.leftovers import (
    MARGIN_MS,
    LeftoversPlan,
    LeftoversResult,
    collect_leftovers,
    leftover_steps,
    plan_leftovers,
)
from offsite.upkeep.retention.report import audit_reports
from offsite.upkeep.verification.run import verify_deep
from tests import roll_ups
from tests.backups import PARTITIONS, content, new_backup, run_once, write_segment
from tests.faulty_store import Crash
from tests.inline_runner import InlineRunner
from tests.memory_store import MemoryStore

ORDERS = PARTITIONS[0]
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(autouse=True)
def _a_catalog_for_each_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def backup(store: MemoryStore) -> Backup:
    """Two commits."""
    made = new_backup(store)  # type: ignore[arg-type]
    for _ in range(2):
        run_once(made)
    return made


def pass_time(store: MemoryStore, by_ms: int) -> None:
    store.clock.pass_ms(by_ms)


def leave(backup: Backup, at: int = 100) -> Segment:
    """A segment with an index, as a run leaves it that is killed before its commit."""
    segment = write_segment(backup.store, backup, ORDERS, at, at + 20)
    backup.store.put_if_absent(index_key(segment.key), b"index")
    return segment


def plan(backup: Backup, **options: int) -> LeftoversPlan:
    return plan_leftovers(backup, clock=backup.store.clock, **options)


def collect(backup: Backup, planned: LeftoversPlan | None = None) -> LeftoversResult:
    return collect_leftovers(backup, planned or plan(backup), clock=backup.store.clock)


def keys(planned: LeftoversPlan) -> set[str]:
    return {each.info.key for each in planned.objects}


def contents(backup: Backup) -> list[dict[PartitionId, bytes]]:
    return [content(backup.store, backup.state_at(each.seq)) for each in backup.state().history]


def passed_over(backup: Backup, store: MemoryStore, leave_some: Callable[[], object]) -> None:
    """Something is left, a run completes an hour later, and days go by."""
    leave_some()
    pass_time(store, HOUR_MS)
    run_once(backup)
    pass_time(store, 2 * DAY_MS)


def test_what_a_killed_run_left_goes_and_every_restore_point_stays(backup: Backup, store: MemoryStore) -> None:
    groups, settings = (make(3, "11111111") for make in (backup.layout.groups_key, backup.layout.metadata_key))

    def left() -> None:
        for key in (groups, settings):
            backup.store.put_if_absent(key, b"{}")
        doomed.append(leave(backup))

    doomed: list[Segment] = []
    passed_over(backup, store, left)
    before = contents(backup)
    wanted = {doomed[0].key, index_key(doomed[0].key), groups, settings}
    planned = plan(backup)
    assert keys(planned) == wanted
    assert planned.bytes == sum(len(store.objects[key]) for key in wanted)
    assert set(store.objects) > wanted, "a plan deletes nothing"
    assert collect(backup, planned) == LeftoversResult(objects=4, bytes=planned.bytes)
    assert not wanted & set(store.objects)
    told = list(audit_reports(backup))
    assert {(each.by, each.kind, each.what) for each in told} == {("leftovers", "object", key) for key in wanted}
    assert sum(each.bytes for each in told) == planned.bytes
    assert contents(backup) == before
    assert verify_deep(backup, InlineRunner()).ok
    assert find_orphans(backup) == ()
    assert collect(backup) == LeftoversResult()


def test_what_no_complete_commit_has_passed_over_stays_however_old_it_is(backup: Backup, store: MemoryStore) -> None:
    leave(backup)
    pass_time(store, 400 * DAY_MS)
    planned = plan(backup)
    assert (keys(planned), len(planned.undecided)) == (set(), 2), "a run that goes on may still commit it"
    backup.commit(CommitChanges(incomplete=True), base=backup.state(), writer="goes-on")
    pass_time(store, 400 * DAY_MS)
    assert keys(plan(backup)) == set(), "nor does a commit say otherwise whose run goes on"
    run_once(backup)
    assert keys(plan(backup)) == set(), "nor one that is younger than the grace time"
    pass_time(store, 2 * DAY_MS)
    assert len(keys(plan(backup))) == 2


def test_what_was_written_about_when_the_pass_completed_stays(backup: Backup, store: MemoryStore) -> None:
    leave(backup)
    pass_time(store, MARGIN_MS - 60_000)
    run_once(backup)
    pass_time(store, 5 * DAY_MS)
    assert keys(plan(backup)) == set()


def test_a_grace_time_below_a_day_is_a_day(backup: Backup, store: MemoryStore) -> None:
    leave(backup)
    pass_time(store, 4 * HOUR_MS)
    run_once(backup)
    pass_time(store, LEFTOVER_AFTER_MS - 2 * HOUR_MS)
    assert len(find_orphans(backup)) == 2
    assert keys(plan(backup, grace_ms=0)) == set()
    pass_time(store, 4 * HOUR_MS)
    assert len(keys(plan(backup, grace_ms=0))) == 2
    assert keys(plan(backup, grace_ms=5 * DAY_MS)) == set()


def test_what_commits_named_is_never_a_leftover(backup: Backup, store: MemoryStore) -> None:
    """What a roll-up replaced, and what was taken out of the lists without a successor: other rules are for those."""
    run_once(backup)
    first, second = (tuple(backup.state().segments[each]) for each in PARTITIONS[:2])
    roll_ups.roll_up(backup, [first], alone=True)
    backup.commit(CommitChanges(removed=(second[0].key,)), base=backup.state(), writer="takes-away")
    pass_time(store, HOUR_MS)
    run_once(backup)
    pass_time(store, 5 * DAY_MS)
    assert {each.info.key for each in find_orphans(backup)} >= {*(each.key for each in first), second[0].key}
    planned = plan(backup)
    assert keys(planned) == set()
    assert collect(backup).objects == 0


def test_what_is_committed_after_the_plan_stays(backup: Backup, store: MemoryStore) -> None:
    segments: list[Segment] = []
    passed_over(backup, store, lambda: segments.append(leave(backup, at=60)))
    planned = plan(backup)
    assert segments[0].key in keys(planned)
    store.delete(index_key(segments[0].key))
    state = backup.commit(CommitChanges(segments=tuple(segments)), base=backup.state(), writer="came-back")
    backup.commit(CommitChanges(removed=(segments[0].key,)), base=state, writer="takes-away")
    collect(backup, planned)
    assert segments[0].key in store.objects


def test_what_is_committed_between_two_deletions_stays(
    backup: Backup, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction that slept for longer than a day lists what it wrote on top of the newest state."""
    monkeypatch.setattr(leftovers, "_DELETED_AT_ONCE", 1)
    segments: list[Segment] = []
    passed_over(backup, store, lambda: segments.extend(leave(backup, at) for at in (60, 200)))
    steps = leftover_steps(backup, clock=backup.store.clock)
    while segments[1].key in store.objects and segments[0].key in store.objects:
        next(steps)
    back = next(each for each in segments if each.key in store.objects)
    body = store.objects[back.key]
    backup.commit(CommitChanges(segments=(back,)), base=backup.state(), writer="came-back")
    for _ in steps:
        pass
    assert store.objects.get(back.key) == body


def test_a_commit_that_says_it_is_older_than_its_object_passes_nothing_over(backup: Backup, store: MemoryStore) -> None:
    """As in a copy of a repository."""
    passed_over(backup, store, lambda: leave(backup))
    assert len(keys(plan(backup))) == 2
    for seq in (1, 2, 3):
        store._times[backup.layout.commit_key(seq)] = store.clock.now_ms()
    assert keys(plan(backup)) == set()


def test_a_commit_whose_restore_point_was_dropped_passes_over_what_was_left_before(
    backup: Backup, store: MemoryStore
) -> None:
    """A policy may keep less than the grace time."""
    passed_over(backup, store, lambda: leave(backup))
    run_once(backup)
    base = backup.state()
    backup.commit(CommitChanges(forgotten=((1, base.seq),)), base=base, writer="retention")
    assert len(keys(plan(backup))) == 2


def test_a_run_that_comes_back_fails_loudly(backup: Backup, store: MemoryStore) -> None:
    segments: list[Segment] = []
    passed_over(backup, store, lambda: segments.append(leave(backup)))
    base = backup.state()
    collect(backup)
    with pytest.raises(DamagedObject, match="is missing"):
        backup.commit(CommitChanges(segments=tuple(segments)), base=base, writer="came-back")


def test_the_body_goes_before_its_index_and_a_pass_may_die_anywhere(backup: Backup, store: MemoryStore) -> None:
    passed_over(backup, store, lambda: [leave(backup, at) for at in (100, 200)])
    planned, delete = plan(backup), store.delete
    assert len(planned.objects) == 4
    for lives in range(4):
        left, told = dict(store.objects), list[str]()

        def dying(key: str, lives: int = lives, told: list[str] = told) -> None:
            told.append(key)
            if len(told) > lives + 1:  # the first asks for the right to delete
                raise Crash
            delete(key)

        store.delete = dying  # type: ignore[method-assign]
        with pytest.raises(Crash):
            collect(backup, planned)
        store.delete = delete  # type: ignore[method-assign]
        assert [key.endswith(".idx") for key in told[1:]] == [False, False, True, True][: lives + 1]
        store.objects = left
    assert collect(backup).objects == 4


def test_what_the_store_protects_is_left_and_listed(backup: Backup, store: MemoryStore) -> None:
    segments: list[Segment] = []
    passed_over(backup, store, lambda: segments.append(leave(backup)))
    delete = store.delete

    def refuse(key: str) -> None:
        if key == segments[0].key:
            raise StoreDenied("it is locked")
        delete(key)

    store.delete = refuse  # type: ignore[method-assign]
    done = collect(backup)
    assert (done.locked, done.objects) == ((segments[0].key,), 1)


def test_who_may_not_delete_at_all_is_told_before_anything(backup: Backup, store: MemoryStore) -> None:
    passed_over(backup, store, lambda: leave(backup))
    before = dict(store.objects)

    def refuse(_: str) -> None:
        raise StoreDenied("no")

    store.delete = refuse  # type: ignore[method-assign]
    with pytest.raises(StoreDenied):
        collect(backup)
    assert store.objects == before


def test_a_history_that_is_damaged_or_was_cut_off_keeps_everything(backup: Backup, store: MemoryStore) -> None:
    passed_over(backup, store, lambda: leave(backup))
    planned, newest, second = plan(backup), backup.layout.commit_key(3), backup.layout.commit_key(2)
    whole = dict(store.objects)
    store.objects[second] = b"{"
    with pytest.raises(DamagedCommit):
        plan(backup)
    store.objects = dict(whole)
    for key in (newest, backup.layout.seal_key(3)):
        store.objects.pop(key, None)
    with pytest.raises(CommitsGone):
        collect(backup, planned)
    assert keys(planned) < set(store.objects)


def test_an_object_that_is_another_one_by_now_stays(backup: Backup, store: MemoryStore) -> None:
    segments: list[Segment] = []
    passed_over(backup, store, lambda: segments.append(leave(backup)))
    planned = plan(backup)
    store.put_overwrite(segments[0].key, b"another")
    assert collect(backup, planned).objects == 1
    assert segments[0].key in store.objects


def test_a_catalog_without_a_seal_goes_once_a_newer_one_is_sealed(backup: Backup, store: MemoryStore) -> None:
    for _ in range(3):
        run_once(backup)
    last = max(backup.catalog.sealed(after=0))
    store.delete(backup.layout.seal_key(last))
    unsealed = {key for key in store.objects if key == backup.layout.history_key(last) or parse_part_key(key) == last}
    unsealed.add(backup.layout.catalog_key(last))
    pass_time(store, 3 * DAY_MS)
    assert {each.info.key for each in find_orphans(backup)} >= unsealed
    assert keys(plan(backup)) == set(), "nothing says that it will not get its seal"
    run_once(backup)
    run_once(backup)
    assert keys(plan(backup)) == set()
    pass_time(store, 3 * DAY_MS)
    assert keys(plan(backup)) == {key for key in unsealed if key not in named_by_seals(backup)}
    assert collect(backup).objects >= 2
    assert verify_deep(backup, InlineRunner()).ok


def test_a_part_that_another_catalog_shares_stays(backup: Backup, store: MemoryStore) -> None:
    for _ in range(20):
        run_once(backup)
    named = named_by_seals(backup)
    shared = max(seq for key in named if (seq := parse_part_key(key)) is not None and named[key] - {seq})
    store.delete(backup.layout.seal_key(shared))
    pass_time(store, 3 * DAY_MS)
    planned = plan(backup)
    assert keys(planned) == {backup.layout.history_key(shared), backup.layout.catalog_key(shared)}
    assert any(parse_part_key(each.info.key) == shared for each in planned.undecided)


def named_by_seals(backup: Backup) -> dict[str, set[int]]:
    """The parts that sealed catalogs consist of, with the numbers of the catalogs that name them."""
    found: dict[str, set[int]] = {}
    for seq in backup.catalog.sealed(after=0):
        key = backup.layout.seal_key(seq)
        seal = decode_seal(backup.store.get(key) or b"", key=key, layout=backup.layout)
        assert isinstance(seal, CatalogSeal)
        for ref in (*seal.segments, *(chunk.ref for chunk in seal.history)):
            found.setdefault(ref.key, set()).add(seq)
    return found


@pytest.mark.parametrize(
    ("folder", "record", "names"),
    [
        ("restores", "restore.json", ("targets.json", "lease/00000001.claim.json", "lease/00000001.beat.json")),
        ("drills", "report.json", ("report.html",)),
        ("group-changes", "change.json", ("before.parquet", "undone.json")),
    ],
)
def test_a_folder_without_its_record_goes_as_a_whole_or_not(
    backup: Backup, store: MemoryStore, folder: str, record: str, names: tuple[str, ...]
) -> None:
    prefix = f"{backup.layout.prefix}{folder}/one/"
    for name in names:
        store.put_overwrite(prefix + name, b"{}")
    pass_time(store, 2 * DAY_MS)
    store.put_overwrite(f"{prefix}{names[-1]}", b"{}")
    assert keys(plan(backup)) == set(), "somebody was there a moment ago"
    pass_time(store, 2 * DAY_MS)
    planned = plan(backup)
    assert len(keys(planned)) == len(names)
    whole = dict(store.objects)
    store.put_overwrite(prefix + record, b"{}")
    assert collect(backup, planned).objects == 0
    store.objects = whole
    assert collect(backup, planned).objects == len(names)


def test_clocks_that_differ_delete_nothing(backup: Backup, store: MemoryStore) -> None:
    passed_over(backup, store, lambda: leave(backup))
    with pytest.raises(ClocksDiffer):
        plan_leftovers(backup, clock=SystemClock())


def test_it_pauses_and_sweeps_unfinished_uploads(backup: Backup, store: MemoryStore) -> None:
    passed_over(backup, store, lambda: leave(backup))
    asked: list[int] = []

    class Sweeping:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def sweep_unfinished(self, *, before_ms: int) -> int:
            asked.append(before_ms)
            return 7

    swept = replace(backup, store=Sweeping())  # type: ignore[arg-type]
    steps = leftover_steps(swept, clock=swept.store.clock)
    pauses = 0
    while True:
        try:
            next(steps)
            pauses += 1
        except StopIteration as end:
            done = end.value
            break
    assert (done.objects, done.unfinished) == (2, 7)
    assert pauses >= 2
    assert asked[0] <= store.clock.now_ms() - LEFTOVER_AFTER_MS
