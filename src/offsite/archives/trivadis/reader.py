"""Reads archives of TrivadisPF/kafka-backup as its connectors wrote them: no manifest, one object after another.

A partition is one piece: names tell where an object begins and not where it ends, so only all of them together are
sure to hold what the archive has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from offsite.archives.archive import ArchiveContents, ArchiveTopic, Damage, OnDamage, Piece, refuse_damage
from offsite.archives.files import Files
from offsite.archives.overlap import SortedRun, clip_to_piece, merge_runs
from offsite.archives.trivadis.object_key import ArchiveObject, parse_key
from offsite.archives.trivadis.object_records import read_object
from offsite.log.groups.fold import GroupPartition, OffsetRecord, parse_group_record
from offsite.log.groups.offsets import CommittedOffset, GroupOffsets, TopicOffsets, restrict_to_topics
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record
from offsite.model.choices import EmptyAs
from offsite.model.errors import ArchiveNotFound, BadOption, DamagedBatch

__all__ = ["FIDELITY", "TrivadisReader"]

OFFSETS_TOPIC = "__consumer_offsets"
Tree = Sequence[ArchiveObject]
FIDELITY = (
    "timestamp types are unknown: CreateTime is assumed",
    "a null and an empty key or value look the same",
    "headers of one name were reduced to the last, and their order is lost",
    "header values went through Connect's guess of a type: a number may be spelt otherwise",
    "leader epochs, producer ids, batch boundaries, transactions and topic ids are not kept",
    "configurations, replication factors and partitions without records are not kept",
    "the tool keeps no hashes: nothing vouches for its objects but checksums inside of gzip and snappy",
)


class GroupTable:
    """Committed offsets out of an archived `__consumer_offsets`: the last record of each key counts.

    Fed with the records of each partition in the order of offsets; a group lives in one partition.
    """

    def __init__(self) -> None:
        self._commits: dict[GroupPartition, OffsetRecord] = {}

    def feed(self, records: Iterable[Record]) -> None:
        """Take in the next records. Raises `DamagedBatch` for a record whose key is cut."""
        for record in records:
            parsed = parse_group_record(record)
            if parsed is None:
                continue
            if parsed.value is None:
                self._commits.pop(parsed.group_partition, None)
            else:
                self._commits[parsed.group_partition] = parsed

    def groups(self) -> dict[str, GroupOffsets]:
        """The groups by name. Raises `DamagedBatch` for a value that is cut."""
        by_group: dict[str, dict[str, list[CommittedOffset]]] = {}
        for of, commit in self._commits.items():
            by_group.setdefault(of.group, {}).setdefault(of.topic, []).append(commit.committed())
        return {
            group: GroupOffsets(
                group=group, topics=tuple(TopicOffsets.of(topic, topics[topic]) for topic in sorted(topics))
            )
            for group, topics in sorted(by_group.items())
        }


def choose_trees(objects: Sequence[ArchiveObject], end_of: Callable[[ArchiveObject], int]) -> tuple[Tree, str]:
    """The objects of one partition to read, by offset, and what of them was left out, as a sentence or empty.

    Two connectors archive a compacted topic in turn, and one of their trees may be half there. A tree that begins no
    later and reaches no less far than the other is taken alone: in a half deleted one, keys could rise again whose
    tombstones are gone. Otherwise both are read, in the order of offsets. `end_of` reads an object for the offset
    behind its last record; it is asked only when there are two trees.
    """
    trees = _by_tree(objects)
    if len(trees) < 2:
        return _in_order(objects), ""
    spans = {name: (tree[0].start, end_of(tree[-1])) for name, tree in trees.items()}
    best = min(trees, key=lambda name: (spans[name][0], -spans[name][1], name))
    begin, end = spans[best]
    where = f"{objects[0].topic}/{objects[0].partition}"
    if all(begin <= start and end >= stop for start, stop in spans.values()):
        unread = ", ".join(name or "the topic itself" for name in sorted(trees) if name != best)
        return trees[best], f"{where}: of several trees, {best or 'the topic itself'} was read, not {unread}"
    return _in_order(objects), f"{where}: none of {', '.join(sorted(trees))} is complete, and all were read"


def _by_tree(objects: Sequence[ArchiveObject]) -> dict[str, Tree]:
    return {
        tree: _in_order(archived for archived in objects if archived.tree == tree)
        for tree in {archived.tree for archived in objects}
    }


def _in_order(objects: Iterable[ArchiveObject]) -> Tree:
    return sorted(objects, key=lambda archived: (archived.start, archived.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrivadisReader:
    """A reader of the tool's archives. `empty_as`: what a key or value of no bytes was, `null` (as the tool's own
    restore takes it) or `empty`."""

    files: Files
    empty_as: EmptyAs = EmptyAs.NULL

    def __post_init__(self) -> None:
        if self.empty_as not in tuple(EmptyAs):
            raise BadOption(f"empty keys and values can be taken as {' or '.join(EmptyAs)}, not as {self.empty_as!r}")

    def contents(self, on_damage: OnDamage = refuse_damage) -> ArchiveContents:
        """Reads `__consumer_offsets` if the archive has it, and the last object of each tree where there are two."""
        partitions = self._objects()
        pieces, remarks = [], []
        for of, objects in sorted(partitions.items()):
            chosen, remark = choose_trees(objects, self._end_of)
            pieces.append(_piece(of, chosen))
            remarks += [remark] if remark else []
        offsets = [piece for piece in pieces if piece.topic == OFFSETS_TOPIC]
        pieces = [piece for piece in pieces if piece.topic != OFFSETS_TOPIC]
        counts = {piece.topic: piece.partition + 1 for piece in pieces}
        return ArchiveContents(
            topics=tuple(ArchiveTopic(topic=topic, partitions=count) for topic, count in counts.items()),
            pieces=tuple(pieces),
            fidelity=(*FIDELITY, *remarks),
            groups=restrict_to_topics(self._groups(offsets, on_damage), dict.fromkeys(counts, "")),
        )

    def read(self, piece: Piece, on_damage: OnDamage = refuse_damage) -> Iterator[Sequence[Record]]:
        objects = [archived for key in piece.files if (archived := parse_key(key))]
        runs = [
            SortedRun(file=archived.key, start=archived.start, open=partial(self._records, archived, on_damage))
            for archived in objects
        ]
        return clip_to_piece(piece, merge_runs(runs, on_damage))

    def _records(self, archived: ArchiveObject, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        return read_object(self.files, archived, empty_as=self.empty_as, on_damage=on_damage)

    def _objects(self) -> Mapping[TopicPartition, list[ArchiveObject]]:
        by_partition: dict[TopicPartition, list[ArchiveObject]] = {}
        for info in self.files.list():
            archived = parse_key(info.key, info.size_bytes)
            if archived:
                of = TopicPartition(topic=archived.topic, partition=archived.partition)
                by_partition.setdefault(of, []).append(archived)
        if not by_partition:
            raise ArchiveNotFound(
                f"{self.files.url} holds no object named as the tool names them",
                hint="the archive's root is where folders are topics: orders/0/orders-0-000000000000000.avro",
            )
        return by_partition

    def _end_of(self, archived: ArchiveObject) -> int:
        """Behind the last record that can be read; damage is told when it is read for good."""
        batches = read_object(self.files, archived, empty_as=self.empty_as, on_damage=lambda _: None)
        return max((batch[-1].offset + 1 for batch in batches), default=archived.start)

    def _groups(self, pieces: Sequence[Piece], on_damage: OnDamage) -> Mapping[str, GroupOffsets]:
        table = GroupTable()
        try:
            for piece in pieces:
                for batch in self.read(piece, on_damage):
                    table.feed(batch)
            return table.groups()
        except DamagedBatch as error:
            on_damage(Damage(file=f"{OFFSETS_TOPIC}/", position=0, problem=f"no groups are taken: {error.message}"))
            return {}


def _piece(of: TopicPartition, objects: Sequence[ArchiveObject]) -> Piece:
    return Piece(
        topic=of.topic,
        partition=of.partition,
        start=objects[0].start,
        end=None,
        files=tuple(archived.key for archived in objects),
        size_bytes=sum(archived.size_bytes for archived in objects),
    )
