"""One attempt at one task, in a worker process: retries, the way of errors, and the journal of the attempt.

An error that another attempt could cure is raised, so that Spark tries again elsewhere. Every other error, and the
error of the last attempt, returns as a value with class, message and hint. The journal is kept in the worker, sent home
with the attempt's envelope, and written there. It is bounded per event, so that ten thousand retries cannot push out
the one hole; lines left out are counted. The module runs in workers, and must import little.
"""

from __future__ import annotations

import json
import logging
import resource
import secrets
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic

from offsite.engine import meter
from offsite.engine.runner import Done, Failed, ResultT, TaskT
from offsite.model.errors import (
    Bug,
    Conflict,
    Damaged,
    Denied,
    ExecutorDiffers,
    NoEvidence,
    NoRepository,
    OffsiteError,
    Refused,
    SparkFailed,
    UserError,
)
from offsite.model.journal import JOURNAL, decided, safe_line, safe_trace, write
from offsite.model.untrusted.text import printable

LINES_PER_EVENT = 100
"""Lines that a person reads of one kind, and that an envelope carries unnoticed: some 20 KiB."""

_MAX_EVENTS = 20
"""Kinds of events in one attempt: all of offsite has fewer."""

MAX_NOTE_BYTES = 32 << 10
"""Half of a datagram's size: some dozen lines and a traceback."""
_MAX_TRACE = 16_000
_MAX_NOTES_AT_ONCE = 100
"""Notes that the driver takes between two events; the rest waits in the socket or is dropped by the kernel."""
LASTING_ERRORS = (UserError, ExecutorDiffers, NoRepository, Conflict, Damaged, Refused, Denied, NoEvidence, Bug)
"""Kinds of errors that a second attempt would meet again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """One line, written at `at_s`, seconds since the epoch by the worker's clock."""

    level: int
    at_s: float
    text: str
    trace: str = ""


class TaskJournal(logging.Handler):
    """The lines written to the journal between `recording` and the end of its block."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[JournalLine] = []
        self._seen: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        event = text.partition(" ")[0]
        if event not in self._seen and len(self._seen) >= _MAX_EVENTS:
            event = "others"
        self._seen[event] += 1
        if self._seen[event] <= LINES_PER_EVENT:
            self._kept.append(
                JournalLine(level=record.levelno, at_s=record.created, text=text, trace=record.exc_text or "")
            )

    def lines(self) -> tuple[JournalLine, ...]:
        """Return all kept lines, in order, and a line per event with more lines."""
        at_s = self._kept[-1].at_s if self._kept else 0.0
        more = (
            JournalLine(level=logging.INFO, at_s=at_s, text=f"left_out event={event} lines={count - LINES_PER_EVENT}")
            for event, count in self._seen.items()
            if count > LINES_PER_EVENT
        )
        return (*self._kept, *more)


@contextmanager
def recording(level: int) -> Iterator[TaskJournal]:
    """A block whose journal lines of `level` and above are kept in the result, and written nowhere else."""
    task_journal, level_before, propagated = TaskJournal(), JOURNAL.level, JOURNAL.propagate
    JOURNAL.addHandler(task_journal)
    JOURNAL.setLevel(level)
    JOURNAL.propagate = False
    try:
        yield task_journal
    finally:
        JOURNAL.removeHandler(task_journal)
        JOURNAL.setLevel(level_before)
        JOURNAL.propagate = propagated


def write_lines(lines: Sequence[JournalLine], *, task: int) -> None:
    """Write the lines sent home by a worker, with the number of the task."""
    for line in lines:
        event, _, fields = line.text.partition(" ")
        write(line.level, f"{event} task={task} {fields}".rstrip(), at_s=line.at_s, trace=line.trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptNote:
    """The reason why attempt `number` at task `index` failed, and the journal lines of the attempt.

    Spark keeps nothing of a failed and repeated attempt. The reason and the journal go to the driver in a note: one
    datagram, which may be lost, since the envelope of a later attempt tells the number of attempts. A note must never
    carry anything forbidden in a log.
    """

    index: int
    number: int
    why: str
    trace: str
    lines: tuple[JournalLine, ...]

    @classmethod
    def of(cls, error: Exception, *, index: int, number: int, lines: tuple[JournalLine, ...]) -> AttemptNote:
        return cls(index=index, number=number, why=safe_line(error), trace=safe_trace(error)[-_MAX_TRACE:], lines=lines)

    def to_bytes(self, *, token: str, job: int) -> bytes:
        """Return the note as one datagram, without the oldest lines where there are too many."""
        lines = [[line.level, line.at_s, line.text] for line in self.lines]
        fields = [token, job, self.index, self.number, self.why, self.trace, lines]
        data = json.dumps(fields).encode()
        return data if len(data) <= MAX_NOTE_BYTES or not lines else self._halved().to_bytes(token=token, job=job)

    def _halved(self) -> AttemptNote:
        return replace(self, lines=self.lines[len(self.lines) // 2 + len(self.lines) % 2 :])

    def write(self) -> None:
        """Write the note to the journal of this process."""
        write_lines(self.lines, task=self.index)
        decided("attempt_failed", task=self.index, attempt=self.number, why=self.why, trace=self.trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteAddress:
    """The driver's address for notes. `token` keeps strangers' datagrams out of the log, and protects nothing else."""

    host: str
    port: int
    token: str


class NoteReceiver:
    """The driver's side of the notes: a socket that workers reach at `host`, bound to `bind` where `bind` is another
    address of this machine."""

    def __init__(self, host: str, *, bind: str = "") -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((bind or host, 0))
        self._socket.setblocking(False)
        self.address = NoteAddress(host=host, port=self._socket.getsockname()[1], token=secrets.token_hex(16))

    def write(self, job: int) -> list[int]:
        """Write the received notes of `job` to the journal; does not wait. Returns the tasks of the notes."""
        task_indexes: list[int] = []
        for _ in range(_MAX_NOTES_AT_ONCE):
            try:
                datagram = self._socket.recv(MAX_NOTE_BYTES)
            except OSError:  # no datagram; or closed by an end without a wait
                break
            note = _parsed(datagram, token=self.address.token, job=job)
            if note is not None:
                note.write()
                task_indexes.append(note.index)
        return task_indexes

    def close(self) -> None:
        self._socket.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSender:
    """The worker's side of the notes. A call sends one note, and never raises."""

    address: NoteAddress
    job: int

    def __call__(self, note: AttemptNote) -> None:
        datagram = note.to_bytes(token=self.address.token, job=self.job)
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
                sending.sendto(datagram, (self.address.host, self.address.port))
        except OSError:
            return  # the attempt is repeated all the same


