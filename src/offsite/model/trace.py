"""What a log may tell of an exception: where it came from always, what it says only where that is known to be safe.

Messages of our own errors hold no data and no secret (`docs/change/error.md`), nor do those of the operating system.
What a foreign library says may quote a record or a credential: of its exceptions a log gets the class.
"""

from __future__ import annotations

import traceback

from offsite.model.errors import OffsiteError

_FRAMES = 40
"""The innermost ones of each exception: a recursion must not fill a log."""


def safe_trace(error: BaseException) -> str:
    """The traceback of `error` and of its causes, the first cause first, ending in `safe_line`."""
    return "\n".join(_lines(error, set()))


def safe_line(error: BaseException) -> str:
    """The last line of a traceback: the class, and the message where it may be told."""
    name = type(error).__name__
    if isinstance(error, OffsiteError):
        return f"{name}: {error.message}"
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {error.strerror}"
    return name


def _lines(error: BaseException, seen: set[int]) -> list[str]:
    seen.add(id(error))
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = _lines(cause, seen) if cause is not None and id(cause) not in seen else []
    frames = "".join(traceback.format_tb(error.__traceback__, limit=-_FRAMES)).splitlines()
    return [*before, "Traceback (most recent call last):", *frames, safe_line(error)]
