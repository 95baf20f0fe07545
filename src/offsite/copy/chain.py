"""What is read of a backup: the topics that are selected, and of each of their partitions one chain of segments.

Restore, export, comparison, `cat`, `search` and the Spark table all go by this one description, so that they all see
the same records of a restore point. It says nothing of where the records go: see `copy.restore.plan` for that. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.copy.point_in_time import PointInTime
from offsite.model.errors import NoSuchTopic
from offsite.model.selections.selection import TopicSelection
from offsite.model.untrusted.names import PROTECTED_TOPICS
from offsite.repository.commit import PartitionId, RecordedHole, TopicShape
from offsite.repository.segments.segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChain:
    """One partition of a backup as it is read: the records of `segments`, in this order, at offsets below `end`.

    With `until_ms` (epoch ms), only the records with that time or an earlier one. With `left_out` it is read as a
    consistent cut: what was not decided is left out for consumers of every isolation, and so are the transactions whose
    commit markers lie at these offsets (rising), as if they had been aborted. None: as it was copied. `hole_starts`
    (rising): where the backup lacks offsets between its segments.
    """

    source: PartitionId
    segments: tuple[Segment, ...]
    end: int
    until_ms: int | None = None
    left_out: tuple[int, ...] | None = None
    hole_starts: tuple[int, ...] = ()

    @property
    def raw_bytes(self) -> int:
        """Size of all batches of the segments, in bytes, as Kafka had them."""
        return sum(segment.raw_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChains:
    """One topic as the restore point knows it, with a chain for each of its partitions that holds anything."""

    shape: TopicShape
    chains: tuple[PartitionChain, ...]

    @property
    def topic(self) -> str:
        return self.shape.topic


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedChains:
    """All that is read of commit `commit` of a backup: `topics` with their chains, and the holes in them. `skipped` are
    selected topics that are left out, each with the reason."""

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
        """The same for a copy: without topics that belong to brokers, which mean nothing elsewhere, and with that of a
        schema registry first, as values need it. Raises `NoSuchTopic` where no topic is selected."""
        if not self.topics:
            raise NoSuchTopic(f"no topic of backup {self.backup} is selected", hint=_hint(self.backup))
        kept = [topic for topic in self.topics if topic.topic not in PROTECTED_TOPICS]
        return replace(
            self,
            topics=tuple(sorted(kept, key=lambda topic: not topic.shape.holds_schemas)),
            holes=tuple(hole for hole in self.holes if hole.partition_id.topic not in PROTECTED_TOPICS),
            skipped=tuple((name, "owned by the brokers") for name in sorted(self.names & PROTECTED_TOPICS)),
        )


def select_chains(point: PointInTime, selection: TopicSelection) -> SelectedChains:
    """The chains of the topics that `selection` means, sorted by name; maybe of none. Raises `NoSuchTopic` for a full
    name that the restore point does not know."""
    known = point.state.latest_shapes()
    if missing := selection.missing(known):
        raise NoSuchTopic(
            f"backup {point.state.backup} has no topic {', '.join(missing)} at commit {point.state.seq}",
            hint=_hint(point.state.backup),
        )
    return chains_of(point, selection.select(known, internal=PROTECTED_TOPICS))


def chains_of(point: PointInTime, topics: Iterable[str]) -> SelectedChains:
    """The chains of `topics`, sorted by name, each in its latest incarnation. Names that the restore point does not
    know count for nothing."""
    state, known = point.state, point.state.latest_shapes()
    shapes = [known[topic] for topic in sorted(set(topics) & known.keys())]
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
    """Of each partition with holes, where they start: rising."""
    starts: defaultdict[PartitionId, set[int]] = defaultdict(set)
    for hole in holes:
        starts[hole.partition_id].add(hole.start)
    return {partition_id: tuple(sorted(found)) for partition_id, found in starts.items()}


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
