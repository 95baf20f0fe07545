"""What an archive is to the rest of offsite: pieces that tasks can read, partitions that tasks can write.

Readers and writers are pickled to workers. `contents` and `finish` run on the driver, and are cheap: they list, and
read indexes. The rules for all readers: order comes from offsets, never from names; files may overlap, each offset is
given once; gaps are legal, going backwards is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar

from offsite.log.groups.offsets import GroupOffsets
from offsite.log.range import LogRange, TopicPartition
from offsite.log.records.record import Record
from offsite.log.records.record_columns import RecordColumns
from offsite.model.errors import DamagedArchive, UnfitArchive

MAX_PROBLEM = 500
"""Characters that are told of one damage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffset:
    """One offset of a partition."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What of a file cannot be used: `position` is in bytes from its start.

    `is_note`: nothing is lost, but whoever trusts the archive should know (a sentence for `fidelity`). `lost_at`: an
    offset that is lost if no piece holds it, of damage that only `contents` tells, not the reading of a piece.
    `unfit`: what to do with a file that is whole, and laid out otherwise than its format wants. Such a file is never
    skipped as damage is: all of it would be.
    """

    file: str
    position: int
    problem: str
    is_note: bool = False
    lost_at: LostOffset | None = None
    unfit: str = ""

    def __post_init__(self) -> None:
        if len(self.problem) > MAX_PROBLEM:  # it may quote what a file says, and a thousand of them are kept
            object.__setattr__(self, "problem", f"{self.problem[:MAX_PROBLEM]}…")

    def __str__(self) -> str:
        return f"{self.file} at byte {self.position}: {self.problem}"


OnDamage = Callable[[Damage], None]
"""Is told of damage; when it returns, the reader goes on with the undamaged rest. A reader has given all records before
the damage by then, and none behind it: what is missing between the two is what the damage took."""


def refuse_damage(damage: Damage) -> None:
    """The usual `OnDamage`: raises `DamagedArchive` or `UnfitArchive`, except for a note."""
    if damage.is_note:
        return
    if damage.unfit:
        raise UnfitArchive(str(damage), hint=damage.unfit)
    raise DamagedArchive(str(damage), hint="take what is whole with --skip-damaged")


def collect_damage(into: list[Damage], *, skip: bool) -> OnDamage:
    """Notes go `into` the list, and so does damage, unless that is not to be skipped: then it is refused. What is unfit
    always is."""

    def on_damage(damage: Damage) -> None:
        if damage.unfit or not skip:
            refuse_damage(damage)
        into.append(damage)

    return on_damage


MAX_DAMAGES = 1_000
"""Told of one file, which is no use then: a hostile one has them by the million, and each is kept."""


class _TooDamaged(Exception):
    """Ends the reading of a file from within `on_damage`; seen in this module alone."""


ItemT = TypeVar("ItemT")


def read_while_usable(
    read: Callable[[OnDamage], Iterator[ItemT]], file: str, on_damage: OnDamage, *, most: int = MAX_DAMAGES
) -> Iterator[ItemT]:
    """What `read` gives of one file, until it has told `most` damages: then the rest of the file is left out."""
    problem_count = 0

    def tell(damage: Damage) -> None:
        nonlocal problem_count
        on_damage(damage)
        problem_count += not damage.is_note
        if problem_count == most:
            on_damage(Damage(file=file, position=damage.position, problem=f"{most} damages: the rest is left out"))
            raise _TooDamaged

    try:
        yield from read(tell)
    except _TooDamaged:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one task reads: the records of one partition with offsets in `[start, end)`, which lie in `files`.

    `end` is None when only reading tells it: of the last piece of a partition, or the only one.
    """

    topic: str
    partition: int
    start: int
    end: int | None
    files: tuple[str, ...]
    size_bytes: int

    def covers(self, offset: int) -> bool:
        return self.start <= offset and (self.end is None or offset < self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveTopic:
    """A topic as far as the archive tells; `configs`, `replication_factor` (-1) and `topic_id` are often unknown."""

    topic: str
    partitions: int
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveHole:
    """Offsets `[start, end)` that the archive itself says it lacks. `reason`: `retention` or `truncation`."""

    range: LogRange
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveContents:
    """What a reader found. `pieces` of one partition are disjoint and rise; `fidelity` says, a sentence each, what of
    the source this archive does not hold. `cluster_id` is the source's, empty when unknown."""

    topics: tuple[ArchiveTopic, ...]
    pieces: tuple[Piece, ...]
    fidelity: tuple[str, ...]
    groups: Mapping[str, GroupOffsets]
    holes: tuple[ArchiveHole, ...] = ()
    cluster_id: str = ""


