"""What all chores of a run have in common: when they are due, how they continue, and what an error means."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from offsite.follow.chores import Chore, Pass, PassEnd
from offsite.model.errors import CommitLost, Damaged, OffsiteError, Refused, StoreUnreachable
from offsite.model.journal import JOURNAL
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState
from tests.backups import new_backup
from tests.memory_store import MemoryStore
from tests.virtual_time import Script

RETRY_S, LASTING_S, REST_S, FIRST_S = 10.0, 100.0, 50.0, 5.0


@pytest.fixture
def backup() -> Backup:
    return new_backup(MemoryStore())  # type: ignore[arg-type]


def state(seq: int) -> Any:
    """Chores look at no more of a state."""
    return type("State", (), {"seq": seq})()


def chore_of(clock: Script, begin: Callable[[Backup, BackupState], Pass]) -> Chore:
    return Chore(
        begin,
        clock=clock,
        failed="chore_failed",
        overtaken="chore_overtaken",
        retry_s=RETRY_S,
        lasting=(Refused,),
        lasting_s=LASTING_S,
        first_s=FIRST_S,
    )


def test_a_pass_continues_with_the_newest_state_and_rests_at_its_end(backup: Backup) -> None:
    clock, seen = Script(), list[int]()

    def begin(_: Backup, newest: BackupState) -> Pass:
        seen.append(newest.seq)
        newest = yield None
        seen.append(newest.seq)
        newest = yield state(10)
        return PassEnd(REST_S, newest)

    chore = chore_of(clock, begin)
    assert (chore.step(backup, state(1)), seen) == (None, []), "not due"
    clock.now_s += FIRST_S
    made = [chore.step(backup, state(seq)) for seq in (1, 2, 3)]
    assert [one and one.seq for one in made] == [None, 10, 3]
    assert seen == [1, 2]
    clock.now_s += REST_S - 1
    chore.step(backup, state(4))
    assert seen == [1, 2], "it rests"
    clock.now_s += 1
    chore.step(backup, state(5))
    assert seen == [1, 2, 5]


@pytest.mark.parametrize(
    ("error", "rest_s", "level", "events"),
    [
        (StoreUnreachable("x"), RETRY_S, logging.WARNING, ["chore_failed"]),
        (Damaged("x"), RETRY_S, logging.WARNING, ["chore_failed", "damaged"]),
        (Refused("x"), LASTING_S, logging.WARNING, ["chore_failed"]),
        (CommitLost("x"), RETRY_S, logging.INFO, ["chore_overtaken"]),
    ],
)
def test_an_error_is_logged_and_the_next_pass_begins_later(  # noqa: PLR0917  # cases and fixtures
    backup: Backup,
    caplog: pytest.LogCaptureFixture,
    error: OffsiteError,
    rest_s: float,
    level: int,
    events: list[str],
) -> None:
    clock, begun = Script(), list[int]()

    def begin(_: Backup, newest: BackupState) -> Pass:
        begun.append(newest.seq)
        yield None
        raise error

    chore = chore_of(clock, begin)
    clock.now_s += FIRST_S
    with caplog.at_level(logging.INFO, logger=JOURNAL.name):
        assert [chore.step(backup, state(seq)) for seq in (1, 2, 3)] == [None] * 3
    assert [(record.levelno, record.getMessage().split()[0]) for record in caplog.records] == [
        (level, event) for event in events
    ]
    clock.now_s += rest_s - 1
    chore.step(backup, state(4))
    assert begun == [1], "it rests"
    clock.now_s += 1
    chore.step(backup, state(5))
    assert begun == [1, 5]


def test_after_an_interrupt_a_pass_begins_anew(backup: Backup) -> None:
    clock, begun = Script(), list[int]()

    def begin(_: Backup, newest: BackupState) -> Pass:
        begun.append(newest.seq)
        yield None
        raise KeyboardInterrupt

    chore = chore_of(clock, begin)
    clock.now_s += FIRST_S
    chore.step(backup, state(1))
    with pytest.raises(KeyboardInterrupt):
        chore.step(backup, state(2))
    assert chore.step(backup, state(3)) is None
    assert begun == [1, 3]
