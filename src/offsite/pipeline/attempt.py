"""One attempt at one task, in a worker process: what is retried, and how errors travel.

An error that another attempt could cure is raised, so that Spark tries again elsewhere; every other one, and the last
of them, comes back as a value, with its class, message and hint. Runs in workers: must import little.
"""

from __future__ import annotations

import resource
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from offsite.model.errors import (
    Bug,
    Conflict,
    Damaged,
    Denied,
    NoRepository,
    OffsiteError,
    Refused,
    SparkFailed,
    UserError,
)
from offsite.pipeline import meter
from offsite.pipeline.runner import Done, Failed, ResultT, TaskT

LASTING = (UserError, NoRepository, Conflict, Damaged, Refused, Denied, Bug)
"""Kinds of errors that a second attempt meets again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope(Generic[ResultT]):
    """What one task sends home."""

    index: int
    outcome: Done[ResultT] | Failed
    reading: meter.Reading
    peak_rss_bytes: int


def attempt(
    index: int, task: TaskT, function: Callable[[TaskT], ResultT], *, is_last_attempt: bool
) -> Envelope[ResultT]:
    """Run `function(task)`. Raises what is worth another attempt, unless this is the last one."""
    return Envelope(
        index=index,
        outcome=_outcome(task, function, is_last_attempt=is_last_attempt),
        reading=meter.read(),
        peak_rss_bytes=_peak_rss_bytes(),
    )


def _outcome(task: TaskT, function: Callable[[TaskT], ResultT], *, is_last_attempt: bool) -> Done[ResultT] | Failed:
    try:
        return Done(value=function(task))
    except LASTING as error:
        return Failed(error=error, trace=traceback.format_exc())
    except OffsiteError as error:
        if not is_last_attempt:
            raise
        return Failed(error=error, trace=traceback.format_exc())
    except Exception as error:
        if not is_last_attempt:
            raise
        return Failed(error=_foreign(error), trace=traceback.format_exc())


def _foreign(error: Exception) -> SparkFailed:
    return SparkFailed(
        f"a worker failed with {type(error).__name__}: {error}",
        hint="run again with --verbose to see the worker's traceback",
    )


def _peak_rss_bytes() -> int:
    unit_bytes = 1 if sys.platform == "darwin" else 1024  # getrusage(2): bytes on macOS, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes
