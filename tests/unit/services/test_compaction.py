"""What a compaction leaves: every kept restore point has the same latest record of each key as before."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from offsite.copy.compaction import latest, regions
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.services.compaction.plan import CompactionRequest, plan_compaction
from offsite.services.compaction.run import Compacted, compact
from offsite.services.verify.run import verify_deep
from tests.backups import new_backup
from tests.compacted_logs import CompactedLog, commit_log, compacted_shape, forget, read_state
from tests.inline_runner import InlineRunner
from tests.source_events.memory_store import MemoryStore

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


def compacted(backup: Backup, request: CompactionRequest = ALWAYS) -> Compacted:
    return compact(backup, plan_compaction(backup, request), runner=InlineRunner(), slots=3)


@pytest.mark.parametrize("seed", range(60))
def test_each_kept_point_keeps_the_latest_of_each_key(
    backup: Backup, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(regions.parts_of, "__kwdefaults__", {"part_bytes": rng.choice((1, 2000, 1 << 30))})
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
        for seq, end in ends.items():
            found, keyless, _ = read_state(backup, seq)
            assert (found, keyless) == log.state_at(end)
            assert backup.state_at(seq).holes == ()
    assert verify_deep(backup, runner=InlineRunner()).ok
