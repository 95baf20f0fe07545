"""The resource `Schedule`: checkpoints and restore drills at set times."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StringConstraints

from offsite.operator.resources.model import Name, OptionalName, Patterns, Resource, Strict


def _field(values: str, steps: str, more: str = "") -> str:
    """A cron field: a list of `*`, numbers and ranges, each with a step. `more`: further allowed elements."""
    element = rf"(\*|({values})(-({values}))?{more})(/0*({steps}))?"
    return f"{element}(,{element})*"


def _named(names: str) -> str:
    return "|".join("".join(f"[{letter}{letter.lower()}]" for letter in name) for name in names.split())


_MONTHS = _named("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")
_DAYS = f"0*[0-7]|{_named('SUN MON TUE WED THU FRI SAT')}"
_CRON_FIELDS = (
    _field("0*([0-9]|[1-5][0-9])", "[1-9]|[1-5][0-9]|60"),
    _field("0*([0-9]|1[0-9]|2[0-3])", "[1-9]|1[0-9]|2[0-4]"),
    _field("0*([1-9]|[12][0-9]|3[01])", "[1-9]|[12][0-9]|3[01]", "|[Ll][Ww]?"),
    _field(f"0*([1-9]|1[0-2])|{_MONTHS}", "[1-9]|1[0-2]"),
    _field(_DAYS, "[1-7]", f"|({_DAYS})#0*[1-5]|0*[0-7][Ll]"),
)
CRON = "^[ \\t]*(" + ")[ \\t]+(".join(_CRON_FIELDS) + ")[ \\t]*$"
"""The syntax of a cron line that a schema can express. Only the parser knows whether the line ever fires."""
TIME_ZONE = r"^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"
"""Names of the IANA database. Other entries of its folder (`localtime`, `right/…`) begin with a small letter."""
FACTORY = "Factory"
"""The place holder of the database for an unset zone."""


class Action(StrEnum):
    CHECKPOINT = "checkpoint"
    """A consistent cut over all topics."""
    DRILL = "drill"
    """A restore into a throw-away cluster, with proof."""


class ScheduleSpec(Strict):
    backup: Name
    """The resource `Backup` of the schedule."""
    action: Action
    """`checkpoint`: a consistent cut over all topics. `drill`: a restore, with proof, into a throw-away cluster."""
    cron: Annotated[str, StringConstraints(min_length=9, max_length=120), Field(json_schema_extra={"pattern": CRON})]
    """Five fields: minute, hour, day of the month, month, day of the week."""
    time_zone: Annotated[
        str, StringConstraints(min_length=1, max_length=64), Field(json_schema_extra={"pattern": TIME_ZONE})
    ] = "UTC"
    """A name of the IANA database, such as `Europe/Zurich`. An hour that comes twice fires once; a time that a clock
    change skips fires right after the change."""
    suspend: StrictBool = False
    """Whether times are skipped for now. Skipped times do not run later."""
    starting_deadline: Annotated[str, StringConstraints(pattern=r"^[0-9]+(ms|s|m|h|d)$", max_length=20)] = "1h"
    """A run that could not start for so long is skipped, and reported."""
    cluster: OptionalName = ""
    """For a drill: the destination cluster. Empty: a cluster started for the drill on the local machine."""
    topics: Patterns = ("*",)
    """For a drill: the topics to restore."""
    history: Annotated[int, Field(ge=1, le=100, strict=True)] = 10
    """The number of runs in the status."""


class Schedule(Resource):
    """Fires every time once, with any number of operators."""

    kind: Literal["Schedule"]
    spec: ScheduleSpec
