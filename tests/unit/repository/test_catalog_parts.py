"""A catalog costs what is new, and opening one what is looked at."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.large_repository import Large, grow, news, write_growing
from offsite.log.range import PartitionId
from offsite.model.clock import SystemClock
from offsite.model.errors import DamagedObject
from offsite.overview.contents import list_backups, show_backup
from offsite.overview.status import read_status
from offsite.repository import backup as backup_module
from offsite.repository import catalog, commit_history, commit_log
from offsite.repository.backup import Backup
from offsite.repository.catalogs import new_catalog, segment_table
from offsite.repository.catalogs.segment_table import CatalogPart, RowRange, StoredRows, table_of
from offsite.repository.commit import Commit, CommitChanges, StoredCommit
from offsite.repository.fold import fold
from offsite.repository.layout import parse_part_key
from offsite.repository.parquet import from_parquet
from offsite.repository.repository import Repository
from offsite.repository.segments.segment import Segment, SegmentFigures, SegmentList
from offsite.repository.state import BackupState
from offsite.stores.posix_store import PosixStore
from offsite.stores.store import ObjectInfo
from offsite.upkeep.retention.apply import plan_retention
from offsite.upkeep.retention.policy import parse_policy
from tests.backups import accounted


class Watched:
    """The keys that the store was asked for, by kind of request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.got: list[str] = []
        self.put: dict[str, int] = {}
        self.listed: list[str] = []
        get, put, listing = PosixStore.get, PosixStore.put_if_absent, PosixStore.list

        def watched_list(store: PosixStore, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
            self.listed.append(prefix)
            for info in listing(store, prefix, start_after=start_after):
                self.listed.append(info.key)
                yield info

        monkeypatch.setattr(PosixStore, "get", lambda store, key: (self.got.append(key), get(store, key))[1])
        monkeypatch.setattr(PosixStore, "list", watched_list)
        monkeypatch.setattr(
            PosixStore,
            "put_if_absent",
            lambda store, key, data: (self.put.__setitem__(key, len(data)), put(store, key, data))[1],
        )

    def clear(self) -> None:
        self.got, self.put, self.listed = [], {}, []


def folded(backup: Backup, upto: int | None = None) -> BackupState:
    return fold(BackupState(backup=backup.descriptor.name), backup.log.read(after=0, upto=upto))


def parts_of(backup: Backup) -> list[str]:
    return [info.key for info in backup.store.list(backup.layout.parts_prefix)]


def test_a_catalog_is_due_by_what_it_saves_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """510 commits of 2,000 segments took 14 s to open: up to 100 of them were read."""
    monkeypatch.setattr(catalog, "ENTRIES_PER_CATALOG", 200)
    backup = write_growing(tmp_path / "r", commits=31, partitions=20)
    decoded: list[str] = []
    decode = commit_log.decode_commit
    monkeypatch.setattr(commit_log, "decode_commit", lambda data, key: (decoded.append(key), decode(data, key=key))[1])
    state = backup.state()
    assert backup.catalog.sealed() == (5, 10, 15, 20, 25, 30)
    assert len(decoded) == 2  # the catalog's own, and the one behind it
    assert state == folded(backup)
    assert (state.loose_commits, state.loose_entries) == (1, 40)


def test_how_much_is_loose_is_known_in_whatever_way_a_state_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 10)
    backup = write_growing(tmp_path / "r", commits=24, partitions=1)
    for state in (backup.state(), folded(backup)):
        assert (state.loose_commits, state.loose_entries) == (4, 8)
    assert backup.catalog.is_due(folded(backup, 20))
    assert not backup.catalog.is_due(backup.state())


def test_a_catalog_that_was_left_to_another_writer_is_due_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 4)
    backup = write_growing(tmp_path / "r", commits=4, partitions=1)
    backup.store.put_if_absent(backup.layout.catalog_key(4), b"of another writer")
    state = committed(backup, backup.state(), 1)
    assert [stored.commit.catalog for stored in backup.log.read(after=4)] == [""]
    state = committed(backup, state, 1)
    assert [bool(stored.commit.catalog) for stored in backup.log.read(after=4)] == [False, True]
    assert backup.state() == state == folded(backup)


