"""Asking the control topic again: it was just made, its leader moves, or the records to read were deleted meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

from offsite.participant.errors import ControlUnavailable
from offsite.participant.ports import ANSWER_S, ControlRead

_PAUSE_S = 0.1


def until_read(read: Callable[[], ControlRead], problems: type[Exception], topic: str) -> ControlRead:
    """What `read` answers, at the latest after `ANSWER_S` of `problems`; each time it looks anew where `topic` begins.
    Raises `ControlUnavailable`."""
    end_s = time.monotonic() + ANSWER_S
    while True:
        try:
            return read()
        except problems as problem:
            if time.monotonic() > end_s:
                raise ControlUnavailable(f"cannot read {topic}: {problem}") from problem
        time.sleep(_PAUSE_S)
