"""The journal: one log line per decision about data, so that a night's run can be retold in the morning.

A decision moves, keeps back, repeats or refuses records: a hole, a skip, a retry, a throttle, a fence, a fallback.
Lines go to the standard logger `offsite.journal`; the command line or the host program decides who reads them. A line
must never carry a payload, a key, a header or a secret.
"""

from __future__ import annotations

import logging
import re
import traceback

from offsite.model.errors import OffsiteError
from offsite.model.untrusted.text import printable

JOURNAL = logging.getLogger("offsite.journal")

_LONGEST_VALUE = 1000
"""Characters: enough for any name and any message of offsite; an unknown text from outside is cut here."""

_PLAIN = re.compile(r"[\w.,:;/+*@%()<>\[\]~-]+")
_FRAMES = 40
"""The innermost frames of every exception: a recursion must not fill a log."""


def decided(event: str, *, why: str, trace: str = "", **fields: object) -> None:
    """Write one line `event field=value … why="…"` at level INFO.

    `event` is a short stable word (`hole`, `retry`, `throttle`, `fence`); `fields` tell the place: topic, partition.
    None fields are left out. `trace` (see `safe_trace`) is shown below. Safe to call anywhere and cheap when nobody
    listens.
    """
    _write(logging.INFO, event, why, trace, fields)


def warned(event: str, *, why: str, **fields: object) -> None:
    """Write one line at level WARNING: a person should look, and nothing else reports the event."""
    _write(logging.WARNING, event, why, "", fields)


def failed(event: str, *, why: str, trace: str = "", **fields: object) -> None:
    """Write one line at level ERROR: reported by the command too, and here with the place in the code."""
    _write(logging.ERROR, event, why, trace, fields)


def noted(event: str, **fields: object) -> None:
    """Write one line at level INFO about an event without a reason: the begin and the end of a command."""
    _write(logging.INFO, event, None, "", fields)


def write(level: int, line: str, *, at_s: float | None = None, trace: str = "") -> None:
    """Write a finished line, such as a line of another process from `at_s` (seconds since the epoch).

    The form of a line: `event field=value … why="…"`. Any value but a plain one is quoted as in JSON, so that a line
    can be parsed again. Characters that could move a terminal's cursor or begin another line are shown as escapes.
    """
    if not JOURNAL.isEnabledFor(level):
        return
    record = JOURNAL.makeRecord(JOURNAL.name, level, "", 0, line, (), None)
    record.exc_text = "\n".join(map(printable, trace.splitlines())) or None  # what formatters show below the line
    if at_s is not None:
        record.created, record.msecs = at_s, (at_s % 1) * 1000
    JOURNAL.handle(record)


def _write(level: int, event: str, why: str | None, trace: str, fields: dict[str, object]) -> None:
    if JOURNAL.isEnabledFor(level):
        present = {name: value for name, value in {**fields, "why": why}.items() if value is not None}
        write(level, " ".join([event, *(f"{name}={_value(value)}" for name, value in present.items())]), trace=trace)


def _value(value: object) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    if len(text) > _LONGEST_VALUE:
        text = f"{text[:_LONGEST_VALUE]}… ({len(text)} characters)"
    if _PLAIN.fullmatch(text):
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(quoted)}"'


def safe_trace(error: BaseException) -> str:
    """Return the traceback of `error` and of the causes, the first cause first, with `safe_line` at the end.

    For an exception a log always tells the origin, and the message only where known to be safe. Messages of offsite's
    own errors hold no data and no secret (`docs/change/error.md`), nor do messages of the operating system, nor does
    the name of a missing module. A foreign library's message may quote a record or a credential: for such an exception
    a log gets the class.
    """
    return "\n".join(_lines(error, set()))


def safe_line(error: BaseException) -> str:
    """Return the last line of a traceback: the class, and a message known to be safe."""
    name = type(error).__name__
    if isinstance(error, OffsiteError):
        return f"{name}: {error.message}"
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {error.strerror}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{name}: No module named {error.name!r}"
    return name


def _lines(error: BaseException, visited: set[int]) -> list[str]:
    visited.add(id(error))
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = _lines(cause, visited) if cause is not None and id(cause) not in visited else []
    frames = "".join(traceback.format_tb(error.__traceback__, limit=-_FRAMES)).splitlines()
    return [*before, "Traceback (most recent call last):", *frames, safe_line(error)]
