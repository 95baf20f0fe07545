"""From what a backup saw to the cut, against the truth: an application that goes on from it does everything once."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from offsite.cut.cut import Cut
from offsite.cut.episodes import window_of
from offsite.cut.greatest import greatest_cut
from offsite.cut.window import GroupCommit
from offsite.log.range import PartitionId
from tests.worlds.cut.transaction_world import Seen, Transaction, seen

WORLDS = 2_000


def wrong(view: Seen, cut: Cut) -> set[str]:
    """What an application would find after a restore of the cut: half a transaction, inputs that are not there, or
    group offsets that are not those of the outputs."""
    away = {(key, marker) for key, markers in cut.markers_left_out().items() for marker in markers}
    found: set[str] = set()
    kept: list[Transaction] = []
    for transaction in view.world.transactions:
        shown = {key for key in transaction.records if _is_shown(transaction, key, cut, away)}
        if shown and shown != transaction.records.keys():
            found.add("half a transaction")
        if shown:
            kept.append(transaction)
    for transaction in view.world.transactions:
        for read in transaction.reads if transaction in kept else ():
            if any(
                each.is_committed
                and each not in kept
                and each.records.get(read.partition, [read.offset])[0] < read.offset
                for each in view.world.transactions
            ):
                found.add("an input is missing")
    return found | _wrong_groups(view, cut, kept)


def _is_shown(transaction: Transaction, key: PartitionId, cut: Cut, away: set[tuple[PartitionId, int]]) -> bool:
    marker = transaction.markers.get(key, cut.ends[key])
    return transaction.is_committed is True and marker < cut.ends[key] and (key, marker) not in away


def _wrong_groups(view: Seen, cut: Cut, kept: list[Transaction]) -> set[str]:
    """Of the commits that were read: what was committed before is in the snapshot of the groups."""
    right: dict[tuple[str, PartitionId], GroupCommit] = {}
    for read in sorted((read for each in kept for read in each.reads), key=lambda read: read.position):
        if read.position >= view.tail_starts[read.log]:
            right[read.group, read.partition] = read
    told = {(each.group, each.partition): each.offset for each in cut.groups}
    return set() if told == {key: each.offset for key, each in right.items()} else {"a group offset is wrong"}


def test_a_restore_of_the_cut_goes_on_exactly_once() -> None:
    judged = moved = 0
    raw: set[str] = set()
    for seed in range(WORLDS):
        view = seen(seed)
        window = window_of(view.evidence)
        cut = greatest_cut(view.evidence.readings[-1].ends, window)
        if window.unpaired or cut.refusals:
            continue
        assert not (found := wrong(view, cut)), f"seed {seed}: {found}"
        judged += 1
        moved += bool(cut.markers_left_out())
        raw |= wrong(view, replace(cut, left_out=()))
    print(f"{judged} of {WORLDS} cuts judged, {moved} leave out what was committed")  # noqa: T201
    assert judged > WORLDS // 4
    assert moved > WORLDS // 20
    assert cast("set[str]", {"half a transaction", "an input is missing"}) & raw
