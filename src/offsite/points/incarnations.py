"""The incarnation of a topic that a restore point means, when the backup holds several.

Without a time, the newest incarnation known to the commit. A time selects the incarnation that lived at the time, by
the evidence in `_verdict` (decision 0016): the entries of commits say when a backup saw an incarnation, their omissions
say nothing. Without evidence nothing is selected, and both incarnations are named. Offsets and group offsets belong to
an incarnation: incarnations not selected are no part of the point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from offsite.log.range import PartitionId, TopicIncarnation
from offsite.log.records.record import LOG_APPEND_TIME
from offsite.model.errors import BadOption, IncarnationUnclear
from offsite.model.journal import decided
from offsite.model.names import amount
from offsite.model.topic_choices import NEWEST, OLDEST, is_number
from offsite.model.units import format_time
from offsite.repository.backup import Backup
from offsite.repository.commit import Commit, TopicShape, damaged_commit
from offsite.repository.commit_log import CommitLog
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState

UNKNOWN_MS = -1
_ID_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The first and the last commit that listed the incarnation's shape or moved a position of the incarnation, with
    times.

    `alive_ms`: the incarnation surely lived then, because a later run read new records; -1: no evidence.
    """

    first_commit: int
    first_ms: int
    last_commit: int
    last_ms: int
    alive_ms: int = UNKNOWN_MS


def read_sightings(log: CommitLog, topics: Container[str], *, upto: int) -> Mapping[TopicIncarnation, Sighting]:
    """The sightings of every incarnation of `topics`. Reads all commits to `upto`: call only for topics with several
    incarnations. Raises `DamagedCommit`."""
    sightings: dict[TopicIncarnation, Sighting] = {}
    ends: dict[PartitionId, int] = {}
    before_ms = UNKNOWN_MS
    for stored in log.read(after=0, upto=upto):
        commit = stored.commit
        grown = {p.partition_id.incarnation for p in commit.changes.positions if p.end > ends.get(p.partition_id, 0)}
        ends |= {p.partition_id: p.end for p in commit.changes.positions}
        for incarnation in sorted(_seen_incarnations(commit)):
            if incarnation.topic in topics:
                sightings[incarnation] = _extend_sighting(
                    sightings.get(incarnation), commit, before_ms if incarnation in grown else UNKNOWN_MS
                )
        before_ms = commit.committed_at_ms
    return sightings


def _seen_incarnations(commit: Commit) -> set[TopicIncarnation]:
    """Segments are no evidence: roll-ups may rewrite segments long after their topic is gone. A deletion is no evidence
    either."""
    changes = commit.changes
    listed = {shape.incarnation for shape in changes.topics if not shape.is_deleted}
    return {p.partition_id.incarnation for p in changes.positions} | listed


