"""Observes the ends of a run for a cut: read between looks at coordinators, with the group commits made meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.backup.copy_plan import PartitionBounds, PositionKey
from offsite.backup.cut.caught_records import CaughtRecords
from offsite.backup.cut.group_tail import GroupTail, read_group_tail
from offsite.backup.cut.readings import ReadingsBaseline, ReadingSeries, begin_readings, take_readings
from offsite.cut.clean import find_unsettled
from offsite.cut.readings import CutEvidence
from offsite.cut.window import Ends, PartitionKey
from offsite.kafka.admin import ClusterAdmin
from offsite.log.transactions import PartitionTail
from offsite.model.errors import OffsiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEnds:
    """The readings of a run, and the group commits made meanwhile. `trouble`: why the run can have no cut, and `error`
    the id of the underlying error, if any; the rest is None in that case. `groups_trouble`: see `ReadingsBaseline`."""

    series: ReadingSeries | None = None
    groups: GroupTail | None = None
    groups_trouble: str = ""
    trouble: str = ""
    error: str = ""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why some group offsets of a cut may be missing."""
        failed = self.groups.failed if self.groups else {}
        lines = [f"{key} could not be read: {failed[key].message}" for key in sorted(failed)[:1]]
        return (*([self.groups_trouble] if self.groups_trouble else []), *lines)

    @property
    def window_starts(self) -> dict[PositionKey, int]:
        """The offset in every partition from which markers are needed."""
        first = self.series.readings[0].ends if self.series else {}
        return {(key.topic, key.topic_id, key.partition): end for key, end in first.items()}

    @property
    def ends(self) -> Ends:
        """The ends of the last reading."""
        return self.series.readings[-1].ends if self.series else {}

    def evidence(self, tails: Mapping[PartitionKey, PartitionTail]) -> CutEvidence:
        """The evidence, with the tails of the copied partitions. For `__consumer_offsets`, if copied as well, the tails
        read with the commits: they begin before the first commit."""
        series, groups = self.series, self.groups
        if series is None or groups is None:
            raise ValueError(self.trouble)
        return CutEvidence(
            readings=series.readings,
            changes=series.changes,
            listed=series.listed,
            tails={**tails, **groups.tails},
            commits=groups.commits,
        )


def begin_if_possible(admin: ClusterAdmin) -> ReadingsBaseline | OffsiteError:
    """Begin readings before the groups are read. Returns the error of a cluster that does not tell enough for a cut:
    the backup continues without a cut."""
    try:
        return begin_readings(admin)
    except OffsiteError as error:
        return error


def observe_ends(
    admin: ClusterAdmin,
    baseline: ReadingsBaseline | OffsiteError,
    bounds: Sequence[PartitionBounds],
    caught: CaughtRecords,
) -> tuple[ObservedEnds, tuple[PartitionBounds, ...]]:
    """Take the readings of all partitions. Returns them with `bounds` at the ends of the last reading; `bounds` stay
    unchanged without a cut. `caught` holds its records up to these ends afterwards."""
    as_told = tuple(bounds)
    if isinstance(baseline, OffsiteError):
        return ObservedEnds(trouble=baseline.message, error=baseline.id), as_told
    keys = [PartitionKey(*partition.key) for partition in bounds]
    try:
        caught.begin(bounds)
        series = take_readings(admin, baseline, keys, unclean=find_unsettled)
        caught.read_to(series.readings[-1].ends)
        groups = read_group_tail(admin, baseline, series, {partition.topic: partition.topic_id for partition in bounds})
    except OffsiteError as error:
        return ObservedEnds(trouble=error.message, error=error.id), as_told
    ends = series.readings[-1].ends
    # An end before the end that came with its leader epoch is of a leader that has changed since.
    late = [partition for partition in bounds if ends.get(PartitionKey(*partition.key), -1) < partition.end]
    if late:
        return ObservedEnds(trouble=f"the end of {late[0].topic}/{late[0].partition} could not be read again"), as_told
    observed = ObservedEnds(series=series, groups=groups, groups_trouble=baseline.groups_trouble)
    return observed, tuple(replace(b, end=ends[PartitionKey(*b.key)]) for b in bounds)
