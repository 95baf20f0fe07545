"""Reads archives of TrivadisPF/kafka-backup as written by the tool's connectors: objects in sequence, without a
manifest.

A partition is a single piece: a name gives the beginning of an object and not the end, so only all objects together are
sure to hold the archived records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from offsite.archives.archive import (
    ArchiveContents,
    ArchiveTopic,
    Damage,
    OnDamage,
    Piece,
    ignore_damage,
    refuse_damage,
)
from offsite.archives.files import Files
from offsite.archives.overlap import SortedRun, clip_to_piece, merge_runs
from offsite.archives.trivadis.object_records import ArchiveObject, parse_key, read_object
from offsite.log.group_fold import GroupPartition, OffsetRecord, parse_group_record
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets, restrict_to_topics
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record
from offsite.model.errors import ArchiveNotFound, BadOption, DamagedBatch
from offsite.model.options import EmptyAs

OFFSETS_TOPIC = "__consumer_offsets"
Tree = Sequence[ArchiveObject]
FIDELITY = (
    "timestamp types are unknown: CreateTime is assumed",
    "a null and an empty key or value look the same",
    "of several headers with the same name only the last was kept, and their order is lost",
    "Connect guessed the types of header values: a number may be written in another form",
    "leader epochs, producer ids, batch boundaries, transactions and topic ids are not kept",
    "configurations, replication factors and partitions without records are not kept",
    "the tool keeps no hashes: its objects can be verified only by the checksums inside gzip and snappy",
)


class GroupTable:
    """Committed offsets from an archived `__consumer_offsets`: the last record of a key counts.

    Feed the records of every partition in the order of offsets; a group lives in a single partition.
    """

    def __init__(self) -> None:
        self._commits: dict[GroupPartition, OffsetRecord] = {}

    def feed(self, records: Iterable[Record]) -> None:
        """Add the next records. Raises `DamagedBatch` for a record with a cut key."""
        for record in records:
            parsed = parse_group_record(record)
            if parsed is None:
                continue
            if parsed.value is None:
                self._commits.pop(parsed.group_partition, None)
            else:
                self._commits[parsed.group_partition] = parsed

    def groups(self) -> dict[str, GroupOffsets]:
        """Return the groups by name. Raises `DamagedBatch` for a cut value."""
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
    """Choose the objects of a partition to read, by offset; also returns a sentence about left-out objects, or an empty
    text.

    Two connectors archive a compacted topic in turn, and a tree may be half deleted. A tree with the earliest start and
    the furthest end is taken alone: in a half-deleted tree, keys could rise again whose tombstones are gone. Otherwise
    all trees are read, in the order of offsets. `end_of` reads an object and returns the offset behind the last record;
    called with several trees only.
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
    return _in_order(objects), f"{where}: none of {', '.join(sorted(trees))} is complete, so all were read"


def _by_tree(objects: Sequence[ArchiveObject]) -> dict[str, Tree]:
    return {
        tree: _in_order(archived for archived in objects if archived.tree == tree)
        for tree in {archived.tree for archived in objects}
    }


def _in_order(objects: Iterable[ArchiveObject]) -> Tree:
    return sorted(objects, key=lambda archived: (archived.start, archived.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrivadisReader:
    """Reads the tool's archives. `empty_as`: meaning of a key or value without bytes, `null` (as in the tool's own
    restore) or `empty`."""

    files: Files
    empty_as: EmptyAs = EmptyAs.NULL

    def __post_init__(self) -> None:
        if self.empty_as not in tuple(EmptyAs):
            raise BadOption(f"empty keys and values can be read as {' or '.join(EmptyAs)}, not as {self.empty_as!r}")

    def contents(self, on_damage: OnDamage = refuse_damage) -> ArchiveContents:
        """List the contents. Reads `__consumer_offsets` if archived, and the last object of every tree if several
        exist."""
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
                f"{self.files.url} has no objects with names of the tool",
                hint=(
                    "the root of the archive is the folder with one folder for each topic: "
                    "orders/0/orders-0-000000000000000.avro"
                ),
            )
        return by_partition

    def _end_of(self, archived: ArchiveObject) -> int:
        """Return the offset behind the last readable record; the main reading reports damage."""
        batches = read_object(self.files, archived, empty_as=self.empty_as, on_damage=ignore_damage)
        return max((batch[-1].offset + 1 for batch in batches), default=archived.start)

    def _groups(self, pieces: Sequence[Piece], on_damage: OnDamage) -> Mapping[str, GroupOffsets]:
        table = GroupTable()
        try:
            for piece in pieces:
                for batch in self.read(piece, on_damage):
                    table.feed(batch)
            return table.groups()
        except DamagedBatch as error:
            on_damage(Damage(file=f"{OFFSETS_TOPIC}/", position=0, problem=f"groups are not read: {error.message}"))
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
