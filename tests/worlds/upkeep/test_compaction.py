"""What a compaction leaves: every kept restore point has the same latest record of each key as before."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import Record
from offsite.model.clock import SystemClock
from offsite.model.errors import NoSuchRestorePoint
from offsite.model.options import CutChoice
from offsite.model.selection import parse_selection
from offsite.points.point_in_time import PointInTime, chains_of, point_in_time
from offsite.points.restore_point import find_point
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import Checkpoint, CommitChanges, CutBack, Position, RecordedHole
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreRecord, put_record
from offsite.repository.segments.part import part_segment
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.snapshots.audit_record import AuditLine, read_audit
from offsite.repository.snapshots.commit_cut import CommitCut, CutPartition
from offsite.restore.compare.topics import leave_out_as_compacted
from offsite.restore.request import RestoreRequest
from offsite.table.latest import by_partition, latest_arrow
from offsite.table.scan_plan import RowFilter, plan_scan
from offsite.upkeep.collection.run import collect, plan_collection
from offsite.upkeep.compaction import latest, regions
from offsite.upkeep.compaction.plan import CompactionRequest, plan_compaction
from offsite.upkeep.compaction.run import CompactionResult, compact
from offsite.upkeep.verification.run import verify_deep
from tests.backups import new_backup
from tests.batches import FIRST_TIME_MS
from tests.compacted_logs import (
    TOPIC,
    CompactedLog,
    commit_log,
    compacted_shape,
    forget,
    read_point,
    read_state,
    segments_of,
)
from tests.cuts import commit_cut
from tests.inline_runner import InlineRunner
from tests.memory_store import MemoryStore
from tests.roll_ups import roll_up

ALWAYS = CompactionRequest(min_dirty_ratio=0.0)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 4)
    monkeypatch.setattr(latest, "PARCEL_KEYS", 3)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def backup(store: MemoryStore) -> Backup:
    return new_backup(store)  # type: ignore[arg-type]


def compacted(backup: Backup, request: CompactionRequest = ALWAYS) -> CompactionResult:
    return compact(backup, plan_compaction(backup, request), runner=InlineRunner())


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(8, 300))])
def test_each_kept_point_keeps_the_latest_of_each_key(
    backup: Backup, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(regions.make_parts, "__kwdefaults__", {"part_bytes": rng.choice((1, 2000, 1 << 30))})
    log = CompactedLog(rng)
    shape = compacted_shape(rng.choice(("compact", "compact,delete")), delete_retention_ms="0")
    ends: dict[int, int] = {}
    for _ in range(rng.randrange(2, 4)):
        for _ in range(rng.randrange(2, 8)):
            state = commit_log(backup, log.grow(rng.randrange(1, 25)), log.end, shape, pieces=rng.randrange(1, 4))
            ends[state.seq] = log.end
        kept = {seq for seq in ends if rng.random() < 0.3} | {max(ends)}
        doomed = sorted(set(ends) - kept)
        if doomed:
            forget(backup, doomed)
        ends = {seq: ends[seq] for seq in kept}
        done = compacted(backup)
        assert done.left_alone == 0
        roll_up_some(backup, rng)  # where points end is inside of segments then
        for seq, end in ends.items():
            found, keyless, _ = read_state(backup, seq)
            assert (found, keyless) == log.state_at(end)
            assert backup.state_at(seq).holes == ()
        newest, keyless = log.state_at(log.end)
        assert latest_in_table(backup) == sorted(record.offset for record in (*newest.values(), *keyless))
    assert verify_deep(backup, runner=InlineRunner()).ok


def roll_up_some(backup: Backup, rng: random.Random) -> None:
    found = tuple(backup.state().segments[TOPIC])
    low = rng.randrange(len(found))
    if (chosen := found[low : low + rng.randrange(1, 4)])[1:]:
        roll_up(backup, [chosen], alone=True)


def latest_in_table(backup: Backup) -> list[int]:
    """The offsets that the table shows of the newest point with `latest`."""
    selected = chains_of(point_in_time(backup.sound_state()), [TOPIC.topic])
    (tasks,) = by_partition(plan_scan(selected, RowFilter(), read_committed=True, task_bytes=3000))
    return [row["offset"] for each in latest_arrow(tasks, RowFilter(), backup.store) for row in each.to_pylist()]


def grown(backup: Backup, commits: int = 4, seed: int = 5, **configs: str) -> CompactedLog:
    log = CompactedLog(random.Random(seed))
    for _ in range(commits):
        commit_log(backup, log.grow(20), log.end, compacted_shape(**configs))
    return log


def records(backup: Backup) -> int:
    return sum(segment.records for segment in backup.state().all_segments())


def end_at(backup: Backup, seq: int) -> int:
    return backup.catalog.state(upto=seq).positions[TOPIC].end


def test_between_points_without_a_break_nothing_is_touched(backup: Backup) -> None:
    grown(backup)
    (region,) = plan_compaction(backup, ALWAYS).regions
    assert (region.start, region.end, region.cuts) == (0, end_at(backup, 1), ())


def test_what_lies_behind_the_last_break_waits_until_its_points_are_dropped(backup: Backup) -> None:
    log = grown(backup, commits=6)
    forget(backup, [2, 3])
    (region,) = plan_compaction(backup, ALWAYS).regions
    assert (region.start, region.end, region.cuts) == (0, end_at(backup, 4), (end_at(backup, 1),))
    forget(backup, [5])
    (region,) = plan_compaction(backup, ALWAYS).regions
    assert (region.end, region.cuts) == (log.end, (end_at(backup, 1), end_at(backup, 4)))


def test_what_a_kept_point_knew_of_a_topic_that_was_not_compacted_stays(backup: Backup) -> None:
    """Who sets a topic to compact by mistake wants the records back that Kafka then drops."""
    log = CompactedLog(random.Random(1))
    for policy in ("delete", "delete", "compact", "compact", "compact"):
        commit_log(backup, log.grow(20), log.end, compacted_shape(policy))
    forget(backup, [1, 4])
    (region,) = plan_compaction(backup, ALWAYS).regions
    assert region.start >= end_at(backup, 2)
    forget(backup, [2, 3])
    assert plan_compaction(backup, ALWAYS).regions[0].start == 0


def test_what_a_kept_point_needs_whose_settings_nobody_could_read_stays(backup: Backup) -> None:
    """They are noted as they were before, and the topic may have been set otherwise meanwhile."""
    log = CompactedLog(random.Random(1))
    for number in range(1, 5):
        shape = replace(compacted_shape(), configs_unread=number == 2)
        commit_log(backup, log.grow(20), log.end, shape)
    forget(backup, [1, 3])
    assert [region.start for region in plan_compaction(backup, ALWAYS).regions] == [end_at(backup, 2)]
    forget(backup, [2])
    assert plan_compaction(backup, ALWAYS).regions[0].start == 0


@pytest.mark.parametrize("unsure", [{"policy": "delete"}, {"unread": "true"}])
def test_a_topic_that_may_not_be_compacted_is_left_alone(backup: Backup, unsure: dict[str, str]) -> None:
    log = grown(backup)
    shape = compacted_shape(unsure.get("policy", "compact"))
    commit_log(backup, b"", log.end, replace(shape, configs_unread="unread" in unsure))
    forget(backup, [1, 2, 3, 4])
    assert plan_compaction(backup, ALWAYS).regions == ()


def test_what_was_compacted_is_due_again_when_as_much_is_new(backup: Backup) -> None:
    log = grown(backup)
    forget(backup, [1, 2, 3])
    request = CompactionRequest()
    assert compacted(backup, request).regions == 1
    assert plan_compaction(backup, request).regions == ()
    commit_log(backup, log.grow(2), log.end, compacted_shape())
    forget(backup, [4, 5, 6, 7])
    assert plan_compaction(backup, request).not_due == 1
    state = commit_log(backup, log.grow(40), log.end, compacted_shape())
    forget(backup, [state.seq - 2, state.seq - 1])
    (region,) = plan_compaction(backup, request).regions
    assert region.start == 0
    assert 0 < region.dirty_bytes < region.raw_bytes
    compacted(backup, request)
    assert read_state(backup, state.seq)[:2] == log.state_at(log.end)


def test_a_step_takes_some_of_what_is_due_and_one_region_at_least(backup: Backup) -> None:
    log = grown(backup)
    base = backup.state()
    hole = RecordedHole(partition_id=TOPIC, start=log.end, end=log.end + 1, reason="retention")
    backup.commit(CommitChanges(holes=(hole,)), base=base, writer="hole")
    log.end += 1
    commit_log(backup, log.grow(20), log.end, compacted_shape())
    forget(backup, [1, 2, 3, 4, 5])
    assert len(plan_compaction(backup, ALWAYS).regions) == 2
    some = plan_compaction(backup, replace(ALWAYS, max_bytes=1))
    assert (len(some.regions), some.is_all) == (1, False)
    assert plan_compaction(backup, replace(ALWAYS, max_bytes=1 << 30)).is_all


@pytest.mark.parametrize("noted", [True, False])
def test_stretches_that_become_one_are_compacted_as_one(backup: Backup, store: MemoryStore, noted: bool) -> None:
    log = grown(backup, commits=7)
    forget(backup, [1, 3, 5])  # 2, 4, 6 and 7 are left
    compacted(backup)
    before = records(backup)
    state = backup.state()
    forget(backup, [2, 4, *range(6, state.seq)])
    if not noted:
        store.put_overwrite(backup.layout.compaction_key, b"{")
    due = plan_compaction(backup, CompactionRequest()).regions
    assert len(due) == noted  # without word of the pieces it waits for news
    if noted:
        compacted(backup, CompactionRequest())
        assert records(backup) < before
    assert read_state(backup, state.seq)[:2] == log.state_at(log.end)
    assert plan_compaction(backup, CompactionRequest()).regions == ()


def test_what_was_compacted_in_several_stretches_is_not_due_again(backup: Backup) -> None:
    """One segment may hold several of them."""
    grown(backup, commits=6)
    forget(backup, [2, 3, 5])
    assert len(plan_compaction(backup, CompactionRequest()).regions[0].stretches) > 1
    compacted(backup, CompactionRequest())
    assert plan_compaction(backup, CompactionRequest()).regions == ()
    assert plan_compaction(backup, ALWAYS).regions == ()


def test_the_ratio_of_the_topic_counts(backup: Backup) -> None:
    log = grown(backup, min_cleanable_dirty_ratio="0.01")
    forget(backup, [1, 2, 3])
    compacted(backup, CompactionRequest())
    state = commit_log(backup, log.grow(2), log.end, compacted_shape(min_cleanable_dirty_ratio="0.01"))
    forget(backup, [state.seq - 3, state.seq - 2, state.seq - 1])
    assert len(plan_compaction(backup, CompactionRequest()).regions) == 1


def test_a_tombstone_goes_only_when_it_is_older_than_the_topic_says(backup: Backup, store: MemoryStore) -> None:
    day = 86_400_000
    log = CompactedLog(random.Random(3))
    for _ in range(3):
        commit_log(backup, log.grow(30), log.end, compacted_shape())
    old = log.end
    store.clock.pass_ms(day)  # its clock
    commit_log(backup, log.grow(30), log.end, compacted_shape())
    store.clock.pass_ms(day // 2)
    last = commit_log(backup, log.grow(30), log.end, compacted_shape())
    forget(backup, [1, 2])
    forget(backup, [4])
    (first, *_) = plan_compaction(backup, ALWAYS).regions
    assert first.tombstones_below == 0  # commit 3 is kept, and at it they were new
    forget(backup, [3])
    (region,) = plan_compaction(backup, ALWAYS).regions
    assert region.tombstones_below == old
    compacted(backup)
    assert read_state(backup, last.seq)[:2] == log.state_at(log.end)


def test_a_partition_of_nothing_but_old_tombstones_keeps_its_last_batch(backup: Backup) -> None:
    log = CompactedLog(random.Random(0), keys=(b"k",))
    data = bytearray()
    for number in range(3):
        record = Record(number, 1_700_000_000_000, 0, b"k", None if number == 2 else b"v")
        data += encode([record])
    log.end = 3
    shape = compacted_shape(delete_retention_ms="0")
    commit_log(backup, bytes(data), 3, shape)
    done = compacted(backup)
    (segment,) = backup.state().all_segments()
    assert (done.records_after, segment.records, segment.start, segment.end, segment.last_offset) == (0, 0, 0, 3, 2)
    assert read_state(backup, 1) == ({}, [], 0)
    assert verify_deep(backup, runner=InlineRunner()).ok


def test_who_loses_a_commit_goes_on_from_the_newest(backup: Backup) -> None:
    log = grown(backup)
    forget(backup, [1, 2, 3])
    plan = plan_compaction(backup, ALWAYS)
    commit_log(backup, log.grow(5), log.end, compacted_shape())
    done = compact(backup, plan, runner=InlineRunner())
    assert (done.regions, done.left_alone, done.state.seq) == (1, 0, plan.head.seq + 2)
    assert read_state(backup, done.state.seq)[:2] == log.state_at(log.end)


def test_what_goes_is_noted_before_it_does(backup: Backup) -> None:
    grown(backup)
    forget(backup, [1, 2, 3])
    done = compacted(backup)
    (line,) = read_audit(backup.store, backup.layout)
    assert isinstance(line, AuditLine)
    gone, before = done.records_before - done.records_after, done.records_before
    assert line.deletion.what == f"{gone} of {before} records of orders/0 [0, {done.state.positions[TOPIC].end})"
    stored = backup.log.get(done.state.seq)
    assert stored is not None
    assert (line.by, line.commit, line.writer) == ("compaction", done.state.seq - 1, stored.commit.writer)


def test_what_was_rolled_up_meanwhile_is_left_to_the_next_run(backup: Backup) -> None:
    grown(backup)
    forget(backup, [1, 2, 3])
    plan = plan_compaction(backup, ALWAYS)
    before = records(backup)
    roll_up(backup, [tuple(backup.state().segments[TOPIC])], alone=True)
    done = compact(backup, plan, runner=InlineRunner())
    assert (done.regions, done.left_alone) == (0, 1)
    assert records(backup) == before
    assert compacted(backup).records_after < before


def test_a_restore_that_began_meanwhile_finds_what_it_began_with(backup: Backup) -> None:
    grown(backup)
    forget(backup, [1, 2, 3])
    plan = plan_compaction(backup, ALWAYS)
    before = backup.state()
    record = RestoreRecord(
        restore="r",
        commit=before.seq,
        cluster_id="c",
        request=(),
        isolation="read_committed",
        offsets="auto",
        created_at_ms=backup.store.now_ms(),
        topics=(("orders", "orders"),),
        created=(),
    )
    put_record(backup.store, RestoreLayout(backup=backup.layout, restore="r"), record)
    done = compact(backup, plan, runner=InlineRunner())
    assert (done.regions, done.left_alone, backup.state()) == (0, 1, before)


def test_what_cannot_be_read_is_left_as_it_is(backup: Backup, store: MemoryStore) -> None:
    grown(backup)
    forget(backup, [1, 2, 3])
    before = backup.state()
    key = next(iter(before.all_segments())).key
    store.objects[key] = store.objects[key][:-3] + b"xyz"
    done = compacted(backup)
    assert (done.regions, done.left_alone, backup.state()) == (0, 1, before)


def test_what_would_hardly_become_smaller_is_not_written_again_and_not_looked_at_again(backup: Backup) -> None:
    log = CompactedLog(random.Random(0))
    data = b"".join(bytes(encode([Record(n, 5, 0, b"%d" % n, b"v")])) for n in range(30))
    log.end = 30
    commit_log(backup, data, 30, compacted_shape())
    before = tuple(backup.state().all_segments())
    compacted(backup)
    state = backup.state()
    assert tuple(state.all_segments()) == before
    assert plan_compaction(backup, CompactionRequest()).regions == ()
    assert list(state.compacted.values()) == [((0, 30),)]
    with pytest.raises(NoSuchRestorePoint, match="are no longer known"):
        found(backup, before={TOPIC.topic_partition: 10})
    assert "may have fewer records" in str(leave_out_as_compacted(next(iter(state.topics.values()))))


def test_what_was_replaced_is_collected(backup: Backup, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    log = grown(backup)
    forget(backup, [1, 2, 3])
    old = {segment.key for segment in backup.state().all_segments()}
    done = compacted(backup)
    for _ in range(2):  # one damaged commit must not bring back what needs them
        commit_log(backup, b"", log.end, compacted_shape())
    collect(backup, plan_collection(backup, clock=SystemClock(), grace_ms=0), runner=InlineRunner())
    assert not old & store.objects.keys()
    assert read_state(backup, done.state.seq)[:2] == log.state_at(log.end)
    assert verify_deep(backup, runner=InlineRunner()).ok


def found(backup: Backup, **point: object) -> PointInTime:
    request = RestoreRequest(selection=parse_selection(["orders"]), **point)  # type: ignore[arg-type]
    return find_point(backup, request)


def test_a_moment_inside_of_what_was_compacted_is_refused(backup: Backup) -> None:
    log = grown(backup)
    forget(backup, [1, 2])
    compacted(backup)
    (span,) = backup.state().compacted[TOPIC]
    state = commit_log(backup, log.grow(10), log.end, compacted_shape())
    where = TOPIC.topic_partition
    for point in (
        {"before": {where: span[1] - 1}},
        {"at": str(FIRST_TIME_MS + 60)},
    ):
        with pytest.raises(NoSuchRestorePoint, match="compacted over offsets 0 to"):
            found(backup, **point)
    assert found(backup, before={where: log.end - 1}).state.positions[TOPIC].end == log.end - 1
    assert found(backup, at=str(FIRST_TIME_MS + log.end + 100)).until_ms is not None
    assert found(backup, commit=3).commit.seq == 3
    assert found(backup).commit.seq == state.seq


@pytest.mark.parametrize("seed", range(3))
def test_a_moment_that_is_not_refused_is_exact(backup: Backup, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(regions.make_parts, "__kwdefaults__", {"part_bytes": rng.choice((1, 1000, 1 << 30))})
    log = CompactedLog(rng)
    ends: dict[int, int] = {}
    for _ in range(6):
        state = commit_log(backup, log.grow(rng.randrange(1, 20)), log.end, compacted_shape(delete_retention_ms="0"))
        ends[state.seq] = log.end
    forget(backup, doomed := [seq for seq in ends if rng.random() < 0.6] or [1])
    compacted(backup)
    for _ in range(60):
        seq = rng.choice(sorted(ends.keys() - {*doomed} or {backup.state().seq}))
        end, before = ends.get(seq, log.end), rng.randrange(log.end + 1)
        until_ms = FIRST_TIME_MS + rng.randrange(-60, log.end + 60)
        for point, truth in (
            ({"at": str(until_ms)}, (end, until_ms)),
            ({"before": {TOPIC.topic_partition: min(before, end)}}, (min(before, end),)),
        ):
            with suppress(NoSuchRestorePoint):
                seen = read_point(backup, found(backup, commit=seq, **point))
                assert seen[:2] == log.state_at(*truth)


@pytest.mark.parametrize("at_ms", [-10, 10])
def test_a_moment_in_front_of_what_replaced_a_record_is_refused(
    backup: Backup, monkeypatch: pytest.MonkeyPatch, at_ms: int
) -> None:
    """By a broker's times whole segments are later, and leave the point: what replaced the record is in one of them."""
    monkeypatch.setattr(regions.make_parts, "__kwdefaults__", {"part_bytes": 1})
    written = ((b"k", 0), (b"m", 1), (b"k", 100))
    records = [
        Record(n, FIRST_TIME_MS + after, 1, key, b"v" * (200 - 50 * n)) for n, (key, after) in enumerate(written)
    ]
    data = b"".join(bytes(encode([each], is_append_time=True)) for each in records)
    commit_log(backup, data, 3, compacted_shape(), pieces=3)
    compacted(backup)
    assert [segment.records for segment in backup.state().all_segments()] == [0, 1, 1]
    with pytest.raises(NoSuchRestorePoint, match="compacted over offsets 0 to 2"):
        found(backup, at=str(FIRST_TIME_MS + at_ms))
    assert found(backup, at=str(FIRST_TIME_MS + 100)).state.segments[TOPIC].end == 3


