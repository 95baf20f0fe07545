"""Where a backup's folded state is kept, so that opening it costs one read and a few commits, however long its history.

A catalog is written for every 100th commit, sealed by the hashes of its objects, and found through a small hint.
Neither is trusted: a catalog counts only when it is whole, the commit it stands for has the hash it names, and the
commit after that, whose writer made it, names the hash of its seal. (Commits of earlier versions name none.) Without
any the whole log is folded. `verify` folds it in any case, and compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from offsite.model.errors import Damaged, DamagedCommit, OffsiteError
from offsite.model.journal import warned
from offsite.repository.catalog_table import damaged_catalog, decode_history, decode_state, encode_history, encode_state
from offsite.repository.commit import StoredCommit
from offsite.repository.commit_json import commit_hash, damaged_commit
from offsite.repository.commit_log import CommitLog
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import parse_catalog_key
from offsite.repository.segments.body import content_hash
from offsite.repository.state import FIRST_SEQ, BackupState, fold
from offsite.stores.store import PutResult

COMMITS_PER_CATALOG = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Opens and extends the states of one backup."""

    log: CommitLog

    def state(self, *, upto: int | None = None) -> BackupState:
        """The state after commit `upto`, or after the newest. Raises `DamagedCommit`, `FormatTooNew`."""
        base = self._newest(upto)
        return fold(base.state, base.following)

    def sound_state(self) -> BackupState:
        """The newest state that can be read: where a commit is damaged, that of the last one before it, which says so
        (`unreadable`). Raises `DamagedCommit` when there is none before it, `FormatTooNew`."""
        base = self._newest(None)
        followed = _Followed(base.following, base.state.seq)
        try:
            return fold(base.state, followed)
        except DamagedCommit as error:
            if followed.seq < FIRST_SEQ:
                raise
            sound = self._vouched_for(base.state, followed.seq)
            return replace(sound, unreadable=error.message)

    def _vouched_for(self, base: BackupState, upto: int) -> BackupState:
        """The state after commit `upto`; after the one before it where the next commit names another one: whoever wrote
        that, it is not what was there first."""
        state = fold(base, self.log.read(after=base.seq, upto=upto))
        named = self.log.previous_named_by(upto + 1)
        if named in {None, state.head_hash} or upto == base.seq:
            return state
        if upto - 1 < FIRST_SEQ:
            raise damaged_commit(f"commit {upto} of {state.backup} is not the one that commit {upto + 1} names")
        return fold(base, self.log.read(after=base.seq, upto=upto - 1))

    def write(self, state: BackupState) -> str:
        """Keep `state`; the hash of the seal, for the next commit to name. Where another writer left other objects, it
        is left to that one, and the hash is empty; the next comes soon enough."""
        layout, store = self.log.layout, self.log.store
        history, segments = encode_history(state.history), encode_state(state)
        hashes = {"history": content_hash(history), "segments": content_hash(segments)}
        seal = encode_object({"format": FORMAT, **hashes})
        for key, data in (
            (layout.history_key(state.seq), history),
            (layout.catalog_key(state.seq), segments),
            (layout.seal_key(state.seq), seal),
        ):
            if store.put_if_absent(key, data) is PutResult.OTHER:
                return ""
        store.put_overwrite(layout.hint_key, encode_object({"format": FORMAT, "seq": state.seq}))
        return commit_hash(seal)

    def is_due(self, state: BackupState) -> bool:
        return state.seq >= FIRST_SEQ and state.seq % COMMITS_PER_CATALOG == 0

    def read(self, seq: int) -> BackupState:
        """The catalog of commit `seq`. Raises `DamagedObject` when it is missing, not whole, or not of this log.

        Whether the next commit names it is not looked at: see `read_named`."""
        return self._sealed_by(self._get(self.log.layout.seal_key(seq)), seq)

    def read_named(self, seq: int, following: StoredCommit | None) -> BackupState | None:
        """The catalog of commit `seq`, if `following`, the next commit, whose writer made it, stands for it. None where
        that commit is not there, or its writer kept none: nothing says whose it is, a killed run leaves one. Raises
        `DamagedObject` as `read` does, and when the next commit names another one."""
        if following is None or following.commit.catalog == "":
            return None
        key = self.log.layout.seal_key(seq)
        seal, named = self._get(key), following.commit.catalog
        if named is not None and named != commit_hash(seal):
            raise damaged_catalog(f"{key} is not the one that commit {seq + 1} names")
        return self._sealed_by(seal, seq)

    def _sealed_by(self, seal: bytes, seq: int) -> BackupState:
        layout = self.log.layout
        hashes = parse_json_object(seal, source=layout.seal_key(seq), damaged=damaged_catalog)
        history = self._get(layout.history_key(seq), content=hashes.text("history"))
        segments = self._get(layout.catalog_key(seq), content=hashes.text("segments"))
        lines = decode_history(history, key=layout.history_key(seq))
        found = decode_state(segments, key=layout.catalog_key(seq), history=lines)
        commit = self.log.get(seq)
        if commit is None or (found.backup, found.seq, found.head_hash) != (layout.backup, seq, commit.hash):
            raise damaged_catalog(f"{layout.catalog_key(seq)} does not belong to this commit log")
        return found

    def _get(self, key: str, *, content: str | None = None) -> bytes:
        """The object `key`, with the hash `content` where one is known."""
        data = self.log.store.get(key)
        if data is None:
            raise damaged_catalog(f"{key} is missing")
        if content is not None and content_hash(data) != content:
            raise damaged_catalog(f"{key} does not have its recorded hash")
        return data

    def _newest(self, upto: int | None) -> _Base:
        for seq in self._candidates(upto):
            try:
                if (base := self._base(seq, upto)) is not None:
                    return base
            except Damaged as error:
                warned("catalog_unusable", backup=self.log.layout.backup, commit=seq, why=error.message)
        return _Base(state=BackupState(backup=self.log.layout.backup), following=self.log.read(after=0, upto=upto))

    def _base(self, seq: int, upto: int | None) -> _Base | None:
        """None where nothing stands for the catalog. The first commit after it says so, and is not read twice."""
        following = self.log.read(after=seq, upto=max(upto, seq + 1) if upto is not None else None)
        first = next(following, None)
        state = self.read_named(seq, first)
        if state is None:
            return None
        return _Base(state=state, following=chain([first] if first and seq != upto else [], following))

    def _candidates(self, upto: int | None) -> Iterator[int]:
        """Numbers of catalogs that may exist at or below `upto`, best first; lists only when the hint does not help."""
        tried = self._hinted()
        if tried is not None and (upto is None or tried <= upto):
            yield tried
        yield from (seq for seq in reversed(self.sealed()) if seq != tried and (upto is None or seq <= upto))

    def sealed(self, *, after: int = 0) -> tuple[int, ...]:
        """The numbers of all catalogs behind commit `after` that have a seal, ascending."""
        layout = self.log.layout
        listed = self.log.store.list(layout.catalog_prefix, start_after=layout.seal_key(after))
        return tuple(seq for info in listed if (seq := parse_catalog_key(info.key)) is not None and seq > after)

    def hinted(self) -> int | None:
        """The number that the hint names. Raises `DamagedObject`, `FormatTooNew`."""
        key = self.log.layout.hint_key
        data = self.log.store.get(key)
        return None if data is None else parse_json_object(data, source=key, damaged=damaged_catalog).count("seq")

    def _hinted(self) -> int | None:
        try:
            return self.hinted()
        except OffsiteError as error:
            warned("hint_unusable", key=self.log.layout.hint_key, why=error.message)
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """A state to go on from, and the commits after it."""

    state: BackupState
    following: Iterator[StoredCommit]


class _Followed:
    """Passes commits on; `seq` is the last one whose successor was asked for, so that it was taken for sound."""

    def __init__(self, commits: Iterator[StoredCommit], seq: int) -> None:
        self._commits = commits
        self.seq = seq

    def __iter__(self) -> Iterator[StoredCommit]:
        for each in self._commits:
            yield each
            self.seq = each.commit.seq
