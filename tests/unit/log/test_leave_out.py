"""Commit markers that a consistent cut leaves out."""

from __future__ import annotations

import pytest

from offsite.log.committed_view import CommittedView, TransactionOutcomes, abort_left_out
from offsite.log.markers import Marker, Markers
from offsite.model.errors import DamagedObject


def _marker(offset: int, producer_id: int, *, committed: bool = True) -> Marker:
    return Marker(offset=offset, producer_id=producer_id, producer_epoch=0, committed=committed, first_offset=-1)


PARTS = [
    Markers([_marker(5, 1), _marker(7, 2)]),
    Markers(),
    Markers([_marker(9, 1), _marker(12, 3, committed=False), _marker(15, 1)]),
]


def _outcomes(left_out: list[int], *, keep_aborted: bool = False) -> TransactionOutcomes:
    outcomes = TransactionOutcomes(end_offset=100)
    for part in abort_left_out(PARTS, left_out, keep_aborted=keep_aborted):
        outcomes.add(part)
    return outcomes


def test_only_the_transaction_that_a_listed_marker_ends_is_aborted() -> None:
    outcomes = _outcomes([9])
    assert [outcomes.outcome_of(1, offset) for offset in (4, 6, 8, 10, 14)] == [True, False, False, True, True]
    assert outcomes.outcome_of(2, 6) is True
    assert outcomes.outcome_of(3, 11) is False
    assert outcomes.outcome_of(4, 3) is None


def test_what_was_aborted_may_be_kept_and_what_is_left_out_is_not() -> None:
    outcomes = _outcomes([9], keep_aborted=True)
    assert (outcomes.outcome_of(3, 11), outcomes.outcome_of(1, 8), outcomes.outcome_of(1, 14)) == (True, False, True)


@pytest.mark.parametrize("listed", [6, 12, 99], ids=["no marker", "an abort", "behind all"])
def test_an_offset_that_is_no_commit_marker_is_damage(listed: int) -> None:
    with pytest.raises(DamagedObject, match=f"offset {listed}, but the backup has no commit marker there") as told:
        CommittedView(abort_left_out(PARTS, [5, listed]), end_offset=100)
    assert "--cut as-copied" in told.value.hint


def test_a_marker_that_two_segments_hold_counts_once() -> None:
    parts = [*PARTS, Markers([_marker(15, 1)])]
    assert [[each.committed for each in part] for part in abort_left_out(parts, [15])][-2:] == [
        [True, False, False],
        [False],
    ]
