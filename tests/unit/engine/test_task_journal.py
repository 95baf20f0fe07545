from __future__ import annotations

import logging
import pickle
import time

import pytest

from offsite.engine.runner import Failed
from offsite.engine.task_attempt import (
    LINES_PER_EVENT,
    MAX_NOTE_BYTES,
    AttemptFailed,
    AttemptNote,
    JournalLine,
    NoteReceiver,
    NoteSender,
    attempt,
    recording,
    write_lines,
)
from offsite.model.errors import KafkaUnreachable
from offsite.model.journal import JOURNAL, decided, warned

LOOPBACK = "127.0.0.1"


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="offsite")


def find_a_hole(partition: int) -> int:
    decided("hole", topic="orders", partition=partition, why="retention")
    return partition


def find_a_hole_and_lose_the_broker(partition: int) -> None:
    find_a_hole(partition)
    raise KafkaUnreachable("broker 1 is gone", hint="")


def fail_with_a_record(_: int) -> None:
    raise ValueError("the record was: hunter2")


def test_what_a_task_decides_comes_home_in_its_envelope_and_is_written_there(caplog: pytest.LogCaptureFixture) -> None:
    envelope = pickle.loads(pickle.dumps(attempt(7, 3, find_a_hole, is_last_attempt=True)))
    assert caplog.messages == []
    write_lines(envelope.journal, task=7)
    assert caplog.messages == ["hole task=7 topic=orders partition=3 why=retention"]


def test_what_the_driver_does_not_want_to_hear_is_not_carried() -> None:
    assert attempt(7, 3, find_a_hole, is_last_attempt=True, journal_level=logging.WARNING).journal == ()


def test_the_journal_is_as_it_was_after_a_task() -> None:
    before = (JOURNAL.level, JOURNAL.propagate, list(JOURNAL.handlers))
    attempt(7, 3, find_a_hole, is_last_attempt=True)
    assert (JOURNAL.level, JOURNAL.propagate, list(JOURNAL.handlers)) == before


def test_many_retries_neither_fill_an_envelope_nor_push_out_the_one_hole() -> None:
    with recording(logging.INFO) as kept:
        for _ in range(10_000):
            decided("retry", why="broker 1 is gone")
        warned("hole", why="retention")
    events = [line.text.partition(" ")[0] for line in kept.lines()]
    assert events == ["retry"] * LINES_PER_EVENT + ["hole", "left_out"]
    assert kept.lines()[-1].text == f"left_out event=retry lines={10_000 - LINES_PER_EVENT}"


def test_events_without_number_do_not_fill_an_envelope_either() -> None:
    with recording(logging.INFO) as kept:
        for number in range(10_000):
            decided(f"event{number}", why="x")
    assert len(kept.lines()) < 200


def test_the_trace_of_a_failed_task_quotes_no_foreign_message() -> None:
    outcome = attempt(0, 1, fail_with_a_record, is_last_attempt=True).outcome
    assert isinstance(outcome, Failed)
    assert "fail_with_a_record" in outcome.trace
    assert outcome.trace.endswith("\nValueError")


def test_an_attempt_that_will_be_repeated_sends_a_note_of_why_and_of_what_it_decided(
    caplog: pytest.LogCaptureFixture,
) -> None:
    receiver = NoteReceiver(LOOPBACK)
    sender = NoteSender(address=receiver.address, job=5)
    with pytest.raises(AttemptFailed):
        attempt(2, 3, find_a_hole_and_lose_the_broker, is_last_attempt=False, number=1, on_retry=sender)
    written(receiver, 5, caplog, lines=2)
    receiver.close()
    hole, note = caplog.records
    assert hole.getMessage() == "hole task=2 topic=orders partition=3 why=retention"
    assert note.getMessage() == 'attempt_failed task=2 attempt=1 why="KafkaUnreachable: broker 1 is gone"'
    assert "find_a_hole_and_lose_the_broker" in (note.exc_text or "")


def test_notes_of_strangers_of_other_jobs_and_torn_ones_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    receiver = NoteReceiver(LOOPBACK)
    address = receiver.address
    stranger = NoteReceiver(LOOPBACK).address
    good = note(index=1)
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        for datagram in (
            b"",
            b"{}",
            b"[" * 20_000,
            b"\xff\xfe",
            b"[1,2,3,4,5,6,7]",
            good.to_bytes(token=stranger.token, job=5),
            good.to_bytes(token=address.token, job=4),
            good.to_bytes(token=address.token, job=5)[:-3],
            good.to_bytes(token=address.token, job=5),
        ):
            sending.sendto(datagram, (address.host, address.port))
    written(receiver, 5, caplog, lines=1)
    receiver.close()
    assert caplog.messages == ["attempt_failed task=1 attempt=1 why=x"]


def test_a_note_fits_into_a_datagram_and_keeps_the_newest_lines() -> None:
    lines = tuple(
        JournalLine(level=logging.INFO, at_s=0.0, text=f"retry number={n} why={'x' * 500}") for n in range(1000)
    )
    data = note(index=1, lines=lines).to_bytes(token="t", job=1)
    assert len(data) <= MAX_NOTE_BYTES
    assert b"number=999" in data
    assert b"number=0 " not in data


def note(*, index: int, lines: tuple[JournalLine, ...] = ()) -> AttemptNote:
    return AttemptNote(index=index, number=1, why="x", trace="", lines=lines)


def written(receiver: NoteReceiver, job: int, caplog: pytest.LogCaptureFixture, *, lines: int) -> None:
    deadline_s = time.monotonic() + 30
    while len(caplog.records) < lines and time.monotonic() < deadline_s:
        receiver.write(job)
