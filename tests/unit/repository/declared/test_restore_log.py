"""The log of a restore: what may follow what, and what a stranger wrote there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.model.errors import DamagedObject
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.restore_log import (
    RESTORE_ENTRY,
    AttemptEnd,
    AttemptOutcome,
    Failure,
    RestoreEntry,
    RestoreHistory,
    apply_restore_entry,
    restore_log,
)
from offsite.stores.numbered_log import EntryRefusedError
from tests.memory_store import MemoryStore

UID = "aaaaaaaa-1"
BEGUN = RestoreEntry(seq=1, previous="", attempt=1, fence=3, word="w", at_ms=1_000)
NEW = RestoreHistory(uid=UID)
UNDER_WAY = apply_restore_entry(NEW, BEGUN, head="one")
NEXT = replace(BEGUN, seq=2, previous="one", at_ms=2_000)


def ended(outcome: AttemptOutcome, **parts: object) -> RestoreEntry:
    return replace(NEXT, end=AttemptEnd(outcome=outcome, **parts))  # type: ignore[arg-type]


@pytest.mark.parametrize("outcome", AttemptOutcome)
def test_an_attempt_that_ended_is_the_end_unless_it_was_lost(outcome: AttemptOutcome) -> None:
    history = apply_restore_entry(UNDER_WAY, ended(outcome), head="two")
    assert history.is_over == (outcome is not AttemptOutcome.LOST)
    again = replace(BEGUN, seq=3, previous="two", attempt=2)
    if history.is_over:
        with pytest.raises(EntryRefusedError):
            apply_restore_entry(history, again, head="three")
    else:
        assert apply_restore_entry(history, again, head="three").attempt == 2


def test_a_restore_that_never_began_may_be_ended() -> None:
    entry = replace(BEGUN, attempt=0, end=AttemptEnd(outcome=AttemptOutcome.CANCELLED))
    assert apply_restore_entry(NEW, entry, head="one").is_over


@pytest.mark.parametrize(
    "entry",
    [
        replace(NEXT, attempt=2),
        replace(NEXT, attempt=1),
        replace(ended(AttemptOutcome.SUCCEEDED), attempt=2),
        replace(ended(AttemptOutcome.SUCCEEDED), fence=2),
        replace(ended(AttemptOutcome.SUCCEEDED), previous="other"),
        replace(ended(AttemptOutcome.SUCCEEDED), seq=3),
    ],
)
def test_what_may_not_follow_is_refused(entry: RestoreEntry) -> None:
    with pytest.raises(EntryRefusedError):
        apply_restore_entry(UNDER_WAY, entry, head="two")


def test_entries_are_read_as_they_were_written() -> None:
    failure = Failure(id="OFF-1402", message="not empty", hint="rename")
    for entry in (
        BEGUN,
        ended(AttemptOutcome.FAILED, job="20260101-000000-0000abcd", failure=failure),
        ended(AttemptOutcome.SUCCEEDED, verified=True),
        ended(AttemptOutcome.SUCCEEDED, verified=False),
    ):
        assert RESTORE_ENTRY.decode(RESTORE_ENTRY.encode(entry), key="here") == entry


def test_of_two_that_append_behind_one_state_one_does() -> None:
    log = restore_log(MemoryStore(), UID)
    assert log.append(BEGUN, to=log.read()) is not None
    assert log.append(replace(BEGUN, word="x"), to=NEW) is None
    assert log.read().attempt == 1


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"nothing",
        RESTORE_ENTRY.encode(replace(BEGUN, attempt=7)),
        RESTORE_ENTRY.encode(BEGUN).replace(b"1000", b"-1"),
        RESTORE_ENTRY.encode(replace(BEGUN, end=AttemptEnd(outcome=AttemptOutcome.LOST))),
        RESTORE_ENTRY.encode(replace(BEGUN, attempt=0, end=AttemptEnd(outcome=AttemptOutcome.FAILED))).replace(
            b"failed", b"maybe"
        ),
    ],
)
def test_what_a_stranger_wrote_there_is_damage_and_nothing_is_decided(data: bytes) -> None:
    store, layout = MemoryStore(), DeclaredLayout(uid=UID)
    store.put_overwrite(f"{layout.restore_prefix}{1:020d}.json", data)
    with pytest.raises(DamagedObject):
        restore_log(store, layout.uid).read()
