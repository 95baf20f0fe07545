"""The ends of a run as a cut needs them: read between looks at coordinators, with what groups committed meanwhile."""

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
    """The readings of a run, and what groups committed meanwhile. `trouble` says why a run can have no cut, and `error`
    is the id of the error that it comes from, if any; then the rest is None. `groups_trouble`: see `Begun`."""

    taken: TakenReadings | None = None
    groups: GroupTail | None = None
    groups_trouble: str = ""
    trouble: str = ""
    error: str = ""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why group offsets of a cut may not be all that belong to it."""
        failed = self.groups.failed if self.groups else {}
        told = [f"{key} could not be read: {failed[key].message}" for key in sorted(failed)[:1]]
        return (*([self.groups_trouble] if self.groups_trouble else []), *told)

    @property
    def window_starts(self) -> dict[PositionKey, int]:
        """From where on each partition's markers are wanted."""
        first = self.taken.readings[0].ends if self.taken else {}
        return {(key.topic, key.topic_id, key.partition): end for key, end in first.items()}

    @property
    def ends(self) -> Ends:
        """Where the last reading ends."""
        return self.taken.readings[-1].ends if self.taken else {}

    def evidence(self, tails: Mapping[PartitionKey, PartitionTail]) -> Evidence:
        """All of it, with the tails of what was copied; of `__consumer_offsets`, where that is copied as well, those
        that were read with the commits: they begin before the first of these."""
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
    """To be called before the groups are read. A cluster that does not tell enough for a cut is backed up without."""
    try:
        return begin_readings(admin)
    except OffsiteError as error:
        return error


def see_ends(
    admin: ClusterAdmin, begun: Begun | OffsiteError, bounds: Sequence[PartitionBounds], caught: CaughtRecords
) -> tuple[SeenEnds, tuple[PartitionBounds, ...]]:
    """The readings of all partitions, and `bounds` with the ends of the last one; as they are if there is no cut.
    `caught` has then what it is to catch, up to these ends."""
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
    # An end before the one that was told with its leader epoch is of a leader that has changed since.
    late = [each for each in bounds if ends.get(PartitionKey(*each.key), -1) < each.end]
    if late:
        return SeenEnds(trouble=f"the end of {late[0].topic}/{late[0].partition} could not be read again"), as_told
    seen = SeenEnds(taken=taken, groups=groups, groups_trouble=begun.groups_trouble)
    return seen, tuple(replace(b, end=ends[PartitionKey(*b.key)]) for b in bounds)
