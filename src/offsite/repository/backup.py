"""One backup of a repository: its state, the way to commit to it, and what it left lying about."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from offsite.model.errors import Bug, DamagedObject, NoSuchRestorePoint
from offsite.model.time import format_time
from offsite.repository.catalog import Catalog
from offsite.repository.commit import Changes, Commit
from offsite.repository.commit_log import CommitLog
from offsite.repository.coverage import unaccounted
from offsite.repository.descriptor import BackupDescriptor
from offsite.repository.layout import BackupLayout, index_key, parse_groups_key, parse_metadata_key
from offsite.repository.segment import Segment
from offsite.repository.state import BackupState, fold
from offsite.repository.store import ObjectInfo, Store

ORPHAN_AGE_MS = 24 * 3_600_000
"""How old an uncommitted object must be, by the store's clock, before it may go: longer than a run takes."""

_CHECKERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    store: Store
    descriptor: BackupDescriptor

    @property
    def layout(self) -> BackupLayout:
        return BackupLayout(backup=self.descriptor.name)

    @property
    def log(self) -> CommitLog:
        return CommitLog(store=self.store, layout=self.layout)

    @property
    def catalog(self) -> Catalog:
        return Catalog(log=self.log)

    def state(self) -> BackupState:
        """The newest state. Raises `DamagedCommit`, `FormatTooNew`."""
        return self.catalog.state()

    def state_at(self, seq: int, *, head: BackupState | None = None) -> BackupState:
        """Restore point `seq`, with the segments that hold its data now. Raises `NoSuchRestorePoint`."""
        head = head or self.state()
        if head.history.find(seq) is None:
            raise self._no_such(f"commit {seq}", head)
        return head if seq == head.seq else self.catalog.state(upto=seq).served_by(head)

    def state_at_time(self, time_ms: int, *, head: BackupState | None = None) -> BackupState:
        """The newest restore point committed at or before `time_ms` (store's clock). Raises `NoSuchRestorePoint`."""
        head = head or self.state()
        found = head.history.latest_at(time_ms)
        if found is None:
            raise self._no_such(f"commit at or before {format_time(time_ms)}", head)
        return self.state_at(found.seq, head=head)

    def commit(self, changes: Changes, *, base: BackupState, writer: str) -> BackupState:
        """Add one commit to `base`, the newest state the caller knows; the state with it.

        Topics, positions and settings that `base` has already are left out. `writer` must be unique to the run. Every
        segment is looked up first: one that cannot be seen from here (a folder that is not shared) must not be listed.
        Raises `CommitLost` when somebody was faster, `PutOutcomeUnknown` when nobody knows: both ask for a new run.
        A crash before the commit leaves orphans, a crash after it nothing.
        """
        self._check_stored(changes.segments)
        if self.catalog.is_due(base):
            self.catalog.write(base)
        commit = Commit(
            backup=self.descriptor.name,
            seq=base.seq + 1,
            previous=base.head_hash,
            writer=writer,
            committed_at_ms=max(self.store.now_ms(), base.committed_at_ms),
            changes=_news(changes, base),
        )
        for left in unaccounted(commit.changes, base.reached()) if changes.accounted else ():
            raise Bug(f"commit {commit.seq} of {commit.backup} would pass over {left} without saying what is there")
        fold(base, [self.log.sealed(commit)])  # what a reader would refuse must not be written
        return fold(base, [self.log.append(commit)])

    def orphans(self, *, head: BackupState | None = None) -> Iterator[ObjectInfo]:
        """Objects below `topics/`, `groups/` and `metadata/` that no commit lists and that are older than 24 hours."""
        head = head or self.state()
        before_ms = self.store.now_ms() - ORPHAN_AGE_MS
        listed = {key for segment in head.all_segments() for key in (segment.key, index_key(segment.key))}
        for info in self.store.list(self.layout.topics_prefix):
            if info.modified_ms < before_ms and info.key not in listed:
                yield info
        for info in self.store.list(self.layout.groups_prefix):
            if info.modified_ms < before_ms and not self._lists_groups(info.key):
                yield info
        for info in self.store.list(self.layout.metadata_prefix):
            if info.modified_ms < before_ms and not self._lists_metadata(info.key):
                yield info

    def _lists_groups(self, key: str) -> bool:
        """Whether the commit that the group snapshot was made for names it: older restore points need theirs too."""
        seq = parse_groups_key(key)
        stored = None if seq is None else self.log.get(seq)
        return stored is not None and stored.commit.changes.groups == key

    def _lists_metadata(self, key: str) -> bool:
        seq = parse_metadata_key(key)
        stored = None if seq is None else self.log.get(seq)
        known = None if stored is None else stored.commit.changes.metadata
        return known is not None and known.key == key

    def _check_stored(self, segments: tuple[Segment, ...]) -> None:
        with ThreadPoolExecutor(max_workers=_CHECKERS, thread_name_prefix="check-stored") as pool:
            for segment, info in zip(segments, pool.map(lambda s: self.store.head(s.key), segments), strict=True):
                if info is None or info.size_bytes != segment.stored_bytes:
                    found = "is missing" if info is None else f"has {info.size_bytes} bytes"
                    raise DamagedObject(
                        f"{segment.key} was written with {segment.stored_bytes} bytes and {found}",
                        hint="Spark workers and this machine must see the same repository; use shared storage or a URL",
                    )

    def _no_such(self, wanted: str, head: BackupState) -> NoSuchRestorePoint:
        known = f"{head.history[0].seq} to {head.history[-1].seq}" if head.history else "none yet"
        return NoSuchRestorePoint(
            f"backup {self.descriptor.name} has no {wanted} (commits: {known})",
            hint=f"see them with: offsite show {self.descriptor.name}",
        )


def _news(changes: Changes, base: BackupState) -> Changes:
    return replace(
        changes,
        metadata=None if changes.metadata == base.metadata else changes.metadata,
        topics=tuple(shape for shape in changes.topics if base.topics.get(shape.incarnation) != shape),
        positions=tuple(p for p in changes.positions if base.positions.get(p.partition_id) != p),
    )