def test_a_moment_in_front_of_a_tombstone_that_went_is_refused(backup: Backup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers' times need not rise: what stays may all be older than the tombstone."""
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    written = ((b"k", b"v" * 200, 0), (b"k", None, 100), (b"m", b"m", 50))
    records = [Record(n, FIRST_TIME_MS + after, 0, key, value) for n, (key, value, after) in enumerate(written)]
    data = b"".join(bytes(encode([each])) for each in records)
    commit_log(backup, data, 3, compacted_shape(delete_retention_ms="0"))
    assert compacted(backup).records_after == 1
    for _ in range(2):  # also as the catalog has it
        with pytest.raises(NoSuchRestorePoint, match="compacted over offsets 0 to 2"):
            found(backup, at=str(FIRST_TIME_MS + 60))
        assert found(backup, at=str(FIRST_TIME_MS + 100)).state.positions[TOPIC].end == 3
        commit_log(backup, b"", 3, compacted_shape(delete_retention_ms="0"))


def test_where_a_checkpoint_ends_is_the_end_of_a_point(backup: Backup) -> None:
    log = CompactedLog(random.Random(1))
    commit_log(backup, log.grow(10), log.end, compacted_shape())
    middle = log.end
    data = log.grow(20)
    base = backup.state()
    taken = Checkpoint(id=1, taken_at_ms=1, ends=((TOPIC, middle + 3),))
    position = Position(partition_id=TOPIC, log_start=0, end=log.end, leader_epoch=3)
    segments = tuple(segments_of(backup, data, middle, log.end, 2))
    backup.commit(CommitChanges(segments=segments, positions=(position,), checkpoint=taken), base=base, writer="w")
    forget(backup, [1])
    (region,) = plan_compaction(backup, ALWAYS).regions
    assert region.cuts == (middle + 3,)


def test_what_the_cut_of_a_kept_point_may_leave_out_replaces_nothing(backup: Backup) -> None:
    log = grown(backup)
    end = end_at(backup, 4)
    floor = end - 10
    state = commit_cut(backup, CommitCut(partitions=(CutPartition(partition_id=TOPIC, end=end, floor=floor),)))
    for _ in range(3):
        commit_log(backup, log.grow(20), log.end, compacted_shape())
    forget(backup, [each for each in range(1, state.seq + 3) if each != state.seq])
    before = stored_offsets(backup)
    compacted(backup)
    assert [each for each in before if floor <= each < end] == [
        each for each in stored_offsets(backup) if floor <= each < end
    ]
    assert len(stored_offsets(backup)) < len(before)
    request = RestoreRequest(selection=parse_selection(["orders"]), commit=state.seq)
    assert find_point(backup, request, cut=CutChoice.CONSISTENT).cut.unsettled(TOPIC) == (floor, end)


def test_a_cut_is_not_read_where_what_it_may_leave_out_was_compacted_already(backup: Backup) -> None:
    grown(backup)
    forget(backup, [1, 2, 3])
    compacted(backup)
    end = end_at(backup, 4)
    commit_cut(backup, CommitCut(partitions=(CutPartition(partition_id=TOPIC, end=end, floor=end - 10),)))
    request = RestoreRequest(selection=parse_selection(["orders"]))
    with pytest.raises(NoSuchRestorePoint, match="compacted over offsets 0 to") as told:
        find_point(backup, request, cut=CutChoice.AUTO)
    assert "--cut as-copied" in told.value.hint
    assert find_point(backup, request, cut=CutChoice.AS_COPIED).state.positions[TOPIC].end == end


def stored_offsets(backup: Backup) -> list[int]:
    """Of all records that are stored."""
    return [
        record.offset
        for segment in backup.state().all_segments()
        for chunk in SegmentReader(store=backup.store, segment=segment).chunks()
        for header in chunk.batches
        for record in decode(header.view(chunk.data), header)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_was_cut_back_keeps_both_histories(backup: Backup, seed: int) -> None:
    rng = random.Random(seed)
    old = CompactedLog(rng)
    shape = compacted_shape(delete_retention_ms="0")
    for _ in range(4):
        commit_log(backup, old.grow(15), old.end, shape, pieces=3)
    at = rng.choice([each.records[0].offset for each in old.batches if each.records[0].offset > end_at(backup, 2)])
    cut_back(backup, at, old.end)
    new = old.cut_at(at)
    for _ in range(3):
        last = commit_log(backup, new.grow(15), new.end, shape, pieces=3)
    kept = {2: old, 4: old, last.seq - 1: new, last.seq: new}
    ends = {seq: end_at(backup, seq) for seq in kept}
    forget(backup, sorted(set(range(1, last.seq)) - kept.keys()))
    done = compacted(backup)
    assert done.regions > 0
    for seq, log in kept.items():
        assert read_state(backup, seq)[:2] == log.state_at(ends[seq])
        assert backup.state_at(seq).holes == ()
    assert verify_deep(backup, runner=InlineRunner()).ok


def cut_back(backup: Backup, at: int, end: int) -> None:
    over = next((s for s in backup.state().segments[TOPIC] if s.start < at < s.end), None)
    found = part_segment(over, at, backup.store) if over else None
    parts = {"below": found.below, "above": found.above} if found else {}
    cut = CutBack(partition_id=TOPIC, at=at, end=end, epoch=3, leader_epoch=4, **parts)
    backup.commit(CommitChanges(cut_back=(cut,)), base=backup.state(), writer="cut")
