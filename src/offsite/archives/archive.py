"""Defines an archive for the rest of offsite: tasks read pieces, tasks write partitions.

Readers and writers are pickled to workers. `contents` and `finish` run on the driver and are cheap: both list files and
read indexes. Rules for all readers: order comes from offsets, never from names; files may overlap, an offset is
returned once; gaps are legal, decreasing offsets are damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar

from offsite.log.group_offsets import GroupOffsets
from offsite.log.range import LogRange, TopicPartition
from offsite.log.records.record import Record
from offsite.log.records.record_columns import RecordColumns
from offsite.model.errors import DamagedArchive, UnfitArchive

MAX_PROBLEM = 500
"""Characters kept of a damage message."""
MAX_DAMAGES = 1_000
"""Damages reported per file. A file with more is useless; a hostile file has millions, and all are kept in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffset:
    """An offset of a partition."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """An unusable part of a file. `position`: bytes from the start of the file.

    `is_note`: nothing is lost, but a reader that trusts the archive should know (a sentence for `fidelity`). `lost_at`:
    an offset that is lost if no piece holds the offset, for damage reported by `contents` only. `unfit`: advice for an
    intact file whose layout breaks the rules of the format. Unfit files are never skipped like damage, because a skip
    would lose the whole file.
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
"""Receives damage. When the callback returns, the reader continues with the undamaged rest. All records before the
damage were returned by then, none behind the damage: the gap between the two is the loss."""


def refuse_damage(damage: Damage) -> None:
    """The default `OnDamage`: raise `DamagedArchive` or `UnfitArchive`, except for a note."""
    if damage.is_note:
        return
    if damage.unfit:
        raise UnfitArchive(str(damage), hint=damage.unfit)
    raise DamagedArchive(str(damage), hint="use --skip-damaged to read the undamaged part")


def ignore_damage(damage: Damage) -> None:
    """An `OnDamage` for a first look at a file: reading the file reports the damage."""


def collect_damage(into: list[Damage], *, skip: bool) -> OnDamage:
    """Make an `OnDamage` that appends notes to `into`. Damage is appended too if `skip` is set, else refused. Unfit
    files are always refused."""

    def on_damage(damage: Damage) -> None:
        if damage.unfit or not skip:
            refuse_damage(damage)
        into.append(damage)

    return on_damage


class _TooDamaged(Exception):
    """Ends the reading of a file from inside `on_damage`; never leaves the module."""


ItemT = TypeVar("ItemT")


def read_while_usable(
    read: Callable[[OnDamage], Iterator[ItemT]], file: str, on_damage: OnDamage, *, most: int = MAX_DAMAGES
) -> Iterator[ItemT]:
    """Yield the items that `read` returns for a file, until `read` has reported `most` damages; the rest of the file is
    left out."""
    problem_count = 0

    def tell(damage: Damage) -> None:
        nonlocal problem_count
        on_damage(damage)
        problem_count += not damage.is_note
        if problem_count == most:
            on_damage(
                Damage(file=file, position=damage.position, problem=f"{most} damages: the rest of the file is left out")
            )
            raise _TooDamaged

    try:
        yield from read(tell)
    except _TooDamaged:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The input of a task: records of a partition with offsets in `[start, end)`, stored in `files`.

    `end` is None when only reading shows the end: for the last or only piece of a partition.
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
    """A topic as far as the archive describes the topic; `configs`, `replication_factor` (-1) and `topic_id` are often
    unknown."""

    topic: str
    partitions: int
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveHole:
    """Offsets `[start, end)` recorded as missing by the archive itself. `reason`: `retention` or `truncation`."""

    range: LogRange
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveContents:
    """The result of a reader's listing. `pieces` of a partition are disjoint and rise. `fidelity`: sentences about
    properties of the source missing from the archive. `cluster_id`: of the source, empty when unknown."""

    topics: tuple[ArchiveTopic, ...]
    pieces: tuple[Piece, ...]
    fidelity: tuple[str, ...]
    groups: Mapping[str, GroupOffsets]
    holes: tuple[ArchiveHole, ...] = ()
    cluster_id: str = ""


class ArchiveReader(Protocol):
    def contents(self, on_damage: OnDamage = refuse_damage) -> ArchiveContents:
        """List the contents. Raises `ArchiveNotFound` when the place holds nothing of the format, `DamagedArchive`."""

    def read(self, piece: Piece, on_damage: OnDamage = refuse_damage) -> Iterator[Sequence[Record]]:
        """Yield the records of `piece` in rising order of offsets, every record once, in batches of a few thousand
        (bounded by bytes).

        Raises `DamagedArchive` or `UnfitArchive` unless `on_damage` returns.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReceipt:
    """A written and durable file: number of records, first and last offset (both inclusive), times of records."""

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
    """The result of writing a range. `losses`: properties left out (with `--lossy`), with the number of affected
    records."""

    range: LogRange
    files: tuple[FileReceipt, ...]
    records: int
    losses: tuple[tuple[str, int], ...] = ()


class RangeWriter(Protocol):
    """Writes the records of a range. A context manager: leaving by an exception leaves nothing that counts."""

    def append(self, records: Sequence[Record]) -> None:
        """Append records; offsets rise and lie in the range. Raises `NotRepresentable` for a record outside the
        format's abilities, naming topic, partition, offset and property, unless the writer is lossy."""

    def append_columns(self, columns: RecordColumns) -> None:
        """Append records given as columns; the columns may be empty."""

    def close(self) -> RangeReceipt:
        """Finish the range. Everything is durable on return."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ArchiveWriter(Protocol):
    """Writes archives. Incremental: `ends` says where to continue. Idempotent: writing a range again produces the same
    files."""

    @property
    def divides(self) -> bool:
        """Whether ranges of a partition can be written in parallel; if not, a partition is written as an ordered
        chain."""

    def ends(self) -> Mapping[TopicPartition, int]:
        """Return the next offset of every partition in the archive. Repairs the leftovers of a crash: a torn tail,
        files missing from every index. Raises `DamagedArchive` for files that must not be touched."""

    def topic_ids(self) -> Mapping[str, str]:
        """Return the source's id of every topic in the archive. Empty if the format stores no ids."""
        return {}

    def last_record(self, of: TopicPartition) -> Record | None:  # noqa: ARG002
        """Return the record with the highest offset of a partition. The record distinguishes an archive without topic
        ids from the archive of another topic. None if the partition is empty or the format stores ids. Raises
        `DamagedArchive`."""
        return None

    def left_alone(self) -> tuple[str, ...]:
        """Describe foreign files among the files of the archive, a sentence per group. The archive neither counts nor
        removes a foreign file. Empty if names say nothing about the author of a file."""
        return ()

    def open(self, log_range: LogRange) -> RangeWriter:
        """Begin to write a range. The range starts at the end of the partition, or beyond the end if `divides`."""

    def finish(
        self, written: Sequence[RangeReceipt], topics: Sequence[ArchiveTopic], groups: Mapping[str, GroupOffsets]
    ) -> tuple[str, ...]:
        """Write indexes, groups and manifest, the manifest last: from the manifest on the ranges count. `topics`: all
        topics of the export. Returns the properties without a place in the format, a sentence per property."""
