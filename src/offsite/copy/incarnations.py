"""The incarnation of a topic that a restore point means, when the backup holds several.

Without a time, the newest incarnation known to the commit. A time selects the incarnation that lived at the time, by
the evidence in `_verdict` (decision 0016); without evidence nothing is selected, and both incarnations are named.
Offsets and group offsets belong to an incarnation: incarnations not selected are no part of the point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from offsite.copy.sightings import UNKNOWN_MS, Sighting, read_sightings
from offsite.log.records.record import LOG_APPEND_TIME
from offsite.model.errors import BadOption, IncarnationUnclear
from offsite.model.journal import decided
from offsite.model.selections.topic_choices import NEWEST, OLDEST, is_number
from offsite.model.time import format_time
from offsite.repository.backup import Backup
from offsite.repository.commit import PartitionId, TopicIncarnation, TopicShape
from offsite.repository.commit_json import damaged_commit
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState

_ID_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets `[start, end)` of a partition in the backup, holes aside."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIncarnation:
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
            f"{self.records:,} records, {offsets}, last seen in commit {self.last_commit} of "
            f"{format_time(self.last_seen_ms)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The criteria for an incarnation, in order: `ids` (topic → id, for the reason `ids_because`), `named` (see
    `parse_incarnations`), and the time `until_ms`. Retention has removed all data of the incarnations in `emptied`:
    missing data of such an incarnation proves nothing."""

    named: Mapping[str, str] = field(default_factory=dict)
    until_ms: int | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    ids_because: str = ""
    emptied: Collection[TopicIncarnation] = ()


def several(state: BackupState, topics: Collection[str]) -> set[str]:
    """The topics out of `topics` with more than one incarnation in `state`."""
    counts = Counter(incarnation.topic for incarnation in state.topics)
    return {topic for topic in topics if counts[topic] > 1}


def emptied(state: BackupState, head: BackupState) -> frozenset[TopicIncarnation]:
    """The incarnations of restore point `state` without data, because retention removed the data, as recorded by
    `head`, the newest state."""
    let_go = {each.incarnation for each in state.positions if head.let_go_at(state.seq, each)}
    return frozenset(let_go - {each.incarnation for each in state.segments})


def find_incarnations(
    backup: Backup, state: BackupState, topics: Collection[str], wanted: Wanted
) -> tuple[KnownIncarnation, ...]:
    """The incarnations of all `topics` with several incarnations in `state`, one of every topic `taken`. Reads the
    commits only when such topics exist.

    Raises `IncarnationUnclear`, `BadOption` for a name that fits no incarnation or several, and `DamagedCommit`.
    """
    if others := sorted(set(wanted.named) - set(topics)):
        raise BadOption(f"--incarnation names {', '.join(others)}, which is not selected", hint="name it with --topics")
    asked = several(state, topics) | set(wanted.named)
    if not asked:
        return ()
    sightings = read_sightings(backup.log, asked, upto=state.seq)
    if backup.descriptor.is_import:  # the time of an import says nothing about the lifetime
        sightings = {each: replace(seen, alive_ms=UNKNOWN_MS) for each, seen in sightings.items()}
    if unseen := [each for each in state.topics if each.topic in asked and each not in sightings]:
        raise damaged_commit(
            f"no commit of {state.backup} to {state.seq} saw topic {unseen[0].topic} with one of its ids"
        )
    found = [each for each in choose(known_incarnations(state, asked, sightings), wanted) if each.of > 1]
    for each in found:
        event = "incarnation_taken" if each.taken else "incarnation_left_aside"
        decided(event, why=each.because or "another one was taken", topic=each.topic, topic_id=each.topic_id)
    return tuple(found)


def known_incarnations(
    state: BackupState, topics: Collection[str], sightings: Mapping[TopicIncarnation, Sighting]
) -> dict[str, list[KnownIncarnation]]:
    """All incarnations of `topics`, the oldest first."""
    return {
        topic: [
            _known(state, shape, sightings[shape.incarnation], number=number, of=len(shapes))
            for number, shape in enumerate(shapes, 1)
        ]
        for topic in sorted(topics)
        if (shapes := [shape for shape in state.topics.values() if shape.topic == topic])
    }


def choose(known: Mapping[str, Sequence[KnownIncarnation]], wanted: Wanted) -> tuple[KnownIncarnation, ...]:
    """All incarnations of `by_topic`, one of every topic `taken`. Raises `IncarnationUnclear`, and `BadOption` for a
    name that fits none or several."""
    return tuple(each for of_topic in known.values() for each in _one_taken(of_topic, wanted))


def without_others(state: BackupState, known: Collection[KnownIncarnation]) -> BackupState:
    """`state` as if the incarnations not taken had never existed."""
    left = {each.incarnation for each in known if not each.taken}
    if not left:
        return state
    return replace(
        state,
        topics={each: shape for each, shape in state.topics.items() if each not in left},
        positions={each: found for each, found in state.positions.items() if each.incarnation not in left},
        segments={each: found for each, found in state.segments.items() if each.incarnation not in left},
        holes=tuple(hole for hole in state.holes if hole.partition_id.incarnation not in left),
    )


