"""The commit log of one backup: consecutive numbers, create-only objects, each naming the hash of the previous commit.

The writer that creates number n+1 has committed; all objects written before are garbage until then. This module never
deletes.

Two writers that both read commit n try to create the same key, and the store accepts one of them. No lock is needed,
and the losing writer has changed nothing that counts. Consecutive numbers reveal a missing commit in the middle; a
listing alone would not. The hash reveals a replaced commit, because the next commit names the original. A recorded head
hash vouches for all commits up to the head.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from offsite.model.errors import CommitLost, DamagedCommit, DamagedObject, FormatTooNew, OffsiteError, check
from offsite.model.journal import warned
from offsite.model.untrusted.bounded_json import DigestState, check_digest
from offsite.model.untrusted.json_codec import JsonCodec
from offsite.repository.commit import Commit, CommitChanges, StoredCommit, damaged_commit
from offsite.repository.json_form import (
    FORMAT,
    FORMAT_PACKS,
    FORMAT_REGISTRY,
    FORMAT_RETENTION,
    NEWEST_FORMAT,
    encode_object,
    parse_json_object,
)
from offsite.repository.layout import BackupLayout, lies_below, own_objects, parse_commit_key
from offsite.stores.store import ObjectInfo, PutResult, Store

_READERS = 16
_WINDOW = 4 * _READERS
"""Commits read ahead: hides the latency of an object store and bounds the memory."""

_MISSING_MAX = 1000
"""At most so many missing commits are reported before an existing commit: a forged commit may have any number."""

UnreadableCommit: TypeAlias = DamagedCommit | FormatTooNew
"""Why an expected commit cannot be used."""

UNREADABLE_COMMIT = (DamagedCommit, FormatTooNew)

_Numbered = tuple[int, str | DamagedCommit]
"""A commit number with the commit's key, or with the error in its place."""


_COMMIT = JsonCodec(Commit)


def encode_commit(commit: Commit) -> bytes:
    """The canonical bytes of `commit`. Empty lists and absent parts are left out."""
    members = _COMMIT.write(commit)
    if commit.catalog is None:
        del members["catalog"]
    sums = {"records": commit.records, "raw_bytes": commit.raw_bytes, "stored_bytes": commit.stored_bytes}
    return encode_object({"format": _format_of(commit.changes), **members, **sums})


def _format_of(changes: CommitChanges) -> int:
    """The oldest format whose readers understand `changes`."""
    if changes.registry is not None:
        return FORMAT_REGISTRY
    if changes.touches_retention:
        return FORMAT_RETENTION
    is_packed = any(segment.pack is not None for segment in changes.segments)
    return FORMAT_PACKS if is_packed or changes.cut_back else FORMAT


def decode_commit(data: bytes, *, key: str) -> Commit:
    """Read the commit object `key`. Raises `FormatTooNew`, and `DamagedCommit` for anything that no writer of offsite
    writes. Unknown keys are ignored."""
    document = parse_json_object(data, source=key, damaged=damaged_commit, newest=NEWEST_FORMAT)
    try:
        commit = _COMMIT.read(document)
        _check_names(commit, key)
    except OffsiteError as error:
        raise damaged_commit(error.message if key in error.message else f"{key}: {error.message}") from error
    written = (document.integer("records"), document.integer("raw_bytes"), document.integer("stored_bytes"))
    if written != (commit.records, commit.raw_bytes, commit.stored_bytes):
        raise damaged_commit(f"{key}: its counts differ from the sums of its segments")
    return commit


def _check_names(commit: Commit, key: str) -> None:
    """Check that every object named by a commit lies in the commit's own backup, in the folder of its kind."""
    layout = BackupLayout(backup=commit.backup)
    changes = commit.changes
    for segment in changes.segments:  # segment_from_json compared the rest of the key
        if not segment.key.startswith(layout.topics_prefix):
            raise damaged_commit(f"{key}: it names {segment.key!r}, which is not a segment of backup {commit.backup}")
        if segment.pack is not None and not layout.is_pack(segment.pack):
            raise damaged_commit(f"{key}: it names {segment.pack!r}, which is not a pack of backup {commit.backup}")
    named = [
        *([(changes.groups, layout.groups_prefix)] if changes.groups else []),
        *([(changes.metadata.key, layout.metadata_prefix)] if changes.metadata else []),
        *([(changes.registry.key, layout.registry_prefix)] if changes.registry else []),
        *([(changes.cut.key, layout.cuts_prefix)] if changes.cut else []),
    ]
    for name, prefix in named:
        if not lies_below(name, prefix):
            raise damaged_commit(f"{key}: it names {name!r}, which is not an object of backup {commit.backup}")


