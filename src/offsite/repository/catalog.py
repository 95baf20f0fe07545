"""Where a backup's folded state is kept, so that opening it costs one read and a few commits, however long its history.

A catalog is written for every 100th commit, sealed by the hashes of its objects, and found through a small hint.
Neither is trusted: a catalog counts only when it is whole and the commit it stands for has the hash it names; without
any the whole log is folded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.model.errors import Damaged, OffsiteError
from offsite.model.journal import warned
from offsite.repository.catalog_table import damaged_catalog, decode_history, decode_state, encode_history, encode_state
from offsite.repository.commit_log import CommitLog
from offsite.repository.json_object import FORMAT, encode_canonical, parse_json_object
from offsite.repository.layout import parse_catalog_key
from offsite.repository.segment_body import content_hash
from offsite.repository.state import FIRST_SEQ, BackupState, fold
from offsite.repository.store import PutResult

COMMITS_PER_CATALOG = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Opens and extends the states of one backup."""

    log: CommitLog

    def state(self, *, upto: int | None = None) -> BackupState:
        """The state after commit `upto`, or after the newest. Raises `DamagedCommit`, `FormatTooNew`."""
        base = self._newest(upto)
        return fold(base, self.log.read(after=base.seq, upto=upto))

    def write(self, state: BackupState) -> None:
        """Keep `state`. Where another writer is at the same one, it is left to that one; the next comes soon enough."""
        layout, store = self.log.layout, self.log.store
        history, segments = encode_history(state.history), encode_state(state)
        for key, data in ((layout.history_key(state.seq), history), (layout.catalog_key(state.seq), segments)):
            if store.put_if_absent(key, data) is PutResult.OTHER:
                return
        hashes = {"history": content_hash(history), "segments": content_hash(segments)}
        store.put_if_absent(layout.seal_key(state.seq), encode_canonical({"format": FORMAT, **hashes}))
        store.put_overwrite(layout.hint_key, encode_canonical({"format": FORMAT, "seq": state.seq}))

    def is_due(self, state: BackupState) -> bool:
        return state.seq >= FIRST_SEQ and state.seq % COMMITS_PER_CATALOG == 0

    def read(self, seq: int) -> BackupState:
        """The catalog of commit `seq`. Raises `DamagedObject` when it is missing, not whole, or not of this log."""
        layout = self.log.layout
        seal = parse_json_object(self._get(layout.seal_key(seq)), source=layout.seal_key(seq), damaged=damaged_catalog)
        history = self._get(layout.history_key(seq), content=seal.text("history"))
        segments = self._get(layout.catalog_key(seq), content=seal.text("segments"))
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

    def _newest(self, upto: int | None) -> BackupState:
        for seq in self._candidates(upto):
            try:
                return self.read(seq)
            except Damaged as error:
                warned("catalog_unusable", backup=self.log.layout.backup, commit=seq, why=error.message)
        return BackupState(backup=self.log.layout.backup)

    def _candidates(self, upto: int | None) -> Iterator[int]:
        """Numbers of catalogs that may exist at or below `upto`, best first; lists only when the hint does not help."""
        tried = self._hinted()
        if tried is not None and (upto is None or tried <= upto):
            yield tried
        listed = self.log.store.list(self.log.layout.catalog_prefix)
        known = [seq for info in listed if (seq := parse_catalog_key(info.key)) is not None]
        yield from (seq for seq in reversed(known) if seq != tried and (upto is None or seq <= upto))

    def _hinted(self) -> int | None:
        key = self.log.layout.hint_key
        data = self.log.store.get(key)
        try:
            return None if data is None else parse_json_object(data, source=key, damaged=damaged_catalog).integer("seq")
        except OffsiteError as error:
            warned("hint_unusable", key=key, why=error.message)
            return None
