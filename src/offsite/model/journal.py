"""The journal: one log line for each decision about data, so that a night's run can be told in the morning.

A decision is what moves, keeps back, repeats or refuses records: a hole, a skip, a retry, a throttle, a fence, a fall
back to another way. Lines go to the standard logger `offsite.journal`; who reads them is decided elsewhere (the command
line, the host program). Must never carry a payload, a key, a header or a secret.
"""

from __future__ import annotations

import logging

JOURNAL = logging.getLogger("offsite.journal")


def decided(event: str, *, why: str, **fields: object) -> None:
    """Write one line `event field=value … why="…"` at level INFO.

    `event` is a short stable word (`hole`, `retry`, `throttle`, `fence`); `fields` say where: topic, partition.
    Safe to call anywhere and cheap when nobody listens.
    """
    _write(logging.INFO, event, why, fields)


def warned(event: str, *, why: str, **fields: object) -> None:
    """The same at level WARNING: somebody should look at it."""
    _write(logging.WARNING, event, why, fields)


def _write(level: int, event: str, why: str, fields: dict[str, object]) -> None:
    if JOURNAL.isEnabledFor(level):
        told = "".join(f" {name}={value}" for name, value in fields.items())
        JOURNAL.log(level, "%s%s why=%s", event, told, why)