def _extend_sighting(sighting: Sighting | None, commit: Commit, alive_ms: int) -> Sighting:
    now_ms = commit.committed_at_ms
    if sighting is None:
        return Sighting(
            first_commit=commit.seq, first_ms=now_ms, last_commit=commit.seq, last_ms=now_ms, alive_ms=alive_ms
        )
    return replace(sighting, last_commit=commit.seq, last_ms=now_ms, alive_ms=max(sighting.alive_ms, alive_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets `[start, end)` of a partition in the backup, holes aside."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IncarnationSummary:
    """One of the `of` incarnations of a topic known to a point; `number` counts from the oldest. Only one is `taken`;
    `because` is the reason for the taken one.

    The first record is dated `oldest_ms` (None: no record), the last `newest_ms`. The incarnation surely lived at
    `lived_from_ms` and at `lived_to_ms`, by times of brokers and of commits; -1: no evidence. Commits `first_commit` to
    `last_commit` of the backup saw the incarnation.
    """

    topic: str
    topic_id: str
    number: int
    of: int
    partitions: int
    records: int
    ranges: tuple[OffsetRange, ...]
    oldest_ms: int | None
    newest_ms: int
    first_commit: int
    last_commit: int
    last_seen_ms: int
    lived_from_ms: int
    lived_to_ms: int
    taken: bool = False
    because: str = ""

    @property
    def incarnation(self) -> TopicIncarnation:
        return TopicIncarnation(topic=self.topic, topic_id=self.topic_id)

    def __str__(self) -> str:
        start, end = min(r.start for r in self.ranges), max(r.end for r in self.ranges)
        offsets = f"offsets {start:,} to {end - 1:,}" if end > start else "no offsets"
        return (
            f"incarnation {self.number} of {self.of} of {self.topic} ({self.topic_id[:_ID_SHOWN] or 'no id'}, "
            f"{amount(self.records, 'record')}, {offsets}, last seen in commit {self.last_commit} of "
            f"{format_time(self.last_seen_ms)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IncarnationCriteria:
    """The criteria for an incarnation, in order: `ids` (topic → id, for the reason `ids_because`), `named` (see
    `parse_incarnations`), and the time `until_ms`. Retention has removed all data of the incarnations in `emptied`:
    missing data of such an incarnation proves nothing."""

    named: Mapping[str, str] = field(default_factory=dict)
    until_ms: int | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    ids_because: str = ""
    emptied: Collection[TopicIncarnation] = ()


def topics_with_several_incarnations(state: BackupState, topics: Collection[str]) -> set[str]:
    """The topics out of `topics` with more than one incarnation in `state`."""
    counts = Counter(incarnation.topic for incarnation in state.topics)
    return {topic for topic in topics if counts[topic] > 1}


def emptied_incarnations(state: BackupState, head: BackupState) -> frozenset[TopicIncarnation]:
    """The incarnations of restore point `state` without data, because retention removed the data, as recorded by
    `head`, the newest state."""
    let_go = {partition_id.incarnation for partition_id in state.positions if head.expired_at(state.seq, partition_id)}
    return frozenset(let_go - {partition_id.incarnation for partition_id in state.segments})


def find_incarnations(
    backup: Backup, state: BackupState, topics: Collection[str], criteria: IncarnationCriteria
) -> tuple[IncarnationSummary, ...]:
    """The incarnations of all `topics` with several incarnations in `state`, one of every topic `taken`. Reads the
    commits only when such topics exist.

    Raises `IncarnationUnclear`, `BadOption` for a name that fits no incarnation or several, and `DamagedCommit`.
    """
    if unselected := sorted(set(criteria.named) - set(topics)):
        raise BadOption(
            f"--incarnation names {', '.join(unselected)}, which is not selected", hint="name it with --topics"
        )
    ambiguous = topics_with_several_incarnations(state, topics) | set(criteria.named)
    if not ambiguous:
        return ()
    sightings = read_sightings(backup.log, ambiguous, upto=state.seq)
    if backup.descriptor.is_import:  # the time of an import says nothing about the lifetime
        sightings = {incarnation: replace(sighting, alive_ms=UNKNOWN_MS) for incarnation, sighting in sightings.items()}
    if unseen := [
        incarnation for incarnation in state.topics if incarnation.topic in ambiguous and incarnation not in sightings
    ]:
        raise damaged_commit(
            f"no commit of {state.backup} to {state.seq} saw topic {unseen[0].topic} with one of its ids"
        )
    incarnations = [
        incarnation
        for incarnation in choose_incarnations(summarize_incarnations(state, ambiguous, sightings), criteria)
        if incarnation.of > 1
    ]
    for incarnation in incarnations:
        event = "incarnation_taken" if incarnation.taken else "incarnation_left_aside"
        decided(
            event,
            why=incarnation.because or "another one was taken",
            topic=incarnation.topic,
            topic_id=incarnation.topic_id,
        )
    return tuple(incarnations)


def summarize_incarnations(
    state: BackupState, topics: Collection[str], sightings: Mapping[TopicIncarnation, Sighting]
) -> dict[str, list[IncarnationSummary]]:
    """All incarnations of `topics`, the oldest first."""
    return {
        topic: [
            _summarize(state, shape, sightings[shape.incarnation], number=number, of=len(shapes))
            for number, shape in enumerate(shapes, 1)
        ]
        for topic in sorted(topics)
        if (shapes := [shape for shape in state.topics.values() if shape.topic == topic])
    }


def choose_incarnations(
    by_topic: Mapping[str, Sequence[IncarnationSummary]], criteria: IncarnationCriteria
) -> tuple[IncarnationSummary, ...]:
    """All incarnations of `by_topic`, one of every topic `taken`. Raises `IncarnationUnclear`, and `BadOption` for a
    name that fits none or several."""
    return tuple(incarnation for of_topic in by_topic.values() for incarnation in _mark_taken(of_topic, criteria))


def drop_other_incarnations(state: BackupState, incarnations: Collection[IncarnationSummary]) -> BackupState:
    """`state` as if the incarnations not taken had never existed."""
    not_taken = {incarnation.incarnation for incarnation in incarnations if not incarnation.taken}
    if not not_taken:
        return state
    return replace(
        state,
        topics={incarnation: shape for incarnation, shape in state.topics.items() if incarnation not in not_taken},
        positions={
            partition_id: position
            for partition_id, position in state.positions.items()
            if partition_id.incarnation not in not_taken
        },
        segments={
            partition_id: segments
            for partition_id, segments in state.segments.items()
            if partition_id.incarnation not in not_taken
        },
        holes=tuple(hole for hole in state.holes if hole.partition_id.incarnation not in not_taken),
    )


def incarnation_notes(incarnations: Collection[IncarnationSummary]) -> Iterator[str]:
    """Sentences for a person: the taken incarnation of every topic, and the option for another incarnation."""
    for chosen in (candidate for candidate in incarnations if candidate.taken):
        yield f"{chosen.topic} was deleted and created again: this is {chosen}, because {chosen.because}"
        for other in (
            candidate for candidate in incarnations if candidate.topic == chosen.topic and not candidate.taken
        ):
            yield f"not used: {other}; to use it: --incarnation {other.topic}={other.number}"


def _summarize(
    state: BackupState, shape: TopicShape, sighting: Sighting, *, number: int, of: int
) -> IncarnationSummary:
    ids = list(shape.partition_ids)
    segments = [segment for partition_id in ids for segment in state.segments.get(partition_id, ())]
    dated = [segment for segment in segments if segment.records]
    by_broker = [segment for segment in dated if segment.timestamp_types == (LOG_APPEND_TIME,)]
    return IncarnationSummary(
        topic=shape.topic,
        topic_id=shape.topic_id,
        number=number,
        of=of,
        partitions=shape.partitions,
        records=sum(segment.records for segment in segments),
        ranges=tuple(_range(state, partition_id) for partition_id in ids),
        oldest_ms=min((_oldest_ms(segment) for segment in dated), default=None),
        newest_ms=max((segment.timestamp_max_ms for segment in dated), default=-1),
        first_commit=sighting.first_commit,
        last_commit=sighting.last_commit,
        last_seen_ms=sighting.last_ms,
        lived_from_ms=min((sighting.first_ms, *map(_oldest_ms, by_broker))),
        lived_to_ms=max((sighting.alive_ms, *(segment.timestamp_max_ms for segment in by_broker))),
    )


def _oldest_ms(segment: Segment) -> int:
    """Records without a date count as the oldest."""
    return max(segment.base_timestamp_min_ms, 0)


def _range(state: BackupState, partition: PartitionId) -> OffsetRange:
    start, end = state.held_range(partition)
    return OffsetRange(partition=partition.partition, start=start, end=end)


def _mark_taken(
    incarnations: Sequence[IncarnationSummary], criteria: IncarnationCriteria
) -> Iterator[IncarnationSummary]:
    chosen, because = _choose_one(incarnations, criteria)
    for incarnation in incarnations:
        is_it = incarnation is chosen
        yield replace(incarnation, taken=is_it, because=because if is_it else "")


def _choose_one(
    incarnations: Sequence[IncarnationSummary], criteria: IncarnationCriteria
) -> tuple[IncarnationSummary, str]:
    topic = incarnations[0].topic
    if topic in criteria.ids:
        matching = [incarnation for incarnation in incarnations if incarnation.topic_id == criteria.ids[topic]]
        if matching:
            return matching[0], criteria.ids_because
    if topic in criteria.named:
        return _named(incarnations, criteria.named[topic]), f"{criteria.named[topic]} was requested"
    if criteria.until_ms is None:
        return incarnations[-1], "it is the newest in that commit"
    return incarnation_at(incarnations, criteria.until_ms, emptied=criteria.emptied)


def _named(incarnations: Sequence[IncarnationSummary], name: str) -> IncarnationSummary:
    if name in {OLDEST, NEWEST}:
        return incarnations[0] if name == OLDEST else incarnations[-1]
    matching = [incarnation for incarnation in incarnations if _is_named(incarnation, name)]
    if len(matching) != 1:
        raise BadOption(
            f"--incarnation {incarnations[0].topic}={name} matches {len(matching)} of {len(incarnations)} incarnations",
            hint=f"there are: {'; '.join(map(_with_option, incarnations))}",
        )
    return matching[0]


def _is_named(incarnation: IncarnationSummary, name: str) -> bool:
    return incarnation.number == int(name) if is_number(name) else incarnation.topic_id.startswith(name)


def incarnation_at(
    incarnations: Sequence[IncarnationSummary], time_ms: int, *, emptied: Collection[TopicIncarnation] = ()
) -> tuple[IncarnationSummary, str]:
    """The incarnation of `incarnations` (the oldest first) that lived at `time_ms`, and the evidence. Before all
    evidence the oldest incarnation: no other can have lived at such a time. Raises `IncarnationUnclear`."""
    because = ""
    for older, newer in zip(reversed(incarnations[:-1]), reversed(incarnations[1:]), strict=True):
        verdict, because = _verdict(older, newer, time_ms, is_emptied=older.incarnation in emptied)
        if verdict is _Verdict.NEWER:
            return newer, because
        if verdict is _Verdict.UNCLEAR:
            raise IncarnationUnclear(
                f"{newer.topic} was deleted and created again, and the backup cannot tell which incarnation existed "
                f"at {format_time(time_ms)} ({because}): {older}, or {newer}",
                hint=f"choose one: {_with_option(older)}; {_with_option(newer)}",
            )
    return incarnations[0], because


class _Verdict(Enum):
    OLDER = "older"
    NEWER = "newer"
    UNCLEAR = "unclear"


def _verdict(
    older: IncarnationSummary, newer: IncarnationSummary, time_ms: int, *, is_emptied: bool
) -> tuple[_Verdict, str]:
    """Judges two consecutive incarnations. The time is one of records: the dates of records are compared first.

    - The newer incarnation holds no record of the time: the older one, unless the newer one was seen by the time.
    - The newer incarnation holds such records, and all records of the older one are earlier: the newer one.
    - Both hold records of the same times, because one was written with old dates: only the known lifetimes decide. A
      name has one topic at a time.
    """
    at = format_time(time_ms)
    is_newer, is_older = time_ms >= newer.lived_from_ms, time_ms <= older.lived_to_ms
    if newer.oldest_ms is None or time_ms < newer.oldest_ms:
        if is_newer:
            return _Verdict.NEWER, f"it existed at {at}"
        return _Verdict.OLDER, f"the newer one has no records dated {at} or before"
    if older.newest_ms < newer.oldest_ms and not is_emptied:
        return _Verdict.NEWER, f"it has records dated {at} or before, and all records of the older one are earlier"
    if is_newer == is_older:
        why = "the backup deleted the records of the older one" if is_emptied else "both have records of the same times"
        return _Verdict.UNCLEAR, why
    return (_Verdict.NEWER if is_newer else _Verdict.OLDER), f"it existed at {at}"


def _with_option(summary: IncarnationSummary) -> str:
    return (
        f"--incarnation {summary.topic}={summary.number} (from commit {summary.first_commit} to {summary.last_commit})"
    )
