"""Random courses of everything that may make an expiry job delete what somebody needs (see `expiry_world`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from offsite.log.range import PartitionId
from offsite.model.clock import Clock
from offsite.operator.decide import succession
from offsite.operator.decide.succession import SuccessionVerdict, Successor
from offsite.operator.work import comparison, expire, replacement
from offsite.operator.work import comparison as reading
from offsite.operator.work.replacement import ExpiringBackup
from offsite.repository import leftovers
from offsite.repository.commit_log import CommitLog
from offsite.repository.declared import history
from offsite.repository.declared.entry import LastCommit
from offsite.repository.declared.history import Located
from offsite.repository.layout import BackupLayout
from offsite.repository.partition_history import Spans
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.restore import lease
from offsite.stores.store import Store
from offsite.upkeep.retention import pins
from tests.worlds.operator.expiry_world import POOLS, ExpiryWorld, InlinePool, Lost, play, remembered

SEEDS = int(os.environ.get("OFFSITE_OPERATOR_SEEDS", "10000"))
CAUGHT_WITHIN = int(os.environ.get("OFFSITE_MISTAKE_SEEDS", "1000"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in POOLS:
        monkeypatch.setattr(f"{module}.ThreadPoolExecutor", InlinePool)
    monkeypatch.setattr(CommitLog, "_decoded", remembered())


def played(seed: int) -> ExpiryWorld:
    try:
        return play(seed)
    except Exception as error:
        raise type(error)(f"seed {seed}: {error}") from error


@pytest.mark.usefixtures("unheard")
def test_nothing_that_somebody_needs_is_deleted() -> None:
    assert sum(len(played(seed).removed) for seed in range(5)), "something was deleted at all"


@pytest.mark.soak
@pytest.mark.usefixtures("unheard")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(3))
def test_nothing_that_somebody_needs_is_deleted_in_many_courses(first: int) -> None:
    seeds = range(first, SEEDS, 3)
    assert sum(len(played(seed).removed) for seed in seeds) > len(seeds) / 10


# What was wrong, once more: one thing at a time. ---------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def ordered_by_clocks(patch: Patch) -> None:
    """The last one is that which is live, or began last by the clock of its store."""

    def last(among: tuple[Located, ...]) -> Located | None:
        return max(among, key=lambda each: (each.low.phase.is_live, each.low.started_ms), default=None)

    patch.setattr(expire, "find_last", last)
    patch.setattr(replacement, "is_older", lambda *_: True)


def a_position_is_enough(patch: Patch) -> None:
    patch.setattr(replacement, "judge_coverage", lambda *_, **__: SuccessionVerdict())


def ends_are_enough(patch: Patch) -> None:
    """What lies below the end of a log is held, and nobody looks for its last batch."""
    patch.setattr(replacement, "same_batches", lambda *_: {})
    patch.setattr(succession, "held_spans", _all_below_the_end)


def _all_below_the_end(state: BackupState, partition: PartitionId) -> Spans:
    end = state.accounted_ends([partition]).get(partition, 0)
    return ((0, end),) if end else ()


def topics_that_lack_are_passed_over(patch: Patch) -> None:
    lacks = succession._Comparison.lacks

    def lenient(comparison: succession._Comparison) -> Iterator[str]:
        return (why for why in lacks(comparison) if "does not have topic" not in why and "another topic" not in why)

    patch.setattr(succession._Comparison, "lacks", lenient)
    _conditions_passed_over(patch)


def _conditions_passed_over(patch: Patch) -> None:
    successor_of = comparison._successor

    def good(repository: Repository, *given: Any) -> Successor:
        return replace(successor_of(repository, *given), left_behind="", missing="")

    patch.setattr(comparison, "_successor", good)


def old_commits_count(patch: Patch) -> None:
    """A backup that went there and back is whole by what it copied before."""
    patch.setattr(comparison, "_begun_behind", lambda *_: LastCommit())


def nothing_is_read(patch: Patch) -> None:
    patch.setattr(reading.ResumableRead, "find_problem", lambda *_: "")


def a_copy_is_what_it_is_a_copy_of(patch: Patch) -> None:
    """What has the same entry in its ledger takes the other one's place: they are the same backup."""
    named = history._is_named

    def same(one: Located, other: Located) -> bool:
        return named(one, other) or (one.ledger != other.ledger and one.low.word == other.low.word)

    patch.setattr(history, "_is_named", same)
    patch.setattr(
        replacement, "is_older", lambda one, other, among: same(one, other) or history.is_older(one, other, among)
    )
    patch.setattr(expire, "find_last", lambda among: next((each for each in among if each.low.phase.is_live), None))
    a_position_is_enough(patch)


