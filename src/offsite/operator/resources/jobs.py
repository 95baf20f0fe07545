"""The resources that run as jobs: `Restore`, one restore, done once, and `Schedule`, checkpoints and restore drills at
set times.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StringConstraints, model_validator

from offsite.model.options import Keyless, KeylessText
from offsite.operator.resources.model import (
    NUMBER_MAX,
    Name,
    OptionalName,
    OptionalRate,
    OptionalSize,
    Patterns,
    Resource,
    Strict,
    Text,
)

Texts = Annotated[tuple[Annotated[str, StringConstraints(max_length=512)], ...], Field(max_length=256)]


NO_NEW_BATCHES = "batchBytes needs repartition: all other topics keep the batches of the source"
TIME_ZONE = r"^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"
"""Names of the IANA database. Other entries of its folder (`localtime`, `right/…`) begin with a small letter."""
FACTORY = "Factory"
"""The place holder of the database for an unset zone."""


class RestoreState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"


class RestoreSpec(Strict):
    """Immutable, except that `state` may change from `running` to `stopped`."""

    backup_url: Annotated[str, StringConstraints(min_length=3, max_length=1024, pattern=r"^.+#.+$")]
    """The repository and the backup in it: `s3://bucket/prefix#shop-2026-11-24`."""
    account: OptionalName = ""
    """The account whose credentials open the repository. Empty: the first account."""
    cluster: Name
    """The destination: a cluster of the clusters folder."""
    state: RestoreState = RestoreState.RUNNING
    """`stopped` ends the restore permanently."""
    topics: Patterns = ("*",)
    """Topics to restore."""
    rename: Texts = ()
    """New topic names: `old=new`, `orders-*=restored-*`."""
    repartition: Texts = ()
    """New numbers of partitions, by topic name in the backup: `orders=12`; `12` for all topics. Records are partitioned
    by key."""
    keyless: KeylessText = Keyless.DEFAULT.value
    """Records without a key in a repartitioned topic: `in-turn` loses their order."""
    batch_bytes: OptionalSize = ""
    """Size of the new batches of a repartitioned topic, before compression: `16kB` to `1MB`. Empty: 256 KiB. All other
    topics keep the batches of the source."""
    write_limit: OptionalRate = ""
    """Maximum bytes per second into the cluster, all workers together: `50MB`, `1.5MiB`. Empty: no limit."""
    commit: Annotated[int, Field(ge=0, le=NUMBER_MAX, strict=True)] = 0
    """The version: the number of a commit. 0: the newest commit, or the commit of `timestamp`."""
    timestamp: Annotated[str, StringConstraints(max_length=40)] = ""
    """The newest commit at or before this time. `commit` takes precedence if both are given."""
    source_cluster: OptionalName = ""
    """The cluster that was backed up. Required with `timestamp`, which is a time of the source cluster."""
    tag: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$", max_length=63)] = "default"
    """A word for people. One restore of a tag runs at a time in a cluster."""
    offsets: Literal["auto", "preserve", "translate"] = "auto"
    """Whether records keep their old offsets, as `--offsets` of `offsite restore run`."""
    groups: Text = "none"
    """Consumer groups whose offsets are restored: `all`, `none`, or patterns."""

    @model_validator(mode="after")
    def _time_has_a_cluster(self) -> RestoreSpec:
        if self.timestamp and not self.commit and not self.source_cluster:
            raise ValueError("timestamp needs sourceCluster: the timestamp is a time of that cluster")
        return self

    @model_validator(mode="after")
    def _new_batches_have_topics(self) -> RestoreSpec:
        if self.batch_bytes and not self.repartition:
            raise ValueError(NO_NEW_BATCHES)
        return self


class Restore(Resource):
    """One restore of a backup into a cluster. A finished restore never runs again."""

    kind: Literal["Restore"]
    spec: RestoreSpec


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
