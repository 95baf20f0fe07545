"""Observes the ends of a run for a cut: read between looks at coordinators, with the group commits made meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.copy.plan import PartitionBounds, PositionKey
from offsite.cut.clean import unsettled
from offsite.cut.readings import Evidence
from offsite.cut.window import Ends, PartitionKey
from offsite.kafka.admin import ClusterAdmin
from offsite.log.transaction_tail import PartitionTail
from offsite.model.errors import OffsiteError
from offsite.services.cut.caught_records import CaughtRecords
from offsite.services.cut.group_tail import GroupTail, read_group_tail
from offsite.services.cut.readings import Begun, TakenReadings, begin_readings, take_readings


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEnds:
    """The readings of a run, and the group commits made meanwhile. `trouble`: why the run can have no cut, and `error`
    the id of the underlying error, if any; the rest is None in that case. `groups_trouble`: see `ReadingsBaseline`."""

    taken: TakenReadings | None = None
    groups: GroupTail | None = None
    groups_trouble: str = ""
    trouble: str = ""
    error: str = ""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why some group offsets of a cut may be missing."""
        failed = self.groups.failed if self.groups else {}
        told = [f"{key} could not be read: {failed[key].message}" for key in sorted(failed)[:1]]
        return (*([self.groups_trouble] if self.groups_trouble else []), *told)

    @property
    def window_starts(self) -> dict[PositionKey, int]:
        """The offset in every partition from which markers are needed."""
        first = self.taken.readings[0].ends if self.taken else {}
        return {(key.topic, key.topic_id, key.partition): end for key, end in first.items()}

    @property
    def ends(self) -> Ends:
        """The ends of the last reading."""
        return self.taken.readings[-1].ends if self.taken else {}

    def evidence(self, tails: Mapping[PartitionKey, PartitionTail]) -> Evidence:
        """The evidence, with the tails of the copied partitions. For `__consumer_offsets`, if copied as well, the tails
        read with the commits: they begin before the first commit."""
        taken, groups = self.taken, self.groups
        if taken is None or groups is None:
            raise ValueError(self.trouble)
        return Evidence(
            readings=taken.readings,
            changes=taken.changes,
            listed=taken.listed,
            tails={**tails, **groups.tails},
            commits=groups.commits,
        )


def begin(admin: ClusterAdmin) -> Begun | OffsiteError:
    """Begin readings before the groups are read. Returns the error of a cluster that does not tell enough for a cut:
    the backup goes on without a cut."""
    try:
        return begin_readings(admin)
    except OffsiteError as error:
        return error


def see_ends(
    admin: ClusterAdmin, begun: Begun | OffsiteError, bounds: Sequence[PartitionBounds], caught: CaughtRecords
) -> tuple[SeenEnds, tuple[PartitionBounds, ...]]:
    """Take the readings of all partitions. Returns them with `bounds` at the ends of the last reading; `bounds` stay
    unchanged without a cut. `caught` holds its records up to these ends afterwards."""
    as_told = tuple(bounds)
    if isinstance(begun, OffsiteError):
        return SeenEnds(trouble=begun.message, error=begun.id), as_told
    keys = [PartitionKey(*each.key) for each in bounds]
    try:
        caught.begin(bounds)
        taken = take_readings(admin, begun, keys, unclean=unsettled)
        caught.read_to(taken.readings[-1].ends)
        groups = read_group_tail(admin, begun, taken, {each.topic: each.topic_id for each in bounds})
    except OffsiteError as error:
        return SeenEnds(trouble=error.message, error=error.id), as_told
    ends = taken.readings[-1].ends
    # An end before the end that came with its leader epoch is of a leader that has changed since.
    late = [each for each in bounds if ends.get(PartitionKey(*each.key), -1) < each.end]
    if late:
        return SeenEnds(trouble=f"the end of {late[0].topic}/{late[0].partition} could not be read again"), as_told
    seen = SeenEnds(taken=taken, groups=groups, groups_trouble=begun.groups_trouble)
    return seen, tuple(replace(b, end=ends[PartitionKey(*b.key)]) for b in bounds)
