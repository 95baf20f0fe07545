"""The seal of a catalog: the hashes of all its objects, its own and those that it shares with earlier catalogs.

Parts are read on demand. In place of a damaged part the commits are folded. The lines of a history are a Parquet
object, in which rising or repeating numbers take a bit or two instead of eight bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from offsite.log.range import PartitionId
from offsite.model.errors import Damaged
from offsite.model.journal import warned
from offsite.model.untrusted.json_codec import Form, Inline, JsonCodec
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.catalogs.segment_table import CatalogPart, RecoverSegments
from offsite.repository.commit_history import COLUMNS, LINES_PER_CHUNK, Columns, HistoryChunk, PartRef
from offsite.repository.commit_log import CommitLog
from offsite.repository.fold import fold
from offsite.repository.json_form import StoredForm, parse_json_object
from offsite.repository.layout import BackupLayout
from offsite.repository.parquet import damaged_catalog, from_parquet, integers_of
from offsite.repository.segments.body import content_hash
from offsite.repository.segments.segment import Segment
from offsite.repository.state import FIRST_SEQ, BackupState


def _pair(document: JsonObject, name: str) -> tuple[int, int]:
    numbers = document.integers(name)
    if len(numbers) != 2:
        raise document.wrong(name, "a number and a time")
    return numbers[0], numbers[1]


_PAIR = Form(_pair, list)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRef:
    """A chunk of the history; `first` and `last`: number and time of its first and last commit."""

    ref: Inline[PartRef]
    first: Annotated[tuple[int, int], _PAIR]
    last: Annotated[tuple[int, int], _PAIR]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSeal:
    """Hashes of the partition table and of the history's tail, and the parts, each kind in order."""

    partitions: str
    tail: str
    segments: tuple[PartRef, ...]
    history: tuple[HistoryRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFormSeal:
    """The seal of a catalog without parts, as written by earlier versions."""

    segments: str
    history: str


_SEAL, _PART_REF = StoredForm(CatalogSeal), JsonCodec(PartRef)


def encode_seal(seal: CatalogSeal) -> bytes:
    return _SEAL.encode(seal)


def decode_seal(data: bytes, *, key: str, layout: BackupLayout) -> CatalogSeal | FirstFormSeal:
    """Read the seal `key`. Raises `DamagedObject`, `FormatTooNew`."""
    document = parse_json_object(data, source=key, damaged=damaged_catalog)
    if isinstance(document.fields.get("segments"), str):
        return FirstFormSeal(segments=document.text("segments"), history=document.text("history"))
    return CatalogSeal(
        partitions=document.text("partitions"),
        tail=document.text("tail"),
        segments=tuple(_ref(part, layout) for part in document.children("segments")),
        history=tuple(_chunk(chunk, layout) for chunk in document.children("history")),
    )


def _ref(document: JsonObject, layout: BackupLayout) -> PartRef:
    ref = _PART_REF.read(document)
    if not layout.is_part(ref.key) or not ref.rows:
        raise document.wrong("key", "that of a part with rows of this backup")
    return ref


def _chunk(document: JsonObject, layout: BackupLayout) -> HistoryRef:
    """The number of lines is bounded here, because a list of the lines is allocated before they are read."""
    history_ref = HistoryRef(ref=_ref(document, layout), first=_pair(document, "first"), last=_pair(document, "last"))
    if not history_ref.ref.rows <= min(LINES_PER_CHUNK, history_ref.last[0] - history_ref.first[0] + 1):
        raise document.wrong("rows", "a number of lines that its commits have")
    return history_ref


def encode_lines(lines: Columns) -> bytes:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import parquet

    columns = [pa.array(memoryview(column), type=pa.int64()) for column in lines]
    sink = io.BytesIO()
    parquet.write_table(
        pa.table(columns, names=list(COLUMNS)),
        sink,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        column_encoding=dict.fromkeys(COLUMNS, "DELTA_BINARY_PACKED"),
    )
    return sink.getvalue()


def decode_lines(data: bytes, *, key: str) -> Columns:
    """The lines in the object `key`. Raises `DamagedObject`."""
    table = from_parquet(data, key)
    if tuple(table.column_names) != COLUMNS:
        raise damaged_catalog(f"{key}: its columns are not the columns of a history")
    return tuple(integers_of(column, key) for column in table.columns)


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
