"""A piece of a foreign archive → segments, in a worker: records into batches, encoded anew. Commits nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from offsite.archives.archive import ArchiveReader, Damage, Piece, collect_damage
from offsite.log.batch import scan
from offsite.log.chunk import Chunk
from offsite.log.codec import ZSTD
from offsite.log.range import LogRange
from offsite.log.record_batches import batches_of
from offsite.pipeline import meter
from offsite.repository.layout import BackupLayout
from offsite.repository.segment import Segment
from offsite.repository.segment_writer import SegmentWriter
from offsite.repository.store import Store

OFFSET_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTask:
    """The records of `piece`. `is_first`: nothing of the partition is known, its log begins where they begin."""

    piece: Piece
    is_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportEnds:
    """The two ends of an import's copy, as they travel to the workers. `skip_damaged`: go on behind damage."""

    reader: ArchiveReader
    store: Store
    layout: BackupLayout
    skip_damaged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReceipt:
    """What one task did: durable segments of `[start, end)`. Void unless a commit lists the segments."""

    topic: str
    partition: int
    start: int
    end: int
    segments: tuple[Segment, ...]
    damages: tuple[Damage, ...]


def import_piece(task: ImportTask, *, ends: ImportEnds) -> ImportReceipt:
    """Copy the piece. May run twice: every attempt writes under object names of its own.

    Raises `DamagedArchive` unless damage is skipped, and what the two ends raise; then nothing of it is committed.
    """
    damages: list[Damage] = []
    on_damage = collect_damage(damages, skip=ends.skip_damaged)
    copy = _Copy(task, ends, damages)
    copy.run(batches_of(ends.reader.read(task.piece, on_damage), codec=ZSTD))
    return ImportReceipt(
        topic=task.piece.topic,
        partition=task.piece.partition,
        start=copy.start,
        end=copy.end,
        segments=copy.segments,
        damages=tuple(damages),
    )


class _Copy:
    """One task under way: where it began and ended is known when it is over. `damages` grow while it reads."""

    def __init__(self, task: ImportTask, ends: ImportEnds, damages: Sequence[Damage]) -> None:
        piece = task.piece
        self.start, self.end = piece.start, piece.start if piece.end is None else piece.end
        self.segments: tuple[Segment, ...] = ()
        self._task, self._ends, self._damages = task, ends, damages

    def run(self, batches: Iterator[bytearray]) -> None:
        first = next(batches, None)
        if first is None:
            return
        if self._task.is_first and all(damage.is_note for damage in self._damages):  # else something was before it
            self.start = scan(first)[0].base_offset
        with self._writer() as writer:
            for batch in chain((first,), batches):
                self._append(writer, batch)
            self.segments = writer.close(end=self.end)

    def _append(self, writer: SegmentWriter, batch: bytearray) -> None:
        (header,) = scan(batch)
        writer.append(Chunk(data=memoryview(batch), batches=[header]))
        if self._task.piece.end is None:
            self.end = header.next_offset
        meter.count(moved_bytes=len(batch), records=header.record_count)

    def _writer(self) -> SegmentWriter:
        piece = self._task.piece
        end = OFFSET_MAX if piece.end is None else piece.end
        return SegmentWriter(
            store=self._ends.store,
            layout=self._ends.layout,
            log_range=LogRange(topic=piece.topic, partition=piece.partition, start=self.start, end=end),
            topic_id="",
        )