def _parsed(datagram: bytes, *, token: str, job: int) -> AttemptNote | None:
    """Parse a note. None for another job's note, or a datagram of a stranger."""
    try:
        sent_token, of_job, index, number, why, trace, lines = json.loads(datagram)
        if sent_token != token or of_job != job:
            return None
        return AttemptNote(
            index=int(index), number=int(number), why=str(why), trace=str(trace), lines=tuple(map(_line_of, lines))
        )
    except (ValueError, TypeError, RecursionError):
        return None


def _line_of(fields: Sequence[Any]) -> JournalLine:
    level, at_s, text = fields
    return JournalLine(level=int(level), at_s=float(at_s), text=printable(str(text)))


class AttemptFailed(Exception):
    """An attempt is to be repeated. Spark writes the text into logs of executors, the event log and pages. So the text
    is a trace allowed in logs; the error and its causes may quote a record or a credential."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope(Generic[ResultT]):
    """The outcome of a task on the way to the driver, with figures and peak memory. `number`: the attempt, from 1;
    `journal`: the lines of the attempt."""

    index: int
    outcome: Done[ResultT] | Failed
    reading: meter.MeterReading
    peak_rss_bytes: int
    number: int = 1
    journal: tuple[JournalLine, ...] = ()


def attempt(  # noqa: PLR0913  # keyword-only, each with a default
    index: int,
    task: TaskT,
    function: Callable[[TaskT], ResultT],
    *,
    is_last_attempt: bool,
    number: int = 1,
    journal_level: int = logging.INFO,
    on_retry: Callable[[AttemptNote], None] = lambda _: None,
) -> Envelope[ResultT]:
    """Return the envelope of `function(task)`. An error worth another attempt calls `on_retry` and raises
    `AttemptFailed`, unless the attempt is the last."""
    with recording(journal_level) as journal:
        try:
            outcome = _outcome(task, function, is_last_attempt=is_last_attempt)
        except Exception as error:  # noqa: BLE001  # noted, and raised with a text that Spark may write
            on_retry(AttemptNote.of(error, index=index, number=number, lines=journal.lines()))
            raise AttemptFailed(safe_trace(error)) from None
    return Envelope(
        index=index,
        outcome=outcome,
        reading=meter.read(),
        peak_rss_bytes=_peak_rss_bytes(),
        number=number,
        journal=journal.lines(),
    )


def _outcome(task: TaskT, function: Callable[[TaskT], ResultT], *, is_last_attempt: bool) -> Done[ResultT] | Failed:
    try:
        return Done(value=function(task))
    except LASTING_ERRORS as error:
        return Failed(error=error, trace=safe_trace(error))
    except OffsiteError as error:
        if not is_last_attempt:
            raise
        return Failed(error=error, trace=safe_trace(error))
    except Exception as error:
        if not is_last_attempt:
            raise
        return Failed(error=wrap_foreign(error), trace=safe_trace(error))


def wrap_foreign(error: Exception) -> SparkFailed:
    """Wrap an exception of another library into an error of offsite."""
    return SparkFailed(
        f"a worker failed with {safe_line(error)}",
        hint="run again with --verbose to see the traceback of the worker",
    )


def _peak_rss_bytes() -> int:
    unit_bytes = 1 if sys.platform == "darwin" else 1024  # getrusage(2): bytes on macOS, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes


@contextmanager
def interrupted_by_hangup() -> Iterator[None]:
    """A block in which SIGHUP raises `KeyboardInterrupt`, so that a worker with a task deletes unfinished files.

    A driver that ends sends SIGHUP to its workers, and so does Spark's daemon. Without the block workers would die at
    once, and unfinished files would lie in `~tmp` of the repository until swept a day later, as after a kill -9. Both
    may send the signal: the second is ignored, because it would interrupt the deletion. A worker of somebody else's
    Spark gets its own handler back.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread handles signals
        yield
        return
    before = signal.signal(signal.SIGHUP, _interrupt_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _interrupt_once(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
