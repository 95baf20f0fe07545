"""Snapshots of one partition's state as files: written aside, made durable, renamed; the older ones are removed, except
those that a backup has pinned."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from examples.stream_processor.state import State, read_state, state_bytes
from offsite_participant.bcs_snapshots import SnapshotSpan, is_base


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A state, as bytes, and the `offset` in Kafka from which its log goes on. It has seen nothing behind `last`."""

    processed: int
    last: int
    offset: int
    state: bytes

    @property
    def span(self) -> SnapshotSpan:
        """It is taken between two records, so its end is known."""
        return SnapshotSpan(processed=self.processed, written=self.last)

    def read(self) -> State:
        return read_state(self.state)


def snapshot_of(state: State, offset: int) -> Snapshot:
    return Snapshot(processed=state.processed, last=state.last, offset=offset, state=state_bytes(state))


def snapshot_bytes(snapshot: Snapshot) -> bytes:
    head = {"processed": snapshot.processed, "last": snapshot.last, "offset": snapshot.offset}
    return json.dumps(head).encode() + b"\n" + snapshot.state


def read_snapshot(data: bytes) -> Snapshot:
    head, _, state = data.partition(b"\n")
    return Snapshot(**json.loads(head), state=state)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFolder:
    """Used by the partition's leader and the thread that backs it up. A leader that was deposed and does not know it
    yet may remove what its successor has pinned: then that copy fails, and says so."""

    path: Path
    _pinned: set[int] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def newest(self) -> Snapshot | None:
        files = self._files()
        return read_snapshot(files[-1].read_bytes()) if files else None

    def save(self, snapshot: Snapshot) -> None:
        """Durable when this returns, and all there or not at all, also after a crash."""
        self.path.mkdir(parents=True, exist_ok=True)
        aside = self.path / f"{os.getpid()}.tmp"
        with aside.open("wb") as file:
            file.write(snapshot_bytes(snapshot))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self.path / f"snapshot-{snapshot.processed:012d}")
        _sync(self.path)

    def pin(self, *, before: int) -> Snapshot | None:
        """Hold the newest snapshot that has seen nothing from position `before` on, until `unpin`. None: there is none,
        and the log from its beginning has to do."""
        with self._lock:
            for file in reversed(self._files()):
                snapshot = read_snapshot(file.read_bytes())
                if is_base(snapshot.span, before=before):
                    self._pinned.add(snapshot.processed)
                    return snapshot
        return None

    def unpin(self, snapshot: Snapshot | None) -> None:
        with self._lock:
            if snapshot:
                self._pinned.discard(snapshot.processed)

    def remove_old(self) -> Snapshot | None:
        """Remove what is neither pinned nor the newest; the oldest that is left, to which the log may be cut."""
        with self._lock:
            kept = [file for file in self._files()[:-1] if not self._removed(file)] + self._files()[-1:]
            return read_snapshot(kept[0].read_bytes()) if kept else None

    def _removed(self, file: Path) -> bool:
        if int(file.name.removeprefix("snapshot-")) in self._pinned:
            return False
        file.unlink(missing_ok=True)
        return True

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("snapshot-*"))


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
