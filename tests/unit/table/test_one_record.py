"""One record and its place in the log."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.selection import parse_selection
from offsite.points.point_in_time import select_chains
from offsite.points.restore_point import PointRequest, find_point
from offsite.repository.backup import Backup
from offsite.stores.open_store import open_store
from offsite.table import one_record
from offsite.table.one_record import Neighbour, PassedOffsets, RecordPlace, read_record
from tests.batches import make_control_batch
from tests.examples import examples
from tests.fake_cluster.site import Site, open_site
from tests.tables import ORDERS, batch_of, commit_batches, new_table


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return new_table(open_store(str(tmp_path / "repository")))


def read(backup: Backup, offset: int) -> tuple[RecordPlace, Record | None]:
    point = find_point(backup, PointRequest(selection=parse_selection(["orders"])))
    chains = select_chains(point, parse_selection(["orders"]))
    chain = next(chain for chain in chains.chains if chain.source.partition == 0)
    holes = [hole for hole in chains.holes if hole.partition_id == chain.source]
    return read_record(chain, holes, offset, backup.store)


def test_a_record_is_read_with_the_facts_of_its_batch(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [batch_of(0, 10, producer_id=7, producer_epoch=2, base_sequence=2**31 - 3)]})
    placed, record = read(backup, 4)
    assert record is not None
    assert record.key == b"k4"
    assert placed.batch is not None
    assert (placed.batch.producer_id, placed.batch.producer_epoch, placed.batch.sequence) == (7, 2, 1)
    assert (placed.previous, placed.next) == (Neighbour(offset=3), Neighbour(offset=5))
    assert (placed.start, placed.end, placed.transaction) == (0, 10, "")


def test_neighbours_are_found_over_what_compaction_removed(backup: Backup) -> None:
    records = [Record(offset, 5, 0, b"k", b"v") for offset in (3, 5, 9)]
    commit_batches(backup, {ORDERS: [bytes(encode(records))]})
    commit_batches(backup, {ORDERS: [batch_of(20, 2)]})
    assert read(backup, 5)[0].next == Neighbour(offset=9, passed=(PassedOffsets(start=6, end=9, why="nothing"),))
    assert read(backup, 20)[0].previous == Neighbour(offset=9, passed=(PassedOffsets(start=10, end=20, why="nothing"),))
    between, record = read(backup, 7)
    assert record is None
    assert between.passed == PassedOffsets(start=7, end=8, why="nothing")
    assert (between.previous.offset, between.next.offset) == (5, 9)


@pytest.mark.parametrize(("offset", "previous", "following"), [(0, None, 3), (99, 21, None), (2**62, 21, None)])
def test_an_offset_outside_of_the_backup_has_one_neighbour(
    backup: Backup, offset: int, previous: int | None, following: int | None
) -> None:
    commit_batches(backup, {ORDERS: [batch_of(3, 5), batch_of(20, 2)]})
    placed, record = read(backup, offset)
    assert record is None
    assert (placed.previous.offset, placed.next.offset) == (previous, following)
    assert (placed.start, placed.end) == (3, 22)


def test_a_hole_between_two_records_is_named_with_its_reason(tmp_path: Path) -> None:
    with open_site(tmp_path) as site:
        site.source.make_topic("orders")
        site.source.write("orders", [b"a", b"b"])
        site.back_up("orders")
        site.source.write("orders", [b"c", b"d", b"e"])
        site.source.log(ORDERS.topic_partition).delete_before(4)
        site.back_up()
        hole = PassedOffsets(start=2, end=4, why="hole", reason="retention")
        assert read(site.backup, 1)[0].next == Neighbour(offset=4, passed=(hole,))
        assert read(site.backup, 4)[0].previous == Neighbour(offset=1, passed=(hole,))
        lost, record = read(site.backup, 3)
        assert (record, lost.passed) == (None, PassedOffsets(start=3, end=4, why="hole", reason="retention"))


@pytest.mark.parametrize("outcome", ["committed", "aborted", "open"])
def test_the_outcome_of_a_transaction_is_that_of_its_marker(tmp_path: Path, outcome: str) -> None:
    with open_site(tmp_path) as site:
        site.source.make_topic("orders")
        _write_transaction(site, outcome)
        site.source.write("orders", [b"after"])
        site.back_up("orders")
        placed, _ = read(site.backup, 0)
        assert placed.transaction == outcome
        assert placed.batch is not None
        assert placed.batch.is_transactional
        after = 1 if outcome == "open" else 2
        assert read(site.backup, after)[0].transaction == ""
        if outcome != "open":
            marker, record = read(site.backup, 1)
            assert (record, marker.marker) == (None, {"committed": "commit", "aborted": "abort"}[outcome])
            passed = (PassedOffsets(start=1, end=2, why="marker"),)
            assert placed.next == Neighbour(offset=2, passed=passed)


def _write_transaction(site: Site, outcome: str) -> None:
    is_committed = {"committed": True, "aborted": False, "open": None}[outcome]
    site.source.write_in_transaction("orders", [b"x"], committed=is_committed)


def test_a_search_for_a_neighbour_ends_and_says_how_far_it_looked(
    backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_record, "FRAMES_MAX", 2)
    commit_batches(backup, {ORDERS: [batch_of(0, 1)]})
    for base in (1, 2, 3):
        commit_batches(backup, {ORDERS: [make_control_batch(base, producer_id=9, committed=True)]})
    commit_batches(backup, {ORDERS: [batch_of(4, 1)]})
    assert read(backup, 0)[0].next == Neighbour(offset=None, looked_to=3)
    assert read(backup, 4)[0].previous == Neighbour(offset=None, looked_to=2)


@examples(60)
@given(st.sets(st.integers(0, 40), min_size=1), st.integers(0, 45), st.lists(st.integers(1, 40), max_size=4))
def test_any_log_is_walked_in_both_directions(
    tmp_path_factory: pytest.TempPathFactory, offsets: set[int], asked: int, cuts: list[int]
) -> None:
    """However its records are spread over batches and segments."""
    backup = new_table(open_store(str(tmp_path_factory.mktemp("walk") / "repository")))
    borders = [0, *sorted(set(cuts)), 41]
    for low, high in pairwise(borders):
        if held := sorted(offset for offset in offsets if low <= offset < high):
            commit_batches(backup, {ORDERS: [bytes(encode([Record(o, 5, 0, b"k", b"%d" % o) for o in held]))]})
    placed, record = read(backup, asked)
    assert (record is not None) is (asked in offsets)
    assert placed.previous.offset == max((offset for offset in offsets if offset < asked), default=None)
    assert placed.next.offset == min((offset for offset in offsets if offset > asked), default=None)