def committed(backup: Backup, state: BackupState, times: int) -> BackupState:
    """Commits as a run makes them, but for the objects of segments, of which there are none."""
    for _ in range(times):
        changes = replace(news(state, list(state.positions)), segments=())
        state = backup.commit(accounted(changes, state), base=state, writer=f"w-{state.seq}")
    return state


def test_a_status_reads_no_segments_and_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_history, "LINES_PER_CHUNK", 16)
    backup = Large(topics=20, partitions=5, segments=3, commits=205).write(tmp_path / "r")
    watched = Watched(monkeypatch)
    (status,) = read_status(Repository.open(backup.store)).backups
    assert (status.restorable_from_ms, status.head_commit) == (1_700_000_010_000, 205)
    assert len(parts_of(backup)) == 13
    assert not [key for key in watched.got if parse_part_key(key) is not None]
    assert len(watched.got) < 25


def test_list_and_show_make_no_segment_of_a_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They took half a minute and 1.3 GB for a million of them."""
    backup = Large(topics=20, partitions=5, segments=3, commits=205, moving=7).write(tmp_path / "r")
    known = tuple(folded_figures(backup).items())
    monkeypatch.setattr(segment_table, "segments_of", None)
    watched = Watched(monkeypatch)
    (line,) = list_backups(Repository.open(backup.store)).backups
    detail = show_backup(backup)
    assert detail.summary == line
    assert (line.records, line.stored_bytes) == (
        sum(each.records for _, each in known),
        sum(each.stored_bytes for _, each in known),
    )
    shown = {(topic.topic, part.partition): part for topic in detail.topics for part in topic.partitions}
    assert {key: (part.records, part.stored_bytes) for key, part in shown.items()} == {
        (where.topic, where.partition): (each.records, each.stored_bytes) for where, each in known
    }
    assert len(watched.got) < 50


@pytest.mark.parametrize("keep", [{}, {"keep_daily": 3}], ids=["mirror", "rules"])
def test_a_retention_that_needs_all_makes_no_segment_of_a_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: dict[str, Any]
) -> None:
    """Its page took 400 ms for 2,000 topics."""
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 10)
    backup = write_growing(tmp_path / "r", commits=45, partitions=2)
    held_bytes = sum(figures.stored_bytes for figures in folded_figures(backup).values())
    monkeypatch.setattr(segment_table, "segments_of", None)
    plan = plan_retention(
        Repository.open(backup.store).backup(backup.layout.backup), parse_policy(**keep), clock=SystemClock()
    )
    assert (plan.kept_bytes, plan.segments, plan.expired) == (held_bytes, 0, ())


def folded_figures(backup: Backup) -> dict[PartitionId, SegmentFigures]:
    return {known: SegmentFigures.of(found.read()) for known, found in backup.state().segments.items()}


def test_show_reads_the_history_that_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_history, "LINES_PER_CHUNK", 16)
    backup = Large(topics=1, partitions=1, segments=1, commits=205).write(tmp_path / "r")
    watched = Watched(monkeypatch)
    points = show_backup(backup).restore_points
    assert [each.seq for each in points[-10:]] == list(range(196, 206))
    assert len([key for key in watched.got if parse_part_key(key) is not None]) <= 2
    assert len(points) == 205


def assert_figures(state: BackupState) -> None:
    """What lists say without reading their segments is what the segments say."""
    for found in state.segments.values():
        figures, start = found.figures(), found.start
        segments = found.read()
        assert figures == SegmentFigures.of(segments)
        assert start == segments[0].start
        assert found.first_timestamp_ms == segments[0].timestamp_max_ms
        assert found.last_timestamp_ms == segments[-1].timestamp_max_ms


def test_figures_of_a_part_in_memory_are_those_of_its_segments(tmp_path: Path) -> None:
    """As catalogs of the first form have them."""
    state = write_growing(tmp_path / "r", commits=6, partitions=2).state()
    segments = tuple(state.all_segments())
    part = CatalogPart.of(table_of(segments))
    for low, high in ((0, len(segments)), (3, 4), (5, 9)):
        listed = SegmentList(stored=StoredRows([RowRange(part, low, high)], end=0))
        assert listed.figures() == SegmentFigures.of(segments[low:high])
        assert listed.start == segments[low].start
        assert listed.first_timestamp_ms == segments[low].timestamp_max_ms
        assert listed.last_timestamp_ms == segments[high - 1].timestamp_max_ms
    assert SegmentList().figures() == SegmentFigures()
    assert (SegmentList().start, SegmentList().first_timestamp_ms, SegmentList().last_timestamp_ms) == (0, -1, -1)


def test_one_restore_point_is_one_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_history, "LINES_PER_CHUNK", 16)
    backup = Large(topics=1, partitions=1, segments=1, commits=205).write(tmp_path / "r")
    state = backup.state()
    watched = Watched(monkeypatch)
    found = state.history.find(60)
    assert found is not None
    assert (found.seq, state.history.latest_at(found.committed_at_ms)) == (60, found)
    assert len(watched.got) == 1


@pytest.mark.slow
def test_a_catalog_writes_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all segments and all restore points again and again."""
    monkeypatch.setattr(commit_history, "LINES_PER_CHUNK", 16)
    backup = Large(topics=20, partitions=20, segments=20, commits=205).write(tmp_path / "r")
    before = tuple(backup.store.list(backup.layout.parts_prefix))
    state = backup.state()
    for _ in range(20):
        state = grow(backup, state, list(state.positions)[:5])
    watched = Watched(monkeypatch)
    kept = backup.catalog.write(state)
    parts = {key: size for key, size in watched.put.items() if parse_part_key(key) is not None}
    assert len(parts) == 3  # two chunks of the history, and the new segments
    assert sum(parts.values()) < max(info.size_bytes for info in before) / 5
    assert not watched.got
    grow(backup, kept.state, (), catalog=kept.seal)
    reopened = backup.catalog.state(upto=state.seq)
    assert reopened == state == kept.state
    assert [segment for found in kept.state.segments.values() for segment in found.tail] == []


