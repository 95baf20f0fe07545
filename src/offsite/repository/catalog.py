"""The folded state of a backup, stored so that opening costs a few reads and commits, regardless of the length of
history.

A catalog is written when reading the commits since the last catalog would take a while: after 100 commits, or once they
hold 10,000 segments and positions. The seal holds the hashes of the catalog's objects. A small hint names the newest
catalog. Neither seal nor hint is trusted: a catalog counts only if all of its objects are whole, if its commit has the
hash named in the catalog, and if the next commit, by the same writer, names the hash of the seal. (Commits of earlier
versions name no seal.) Without a catalog the whole log is folded. `verify` always folds the whole log and compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, takewhile
from operator import ge
from typing import TYPE_CHECKING

from offsite.log.range import PartitionId
from offsite.model.errors import Damaged, FormatTooNew, OffsiteError
from offsite.model.journal import warned
from offsite.model.untrusted.json_codec import JsonCodec
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.catalogs.new_catalog import CatalogObjects
from offsite.repository.catalogs.partition_table import decode_partitions, state_from_json
from offsite.repository.catalogs.seal import (
    CatalogSeal,
    FirstFormSeal,
    PartsReader,
    SharedParts,
    decode_lines,
    decode_seal,
)
from offsite.repository.catalogs.segment_table import CatalogPart, RowRange, StoredRows, whole_rows
from offsite.repository.commit import Position, StoredCommit, damaged_commit
from offsite.repository.commit_history import CommitHistory
from offsite.repository.commit_log import UNREADABLE_COMMIT, CommitLog, commit_hash
from offsite.repository.fold import fold
from offsite.repository.json_form import FORMAT, NEWEST_FORMAT, encode_object, parse_json_object, parse_part
from offsite.repository.layout import own_objects, parse_catalog_key
from offsite.repository.parquet import damaged_catalog, from_parquet
from offsite.repository.segments.segment import SegmentList
from offsite.repository.state import FIRST_SEQ, BackupState, LayeredMap
from offsite.stores.store import PutResult

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


_STATE = b"offsite.state"
_POSITION = JsonCodec(Position)

COMMITS_PER_CATALOG = 100
ENTRIES_PER_CATALOG = 10_000
"""Segments, positions and similar entries in the commits since the last catalog: a third of a second for a reader."""
_FIRST_WINDOW = 1_000
"""Size of the first range of commit numbers searched for an older catalog."""


def decode_state(data: bytes, *, key: str) -> BackupState:
    """Read the catalog object `key`, except for the history. Segments stay in columns until first use; an invalid row
    raises an error on use. Raises `DamagedObject`."""
    read = from_parquet(data, key)
    described = (read.schema.metadata or {}).get(_STATE, b"")
    table = whole_rows(read.replace_schema_metadata(None), key)
    document = parse_part(described, source=key, damaged=damaged_catalog, newest=NEWEST_FORMAT)
    positions = map(_POSITION.read, document.children("positions"))
    return replace(
        state_from_json(document),
        positions=LayeredMap({position.partition_id: position for position in positions}),
        segments=LayeredMap(_segment_lists(document, table)),
    )


def _segment_lists(document: JsonObject, table: pa.Table) -> dict[PartitionId, SegmentList]:
    lists: dict[PartitionId, SegmentList] = {}
    whole = CatalogPart.of(table)
    low = 0
    for part in document.children("partitions"):
        partition = PartitionId(
            topic=part.text("topic"), topic_id=part.text("topic_id"), partition=part.integer("partition")
        )
        high = low + part.count("rows")
        lists[partition] = SegmentList(stored=StoredRows([RowRange(whole, low, high)], end=part.integer("end")))
        low = high
    if low != table.num_rows:
        raise document.damaged(f"{table.num_rows} rows for {low} segments")
    return {partition: segments for partition, segments in lists.items() if segments}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCatalog:
    """A written catalog: the hash of its `seal`, named by the next commit, and the `state`, which refers to the written
    objects. If another writer had stored different objects: `seal` is empty and `state` unchanged."""

    seal: str
    state: BackupState


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Opens and extends the states of one backup.

    Segments and old restore points of a catalog lie in parts. Later catalogs name the parts again, so writing a catalog
    costs only the new entries. Parts are read on demand; in place of a damaged part the commits are folded. Catalogs of
    versions before parts hold all segments and the JSON of the state in one Parquet object: they are only read.
    """

    log: CommitLog

    def state(self, *, upto: int | None = None, near: BackupState | None = None) -> BackupState:
        """The state after commit `upto`, or after the newest commit. `near`: a state of this log, to begin with if
        commit `upto` is one of the few commits after it. Raises `DamagedCommit`, `FormatTooNew`."""
        if near is not None and upto is not None and 0 < upto - near.seq <= COMMITS_PER_CATALOG:
            return fold(near, self.log.read_known(after=near.seq, upto=upto))
        base = self._newest(upto)
        return fold(base.state, base.following)

    def sound_state(self) -> BackupState:
        """The newest readable state. At a damaged commit or a commit of a newer format: the state of the commit before,
        with `unreadable` and `is_outdated` set. Raises `DamagedCommit`, `FormatTooNew` if no commit before is usable.
        """
        base = self._newest(None)
        followed = _Followed(base.following, base.state.seq)
        try:
            return fold(base.state, followed)
        except UNREADABLE_COMMIT as error:
            if followed.seq < FIRST_SEQ:
                raise
            sound = self._vouched_for(base.state, followed.seq)
            return replace(sound, unreadable=error.message, is_outdated=isinstance(error, FormatTooNew))

    def _vouched_for(self, base: BackupState, upto: int) -> BackupState:
        """The state after commit `upto`. If the next commit names another hash and commit `upto` has no digest: the
        state after the commit before, because nothing else vouches for commit `upto`. If commit `upto` has a digest,
        the digest vouches for it, and the next commit is the wrong one."""
        state = fold(base, self.log.read(after=base.seq, upto=upto))
        named = self.log.previous_named_by(upto + 1)
        if named in {None, state.head_hash} or upto == base.seq or self.log.has_digest(upto):
            return state
        if upto - 1 < FIRST_SEQ:
            raise damaged_commit(
                f"commit {upto} of {state.backup} differs from the commit that commit {upto + 1} names"
            )
        return fold(base, self.log.read(after=base.seq, upto=upto - 1))

    def write(self, state: BackupState) -> WrittenCatalog:
        """Store `state` as a catalog. If another writer has stored different objects, leave theirs; a later commit
        writes the next catalog."""
        store = self.log.store
        keeping = self._keeping(state)
        for key, data in keeping.objects:
            if store.put_if_absent(key, data) is PutResult.OTHER:
                return WrittenCatalog(seal="", state=state)
        store.put_overwrite(self.log.layout.hint_key, encode_object({"format": FORMAT, "seq": state.seq}))
        return WrittenCatalog(seal=commit_hash(keeping.seal), state=keeping.state)

    def _keeping(self, state: BackupState) -> CatalogObjects:
        reader = self._reader(state.seq)
        try:
            return CatalogObjects.of(state, reader)
        except Damaged as error:  # damage of an older catalog must not stop a backup
            warned("catalog_unusable", backup=state.backup, commit=state.seq, why=error.message)
            segments_read = {partition: SegmentList(tuple(segments)) for partition, segments in state.segments.items()}
            return CatalogObjects.of(replace(state, segments=segments_read), reader)

    def is_due(self, state: BackupState) -> bool:
        """Whether the commits since the last valid catalog would take a reader long enough to justify a new catalog."""
        most = max(ENTRIES_PER_CATALOG, len(state.positions) // 2)  # a catalog has an entry per partition
        return state.loose_commits >= COMMITS_PER_CATALOG or state.loose_entries >= most

    def read(self, seq: int) -> BackupState:
        """The catalog of commit `seq`. Raises `DamagedObject` if the catalog is missing, incomplete, or of another log;
        for parts, on first use.

        Does not check that the next commit names the catalog: see `read_named`.
        """
        return self._sealed(PartsReader(log=self.log, seq=seq, is_strict=True), self._seal(seq))

    def read_named(
        self,
        seq: int,
        following: StoredCommit | None,
        *,
        is_strict: bool = True,
        shared: SharedParts | None = None,
    ) -> BackupState | None:
        """The catalog of commit `seq`, if `following`, the next commit, by the catalog's own writer, names its seal.
        None if the next commit is missing, or if its writer stored no catalog: a killed run may have left the objects.
        Raises `DamagedObject` as `read`, and if the next commit names another seal. Without `is_strict` the commits
        replace a damaged part. `shared`: parts of the catalog read before."""
        if following is None or following.commit.catalog == "":
            return None
        seal, named = self._seal(seq), following.commit.catalog
        if named is not None and named != commit_hash(seal):
            raise damaged_catalog(
                f"{self.log.layout.seal_key(seq)} differs from the catalog that commit {seq + 1} names"
            )
        reader = PartsReader(log=self.log, seq=seq, is_strict=is_strict, shared=shared)
        return self._sealed(reader, seal)

    def _reader(self, seq: int) -> PartsReader:
        return PartsReader(log=self.log, seq=seq, is_strict=False)

    def _seal(self, seq: int) -> bytes:
        return self._reader(seq).get(self.log.layout.seal_key(seq))

    def _sealed(self, reader: PartsReader, sealed: bytes) -> BackupState:
        layout, seq = self.log.layout, reader.seq
        seal = decode_seal(sealed, key=layout.seal_key(seq), layout=layout)
        state = _first_form(seal, reader) if isinstance(seal, FirstFormSeal) else _read(seal, reader)
        commit = self.log.get(seq)
        if commit is None or (state.backup, state.seq, state.head_hash) != (layout.backup, seq, commit.hash):
            raise damaged_catalog(f"{layout.catalog_key(seq)} does not belong to this commit log")
        return state

    def _newest(self, upto: int | None) -> _Base:
        for seq in self._candidates(upto):
            try:
                if (base := self._base(seq, upto)) is not None:
                    return base
            except (Damaged, FormatTooNew) as error:
                warned("catalog_unusable", backup=self.log.layout.backup, commit=seq, why=error.message)
        return _Base(state=BackupState(backup=self.log.layout.backup), following=self.log.read(after=0, upto=upto))

    def _base(self, seq: int, upto: int | None) -> _Base | None:
        """None if no commit names the catalog. The first commit after the catalog is read for the check, and not a
        second time."""
        following = self.log.read(after=seq, upto=max(upto, seq + 1) if upto is not None else None)
        first = next(following, None)
        state = self.read_named(seq, first, is_strict=False)
        if state is None:
            return None
        return _Base(state=state, following=chain([first] if first and seq != upto else [], following))

    def _candidates(self, upto: int | None) -> Iterator[int]:
        """Numbers of possible catalogs at or below `upto`, best first. Lists the store only if the hint is no help."""
        tried = self._hinted()
        if tried is not None and (upto is None or tried <= upto):
            yield tried
        listed = reversed(self.sealed()) if upto is None else self._sealed_upto(upto)
        yield from (seq for seq in listed if seq != tried)

    def _sealed_upto(self, upto: int) -> Iterator[int]:
        """The numbers of catalogs up to `upto`, newest first. Lists in windows, each ten times as long as the window
        before: there may be tens of thousands of catalogs, and usually the first is enough."""
        window = _FIRST_WINDOW
        while upto > 0:
            after = max(0, upto - window)
            yield from reversed(tuple(takewhile(partial(ge, upto), self._numbers(after))))
            upto, window = after, 10 * window

    def sealed(self, *, after: int = 0) -> tuple[int, ...]:
        """The numbers of all sealed catalogs after commit `after`, ascending."""
        return tuple(self._numbers(after))

    def _numbers(self, after: int) -> Iterator[int]:
        layout = self.log.layout
        for info in own_objects(self.log.store.list(layout.catalog_prefix, start_after=layout.seal_key(after))):
            if (seq := parse_catalog_key(info.key)) is not None and seq > after:
                yield seq

    def hinted(self) -> int | None:
        """The catalog number in the hint. Raises `DamagedObject`, `FormatTooNew`."""
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
    """A state to fold from, and the commits after the state."""

    state: BackupState
    following: Iterator[StoredCommit]


def _first_form(seal: FirstFormSeal, reader: PartsReader) -> BackupState:
    layout = reader.log.layout
    history, segments = layout.history_key(reader.seq), layout.catalog_key(reader.seq)
    lines = decode_lines(reader.get(history, content=seal.history), key=history)
    state = decode_state(reader.get(segments, content=seal.segments), key=segments)
    return replace(state, history=CommitHistory(lines))


def _read(seal: CatalogSeal, reader: PartsReader) -> BackupState:
    """The state of a catalog; reads no part."""
    layout = reader.log.layout
    tail, partitions = layout.history_key(reader.seq), layout.catalog_key(reader.seq)
    lines = decode_lines(reader.get(tail, content=seal.tail), key=tail)
    state = decode_partitions(
        reader.get(partitions, content=seal.partitions),
        key=partitions,
        parts=reader.parts(seal.segments),
        recovery_of=reader.recovery,
    )
    return replace(state, history=CommitHistory(lines, chunks=reader.chunks(seal.history)))


class _Followed:
    """Passes commits on. `seq`: the last commit whose successor was requested, hence accepted as sound."""

    def __init__(self, commits: Iterator[StoredCommit], seq: int) -> None:
        self._commits = commits
        self.seq = seq

    def __iter__(self) -> Iterator[StoredCommit]:
        for stored in self._commits:
            yield stored
            self.seq = stored.commit.seq
