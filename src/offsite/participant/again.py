"""Retries reading the control topic: it was just made, its leader moves, or records were deleted meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

from offsite.participant.errors import ControlUnavailable
from offsite.participant.ports import ANSWER_S, ControlRead

_PAUSE_S = 0.1


def until_read(read: Callable[[], ControlRead], problems: type[Exception], topic: str) -> ControlRead:
    """The answer of `read`, after at most `ANSWER_S` of `problems`; every attempt looks again where `topic` begins.
    Raises `ControlUnavailable`."""
    end_s = time.monotonic() + ANSWER_S
    while True:
        try:
            return read()
        except problems as problem:
            if time.monotonic() > end_s:
                raise ControlUnavailable(f"cannot read {topic}: {problem}") from problem
        time.sleep(_PAUSE_S)