@pytest.mark.slow
def test_parts_are_few_and_segments_are_seldom_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_catalog, "_ROWS_PER_GROUP", 256)
    monkeypatch.setattr(catalog, "ENTRIES_PER_CATALOG", 40)
    watched = Watched(monkeypatch)
    backup = write_growing(tmp_path / "r", commits=60, partitions=20)
    state = backup.state()
    assert_figures(backup.state())
    used = {extent.part.ref for found in state.segments.values() for extent in found.stored.extents}  # type: ignore[union-attr]
    assert len(used) <= 5
    parts = ((key, backup.store.get(key)) for key in watched.put if parse_part_key(key) is not None)
    written = sum(from_parquet(data or b"", key).num_rows for key, data in parts)
    assert written < 5 * 60 * 20
    assert state == folded(backup)


def test_merged_and_removed_segments_are_in_the_next_catalog_as_in_the_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 3)
    monkeypatch.setattr(backup_module.Backup, "_check_stored", lambda *_: None)
    backup = write_growing(tmp_path / "r", commits=10, partitions=7)
    state = backup.state()
    for step in range(40):
        known = list(state.positions)[step % 7]
        first, second = state.segments[known][:2]
        rolled = (_rolled_up(first, second, step),) if step % 3 else ()
        moved = news(state, list(state.positions)[step % 5 :])
        changes = replace(moved, removed=(first.key, second.key), segments=(*moved.segments, *rolled))
        state = backup.commit(changes, base=state, writer=f"w{step}")
        if step % 7 == 0:
            state = backup.state()
    assert len(backup.catalog.sealed()) > 10
    assert_figures(backup.state())
    for seq in backup.catalog.sealed()[-4:]:
        assert_figures(backup.catalog.read(seq))
        assert backup.catalog.read(seq) == folded(backup, seq)
    assert backup.state() == state == folded(backup)


def _rolled_up(first: Segment, second: Segment, step: int) -> Segment:
    name, _, end = first.key.rpartition("-")
    return replace(
        first, key=f"{name}-{step:08x}.{end.partition('.')[2]}", end=second.end, last_offset=second.last_offset
    )


