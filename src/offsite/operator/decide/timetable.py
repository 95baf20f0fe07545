"""The times of a schedule: cron fields and time zone, read by one parser everywhere. Pure.

Times come from `cronsim`, which follows the rules of Debian's cron: a time that a clock change skips fires right after
the change; a time that comes twice fires the first time; with `*` for the minute or the hour, real time counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from offsite.model.errors import BadResource
from offsite.operator.resources.schedule import FACTORY, TIME_ZONE

FIELDS = {"minute": 60, "hour": 24, "day of the month": 31, "month": 12, "day of the week": 7}
"""The fields of cron, with the number of values of each."""
_HINT = "minute 0-59, hour 0-23, day 1-31, month 1-12, day of the week 0-7, as in: 30 2 * * *"
_ZONE_HINT = "write it as Europe/Zurich, or UTC"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = re.compile(r"/([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """The times of a schedule. Raises `BadResource` for an invalid timetable, or a timetable without any time."""

    cron: str
    time_zone: str

    def __post_init__(self) -> None:
        if next(self._after(0), None) is None:
            raise self._never()

    def after(self, time_ms: int, *, until_ms: int | None = None) -> Iterator[int]:
        """Yield the times after `time_ms`, ascending, up to and including `until_ms`."""
        newest = time_ms
        for moment in self._after(time_ms):
            at_ms = (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
            if until_ms is not None and at_ms > until_ms:
                return
            if at_ms > newest:  # an hour that comes twice: the library starts in the first pass
                newest = at_ms
                yield at_ms

    def __str__(self) -> str:
        return f"{self.cron} {self.time_zone}"

    def next_after(self, time_ms: int) -> int | None:
        """Return the next time; None: no further time."""
        return next(self.after(time_ms), None)

    def _after(self, time_ms: int) -> CronSim:
        fields = self.cron.split()
        if len(fields) != len(FIELDS):
            raise BadResource(f"cron {self.cron!r} has not five fields", hint=_HINT)
        for field, (name, values) in zip(fields, FIELDS.items(), strict=True):
            if any(int(step) > values for step in _STEP.findall(field)):
                raise BadResource(
                    f"cron {self.cron!r}: a step in its {name} is larger than its {values} values", hint=_HINT
                )
        begin = datetime.fromtimestamp(time_ms / 1000, tz=_zone(self.time_zone))
        try:
            return CronSim(self.cron, begin)
        except (CronSimError, ValueError, TypeError, AssertionError) as error:
            if "day-of-month" in str(error) and _is_cron(f"{fields[0]} {fields[1]} {fields[2]} * {fields[4]}"):
                raise self._never() from error
            raise BadResource(f"cron {self.cron!r} cannot be read: {error}", hint=_HINT) from error

    def _never(self) -> BadResource:
        return BadResource(f"cron {self.cron!r} never runs: its months have no such day", hint=_HINT)


def _is_cron(text: str) -> bool:
    try:
        CronSim(text, _EPOCH)
    except (CronSimError, ValueError, TypeError, AssertionError):
        return False
    return True


def _zone(name: str) -> tzinfo:
    """Return the time zone. UTC needs no database. Files of the database that are not zones for people (the zone of the
    local machine, leap seconds, a place holder) are refused."""
    if name == "UTC":
        return UTC
    try:
        zone = ZoneInfo(name) if re.fullmatch(TIME_ZONE, name) and name != FACTORY else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = None
    if zone is None:
        hint = _ZONE_HINT if _has_database() else "this machine has no time zone database: install tzdata, or write UTC"
        raise BadResource(f"{name!r} is not a known time zone", hint=hint)
    return zone


def _has_database() -> bool:
    try:
        ZoneInfo("Etc/UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
