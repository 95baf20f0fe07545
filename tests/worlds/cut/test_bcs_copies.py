"""Leaders of one partition, of which the earlier ones do not know that they were deposed, in all orders of their steps:
a verdict that somebody was told never turns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from offsite_participant.bcs import Created
from offsite_participant.bcs_copies import (
    BackupStatus,
    Beginning,
    Copy,
    CopyState,
    beginning,
    ending,
    never_begun,
    orphaned,
    status_of,
    superseded,
)

ID, PARTITION = 7, 1
TAKEN = Created(checkpoint=ID, position=40)
Steps = Iterator[None]
"""Between two of them another leader may act; each reads or changes the store once."""
VERDICTS = {BackupStatus.COMPLETED, BackupStatus.FAILED}


def copy_of(term: int, state: CopyState = CopyState.IN_PROGRESS) -> Copy:
    return Copy(partition=PARTITION, checkpoint=ID, term=term, state=state, position=40, partitions=1)


class Store:
    def __init__(self) -> None:
        self.held: dict[int, Copy] = {}
        self.statuses: list[BackupStatus] = []

    def put(self, copy: Copy) -> None:
        assert copy.term not in self.held
        self._set(copy)

    def swap(self, old: Copy, state: CopyState) -> None:
        if self.held.get(old.term) == old:
            self._set(replace(old, state=state))

    def look(self) -> tuple[Copy, ...]:
        return tuple(self.held.values())

    def _set(self, copy: Copy) -> None:
        self.held[copy.term] = copy
        self.statuses.append(status_of(self.look(), checkpoint=ID, partitions=1))


def uploads(store: Store, term: int, end: CopyState, *, looks_again: bool) -> Steps:
    """A leader that processes the `Create`, and whose copy ends so if nobody keeps it from it."""
    is_put = False
    while True:
        copies = store.look()
        yield
        if beginning(copies, partition=PARTITION, checkpoint=ID, term=term) is not Beginning.COPY:
            if is_put:
                store.swap(copy_of(term), CopyState.ABANDONED)
            return
        older = list(superseded(copies, partition=PARTITION, checkpoint=ID, term=term))
        for each in older:
            store.swap(each, CopyState.ABANDONED)
            yield
        if not older and not is_put:
            store.put(copy_of(term))
            is_put = True
            yield
            older = [copy_of(term)] if looks_again else []
        if not older:
            store.swap(copy_of(term), end)
            return


def cleans_up(store: Store, term: int, *, looks_again: bool) -> Steps:
    """A leader that replays the `Created`, and ends what will never end otherwise."""
    copies = yield from without_orphans(store, term)
    for _ in never_begun(copies, partition=PARTITION, replayed=[TAKEN]):
        if not looks_again:
            store.put(copy_of(term, CopyState.FAILED))
            return
        store.put(copy_of(term))
        yield
        copies = yield from without_orphans(store, term)
        store.swap(copy_of(term), ending(copies, partition=PARTITION, checkpoint=ID, term=term))


def without_orphans(store: Store, term: int) -> Generator[None, None, tuple[Copy, ...]]:
    """All copies, as seen when there was no orphan left."""
    while True:
        copies = store.look()
        yield
        left = next(orphaned(copies, partition=PARTITION, newest=ID, term=term), None)
        if left is None:
            return copies
        store.swap(left, ending(copies, partition=PARTITION, checkpoint=ID, term=left.term))
        yield


Leader = Callable[[Store], Steps]
EARLIER_STEPS = LATER_STEPS = 8


def histories(earlier: Leader, later: Leader) -> Iterator[list[BackupStatus]]:
    """What a user could see, in each order of the steps of both."""
    for chosen in combinations(range(EARLIER_STEPS + LATER_STEPS), EARLIER_STEPS):
        store = Store()
        leaders = [later(store), earlier(store)]
        for turn in range(EARLIER_STEPS + LATER_STEPS):
            next(leaders[turn in chosen], None)
        for each in leaders:
            assert next(each, "ended") == "ended", "it takes more steps than the test gives it"
        yield store.statuses


def turned(statuses: list[BackupStatus]) -> bool:
    verdicts = [each for each in statuses if each in VERDICTS]
    return any(each is not verdicts[0] or statuses[-1] not in VERDICTS for each in verdicts)


def leaders_of(case: str, *, looks_again: bool) -> tuple[Leader, Leader]:
    def earlier(store: Store) -> Steps:
        return uploads(store, 1, CopyState.COMPLETED, looks_again=looks_again)

    def later(store: Store) -> Steps:
        if case == "replays":
            return cleans_up(store, 2, looks_again=looks_again)
        return uploads(store, 2, CopyState.FAILED, looks_again=looks_again)

    return earlier, later


@pytest.mark.parametrize("case", ["replays", "processes it anew"])
def test_no_verdict_turns_in_any_order_of_the_steps_of_two_leaders(case: str) -> None:
    seen = list(histories(*leaders_of(case, looks_again=True)))
    assert not [each for each in seen if turned(each)]
    assert {each[-1] for each in seen} == VERDICTS


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("ends", [(CopyState.COMPLETED, CopyState.COMPLETED), (CopyState.FAILED, CopyState.COMPLETED)])
def test_no_verdict_turns_where_two_leaders_do_not_know_that_they_are_none(
    seed: int, ends: tuple[CopyState, CopyState]
) -> None:
    """Seed 16135 of the simulator: the copy of the earlier one, begun late, was failed while that of the other one went
    on."""
    random = Random(seed)
    for _ in range(500):
        store = Store()
        leaders = {
            1: uploads(store, 1, ends[0], looks_again=True),
            2: uploads(store, 2, ends[1], looks_again=True),
            3: cleans_up(store, 3, looks_again=True),
        }
        while leaders:
            term = random.choice(list(leaders))
            if next(leaders[term], "ended") == "ended":
                del leaders[term]
        assert not turned(store.statuses), store.statuses


@pytest.mark.parametrize("case", ["replays", "processes it anew"])
def test_one_does_if_nobody_looks_again(case: str) -> None:
    assert any(turned(each) for each in histories(*leaders_of(case, looks_again=False)))


def test_nothing_is_said_of_a_deleted_checkpoint_that_was_never_begun_here() -> None:
    deleted = replace(copy_of(1, CopyState.DELETED), partition=2)
    assert not list(never_begun([deleted], partition=PARTITION, replayed=[TAKEN]))


def test_of_several_unfinished_copies_the_earliest_is_ended_first_and_the_last_one_fails() -> None:
    copies = [copy_of(3), copy_of(1), copy_of(2)]
    left = list(orphaned(copies, partition=PARTITION, newest=ID, term=4))
    assert [each.term for each in left] == [1, 2, 3]
    ends = [ending(copies, partition=PARTITION, checkpoint=ID, term=each.term) for each in left]
    assert ends == [CopyState.ABANDONED, CopyState.ABANDONED, CopyState.FAILED]
    copies.append(copy_of(1, CopyState.COMPLETED))
    assert ending(copies, partition=PARTITION, checkpoint=ID, term=3) is CopyState.ABANDONED


def test_of_what_is_not_above_the_restored_checkpoint_nothing_is_said_or_failed() -> None:
    before, after = replace(copy_of(1), checkpoint=ID), replace(copy_of(1), checkpoint=ID + 1)
    found = orphaned([before, after], partition=PARTITION, newest=ID + 1, term=2, restored=ID)
    assert list(found) == [after]
    later = replace(TAKEN, checkpoint=ID + 1, position=50)
    assert list(never_begun([], partition=PARTITION, replayed=[TAKEN, later], restored=ID)) == [later]


def test_no_copy_is_made_of_what_is_not_above_the_restored_checkpoint() -> None:
    """Two requests that lie next to each other in a log: of the first, the restored leader has not processed any."""
    for checkpoint, decision in ((ID - 1, Beginning.SKIP), (ID, Beginning.SKIP), (ID + 1, Beginning.COPY)):
        assert beginning([], partition=PARTITION, checkpoint=checkpoint, term=2, restored=ID) is decision


def test_an_abandoned_copy_is_as_good_as_none() -> None:
    """Whoever abandoned it was to make its own, and died before: seed 298 of the simulator, which saw it come late."""
    assert list(never_begun([copy_of(1, CopyState.ABANDONED)], partition=PARTITION, replayed=[TAKEN])) == [TAKEN]


def test_a_marker_has_no_copy_that_could_be_missed() -> None:
    assert not list(never_begun([], partition=PARTITION, replayed=[replace(TAKEN, is_marker=True)]))
