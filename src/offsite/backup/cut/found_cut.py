"""Finds the consistent cut of a commit when its pass is complete, in stored form. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from offsite.backup.stamps import NONE_BEHIND, ObservedStamps
from offsite.cut.cut import Cut, CutRefusal, LeftOutSpan, TopicClass
from offsite.cut.effect import UNSEEN
from offsite.cut.episodes import window_of
from offsite.cut.greatest import greatest_cut
from offsite.cut.group_offsets import GroupKey, first_without_outputs
from offsite.cut.readings import CutEvidence
from offsite.cut.window import REMOVED, Ends, ExternalParticipant, SpanOutcome, StampedRecord, Window, WriterKind
from offsite.log.group_offsets import GroupTable
from offsite.log.range import PartitionId, TopicPartition
from offsite.log.transactions import PartitionTail
from offsite.model.names import PROTECTED_TOPICS, named
from offsite.repository.snapshots.commit_cut import (
    CheckpointParticipant,
    CommitCut,
    CutGroup,
    CutPartition,
    LeftOutTransactions,
    OpenAtEnd,
)

NAMED_MAX = 100
"""A stored cut names so many of the transactions that it leaves out."""
_NO_COMMIT = (REMOVED, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotGroups:
    """The groups of a commit: the `offsets` of its snapshot, and the groups `selected` for the backup. `doubts`: why
    the offsets may be older than the ends; no topic is claimed as exact with any doubt."""

    offsets: GroupTable
    selected: frozenset[str]
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamps:
    """The stamps observed of a checkpoint that was opened to the writers of `topics`, by partition with new records
    since before the opening. `doubts`: why the stamps do not prove that the writers have taken the checkpoint; nothing
    is claimed with any doubt."""

    topics: frozenset[str] = frozenset()
    observed: Mapping[PartitionId, ObservedStamps] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()


def find_cut(  # noqa: PLR0913  # the facts, and what they are held against
    evidence: CutEvidence,
    positions: Mapping[PartitionId, int],
    groups: SnapshotGroups,
    *,
    notes: tuple[str, ...] = (),
    participants: tuple[CheckpointParticipant, ...] = (),
    stamps: Stamps = Stamps(),
    partial: frozenset[str] = frozenset(),
) -> CommitCut:
    """Find the cut of a commit whose partitions end at `positions`. The cut lists group offsets that differ from
    `groups`. Every partition is in the readings; `partial` topics have more partitions, and nothing is claimed for
    them. A cut in contradiction to the declarations of `participants` is refused (rule C5)."""
    ends = evidence.readings[-1].ends
    # 1. Turn the evidence into a window of facts: transactions, commits, stamps, writers, participants.
    moved = frozenset(_moved(evidence, stamps))
    window = window_of(evidence)
    window = replace(
        window,
        unpaired=window.unpaired | partial,
        stamped=tuple(_stamped(stamps)),
        writers=_writers(moved, evidence.tails, stamps),
        externals=tuple(_externals(participants, positions)),
    )
    # 2. Find the greatest cut, and keep transactions of unknown beginning.
    cut, window = _without_strangers(greatest_cut(ends, window), window)
    # 3. Claim a class for every topic, unless in doubt, and describe the cut in stored form.
    # Halves of unpaired transactions may lie anywhere, also in a topic without other evidence.
    is_doubted = bool(groups.doubts or evidence.changes is None or window.unpaired & PROTECTED_TOPICS)
    return CommitCut(
        partitions=tuple(_partitions(cut, positions)),
        groups=tuple(_groups(cut, window, evidence, groups)),
        classes=tuple(_classes(cut, window, moved, is_doubted=is_doubted)),
        left_out=tuple(_described(left_out) for left_out in cut.left_out[:NAMED_MAX]),
        left_out_count=len(cut.left_out),
        open=tuple(_open(evidence.tails, positions)),
        notes=(*notes, *groups.doubts, *stamps.doubts),
        refused=_refused(cut.refusals),
        participants=participants,
    )


def _without_strangers(cut: Cut, window: Window) -> tuple[Cut, Window]:
    """Keep transactions that may have begun before the window, because leaving them out is impossible. Such a
    transaction would have to be left out if it claims reads of unwritten records, or read a left-out transaction: the
    transaction is kept instead, and nothing is claimed for the topics of its reads and writes. Otherwise a single
    strange client would deny everybody the cut."""
    while strange := {id(left_out.span) for left_out in cut.left_out if not left_out.span.is_whole}:
        spans = [span for span in window.transactions if id(span) in strange]
        reads = [replace(read, exactly_once=False) for span in spans for read in span.reads]
        topics = {partition.topic for span in spans for partition in span.written} - PROTECTED_TOPICS
        window = replace(
            window,
            transactions=tuple(span for span in window.transactions if id(span) not in strange),
            commits=(*window.commits, *reads),
            unpaired=window.unpaired | topics | {read.partition.topic for read in reads},
        )
        cut = greatest_cut(cut.copied, window)
    return cut, window


def _externals(
    participants: tuple[CheckpointParticipant, ...], positions: Mapping[PartitionId, int]
) -> Iterator[ExternalParticipant]:
    """Translate participants, which know topics by name. A topic outside of the backup is in no cut, and
    contradicts."""
    by_name = {partition_id.topic_partition: partition_id for partition_id in positions}
    for participant in participants:
        declared = {
            by_name.get(TopicPartition(at.topic, at.partition), PartitionId(at.topic, "", at.partition)): at.end
            for at in participant.positions
        }
        yield ExternalParticipant(name=participant.name, positions=declared, can_replay=participant.can_replay)


def _writers(
    moved: AbstractSet[PartitionId], tails: Mapping[PartitionId, PartitionTail], stamps: Stamps
) -> dict[str, frozenset[WriterKind]]:
    """How every topic was written to: between the first and the last reading, and for stamped topics since before the
    opening of the checkpoint."""
    writers: defaultdict[str, set[WriterKind]] = defaultdict(set)
    for partition in moved:
        tail = tails.get(partition)
        if partition.topic in stamps.topics:
            partition_stamps = stamps.observed.get(partition, ObservedStamps())
            writers[partition.topic] |= {WriterKind.PLAIN} if stamps.doubts else _stamping(partition_stamps)
        elif tail is None or tail.has_plain:
            writers[partition.topic].add(WriterKind.PLAIN)
        if tail is not None and (tail.markers or tail.open):
            writers[partition.topic].add(WriterKind.TRANSACTION)
    return {topic: frozenset(kinds) for topic, kinds in writers.items()}


def _stamping(partition_stamps: ObservedStamps) -> set[WriterKind]:
    if partition_stamps.has_unstamped:
        return {WriterKind.PLAIN}
    return {WriterKind.PARTICIPANT} if partition_stamps.has_data else set()


def _stamped(stamps: Stamps) -> Iterator[StampedRecord]:
    for partition, partition_stamps in stamps.observed.items():
        if partition_stamps.first != NONE_BEHIND:
            yield StampedRecord(partition=partition, offset=partition_stamps.first, stamp=partition_stamps.number)


def _moved(evidence: CutEvidence, stamps: Stamps) -> Iterator[PartitionId]:
    """The partitions that were written to, or may have been. Where a checkpoint was opened, its ends lie before the
    first reading: an unstamped partition may depend on later records, and does not count as unchanged."""
    first, last = evidence.readings[0].ends, evidence.readings[-1].ends
    for partition, end in last.items():
        if partition.topic in stamps.topics:
            partition_stamps, tail = stamps.observed.get(partition), evidence.tails.get(partition)
            has_data = partition_stamps is not None and partition_stamps.has_data  # markers of checkpoints are no data
            if has_data or (tail is not None and (tail.markers or tail.open)):
                yield partition
        elif stamps.topics or first.get(partition) != end:
            yield partition


def _classes(
    cut: Cut, window: Window, moved: AbstractSet[PartitionId], *, is_doubted: bool
) -> Iterator[tuple[str, str]]:
    """The class of every topic. A topic without writes during the readings is complete, whoever wrote to the topic: its
    records, and the records they were made from, existed before the first end was read."""
    moved_topics = {partition.topic for partition in moved}
    for topic, topic_class in sorted(cut.classes.items()):
        if topic not in PROTECTED_TOPICS:
            is_unchanged = topic not in moved_topics and topic not in window.unpaired
            claimed_class = TopicClass.UNCHANGED if is_unchanged else topic_class
            yield topic, (TopicClass.UNCOORDINATED if is_doubted else claimed_class).value


def _partitions(cut: Cut, positions: Mapping[PartitionId, int]) -> Iterator[CutPartition]:
    floors, markers = cut.floors(), cut.markers_left_out()
    for partition_id, position in positions.items():
        end = cut.ends[partition_id]
        floor = max(0, min(floors.get(partition_id, end), end))
        if floor < position:
            yield CutPartition(partition_id=partition_id, end=end, floor=floor, markers=markers.get(partition_id, ()))


def _groups(cut: Cut, window: Window, evidence: CutEvidence, groups: SnapshotGroups) -> Iterator[CutGroup]:
    offsets = {
        (group_offset.group, group_offset.partition): (group_offset.offset, group_offset.metadata)
        for group_offset in cut.groups
    }
    offsets |= dict.fromkeys(_removed(cut, window, evidence), _NO_COMMIT)
    stored = _stored(groups.offsets, {group for group, _ in offsets})
    for (group, partition), (offset, metadata) in sorted(offsets.items()):
        is_told = stored.get((group, partition), _NO_COMMIT) == (offset, metadata)
        if (
            not is_told
            and group in groups.selected
            and partition in cut.ends
            and partition.topic not in PROTECTED_TOPICS
        ):
            yield CutGroup(group=group, partition_id=partition, offset=offset, metadata=metadata)


def _stored(groups: GroupTable, names: AbstractSet[str]) -> dict[GroupKey, tuple[int, str]]:
    """Offset and metadata of the groups `names` in a snapshot, by partition."""
    return {
        (name, PartitionId(topic.topic, topic.topic_id, row.partition)): (row.offset, row.metadata)
        for name in names & groups.keys()
        for topic in groups[name].topics
        for row in topic
    }


def _removed(cut: Cut, window: Window, evidence: CutEvidence) -> AbstractSet[GroupKey]:
    """Offsets deleted while the ends were read, of groups and partitions without a part in the left-out transactions.
    Behind a commit that does not count, no commit of its group and partition counts."""
    deleted = {
        (logged.commit.group, logged.commit.partition) for logged in evidence.commits if logged.commit.offset == REMOVED
    }
    groups_kept = {(group_offset.group, group_offset.partition) for group_offset in cut.groups}
    left_out = {(read.group, read.partition) for omitted in cut.left_out for read in omitted.span.reads}
    return deleted - groups_kept - left_out - first_without_outputs(cut.ends, window).keys()


def _open(tails: Mapping[PartitionId, PartitionTail], positions: Mapping[PartitionId, int]) -> Iterator[OpenAtEnd]:
    for partition_id in positions:
        tail = tails.get(partition_id)
        for transaction in tail.open if tail else ():
            yield OpenAtEnd(
                partition_id=partition_id,
                producer_id=transaction.producer_id,
                first_offset=max(transaction.first_offset, 0),
            )


def _described(left_out: LeftOutSpan) -> LeftOutTransactions:
    span = left_out.span
    why, because = _why(left_out)
    return LeftOutTransactions(
        name=span.name or f"producer {span.producer_id}",
        partitions=tuple(sorted(str(partition) for partition in span.written)),
        why=why,
        because=because,
    )


def _why(left_out: LeftOutSpan) -> tuple[str, str]:
    if left_out.span.outcome is SpanOutcome.OPEN:
        is_ending = any(written.commit_markers for written in left_out.span.written.values())
        return ("unfinished" if is_ending else "open"), ""
    if left_out.short is None or left_out.needed == UNSEEN:
        return "unfinished", ""
    kind, of = left_out.short
    if kind in {"end", "read"}:
        return ("unfinished" if kind == "end" else "read"), str(of)
    return "order", "" if kind == "producer" else _group_line(of)


def _group_line(of: object) -> str:
    match of:
        case (group, partition):
            return f"group {group} on {partition}"
    return str(of)


def _refused(refusals: tuple[CutRefusal, ...]) -> str:
    """The refusals in words, limited to a few."""
    lines = [
        f"{refusal.rule}: {refusal.partition} at {refusal.offset} {refusal.participant}".strip() for refusal in refusals
    ]
    return named(lines, most=3) if lines else ""


def ends_match(ends: Ends, positions: Mapping[PartitionId, int]) -> bool:
    """Whether everything up to the ends of the readings is backed up."""
    return all(position >= ends.get(partition_id, position + 1) for partition_id, position in positions.items())
