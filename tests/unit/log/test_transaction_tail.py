"""Tails of stretches, folded to the tail of all of them. With copies of real batches:
tests/unit/backup/test_tails.py."""

from __future__ import annotations

from offsite.log.markers import Marker, Markers
from offsite.log.transactions import OpenTransaction, StretchTail, TailFold

BEFORE, BEHIND = Marker(3, 1, 0, True, -1), Marker(8, 1, 0, False, 4)
OPEN = OpenTransaction(producer_id=2, first_offset=5, last_offset=6)


def test_tails_of_stretches_fold_to_the_tail_of_all_whatever_is_folded_first() -> None:
    first, second, both = TailFold(window_start=6), TailFold(window_start=6), TailFold(window_start=6)
    for fold, marker in ((first, BEFORE), (second, BEHIND), (both, BEFORE), (both, BEHIND)):
        fold.add(StretchTail(markers=Markers([marker]), open=(OPEN,)))
    of_tails = TailFold()
    of_tails.add(first.stretch_tail())
    of_tails.add(second.stretch_tail())
    assert (
        of_tails.stretch_tail()
        == both.stretch_tail()
        == StretchTail(markers=Markers([BEHIND]), open=(OPEN,), ended_producer_ids=frozenset({1}))
    )
