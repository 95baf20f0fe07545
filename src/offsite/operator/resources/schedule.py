"""The resource `Schedule`: checkpoints and restore drills at set times."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StringConstraints

from offsite.operator.resources.model import Name, OptionalName, Patterns, Resource, Strict


class Action(StrEnum):
    CHECKPOINT = "checkpoint"
    """A consistent cut over all topics."""
    DRILL = "drill"
    """A restore into a cluster of its own that is thrown away, with proof."""


class ScheduleSpec(Strict):
    backup: Name
    """The resource `Backup` that it is about."""
    action: Action
    """`checkpoint`: a consistent cut over all topics. `drill`: a restore, with proof, into a cluster that is thrown
    away."""
    cron: Annotated[str, StringConstraints(min_length=9, max_length=120)]
    """Five fields: minute, hour, day of the month, month, day of the week."""
    time_zone: Annotated[str, StringConstraints(min_length=1, max_length=64)] = "UTC"
    """A name of the IANA database, as `Europe/Zurich`. An hour that comes twice fires once; a time that a change of the
    clock leaves out fires right behind it."""
    suspend: StrictBool = False
    """Whether it is left out for now. What was due meanwhile is not made up for."""
    starting_deadline: Annotated[str, StringConstraints(pattern=r"^[0-9]+(ms|s|m|h|d)$", max_length=20)] = "1h"
    """What could not begin for so long is left out, and told."""
    cluster: OptionalName = ""
    """Of a drill: the cluster that it restores into. Empty: one that is started for it on this machine."""
    topics: Patterns = ("*",)
    """Of a drill: what it restores."""
    history: Annotated[int, Field(ge=1, le=100, strict=True)] = 10
    """How many runs are kept in the status."""


class Schedule(Resource):
    """Fires each time once, whoever operates."""

    kind: Literal["Schedule"]
    spec: ScheduleSpec
