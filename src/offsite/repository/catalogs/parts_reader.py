"""Reads the parts of a catalog on demand. In place of a damaged part the commits are folded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from offsite.model.errors import Damaged
from offsite.model.journal import warned
from offsite.repository.catalogs.history_lines import decode_lines
from offsite.repository.catalogs.parquet_form import damaged_catalog
from offsite.repository.catalogs.seal import HistoryRef
from offsite.repository.catalogs.segment_parts import CatalogPart, RecoverSegments
from offsite.repository.commit import PartitionId
from offsite.repository.commit_log import CommitLog
from offsite.repository.fold import fold
from offsite.repository.history import Columns, HistoryChunk
from offsite.repository.part_ref import PartRef
from offsite.repository.segments.body import content_hash
from offsite.repository.segments.segment import Segment
from offsite.repository.state import FIRST_SEQ, BackupState


@dataclass(slots=True)
class SharedParts:
    """The parts of the catalog read last. The next catalog names most of them again."""

    segments: dict[PartRef, CatalogPart] = field(default_factory=dict)
    chunks: dict[HistoryRef, HistoryChunk] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class PartsReader:
    """Reads the parts of the catalog of commit `seq`.

    `is_strict`: damage is an error. Otherwise all commits are folded once: other parts may be damaged too, and older
    catalogs share them, so no catalog is used. `shared`: for a caller that reads many catalogs in a row: parts are read
    once.
    """

    log: CommitLog
    seq: int
    is_strict: bool
    shared: SharedParts | None = None
    _folded: BackupState | None = field(default=None, init=False)

    def parts(self, refs: Iterable[PartRef]) -> tuple[CatalogPart, ...]:
        read_before = {} if self.shared is None else self.shared.segments
        parts = {ref: read_before.get(ref) or self.part(ref) for ref in refs}
        if self.shared is not None:
            self.shared.segments = parts
        return tuple(parts.values())

    def chunks(self, named: Iterable[HistoryRef]) -> tuple[HistoryChunk, ...]:
        read_before = {} if self.shared is None else self.shared.chunks
        chunks = {ref: read_before.get(ref) or self.chunk(ref) for ref in named}
        if self.shared is not None:
            self.shared.chunks = chunks
        return tuple(chunks.values())

    def part(self, ref: PartRef) -> CatalogPart:
        load = partial(self.get, ref.key, content=ref.hash)
        return CatalogPart(ref=ref, load=load, remembers=self.shared is not None)

    def chunk(self, named: HistoryRef) -> HistoryChunk:
        return HistoryChunk(self._lines, ref=named.ref, first=named.first, last=named.last)

    def recovery(self, partition: PartitionId) -> RecoverSegments | None:
        """Reads the segments of a partition from the commits; None if `is_strict`."""
        return None if self.is_strict else partial(self._segments, partition)

    def get(self, key: str, *, content: str | None = None) -> bytes:
        """The object `key`, checked against the hash `content` if given. Raises `DamagedObject`."""
        data = self.log.store.get(key)
        if data is None:
            raise damaged_catalog(f"{key} is missing")
        if content is not None and content_hash(data) != content:
            raise damaged_catalog(f"{key} does not have its recorded hash")
        return data

    def _lines(self, chunk: HistoryChunk) -> Columns:
        try:
            return self._stored_lines(chunk)
        except Damaged as error:
            if self.is_strict:
                raise
            chunk.ref = None  # the next catalog stores it again
            return self._refolded(error).history.between(chunk.first[0], chunk.last[0])

    def _stored_lines(self, chunk: HistoryChunk) -> Columns:
        """The lines of a chunk. The first and the last line must be those named by the catalog."""
        if chunk.ref is None:
            raise damaged_catalog("a chunk of the history is in no object")
        columns = decode_lines(self.get(chunk.ref.key, content=chunk.ref.hash), key=chunk.ref.key)
        numbers, times = columns[0], columns[1]
        if len(numbers) != chunk.lines or ((numbers[0], times[0]), (numbers[-1], times[-1])) != (
            chunk.first,
            chunk.last,
        ):
            raise damaged_catalog(f"{chunk.ref.key} does not contain the lines of its catalog")
        return columns

    def _segments(self, partition: PartitionId, why: Damaged) -> tuple[Segment, ...]:
        return tuple(self._refolded(why).segments.get(partition, ()))

    def _refolded(self, why: Damaged) -> BackupState:
        """Raises `DamagedCommit`."""
        if self._folded is None:
            backup = self.log.layout.backup
            warned("catalog_unusable", backup=backup, commit=self.seq, why=why.message)
            self._folded = fold(BackupState(backup=backup), self.log.read(after=FIRST_SEQ - 1, upto=self.seq))
        return self._folded
