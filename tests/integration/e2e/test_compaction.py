"""What a compaction leaves of a real log comes back: translated or at its offsets, as of each kept restore point."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage, TopicRecords, read_topic
from offsite.engine.runner import Runner
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.repository.commit import CommitChanges
from offsite.stores.open_store import open_store
from offsite.upkeep.compaction import regions
from offsite.upkeep.compaction.plan import CompactionRequest, plan_compaction
from offsite.upkeep.compaction.run import compact
from offsite.upkeep.verification.run import verify_deep
from tests.backups import new_backup
from tests.batches import make_control_batch
from tests.compacted_logs import CompactedLog, commit_log, compacted_shape, forget, read_state
from tests.integration.e2e.copies import Copy
from tests.integration.e2e.site import new_name
from tests.integration.e2e.test_compacted import compared
from tests.integration.e2e.transactions import begun, with_transaction

ALWAYS = CompactionRequest(min_dirty_ratio=0.0)


def keyed(rng: random.Random, start: int, end: int) -> list[DemoMessage]:
    return [
        DemoMessage(
            key=b"k%d" % rng.randrange(8),
            value=None if rng.random() < 0.2 else b"%d" % number,
            timestamp_ms=BASE_MS + number,
        )
        for number in range(start, end)
    ]


def state_of(reading: TopicRecords, end: int) -> dict[bytes, tuple[int, bytes]]:
    """The latest offset and value of each key below offset `end`."""
    latest = {record.key: record for record in reading[0] if record.offset < end}
    return {  # a gap at the end is filled by a record whose key is none of ours
        key: (record.offset, record.value)
        for key, record in latest.items()
        if key is not None and key.startswith(b"k") and record.value is not None
    }


def by_value(state: dict[bytes, tuple[int, bytes]]) -> dict[bytes, bytes]:
    return {key: value for key, (_, value) in state.items()}


def test_a_compacted_backup_comes_back_with_the_state_of_each_point(copy: Copy) -> None:
    site, rng = copy.site, random.Random(4)
    topic = site.make_topic(cleanup_policy="compact", min_compaction_lag_ms=str(2**63 - 1))
    site.produce(topic, keyed(rng, 0, 60))
    with_transaction(site, topic, keyed(rng, 60, 80), commit=True)
    with_transaction(site, topic, keyed(rng, 80, 100), commit=False)
    first = site.back_up(topic).commit
    still_open = begun(site, topic, keyed(rng, 100, 110))
    site.produce(topic, keyed(rng, 110, 140))
    middle = site.back_up().commit
    still_open.commit_transaction()
    with_transaction(site, topic, keyed(rng, 140, 160), commit=False)
    site.produce(topic, keyed(rng, 160, 200))
    last = site.back_up().commit
    head = site.backup.state()
    site.backup.commit(CommitChanges(forgotten=((middle, middle + 1),)), base=head, writer="forget")
    earlier = site.restore(topic, new_name(topic), commit=first)
    before = sum(segment.records for segment in site.backup.state().all_segments())
    done = compact(site.backup, plan_compaction(site.backup, ALWAYS), runner=site.spark)
    assert done.left_alone == 0
    assert done.records_after < before / 2
    site.assert_verified()
    against = compared(site, topic)
    assert (against.verified, against.findings) == (None, ())  # the source still holds what is left out here
    source = site.read(topic)
    ends = {seq: next(iter(site.backup.catalog.state(upto=seq).positions.values())).end for seq in (first, last)}
    for seq, end in ends.items():
        target = new_name(topic)
        restored = site.restore(topic, target, commit=seq)
        assert restored.verified
        assert by_value(state_of(site.read(target), end)) == by_value(state_of(source, end))
    assert compared(site, topic, restore=restored.restore).verified
    unknown = compared(site, topic, restore=earlier.restore)
    assert (unknown.verified, [each.compacted for each in unknown.left_out]) == (None, [True])
    site.produce(topic, keyed(rng, 200, 210))
    site.back_up()
    against = compared(site, topic)
    assert (against.verified, against.records) == (True, 10)
    result = copy.restore(topic, commit=last)
    assert result.verified
    assert state_of(read_topic(copy.target.bootstrap, topic), ends[last]) == state_of(source, ends[last])


@pytest.mark.parametrize("seed", [1])
def test_spark_finds_the_same(tmp_path: Path, spark: Runner, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    keys = tuple(b"key-%d" % number for number in range(300))
    log = CompactedLog(rng, keys=keys)
    backup = new_backup(open_store(str(tmp_path / "repository")))
    ends = {}
    for _ in range(5):
        state = commit_log(backup, log.grow(200), log.end, compacted_shape(delete_retention_ms="0"), pieces=3)
        ends[state.seq] = log.end
    forget(backup, [1, 3, 4])
    monkeypatch.setattr(regions.make_parts, "__kwdefaults__", {"part_bytes": 5000})
    done = compact(backup, plan_compaction(backup, ALWAYS), runner=spark)
    assert (done.regions, done.left_alone) == (1, 0)
    assert done.records_after < done.records_before / 2
    for seq in (2, 5):
        assert read_state(backup, seq)[:2] == log.state_at(ends[seq])
    assert verify_deep(backup, runner=spark).ok


def test_spark_leaves_alone_what_it_cannot_read(tmp_path: Path, spark: Runner) -> None:
    log = CompactedLog(random.Random(2))
    backup = new_backup(open_store(str(tmp_path / "repository")))
    commit_log(backup, log.grow(30), log.end, compacted_shape(), pieces=3)
    before = backup.state()
    key = next(iter(before.all_segments())).key
    path = next((tmp_path / "repository").rglob(key.rpartition("/")[2]))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-10])
    done = compact(backup, plan_compaction(backup, ALWAYS), runner=spark)
    assert (done.regions, done.left_alone, backup.state()) == (0, 1, before)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_thousand_keys_have_at_twenty_points_what_a_replay_of_the_log_gives(tmp_path: Path, spark: Runner) -> None:
    """A million records in 60 commits, compacted three times while points are dropped."""
    rng = random.Random(20)
    backup = new_backup(open_store(str(tmp_path / "repository")))
    log = LargeLog(rng, keys=50_000)
    kept = sorted({*rng.sample(range(60), 19), 59})
    truth: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}
    for number in range(60):
        state = commit_log(backup, log.grow(170), log.end, compacted_shape(delete_retention_ms="60000"), pieces=2)
        if number in kept:
            truth[state.seq] = dict(log.latest)
        if number % 20 == 19:
            dropped = set(range(state.seq)) & {line.seq for line in backup.state().history} - truth.keys()
            forget(backup, sorted(dropped))
            done = compact(backup, plan_compaction(backup, ALWAYS), runner=spark)
            assert done.left_alone == 0
    assert log.end > 1_000_000
    assert sum(segment.records for segment in backup.state().all_segments()) < log.end / 2
    chosen = rng.sample(sorted(log.latest), 1000)
    for seq, expected in truth.items():
        found, _, _ = read_state(backup, seq)
        shown = {key: (found[key].offset, found[key].value) for key in chosen if key in found}
        assert shown == {key: expected[key] for key in chosen if expected.get(key, (0, None))[1] is not None}
    assert verify_deep(backup, runner=spark).ok


class LargeLog:
    """A log of 100 records a batch, one transaction in three batches aborted, and the latest record of each key."""

    def __init__(self, rng: random.Random, *, keys: int) -> None:
        self.end = 0
        self.latest: dict[bytes, tuple[int, bytes | None]] = {}
        self._rng, self._keys = rng, keys

    def grow(self, batches: int) -> bytes:
        return b"".join(self._batch() for _ in range(batches))

    def _batch(self) -> bytes:
        rng = self._rng
        records = [
            Record(
                self.end + number,
                1_700_000_000_000 + self.end,
                0,
                b"key-%d" % rng.randrange(self._keys),
                None if rng.random() < 0.1 else b"value-%d" % (self.end + number),
            )
            for number in range(100)
        ]
        kind = rng.choice(("plain", "committed", "aborted"))
        is_transactional = kind != "plain"
        data = bytes(
            encode(records, codec=3, producer_id=5 if is_transactional else -1, is_transactional=is_transactional)
        )
        self.end += 100
        if kind != "aborted":
            self.latest.update({record.key or b"": (record.offset, record.value) for record in records})
        if is_transactional:
            data += make_control_batch(self.end, producer_id=5, committed=kind == "committed")
            self.end += 1
        return data