class ArchiveReader(Protocol):
    def contents(self, on_damage: OnDamage = refuse_damage) -> ArchiveContents:
        """What there is. Raises `ArchiveNotFound` when the place holds nothing of this format, `DamagedArchive`."""

    def read(self, piece: Piece, on_damage: OnDamage = refuse_damage) -> Iterator[Sequence[Record]]:
        """The records of `piece` in rising order of offsets, each once, a few thousand at a time (bounded by bytes).

        Raises `DamagedArchive` or `UnfitArchive` unless `on_damage` takes it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReceipt:
    """One file that is written and durable: records with first and last offset (both inside) and times of records."""

    name: str
    range: LogRange
    first_offset: int
    last_offset: int
    records: int
    size_bytes: int
    plain_bytes: int
    timestamp_min_ms: int
    timestamp_max_ms: int
    content_hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeReceipt:
    """What one range came to. `losses`: what had to be left out (with `--lossy`), and in how many records."""

    range: LogRange
    files: tuple[FileReceipt, ...]
    records: int
    losses: tuple[tuple[str, int], ...] = ()


class RangeWriter(Protocol):
    """Takes the records of one range; a context manager: leaving it by an exception leaves nothing that counts."""

    def append(self, records: Sequence[Record]) -> None:
        """Offsets rise and lie in the range. Raises `NotRepresentable`, naming topic, partition, offset and what it
        is, for a record that the format cannot hold, unless the writer is lossy."""

    def append_columns(self, columns: RecordColumns) -> None:
        """The same of records in columns, maybe none."""

    def close(self) -> RangeReceipt:
        """All is durable when this returns."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ArchiveWriter(Protocol):
    """Incremental: `ends` is where to go on. Idempotent: writing a range again gives the same files."""

    @property
    def divides(self) -> bool:
        """Whether ranges of one partition can be written side by side; else a partition is one chain, in order."""

    def ends(self) -> Mapping[TopicPartition, int]:
        """The next offset of each partition that the archive holds already. Repairs what a crash left behind: a torn
        tail, files that no index lists. Raises `DamagedArchive` for what it may not touch."""

    def topic_ids(self) -> Mapping[str, str]:
        """The id that each topic in the archive already had at the source. Empty where the format keeps none."""
        return {}

    def last_record(self, of: TopicPartition) -> Record | None:  # noqa: ARG002
        """The record with the highest offset of a partition, by which an archive without topic ids is told from that of
        another topic. None where there is none, and where the format keeps the ids. Raises `DamagedArchive`."""
        return None

    def left_alone(self) -> tuple[str, ...]:
        """Files of others among those of the archive, which it does not count and never removes, a sentence each. Empty
        where names tell nothing of who wrote a file."""
        return ()

    def open(self, log_range: LogRange) -> RangeWriter:
        """Begin to write a range that starts at the partition's end (or, when `divides`, beyond it)."""

    def finish(
        self, written: Sequence[RangeReceipt], topics: Sequence[ArchiveTopic], groups: Mapping[str, GroupOffsets]
    ) -> tuple[str, ...]:
        """Write indexes, groups, manifest, the last one last: from then on the ranges count. `topics` are all of the
        export. Returns what of them the format has no place for, a sentence each."""
