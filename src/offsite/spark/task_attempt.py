"""One attempt at one task, in a worker process: what is retried, and how errors travel.

An error that another attempt could cure is raised, so that Spark tries again elsewhere; every other one, and the last
of them, comes back as a value, with its class, message and hint. The journal of the attempt comes along either way.
Runs in workers: must import little.
"""

from __future__ import annotations

import logging
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from offsite.model.errors import (
    Bug,
    Conflict,
    Damaged,
    Denied,
    NoEvidence,
    NoRepository,
    OffsiteError,
    Refused,
    SparkFailed,
    UserError,
)
from offsite.model.journal import safe_line, safe_trace
from offsite.spark import meter
from offsite.spark.attempt_note import AttemptNote
from offsite.spark.runner import Done, Failed, ResultT, TaskT
from offsite.spark.task_journal import Line, recording

LASTING = (UserError, NoRepository, Conflict, Damaged, Refused, Denied, NoEvidence, Bug)
"""Kinds of errors that a second attempt meets again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope(Generic[ResultT]):
    """What one task sends home. `number` says which attempt it was, from 1; `journal` what was written in it."""

    index: int
    outcome: Done[ResultT] | Failed
    reading: meter.Reading
    peak_rss_bytes: int
    number: int = 1
    journal: tuple[Line, ...] = ()


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
    """Run `function(task)`. Raises what is worth another attempt, unless this is the last one, and tells `on_retry`."""
    with recording(journal_level) as journal:
        try:
            outcome = _outcome(task, function, is_last_attempt=is_last_attempt)
        except Exception as error:
            on_retry(AttemptNote.of(error, index=index, number=number, lines=journal.lines()))
            raise
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
    except LASTING as error:
        return Failed(error=error, trace=safe_trace(error))
    except OffsiteError as error:
        if not is_last_attempt:
            raise
        return Failed(error=error, trace=safe_trace(error))
    except Exception as error:
        if not is_last_attempt:
            raise
        return Failed(error=_foreign(error), trace=safe_trace(error))


def _foreign(error: Exception) -> SparkFailed:
    return SparkFailed(
        f"a worker failed with {safe_line(error)}",
        hint="run again with --verbose to see the worker's traceback",
    )


def _peak_rss_bytes() -> int:
    unit_bytes = 1 if sys.platform == "darwin" else 1024  # getrusage(2): bytes on macOS, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes
