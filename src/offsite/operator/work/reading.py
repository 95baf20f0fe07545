"""Reads all data of a backup before another backup is deleted in its favour. Read objects are noted in the repository:
so the next job continues where an interrupted job stopped.

A note is believed for an object with the same size and time, at the same place, as at the time of reading. In a copy of
a repository all objects are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from offsite.model.errors import Damaged, DamagedObject, OffsiteError
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.repository.commit import PartitionId
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import own_objects
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.stores.store import ObjectInfo, Store
from offsite.upkeep.verification.segments import verify_segment

_HEADS_AT_ONCE = 16
"""Objects looked up in parallel: hides the latency of an object store."""
_NOTE_SEGMENTS = 256
_NOTE_BYTES = 256 * 1024 * 1024
"""A note is written after so many segments or bytes: a killed job reads at most so much again."""

_ReadObject: TypeAlias = tuple[str, int, int]
"""Key of a segment, size and time of its object."""


@dataclass(slots=True, kw_only=True)
class ResumableRead:
    """The reading of low-level backup `number` of the resource `uid`, in one job."""

    store: Store
    uid: str
    number: int
    _noted: set[_ReadObject] | None = field(default=None, init=False)
    _new: list[_ReadObject] = field(default_factory=list, init=False)

    def find_problem(self, segments: Iterable[Segment]) -> str:
        """Return the problem of the first damaged segment; empty: all segments were read, and are intact. Raises the
        errors of the store."""
        listed = tuple(segments)
        infos = self._look_up(listed)
        for segment in listed:
            if not segment.is_all_in(infos[segment.object_key]):
                return f"{segment.object_key} is missing, or truncated"
        noted = self._read_notes()
        unread = [segment for segment in listed if (segment.key, *_figures(infos[segment.object_key])) not in noted]
        read_bytes = 0
        for segment in unread:
            if problem := verify_segment(segment, store=self.store).problem:
                return f"{segment.key}: {problem}"
            self._new.append((segment.key, *_figures(infos[segment.object_key])))
            read_bytes += segment.stored_bytes
            if len(self._new) >= _NOTE_SEGMENTS or read_bytes >= _NOTE_BYTES:
                self._note()
                read_bytes = 0
        self._note()
        if unread:
            decided("read", why="an older backup will be deleted because of it", uid=self.uid, segments=len(unread))
        return ""

    def forget(self) -> None:
        """Delete the notes. No data depend on the notes."""
        for info in list(own_objects(self.store.list(self._prefix))):
            self.store.delete(info.key)

    @property
    def _prefix(self) -> str:
        return DeclaredLayout(uid=self.uid).read_prefix(self.number)

    def _look_up(self, segments: tuple[Segment, ...]) -> Mapping[str, ObjectInfo | None]:
        keys = sorted({segment.object_key for segment in segments})
        with ThreadPoolExecutor(max_workers=_HEADS_AT_ONCE, thread_name_prefix="look-up") as pool:
            return dict(zip(keys, pool.map(partial(_head, self.store), keys), strict=True))

    def _read_notes(self) -> set[_ReadObject]:
        if self._noted is None:
            self._noted = set(self._notes())
        return self._noted

    def _notes(self) -> Iterator[_ReadObject]:
        for info in own_objects(self.store.list(self._prefix)):
            try:
                document = parse_json_object(self.store.get(info.key) or b"", source=info.key, damaged=DamagedObject)
                if document.text("place") == self.store.url:
                    for line in document.children("read"):
                        yield line.text("key"), line.count("bytes"), line.count("modified_ms")
            except (Damaged, OffsiteError) as error:
                warned("note", why=error.message, uid=self.uid)  # then the object is read again

    def _note(self) -> None:
        if not self._new:
            return
        lines = [{"key": key, "bytes": size_bytes, "modified_ms": at_ms} for key, size_bytes, at_ms in self._new]
        fields = {"format": FORMAT, "place": self.store.url, "read": lines}
        self.store.put_if_absent(f"{self._prefix}{random_id(16)}.json", encode_object(fields))  # type: ignore[arg-type]
        self._read_notes().update(self._new)
        self._new = []


def has_batch(store: Store, state: BackupState, partition: PartitionId, *, last_offset: int, crc: int) -> bool:
    """Whether `state` holds a batch that ends at `last_offset` with this checksum. Raises `DamagedObject`, and the
    errors of the store."""
    for segment in state.segments.get(partition, ()):
        if segment.lowest_offset <= last_offset <= segment.last_offset:
            for chunk in SegmentReader(store=store, segment=segment).chunks():
                for header in chunk.batches:
                    if header.last_offset == last_offset:
                        return header.crc == crc
    return False


def _head(store: Store, key: str) -> ObjectInfo | None:
    try:
        return store.head(key)
    except Damaged:  # another kind of object lies at the key
        return None


def _figures(info: ObjectInfo | None) -> tuple[int, int]:
    return (info.size_bytes, info.modified_ms) if info is not None else (0, 0)
