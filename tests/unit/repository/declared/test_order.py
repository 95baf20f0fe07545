"""Which backup is older is told by ledgers, also over several of them and their copies."""

from __future__ import annotations

from offsite.repository.declared.entry import BackupSettings, BackupStart, Origin, Predecessor
from offsite.repository.declared.history import BackupPhase, Located, LowLevelBackup, find_last, is_older, rank

BEGINNING = BackupStart(backup="b", path="b", tag="t", cluster="c", topics=("*",))


def low(
    ledger: str,
    number: int,
    word: str,
    *older: str,
    started_ms: int = 0,
    phase: BackupPhase = BackupPhase.STOPPED,
    told: bool = True,
) -> Located:
    predecessors = tuple(Predecessor(backup="b", word=each) for each in older)
    found = LowLevelBackup(
        number=number,
        beginning=BEGINNING,
        settings=BackupSettings(snapshot_duration="7d"),
        phase=phase,
        started_ms=started_ms,
        word=word,
        origin=Origin(predecessors=predecessors) if told else None,
    )
    return Located(ledger=ledger, low=found)


def test_a_backup_is_newer_than_those_it_names_and_those_they_name() -> None:
    first, second = low("A", 1, "a1", started_ms=900), low("B", 1, "b1", "a1", started_ms=500)
    third = low("C", 1, "c1", "b1", started_ms=100)
    among = (third, first, second)
    assert [is_older(first, third, among), is_older(third, first, among)] == [True, False]
    assert find_last(among) == third
    assert sorted(among, key=lambda each: rank(each, among)) == [first, second, third]


def test_there_and_back_is_told_by_numbers_and_names() -> None:
    among = (low("A", 1, "a1"), low("B", 1, "b1", "a1"), low("A", 2, "a2", "a1", "b1", phase=BackupPhase.RUNNING))
    assert find_last(among) == among[2]
    assert is_older(among[1], among[2], among)


def test_what_no_ledger_tells_is_neither_older_nor_newer() -> None:
    among = (low("A", 1, "a1", told=False), low("B", 1, "b1", told=False, started_ms=9))
    assert not is_older(among[0], among[1], among)
    assert find_last(among) is None


def test_a_copy_is_neither_older_nor_newer_than_what_it_is_a_copy_of() -> None:
    original, copy = low("A", 1, "a1"), low("copy", 1, "a1", phase=BackupPhase.RUNNING)
    among = (original, copy)
    assert not is_older(original, copy, among)
    assert find_last(among) == copy, "it is the one that goes on"


def test_one_that_is_live_and_older_than_another_is_not_the_last() -> None:
    among = (low("A", 1, "a1", phase=BackupPhase.RUNNING), low("B", 1, "b1", "a1"))
    assert find_last(among) is None


def test_two_that_each_name_the_other_are_unrelated() -> None:
    among = (low("A", 1, "a1", "b1"), low("B", 1, "b1", "a1"))
    assert not is_older(among[0], among[1], among)
    assert find_last(among) is None