def commit_hash(data: bytes) -> str:
    """The hash that the next commit names as `previous`: SHA-256 of the stored bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedCommit:
    """A commit before it is stored, with its bytes."""

    stored: StoredCommit
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLog:
    store: Store
    layout: BackupLayout

    def append(self, encoded: EncodedCommit) -> StoredCommit:
        """Create the commit under its number. Raises `CommitLost` if another writer has the number.

        An equal existing commit is our own, because the writer id is unique. After `PutOutcomeUnknown` the next run
        decides: the commit exists in full, or not at all.
        """
        commit, data = encoded.stored.commit, encoded.data
        key = self.layout.commit_key(commit.seq)
        check(self._decoded(key, data).commit == commit, f"{key} would not be read back with the same contents")
        if self.store.put_if_absent(key, data) is PutResult.OTHER:
            raise self._lost(commit)
        return encoded.stored

    def _lost(self, commit: Commit) -> CommitLost:
        """The error, with the content of the winning commit if readable."""
        message = f"another writer made commit {commit.seq} of {commit.backup}"
        try:
            first = self.get(commit.seq)
        except OffsiteError as error:
            warned("winner_unread", error=error.id, why=error.message, commit=commit.seq)
            first = None
        if first is not None and (action := _let_go_or_kept(first.commit.changes)):
            return CommitLost(
                f"{message} first, which {action}",
                hint="this is normal, and nothing is lost: a run that follows repeats its round; run any other "
                "command again, it continues from that commit",
            )
        return CommitLost(
            message, hint="run the command again: it continues from that commit. Use one writer per backup"
        )

    def encode(self, commit: Commit) -> EncodedCommit:
        """The commit with its bytes; writes nothing."""
        data = encode_commit(commit)
        return EncodedCommit(stored=StoredCommit(commit=commit, hash=commit_hash(data)), data=data)

    def get(self, seq: int) -> StoredCommit | None:
        """Commit `seq`, or None if none exists."""
        key = self.layout.commit_key(seq)
        data = self._bytes(key)
        return None if data is None else self._decoded(key, data)

    def newest_at(self, time_ms: int, *, after: int, upto: int) -> int:
        """The number of the newest of the commits `after` < number <= `upto` made at or before `time_ms`; `after` if
        none was. Times of commits never go back. Restore points may be dropped, so a history of restore points cannot
        answer this. Raises `DamagedCommit`, `FormatTooNew`."""

        def is_younger(seq: int) -> bool:
            stored = self.get(seq)
            return stored is None or stored.commit.committed_at_ms > time_ms

        numbers = range(after + 1, upto + 1)
        return after + bisect_right(numbers, False, key=is_younger)

    def has_digest(self, seq: int) -> bool:
        """Whether commit `seq`, a readable commit, contains a digest of its own bytes."""
        stored = self.get(seq)
        return stored is not None and stored.has_digest

    def previous_named_by(self, seq: int) -> str | None:
        """The hash of the previous commit, as named by commit `seq`; None if unknown."""
        try:
            stored = self.get(seq)
        except UNREADABLE_COMMIT:
            return None
        return None if stored is None else stored.commit.previous

    def read(self, *, after: int, upto: int | None = None) -> Iterator[StoredCommit]:
        """The commits `after` < number <= `upto` in order. Raises `DamagedCommit` at a missing or unreadable commit,
        and `FormatTooNew` at a commit of a newer format; earlier commits are yielded first.

        Does not check the chain or the content: `fold` does.
        """
        return _readable(self.try_read(after=after, upto=upto))

    def read_known(self, *, after: int, upto: int) -> Iterator[StoredCommit]:
        """As `read`, for commits that are known to exist: without a listing, which takes long in a folder of many."""
        return _readable(self._read_all((seq, self.layout.commit_key(seq)) for seq in range(after + 1, upto + 1)))

    def read_back(self, *, upto: int) -> Iterator[StoredCommit]:
        """The commits from number `upto` down, each read on demand. Missing commits are skipped. Raises
        `DamagedCommit`."""
        for seq in range(upto, 0, -1):
            if (stored := self.get(seq)) is not None:
                yield stored

    def read_down(self, *, upto: int) -> Iterator[StoredCommit]:
        """The commits from number `upto` down, many read at once. Missing and unreadable commits are skipped."""
        for high in range(upto, 0, -_WINDOW):
            results = [result for _, result in self.try_read(after=max(0, high - _WINDOW), upto=high)]
            yield from (result for result in reversed(results) if isinstance(result, StoredCommit))

    def try_read(self, *, after: int, upto: int | None = None) -> Iterator[tuple[int, StoredCommit | UnreadableCommit]]:
        """The commits `after` < number <= `upto` with their numbers. An error stands in place of a missing or
        unreadable commit, and of a commit of a newer format."""
        listed = own_objects(self.store.list(self.layout.commits_prefix, start_after=self.layout.commit_key(after)))
        yield from self._read_all(self._numbered(listed, after, upto))

    def _read_all(self, numbered: Iterator[_Numbered]) -> Iterator[tuple[int, StoredCommit | UnreadableCommit]]:
        while window := list(islice(numbered, _WINDOW)):
            yield from self._read_at_once(window)

    def _read_at_once(self, numbered: Sequence[_Numbered]) -> list[tuple[int, StoredCommit | UnreadableCommit]]:
        """Never yields while threads run: a generator dropped at a yield may hang the process when collected."""
        if len(numbered) == 1:
            return [self._tried(numbered[0])]
        with ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="commits") as pool:
            return list(pool.map(self._tried, numbered))

    def _numbered(self, listed: Iterator[ObjectInfo], after: int, upto: int | None) -> Iterator[_Numbered]:
        """The keys of commits, and errors for the missing numbers between them."""
        expected = after + 1
        for info in listed:
            if (seq := parse_commit_key(info.key)) is None:
                continue  # a foreign object below the prefix
            for missing in range(expected, min(seq, (seq if upto is None else upto) + 1, expected + _MISSING_MAX)):
                yield missing, damaged_commit(f"{self.layout.commit_key(missing)} is missing, but {info.key} exists")
            if upto is not None and seq > upto:
                return
            yield seq, info.key
            expected = seq + 1
        if upto is None:
            yield from self._unlisted(expected)

    def _unlisted(self, seq: int) -> Iterator[_Numbered]:
        """An error if a link or a folder occupies the next commit's place. Listings omit links and folders, and the
        history must not seem to end there."""
        try:
            self.store.head(self.layout.commit_key(seq))
        except DamagedObject as error:
            yield seq, damaged_commit(error.message)

    def _tried(self, numbered: _Numbered) -> tuple[int, StoredCommit | UnreadableCommit]:
        seq, key = numbered
        try:
            return seq, key if isinstance(key, DamagedCommit) else self._existing(key)
        except UNREADABLE_COMMIT as error:
            return seq, error

    def _bytes(self, key: str) -> bytes | None:
        try:
            return self.store.get(key)
        except DamagedObject as error:  # an irregular object in the commit's place
            raise damaged_commit(error.message) from error

    def _existing(self, key: str) -> StoredCommit:
        data = self._bytes(key)
        if data is None:
            raise damaged_commit(f"{key} exists, but cannot be read")
        return self._decoded(key, data)

    def _decoded(self, key: str, data: bytes) -> StoredCommit:
        commit = decode_commit(data, key=key)
        if self.layout.commit_key(commit.seq) != key or commit.backup != self.layout.backup:
            raise damaged_commit(f"{key} contains commit {commit.seq} of {commit.backup}")
        has_digest = check_digest(data) is DigestState.RIGHT
        return StoredCommit(commit=commit, hash=commit_hash(data), has_digest=has_digest)


def _readable(results: Iterable[tuple[int, StoredCommit | UnreadableCommit]]) -> Iterator[StoredCommit]:
    """The commits of `results`, up to the first error, which is raised."""
    for _, result in results:
        if isinstance(result, UnreadableCommit):
            raise result
        yield result


def _let_go_or_kept(changes: CommitChanges) -> str:
    """What a maintenance commit did; empty for a commit of a backup run. A retention also removes ended pins."""
    if not changes.is_upkeep:
        return ""
    if changes.compacted:
        return "compacted topics"
    if changes.expired or changes.forgotten:
        return "deleted data by retention"
    if changes.pinned:
        return "pinned a restore point"
    return "removed a pin" if changes.unpinned else ""