def test_a_round_that_goes_on_from_its_own_commit_lists_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tens of thousands of catalogs lie in a folder after a year."""
    backup = write_growing(tmp_path / "r", commits=3, partitions=2)
    state = committed(backup, backup.state(), 1)
    watched = Watched(monkeypatch)
    state = committed(backup, state, 3)
    assert watched.listed == []
    assert backup.state() == state


def test_an_older_restore_point_is_found_without_listing_all_catalogs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 2)
    monkeypatch.setattr(catalog, "_FIRST_WINDOW", 4)
    backup = write_growing(tmp_path / "r", commits=80, partitions=1)
    watched = Watched(monkeypatch)
    assert backup.catalog.state(upto=61) == folded(backup, 61)
    seals = [key for key in watched.listed if key.endswith(".json") and "/catalog/" in key]
    assert len(seals) <= 4
    for seq in range(2, 62, 2):
        backup.store.delete(backup.layout.seal_key(seq))
    assert backup.catalog.state(upto=61) == folded(backup, 61)


def test_what_a_state_says_is_not_changed_by_commits_after_it(tmp_path: Path) -> None:
    backup = write_growing(tmp_path / "r", commits=5, partitions=3)
    state = backup.state()
    known = next(iter(state.positions))
    said = (state.positions[known], tuple(state.segments[known]), len(state.history), state.segments[known].end)
    one, other = (grow_unstored(state, writer=writer) for writer in ("one", "other"))
    assert (state.positions[known], tuple(state.segments[known]), len(state.history), state.segments[known].end) == said
    assert [each.segments[known][-1].hash for each in (one, other)] == ["one", "other"]
    assert len(one.segments[known]) == len(other.segments[known]) == len(said[1]) + 1


def grow_unstored(state: BackupState, *, writer: str = "w") -> BackupState:
    moved = news(state, list(state.positions))
    commit = Commit(
        backup=state.backup,
        seq=state.seq + 1,
        previous=state.head_hash,
        writer=writer,
        committed_at_ms=state.committed_at_ms + 1,
        changes=replace(moved, segments=tuple(replace(each, hash=writer) for each in moved.segments)),
    )
    return fold(state, [StoredCommit(commit=commit, hash="h")])


def test_a_state_travels_to_the_workers_of_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_history, "LINES_PER_CHUNK", 4)
    backup = Large(topics=2, partitions=3, segments=2, commits=23).write(tmp_path / "r")
    state = backup.state()
    assert pickle.loads(pickle.dumps(state)) == state
    tuple(state.all_segments())
    assert pickle.loads(pickle.dumps(state)) == state
    grown = grow_unstored(state)
    assert pickle.loads(pickle.dumps(grown)) == grown


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"garbage")])
def test_where_a_part_is_damaged_the_commits_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(commit_history, "LINES_PER_CHUNK", 8)
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 10)
    backup = write_growing(tmp_path / "r", commits=45, partitions=3)
    whole = folded(backup)
    for key in parts_of(backup):
        damage(tmp_path / "r" / key)
    state = backup.state()
    assert [found.last for found in state.segments.values()] == [found.last for found in whole.segments.values()]
    assert_figures(state)
    assert state.history.find(12) == whole.history.find(12)
    assert state == whole
    with pytest.raises(DamagedObject):
        tuple(backup.catalog.read(40).all_segments())
    with pytest.raises(DamagedObject):
        assert_figures(backup.catalog.read(40))
    with pytest.raises(DamagedObject):
        tuple(backup.catalog.read(40).history)
    kept = backup.catalog.write(state)
    assert kept.state == whole
    assert backup.catalog.read(45) == whole, "it stands on no damaged part"


def test_a_removed_segment_is_missed_in_the_list_of_its_topic_alone(tmp_path: Path) -> None:
    backup = write_growing(tmp_path / "r", commits=2, partitions=3)
    state = backup.state()
    first = next(iter(state.segments.values()))[0]
    for removed in ((first.key, first.key), (first.key.replace("partition=0", "partition=9").replace("+0-", "+9-"),)):
        with pytest.raises(Exception, match="which does not exist"):
            backup.commit(CommitChanges(removed=removed), base=state, writer="w")


def test_going_through_a_list_once_keeps_nothing_of_it() -> None:
    class Counted:
        loads = 0
        end = 0

        def __len__(self) -> int:
            return 1

        def load(self) -> tuple[Segment, ...]:
            self.loads += 1
            return ()

        def last(self) -> Segment:
            raise NotImplementedError

    stored = Counted()
    segments = SegmentList(stored=stored)
    assert segments.read() == segments.read() == ()
    assert stored.loads == 2
    assert [*segments, *segments] == []
    assert stored.loads == 3