def incarnation_notes(known: Collection[KnownIncarnation], *, option: str = "--incarnation ") -> Iterator[str]:
    """Sentences for a person: the taken incarnation of every topic, and the option for another incarnation."""
    for taken in (each for each in known if each.taken):
        yield f"{taken.topic} was deleted and made anew: this is {taken}, because {taken.because}"
        for other in (each for each in known if each.topic == taken.topic and not each.taken):
            yield f"left aside: {other}; to take it: {option}{other.topic}={other.number}"


def _known(state: BackupState, shape: TopicShape, seen: Sighting, *, number: int, of: int) -> KnownIncarnation:
    ids = list(shape.partition_ids)
    segments = [segment for each in ids for segment in state.segments.get(each, ())]
    dated = [segment for segment in segments if segment.records]
    by_broker = [segment for segment in dated if segment.timestamp_types == (LOG_APPEND_TIME,)]
    return KnownIncarnation(
        topic=shape.topic,
        topic_id=shape.topic_id,
        number=number,
        of=of,
        partitions=shape.partitions,
        records=sum(segment.records for segment in segments),
        ranges=tuple(_range(state, each) for each in ids),
        oldest_ms=min((_oldest_ms(segment) for segment in dated), default=None),
        newest_ms=max((segment.timestamp_max_ms for segment in dated), default=-1),
        first_commit=seen.first_commit,
        last_commit=seen.last_commit,
        last_seen_ms=seen.last_ms,
        lived_from_ms=min((seen.first_ms, *map(_oldest_ms, by_broker))),
        lived_to_ms=max((seen.alive_ms, *(segment.timestamp_max_ms for segment in by_broker))),
    )


def _oldest_ms(segment: Segment) -> int:
    """Records without a date count as the oldest."""
    return max(segment.base_timestamp_min_ms, 0)


def _range(state: BackupState, partition: PartitionId) -> OffsetRange:
    start, end = state.held_range(partition)
    return OffsetRange(partition=partition.partition, start=start, end=end)


def _one_taken(known: Sequence[KnownIncarnation], wanted: Wanted) -> Iterator[KnownIncarnation]:
    taken, because = _chosen(known, wanted)
    for each in known:
        is_it = each is taken
        yield replace(each, taken=is_it, because=because if is_it else "")


def _chosen(known: Sequence[KnownIncarnation], wanted: Wanted) -> tuple[KnownIncarnation, str]:
    topic = known[0].topic
    if topic in wanted.ids:
        found = [each for each in known if each.topic_id == wanted.ids[topic]]
        if found:
            return found[0], wanted.ids_because
    if topic in wanted.named:
        return _named(known, wanted.named[topic]), f"{wanted.named[topic]} was asked for"
    if wanted.until_ms is None:
        return known[-1], "it is the newest of that commit"
    return incarnation_at(known, wanted.until_ms, emptied=wanted.emptied)


def _named(known: Sequence[KnownIncarnation], name: str) -> KnownIncarnation:
    if name in {OLDEST, NEWEST}:
        return known[0] if name == OLDEST else known[-1]
    found = [each for each in known if _is_named(each, name)]
    if len(found) != 1:
        raise BadOption(
            f"--incarnation {known[0].topic}={name} fits {len(found)} of {len(known)} incarnations",
            hint=f"there are: {'; '.join(map(_with_option, known))}",
        )
    return found[0]


def _is_named(known: KnownIncarnation, name: str) -> bool:
    return known.number == int(name) if is_number(name) else known.topic_id.startswith(name)


def incarnation_at(
    known: Sequence[KnownIncarnation], time_ms: int, *, emptied: Collection[TopicIncarnation] = ()
) -> tuple[KnownIncarnation, str]:
    """The incarnation of `incarnations` (the oldest first) that lived at `time_ms`, and the evidence. Before all
    evidence the oldest incarnation: no other can have lived at such a time. Raises `IncarnationUnclear`."""
    because = ""
    for older, newer in zip(reversed(known[:-1]), reversed(known[1:]), strict=True):
        verdict, because = _verdict(older, newer, time_ms, is_emptied=older.incarnation in emptied)
        if verdict is _Verdict.NEWER:
            return newer, because
        if verdict is _Verdict.UNCLEAR:
            raise IncarnationUnclear(
                f"{newer.topic} was deleted and made anew, and the backup cannot tell which one lived at "
                f"{format_time(time_ms)} ({because}): {older}, or {newer}",
                hint=f"choose one: {_with_option(older)}; {_with_option(newer)}",
            )
    return known[0], because


class _Verdict(Enum):
    OLDER = "older"
    NEWER = "newer"
    UNCLEAR = "unclear"


def _verdict(
    older: KnownIncarnation, newer: KnownIncarnation, time_ms: int, *, is_emptied: bool
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
            return _Verdict.NEWER, f"it lived at {at}"
        return _Verdict.OLDER, f"the newer one holds nothing dated {at} or before"
    if older.newest_ms < newer.oldest_ms and not is_emptied:
        return _Verdict.NEWER, f"it holds records dated {at} or before, and all of the older one are earlier"
    if is_newer == is_older:
        why = "what the older one held was let go" if is_emptied else "both hold records of the same times"
        return _Verdict.UNCLEAR, why
    return (_Verdict.NEWER if is_newer else _Verdict.OLDER), f"it lived at {at}"


def _with_option(known: KnownIncarnation) -> str:
    return f"--incarnation {known.topic}={known.number} (from commit {known.first_commit} to {known.last_commit})"
