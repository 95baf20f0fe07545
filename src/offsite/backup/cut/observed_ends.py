"""Observes the ends of a run for a cut: read between looks at coordinators, with the group commits made meanwhile.

The newest group commits come from `__consumer_offsets`, with the surrounding transactions. A partition is read from its
last stable offset before the groups were read. Every transaction open at the time is seen from the beginning, and every
commit not yet counted by coordinators is included. A hanging transaction may make the range long; beyond `TAIL_MAX` the
reading starts later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.backup.copy_plan import PartitionBounds
from offsite.backup.cut.caught_records import CaughtRecords
from offsite.backup.cut.readings import ReadingsBaseline, ReadingSeries, begin_readings, read_dense, take_readings
from offsite.cut.readings import CutEvidence, LoggedCommit, find_unsettled
from offsite.cut.window import REMOVED, Ends, GroupCommit
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import BatchHeader
from offsite.log.group_fold import OffsetRecord, parse_group_record
from offsite.log.range import LogRange, PartitionId
from offsite.log.transactions import PartitionTail, TransactionIndexer, with_unknown_beginnings
from offsite.model.errors import LeaderUnavailable, OffsiteError
from offsite_participant.errors import ParticipantError
from offsite_participant.number import parse_note

_UNREAD = LeaderUnavailable("its end could not be read again")
TAIL_MAX = 500_000
"""Offsets of a partition read from before the groups were read: some seconds of reading."""
_PLAIN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTail:
    """Fields as in `CutEvidence`. `failed`: partitions that could not be read completely; the fields contain nothing of
    them."""

    commits: tuple[LoggedCommit, ...] = ()
    tails: Mapping[PartitionId, PartitionTail] = field(default_factory=dict)
    failed: Mapping[PartitionId, OffsiteError] = field(default_factory=dict)


def read_group_tail(
    admin: ClusterAdmin, baseline: ReadingsBaseline, series: ReadingSeries, topic_ids: Mapping[str, str]
) -> GroupTail:
    """Read all partitions of `__consumer_offsets` from before `baseline` to the last of the readings. `topic_ids`: name
    → id of the topics that groups commit on; a commit on an unlisted topic has no id."""
    commits: list[LoggedCommit] = []
    tails: dict[PartitionId, PartitionTail] = {}
    failed: dict[PartitionId, OffsiteError] = {}
    reader, last = admin.reader(), series.readings[-1].ends
    failed |= {log: series.failed.get(log, _UNREAD) for log in baseline.group_ends.keys() - last.keys()}
    for log in sorted(baseline.group_ends.keys() & last.keys()):
        stable, end = baseline.group_stable[log], last[log]
        start = max(stable, baseline.group_ends[log] - TAIL_MAX)
        try:
            tail_commits, tail = _read(reader, log, start, end, topic_ids)
        except OffsiteError as error:
            failed[log] = error
            continue
        tail = tail if start == stable else with_unknown_beginnings(tail)
        commits += (
            _of_base(logged) if logged.commit.position < baseline.group_ends[log] else logged for logged in tail_commits
        )
        if tail.markers or tail.open:
            tails[log] = tail
    return GroupTail(commits=tuple(commits), tails=tails, failed=failed)


def _read(
    reader: PartitionReader, log: PartitionId, start: int, end: int, topic_ids: Mapping[str, str]
) -> tuple[list[LoggedCommit], PartitionTail]:
    commits: list[LoggedCommit] = []
    indexer = TransactionIndexer()
    if start < end:
        span = LogRange(topic=log.topic, partition=log.partition, start=start, end=end)
        for chunk, header, records in read_dense(reader, span):
            indexer.feed(chunk.data, [header])
            parsed = [] if header.is_control else [parse_group_record(record) for record in records]
            commits += [
                _commit(log, header, offset_record, topic_ids) for offset_record in parsed if offset_record is not None
            ]
    return commits, PartitionTail(markers=tuple(indexer.markers), open=tuple(indexer.open_transactions))


def _of_base(logged: LoggedCommit) -> LoggedCommit:
    """A commit from before the ends were first read, without its outputs: all earlier records of the participant were
    acknowledged before, and are below every cut. The commit holds nothing back, and exists as a fallback."""
    return logged._replace(commit=replace(logged.commit, outputs=()))


def _commit(log: PartitionId, header: BatchHeader, record: OffsetRecord, topic_ids: Mapping[str, str]) -> LoggedCommit:
    of, committed = record.group_partition, None if record.value is None else record.committed()
    commit = GroupCommit(
        group=of.group,
        partition=PartitionId(of.topic, topic_ids.get(of.topic, ""), of.partition),
        offset=REMOVED if committed is None else committed.offset,
        log=log,
        position=record.position,
        exactly_once=header.is_transactional,
        outputs=() if committed is None else _outputs(committed.metadata, topic_ids),
        metadata="" if committed is None else committed.metadata,
    )
    return LoggedCommit(commit, header.producer_id if header.is_transactional else _PLAIN)


def _outputs(metadata: str, topic_ids: Mapping[str, str]) -> tuple[tuple[PartitionId, int], ...] | None:
    """The outputs that a participant claims. An unreadable claim counts as unknown outputs."""
    try:
        note = parse_note(metadata)
    except ParticipantError:
        return None
    if note is None:
        return ()
    if note.outputs is None:
        return None
    outputs = note.outputs.items()
    return tuple((PartitionId(at.topic, topic_ids.get(at.topic, ""), at.partition), end) for at, end in outputs)


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
    def window_starts(self) -> dict[PartitionId, int]:
        """The offset in every partition from which markers are needed."""
        return dict(self.series.readings[0].ends) if self.series else {}

    @property
    def ends(self) -> Ends:
        """The ends of the last reading."""
        return self.series.readings[-1].ends if self.series else {}

    def evidence(self, tails: Mapping[PartitionId, PartitionTail]) -> CutEvidence:
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
    keys = [partition.partition_id for partition in bounds]
    try:
        caught.begin(bounds)
        series = take_readings(admin, baseline, keys, unclean=find_unsettled)
        caught.read_to(series.readings[-1].ends)
        groups = read_group_tail(admin, baseline, series, {partition.topic: partition.topic_id for partition in bounds})
    except OffsiteError as error:
        return ObservedEnds(trouble=error.message, error=error.id), as_told
    ends = series.readings[-1].ends
    # An end before the end that came with its leader epoch is of a leader that has changed since.
    late = [partition for partition in bounds if ends.get(partition.partition_id, -1) < partition.end]
    if late:
        return ObservedEnds(trouble=f"the end of {late[0].topic}/{late[0].partition} could not be read again"), as_told
    observed = ObservedEnds(series=series, groups=groups, groups_trouble=baseline.groups_trouble)
    return observed, tuple(replace(b, end=ends[b.partition_id]) for b in bounds)
