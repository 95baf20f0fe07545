"""The parts of a backup to read: the selected topics, and one chain of segments per partition.

Restore, export, comparison, `cat`, `search` and the Spark table all use this description: all see the same records of a
restore point. Destinations of the records are decided elsewhere: see `restore.write.plan`. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.model.errors import NoSuchTopic
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.selection import TopicSelection
from offsite.points.point_in_time import PointInTime
from offsite.repository.commit import PartitionId, RecordedHole, TopicShape
from offsite.repository.segments.segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChain:
    """One partition of a backup to read: the records of `segments`, in this order, at offsets below `end`.

    With `until_ms` (epoch ms), only records with an equal or earlier time. With `left_out` the chain is read as a
    consistent cut: undecided records are left out for consumers of every isolation, and transactions with commit
    markers at the offsets of `left_out` (rising) count as aborted. None: read as copied. `hole_starts` (rising): where
    the backup lacks offsets between its segments.
    """

    source: PartitionId
    segments: tuple[Segment, ...]
    end: int
    until_ms: int | None = None
    left_out: tuple[int, ...] | None = None
    hole_starts: tuple[int, ...] = ()

    @property
    def raw_bytes(self) -> int:
        """Size of all batches of the segments, in bytes, as stored by Kafka."""
        return sum(segment.raw_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChains:
    """One topic as of the restore point, with a chain for every partition that holds data."""

    shape: TopicShape
    chains: tuple[PartitionChain, ...]

    @property
    def topic(self) -> str:
        return self.shape.topic


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedChains:
    """All parts of commit `commit` of a backup to read: `topics` with their chains, and their `holes`. `skipped` are
    selected topics that are left out, with the reason."""

    backup: str
    commit: int
    topics: tuple[TopicChains, ...]
    holes: tuple[RecordedHole, ...]
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def chains(self) -> Iterator[PartitionChain]:
        """The chains of all topics, in the order of topics and partitions."""
        return (chain for topic in self.topics for chain in topic.chains)

    @property
    def names(self) -> set[str]:
        """The names of the topics."""
        return {topic.topic for topic in self.topics}

    def copyable(self) -> SelectedChains:
        """The selection for a copy: without topics owned by brokers, which mean nothing on another cluster, and with
        the topic of a schema registry first, because values need the schemas. Raises `NoSuchTopic` when no topic is
        selected."""
        if not self.topics:
            raise NoSuchTopic(f"no topic of backup {self.backup} is selected", hint=_hint(self.backup))
        unprotected = [topic for topic in self.topics if topic.topic not in PROTECTED_TOPICS]
        return replace(
            self,
            topics=tuple(sorted(unprotected, key=lambda topic: not topic.shape.holds_schemas)),
            holes=tuple(hole for hole in self.holes if hole.partition_id.topic not in PROTECTED_TOPICS),
            skipped=tuple((name, "owned by the brokers") for name in sorted(self.names & PROTECTED_TOPICS)),
        )


def select_chains(point: PointInTime, selection: TopicSelection) -> SelectedChains:
    """The chains of the topics that match `selection`, sorted by name; may be empty. Raises `NoSuchTopic` for a full
    name that the restore point does not know."""
    shapes = point.state.latest_shapes()
    if missing := selection.missing(shapes):
        raise NoSuchTopic(
            f"backup {point.state.backup} has no topic {', '.join(missing)} at commit {point.state.seq}",
            hint=_hint(point.state.backup),
        )
    return chains_of(point, selection.select(shapes, internal=PROTECTED_TOPICS))


def chains_of(point: PointInTime, topics: Iterable[str]) -> SelectedChains:
    """The chains of the latest incarnations of `topics`, sorted by name. Names unknown to the restore point are
    ignored."""
    state, latest = point.state, point.state.latest_shapes()
    shapes = [latest[topic] for topic in sorted(set(topics) & latest.keys())]
    incarnations = {shape.incarnation for shape in shapes}
    holes = tuple(hole for hole in state.holes if hole.partition_id.incarnation in incarnations)
    starts = hole_starts(holes)
    return SelectedChains(
        backup=state.backup,
        commit=state.seq,
        topics=tuple(TopicChains(shape=shape, chains=tuple(_chains(point, shape, starts))) for shape in shapes),
        holes=holes,
    )


def hole_starts(holes: Iterable[RecordedHole]) -> dict[PartitionId, tuple[int, ...]]:
    """The starts of the holes by partition, rising."""
    starts: defaultdict[PartitionId, set[int]] = defaultdict(set)
    for hole in holes:
        starts[hole.partition_id].add(hole.start)
    return {partition_id: tuple(sorted(offsets)) for partition_id, offsets in starts.items()}


def _chains(
    point: PointInTime, shape: TopicShape, starts: Mapping[PartitionId, tuple[int, ...]]
) -> Iterator[PartitionChain]:
    for source in shape.partition_ids:
        if segments := tuple(point.state.segments.get(source, ())):
            end = point.state.positions[source].end
            yield PartitionChain(
                source=source,
                segments=segments,
                end=end,
                until_ms=point.until_ms,
                left_out=point.cut.left_out(source),
                hole_starts=starts.get(source, ()),
            )


def _hint(backup: str) -> str:
    return f"see its topics with: offsite show {backup}"
