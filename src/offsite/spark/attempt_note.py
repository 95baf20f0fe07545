"""Notes of attempts that failed and will be repeated: Spark keeps nothing of these for the driver.

One datagram from the worker to the driver, which writes it to the journal. Losing some is fine: that a task took
several attempts is known from its envelope. Must never carry what a log must not hold.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from offsite.model.journal import decided, safe_line, safe_trace
from offsite.model.untrusted.printable import printable
from offsite.spark.task_journal import Line, write_lines

MAX_NOTE_BYTES = 32 << 10
"""Half of what a datagram may hold: some dozen lines and a traceback."""

_MAX_TRACE = 16_000
_MAX_NOTES_AT_ONCE = 100
"""What the driver takes in between two events; the rest waits in the socket or is dropped by the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptNote:
    """Why attempt `number` at task `index` failed, and the journal lines of that attempt."""

    index: int
    number: int
    why: str
    trace: str
    lines: tuple[Line, ...]

    @classmethod
    def of(cls, error: Exception, *, index: int, number: int, lines: tuple[Line, ...]) -> AttemptNote:
        return cls(index=index, number=number, why=safe_line(error), trace=safe_trace(error)[-_MAX_TRACE:], lines=lines)

    def to_bytes(self, *, token: str, job: int) -> bytes:
        """As one datagram: without the oldest of the lines, where they are too many."""
        lines = [[line.level, line.at_s, line.text] for line in self.lines]
        fields = [token, job, self.index, self.number, self.why, self.trace, lines]
        data = json.dumps(fields).encode()
        return data if len(data) <= MAX_NOTE_BYTES or not lines else self._halved().to_bytes(token=token, job=job)

    def _halved(self) -> AttemptNote:
        return replace(self, lines=self.lines[len(self.lines) // 2 + len(self.lines) % 2 :])

    def write(self) -> None:
        """Write it to the journal of this process."""
        write_lines(self.lines, task=self.index)
        decided("attempt_failed", task=self.index, attempt=self.number, why=self.why, trace=self.trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteAddress:
    """Where workers send notes. `token` keeps strangers' datagrams out of the log; it protects nothing else."""

    host: str
    port: int
    token: str


class NoteReceiver:
    """The driver's side."""

    def __init__(self, host: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._socket.setblocking(False)
        self.address = NoteAddress(host=host, port=self._socket.getsockname()[1], token=secrets.token_hex(16))

    def write(self, job: int) -> None:
        """Write the notes of `job` that have arrived to the journal; does not wait."""
        for _ in range(_MAX_NOTES_AT_ONCE):
            try:
                datagram = self._socket.recv(MAX_NOTE_BYTES)
            except OSError:  # nothing there; or closed, by an end that did not wait
                return
            note = _parsed(datagram, token=self.address.token, job=job)
            if note is not None:
                note.write()

    def close(self) -> None:
        self._socket.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSender:
    """The worker's side."""

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
    """The note, or None when it is another job's, or not one of ours."""
    try:
        given, of_job, index, number, why, trace, lines = json.loads(datagram)
        if given != token or of_job != job:
            return None
        return AttemptNote(
            index=int(index), number=int(number), why=str(why), trace=str(trace), lines=tuple(map(_line, lines))
        )
    except (ValueError, TypeError, RecursionError):
        return None


def _line(fields: Sequence[Any]) -> Line:
    level, at_s, text = fields
    return Line(level=int(level), at_s=float(at_s), text=printable(str(text)))
