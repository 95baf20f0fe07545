"""The checks and drills of a backup over time, as recorded in its repository by any installation.

Whoever may create objects there can forge such a record: the history shows claims, and clears nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from offsite.model.errors import OffsiteError
from offsite.model.journal import noted
from offsite.repository.backup import Backup
from offsite.repository.snapshots.check_records import (
    AHEAD_MAX_MS,
    DEPTHS,
    RECENT_MS,
    drill_keys,
    get_drill_record,
    get_verify_record,
    verify_keys,
)
from offsite.stores.store import Store

EACH_MAX = 24
"""The newest records that are read, of each kind."""
DRILL = "drill"
_READERS = 8
_KEPT_MAX = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCheck:
    """A check or a drill. `kind`: a depth of a verification, or `drill`. `ended_ms`: epoch ms by the store's clock.
    `ok`: it found the backup sound, or proved it; None: a drill that compared nothing."""

    kind: str
    ended_ms: int
    ok: bool | None


class CheckHistory:
    """The records of checks that were read; records never change. One thread reads at a time."""

    def __init__(self) -> None:
        self._kept: dict[str, PastCheck] = {}

    def read(self, backup: Backup, *, now_ms: int) -> tuple[PastCheck, ...]:
        """The newest checks of each kind, ascending by time. An unreadable record, and one dated later than now, is
        left out. Raises errors of the store for a listing."""
        if len(self._kept) > _KEPT_MAX:
            self._kept.clear()
        records = dict(_records(backup, now_ms))
        new = [(key, read) for key, read in records.items() if key not in self._kept]
        with ThreadPoolExecutor(_READERS) as readers:
            for (key, _), check in zip(new, readers.map(lambda record: _read(*record), new), strict=True):
                if check is not None:
                    self._kept[key] = check
        checks = (self._kept[key] for key in records if key in self._kept)
        dated = (check for check in checks if check.ended_ms <= now_ms + AHEAD_MAX_MS)
        return tuple(sorted(dated, key=lambda check: check.ended_ms))


_Read = Callable[[str], PastCheck]


def _records(backup: Backup, now_ms: int) -> Iterator[tuple[str, _Read]]:
    for depth in DEPTHS:
        keys = verify_keys(backup.store, backup.layout, depth, since_ms=now_ms - RECENT_MS, now_ms=now_ms)
        yield from ((key, partial(_check, backup.store)) for key in keys[-EACH_MAX:])
    places = (backup.store,) if backup.records_at is None else (backup.store, backup.records_at)
    drills = [(key, partial(_drill, place)) for place in places for key in drill_keys(place, backup.layout)]
    yield from sorted(drills, key=lambda drill: drill[0], reverse=True)[:EACH_MAX]


def _check(store: Store, key: str) -> PastCheck:
    record = get_verify_record(store, key)
    return PastCheck(kind=record.depth, ended_ms=record.verified_at_ms, ok=record.ok)


def _drill(store: Store, key: str) -> PastCheck:
    record = get_drill_record(store, key)
    return PastCheck(kind=DRILL, ended_ms=record.ended_ms, ok=record.proven)


def _read(key: str, read: _Read) -> PastCheck | None:
    try:
        return read(key)
    except OffsiteError as error:
        noted("check_unread", error=error.id, why=error.message, key=key)
        return None