def readers_are_asked_afterwards(patch: Patch) -> None:
    """Restores do not look for the mark."""
    patch.setattr(lease, "check_stays", lambda _: None)


def a_killed_restore_reads_nothing(patch: Patch) -> None:
    def living(store: Store, layout: BackupLayout) -> Iterator[leftovers.ReadingRestore]:
        return (reader for reader in leftovers.readers_of(store, layout) if reader.is_live)

    patch.setattr(replacement, "readers_of", living)


def pins_are_asked_for_once(patch: Patch) -> None:
    """Not again, right before something goes."""
    why_in_use = replacement.why_in_use
    asked = dict[tuple[int, int, str], str]()

    def once(uid: str, low: ExpiringBackup, clock: Clock) -> str:
        key = (low.place, low.low.number, low.ledger.head)
        return asked.setdefault(key, why_in_use(uid, low, clock))

    patch.setattr(expire, "why_in_use", once)
    patch.setattr(replacement, "why_in_use", once)


def pins_are_not_asked_for(patch: Patch) -> None:
    patch.setattr(replacement, "pinned_points", lambda _: ())


def pins_come_too_late(patch: Patch) -> None:
    patch.setattr(pins, "check_stays", lambda _: None)


def what_is_removing_is_removed(patch: Patch) -> None:
    """Whoever brought it back."""
    patch.setattr(expire, "was_brought_back", lambda *_: False)


def a_release_is_for_ever(patch: Patch) -> None:
    patch.setattr(replacement, "is_released", lambda *given: given[-1].release is not None)


def no_minimum_is_none(patch: Patch) -> None:
    unfit = succession._unfit

    def lenient(successor: Successor, minimum_ms: int) -> Iterator[str]:
        return (why for why in unfit(successor, minimum_ms) if "minimumRestorable" not in why)

    patch.setattr(succession, "_unfit", lenient)


def the_minimum_counts_to_now(patch: Patch) -> None:
    successor_of = comparison._successor

    def till_now(repository: Repository, *given: Any) -> Successor:
        return replace(successor_of(repository, *given), until_ms=repository.store.now_ms())

    patch.setattr(comparison, "_successor", till_now)


def logs_are_told_by_their_names(patch: Patch) -> None:
    """Of a source that gives topics no ids."""
    patch.setattr(succession._Comparison, "_differs", lambda *_: ())


MISTAKES: tuple[Callable[[Patch], None], ...] = (
    ordered_by_clocks,
    a_position_is_enough,
    ends_are_enough,
    topics_that_lack_are_passed_over,
    old_commits_count,
    nothing_is_read,
    a_copy_is_what_it_is_a_copy_of,
    readers_are_asked_afterwards,
    a_killed_restore_reads_nothing,
    pins_are_asked_for_once,
    pins_are_not_asked_for,
    pins_come_too_late,
    what_is_removing_is_removed,
    a_release_is_for_ever,
    no_minimum_is_none,
    the_minimum_counts_to_now,
    logs_are_told_by_their_names,
)


def caught_by(mistake: Callable[[Patch], None], patch: Patch, seeds: range) -> int:
    """The first seed whose course finds that something was lost; -1: none does."""
    mistake(patch)
    for seed in seeds:
        try:
            play(seed)
        except Lost:
            return seed
    return -1


@pytest.mark.usefixtures("unheard")
def test_courses_find_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    assert caught_by(pins_are_not_asked_for, monkeypatch, range(30)) >= 0


@pytest.mark.soak
@pytest.mark.usefixtures("unheard")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_each_mistake_is_caught(mistake: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    assert caught_by(mistake, monkeypatch, range(CAUGHT_WITHIN)) >= 0
