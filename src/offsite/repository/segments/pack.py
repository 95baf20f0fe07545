"""Many small segments in one object. A round of a continuous backup adds a little data to each of thousands of
partitions, and an object for each would cost more than its bytes.

Segments and their sidecars lie back to back in a pack, each whole, hashed and compressed as in an object of its own;
commits record the positions. A later roll-up merges them into segments with objects of their own, readable by Kafka's
tools. A pack becomes durable and visible as a whole when closed. A packed segment, like any segment, counts only once
listed by a commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from offsite.log.buffer import Buffer
from offsite.model.errors import ObjectTaken, check
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import ObjectSink
from offsite.stores.store import ObjectWriter, PutResult


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    position: int
    size_bytes: int


class PackWriter:
    """Takes the place of a store for a `SegmentWriter`: objects go into the pack `key`, one after the other.

    An aborted object leaves unreferenced bytes. Use as a context manager: leaving by an exception aborts the pack.
    """

    def __init__(self, store: ObjectSink, key: str) -> None:
        self.key = key
        self._store = store
        self._object: ObjectWriter | None = None
        self._size_bytes = 0
        self._places: dict[str, _Place] = {}
        self._is_open = False

    def open_write(self, key: str) -> ObjectWriter:
        """Begin the next object of the pack. Only one object is written at a time."""
        check(not self._is_open, f"two objects at once in {self.key}")
        self._is_open = True
        return _PackedObject(self, key, self._size_bytes)

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        """Add a whole object, after all bytes of the object being written, which must not grow afterwards."""
        start = self._size_bytes
        for part in [data] if isinstance(data, Buffer) else data:
            self.append(part)
        self._places[key] = _Place(position=start, size_bytes=self._size_bytes - start)
        return PutResult.CREATED

    def with_places(self, segments: Sequence[Segment]) -> tuple[Segment, ...]:
        """`segments`, written into the pack, with their positions."""
        return tuple(map(self._placed, segments))

    def close(self) -> None:
        """Make the pack durable and visible; does nothing if nothing was written. Raises `ObjectTaken`, and errors of
        the store."""
        if self._object is not None and self._object.close() is PutResult.OTHER:
            raise ObjectTaken(f"{self.key} exists with other content", hint="run the command again: it uses a new name")
        self._object = None

    def abort(self) -> None:
        if self._object is not None:
            self._object.abort()
            self._object = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def append(self, data: Buffer) -> None:
        if self._object is None:
            self._object = self._store.open_write(self.key)
        self._object.write(data)
        self._size_bytes += memoryview(data).nbytes

    def end_object(self, key: str, start: int, size_bytes: int) -> None:
        """End the object `key`: written, or aborted (`size_bytes` 0)."""
        self._is_open = False
        if size_bytes:
            self._places[key] = _Place(position=start, size_bytes=size_bytes)

    def _placed(self, segment: Segment) -> Segment:
        body = self._places[segment.key]
        check(body.size_bytes == segment.stored_bytes, f"bytes of {segment.key} in {self.key}")
        sidecar = self._places[segment.index_key] if segment.index_key else _Place(position=0, size_bytes=0)
        return replace(
            segment,
            pack=self.key,
            position=body.position,
            index_position=sidecar.position,
            index_bytes=sidecar.size_bytes,
        )


class _PackedObject:
    """One object on its way into a pack."""

    def __init__(self, pack: PackWriter, key: str, start: int) -> None:
        self._pack, self._key, self._start = pack, key, start
        self._size_bytes = 0
        self._has_ended = False

    def write(self, data: Buffer) -> None:
        self._pack.append(data)
        self._size_bytes += memoryview(data).nbytes

    def close(self) -> PutResult:
        self._end(self._size_bytes)
        return PutResult.CREATED

    def abort(self) -> None:
        self._end(0)

    def _end(self, size_bytes: int) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._pack.end_object(self._key, self._start, size_bytes)
