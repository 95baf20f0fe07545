"""One range on its way into segments: what a receipt says accounts for every offset of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offsite.backup import copy as backup_copy
from offsite.backup.copy_pass import Committable, find_committable
from offsite.backup.copy_plan import PartitionBounds, plan_copy
from offsite.engine.runner import Done
from offsite.log.batch import LastBatch, scan
from offsite.model.errors import TopicReplaced
from offsite.repository.layout import BackupLayout
from offsite.stores.posix_store import open_folder
from tests.batches import make_batch
from tests.unit.kafka.scripted_leader import DELETED, TOPIC, ScriptedLeader, ScriptedRouter

BATCHES_A_SEGMENT = 2


def copied(  # a log, and what is known of it
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *bases: int,
    end: int,
    start: int = 0,
    border: LastBatch | None = None,
    script: Sequence[str] = (),
    **more: int,
) -> Committable:
    """A log of these batches, each of ten offsets, copied into small segments from `start` on, behind `border`."""
    store = open_folder(tmp_path / "repository")
    store.prepare()
    leader = ScriptedLeader([make_batch(base) for base in bases], script=deque(script), **more)
    router, writer = ScriptedRouter(leader), backup_copy.SegmentWriter
    small = len(make_batch(0)) * BATCHES_A_SEGMENT
    monkeypatch.setattr(backup_copy, "shared_router", lambda _: router)
    monkeypatch.setattr(backup_copy, "SegmentWriter", lambda **more: writer(**more | {"target_bytes": small}))
    bounds = PartitionBounds(
        topic=TOPIC.topic, topic_id="", partition=TOPIC.partition, log_start=0, end=end, size_bytes=1
    )
    borders = {bounds.partition_id: border} if border else {}
    plan = plan_copy([bounds], {bounds.partition_id: start}, slots=1, borders=borders)
    kafka: Any = None
    ends = backup_copy.BackupEnds(kafka=kafka, store=store, layout=BackupLayout(backup="b"), compression="none")
    return find_committable(plan, [Done(value=backup_copy.copy_range(task, ends=ends)) for task in plan.tasks])


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


def last(batch: bytes) -> LastBatch:
    return LastBatch.of(scan(batch)[-1])


def test_a_log_goes_on_where_it_holds_the_batch_that_was_backed_up_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = copied(tmp_path, monkeypatch, 0, 10, 20, start=20, border=last(make_batch(10)), end=30)
    assert [(each.end, each.last_batch) for each in settled.positions] == [(30, last(make_batch(20)))]
    nothing_new = copied(tmp_path, monkeypatch, 0, 10, start=20, border=last(make_batch(10)), end=20)
    assert nothing_new.positions[0].last_batch == last(make_batch(10)), "it is remembered"


@pytest.mark.parametrize("other", [make_batch(10, value=b"another"), make_batch(11, records=9)])
def test_a_log_that_holds_another_batch_there_is_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: bytes
) -> None:
    known = replace(last(other), last_offset=19)
    with pytest.raises(TopicReplaced, match="the last batch of the backup, at offset 19"):
        copied(tmp_path, monkeypatch, 0, 10, 20, start=20, border=known, end=30)


def test_what_the_log_has_deleted_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = last(make_batch(10, value=b"another"))
    settled = copied(tmp_path, monkeypatch, 0, 10, 20, start=20, border=known, end=30, script=[DELETED], deleted_to=20)
    assert settled.positions[0].end == 30


def test_a_batch_that_reaches_over_a_position_is_copied_whatever_the_log_start_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeleteRecords moved the log start into it, a run went on from there, and a crash of the broker moved it back."""
    settled = copied(tmp_path, monkeypatch, 0, 10, 20, start=15, border=last(make_batch(0)), end=30)
    assert (settled.positions[0].end, settled.failed, settled.holes) == (30, (), ())
    assert [(each.start, each.first_offset, each.end) for each in settled.segments] == [(15, 10, 30)]
