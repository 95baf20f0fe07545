"""Snapshots that are taken beside the processing: which of them are kept, and which may be the base of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

import pytest

from offsite_participant.bcs_snapshots import SnapshotBeside, SnapshotSpan, doubtful, is_base


@dataclass
class Log:
    """Of an engine at work: `done` is processed, `end` written, `creates` are the checkpoints in the log."""

    done: int
    end: int
    creates: list[int] = field(default_factory=list)

    def processed(self) -> int:
        return self.done

    def written(self) -> int:
        return self.end

    def creates_after(self, position: int) -> Iterable[int]:
        return [create for create in self.creates if create > position]


@pytest.mark.parametrize(
    ("create", "aborted_by"),
    [(9, None), (10, None), (11, 11), (15, 15), (20, 20), (21, None)],
    ids=["before it", "its last record", "behind its begin", "in between", "last written", "behind its end"],
)
def test_a_snapshot_that_may_have_seen_more_than_a_checkpoint_is_aborted(create: int, aborted_by: int | None) -> None:
    assert doubtful(SnapshotSpan(processed=10, written=20), [create]) == aborted_by


def test_where_it_ends_is_asked_before_it_begins_and_after_it_ended() -> None:
    log = Log(done=10, end=12)
    beside = SnapshotBeside(log)
    log.done, log.end = 19, 21
    assert beside.end().span == SnapshotSpan(processed=10, written=21)


def test_a_checkpoint_that_comes_while_it_is_taken_aborts_it() -> None:
    log = Log(done=10, end=12)
    beside = SnapshotBeside(log)
    log.end = 13
    log.creates = [13]
    end = beside.end()
    assert (end.is_kept, end.aborted_by) == (False, 13)


def test_one_that_waits_in_the_log_counts_though_a_later_one_was_asked_for() -> None:
    """ZEP008 looks at the newest checkpoint that was processed: here that would be none, or the one at 25."""
    log = Log(done=10, end=14, creates=[13])
    beside = SnapshotBeside(log)
    log.creates.append(25)
    assert beside.end().aborted_by == 13


def test_without_a_checkpoint_in_between_it_is_kept() -> None:
    log = Log(done=10, end=12, creates=[7])
    beside = SnapshotBeside(log)
    log.end = 40
    assert beside.end().is_kept


def test_a_base_has_certainly_seen_nothing_of_the_checkpoint() -> None:
    span = SnapshotSpan(processed=10, written=20)
    assert [position for position in (10, 11, 20, 21, 22) if is_base(span, before=position)] == [21, 22]


def test_of_what_is_kept_the_first_position_alone_tells_the_base_too() -> None:
    """So a store that knows snapshots by the record that was processed last, as Zeebe's, chooses no wrong one."""
    random = Random(8)
    for _ in range(2_000):
        creates = random.sample(range(60), 6)
        processed = random.randrange(50)
        span = SnapshotSpan(processed=processed, written=processed + random.randrange(20))
        if doubtful(span, creates) is None:
            for create in creates:
                assert is_base(span, before=create) == (span.processed < create)
