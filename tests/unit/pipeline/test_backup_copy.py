"""One range on its way into segments: what a receipt says accounts for every offset of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from offsite.pipeline import backup_copy
from offsite.pipeline.plan import PartitionBounds, plan_copy
from offsite.pipeline.runner import Done
from offsite.repository.layout import BackupLayout
from offsite.repository.posix_store import open_folder
from offsite.services.settlement import Settlement, settle
from tests.batches import make_batch
from tests.unit.kafka.scripted_leader import DELETED, TOPIC, ScriptedLeader, ScriptedRouter

BATCHES_A_SEGMENT = 2


def copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *bases: int, end: int, script: Sequence[str] = (), **more: int
) -> Settlement:
    """A log of these batches, each of ten offsets, copied into small segments."""
    store = open_folder(tmp_path / "repository")
    store.prepare()
    leader = ScriptedLeader([make_batch(base) for base in bases], script=deque(script), **more)
    router, writer = ScriptedRouter(leader), backup_copy.SegmentWriter
    small = len(make_batch(0)) * BATCHES_A_SEGMENT
    monkeypatch.setattr(backup_copy, "shared_router", lambda _: router)
    monkeypatch.setattr(backup_copy, "SegmentWriter", lambda **more: writer(**more, target_bytes=small))
    bounds = PartitionBounds(
        topic=TOPIC.topic, topic_id="", partition=TOPIC.partition, log_start=0, end=end, size_bytes=1
    )
    plan = plan_copy([bounds], {}, slots=1)
    kafka: Any = None
    ends = backup_copy.BackupEnds(kafka=kafka, store=store, layout=BackupLayout(backup="b"), compression="none")
    return settle(plan, [Done(value=backup_copy.copy_range(task, ends=ends)) for task in plan.tasks])


def test_a_gap_where_one_segment_ends_and_the_next_begins_is_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = copied(tmp_path, monkeypatch, 0, 10, 50, 60, end=70)
    assert (settled.positions[0].end, settled.failed) == (70, ())
    assert [(each.start, each.end) for each in settled.gaps] == [(20, 50)]


def test_a_gap_within_a_segment_is_not_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settled = copied(tmp_path, monkeypatch, 0, 40, 50, end=60)
    assert (settled.positions[0].end, settled.gaps) == (60, ())


def test_records_deleted_while_their_range_is_read_are_a_hole_and_in_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = copied(tmp_path, monkeypatch, 0, 10, 20, end=30, script=["", DELETED], deleted_to=14)
    assert (settled.positions[0].end, settled.failed) == (30, ())
    assert [(each.start, each.end, each.reason) for each in settled.holes] == [(10, 14, "retention")]
    assert [(each.start, each.end) for each in settled.segments] == [(0, 14), (14, 30)]
