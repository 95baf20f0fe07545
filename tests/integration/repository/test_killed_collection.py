"""A process that backs up, rolls up and collects is killed at any moment: every restore point stays, to the byte."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from offsite.model.clock import SystemClock
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.stores.open_store import open_store
from offsite.upkeep.collection.run import collect, plan_collection
from offsite.upkeep.verification.run import verify_deep
from tests.backups import PARTITIONS, content, new_backup, run_once
from tests.batches import make_log
from tests.inline_runner import InlineRunner

KILLS, SOAK_KILLS = 4, 60


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [KILLS, pytest.param(SOAK_KILLS, marks=pytest.mark.soak)])
def test_no_restore_point_is_lost_wherever_a_collection_is_killed(
    tmp_path: Path, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    place = str(tmp_path / "repository")
    backup = new_backup(open_store(place))
    chance = random.Random(1)
    for seed in range(kills):
        command = [sys.executable, "-m", "tests.collecting_process", place, str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0, 1.5))  # kills fall anywhere
            running.kill()
        assert_all_points(backup, chance, most=20)
    run_once(backup)
    collect(backup, plan_collection(backup, clock=SystemClock(), grace_ms=0), runner=InlineRunner())
    assert_all_points(backup, chance, most=10**6)
    assert verify_deep(backup, InlineRunner()).ok
    assert not collectable(backup)


def collectable(backup: Backup) -> int:
    return len(plan_collection(backup, clock=SystemClock(), grace_ms=0).objects)


def assert_all_points(backup: Backup, chance: random.Random, *, most: int) -> None:
    head = backup.state()
    seqs = [each.seq for each in head.history]
    for seq in chance.sample(seqs, min(most, len(seqs))):
        point = backup.state_at(seq, head=head)
        assert point.holes == ()
        expected = {known: make_log(0, at.end) for known, at in point.positions.items()}
        assert content(backup.store, point) == expected
        assert set(expected) == set(PARTITIONS)
