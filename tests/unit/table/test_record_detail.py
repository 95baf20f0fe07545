"""What a backup knows of one record: the points that hold it, and where restores put it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.log.range import TopicPartition
from offsite.model.errors import BadName, BadOption, NoSuchRestorePoint, NoSuchTopic
from offsite.table import record_detail
from offsite.table.record_detail import FoundRecord, find_record_detail
from tests.fake_cluster.site import Site, open_site

ORDERS = TopicPartition(topic="orders", partition=0)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path) as opened:
        opened.source.make_topic("orders", partitions=2)
        opened.source.write("orders", [b"a", b"b"])
        opened.back_up("orders")
        yield opened


def detail_of(site: Site, offset: int, *, partition: int = 0, commit: int | None = None) -> FoundRecord:
    return find_record_detail(site.backup, TopicPartition(topic="orders", partition=partition), offset, commit=commit)


def test_the_points_that_hold_a_record_begin_with_the_commit_that_brought_it(site: Site) -> None:
    site.source.write("orders", [b"c"])
    site.back_up()
    site.source.write("orders", [b"d"])
    site.back_up()
    held = detail_of(site, 2).detail.points
    assert held is not None
    assert (held.since, held.upto, held.count, held.is_open) == (2, 3, 2, False)
    assert held.since_ms == site.backup.state().history.find(2).committed_at_ms  # type: ignore[union-attr]
    earlier = detail_of(site, 0, commit=1)
    assert earlier.detail.points is not None
    assert (earlier.detail.points.since, earlier.detail.points.upto) == (1, 1)
    assert detail_of(site, 2, commit=1).stored is None


def test_where_no_read_commit_brought_the_record_earlier_points_may_hold_it_too(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_detail, "COMMITS_READ", 2)
    for value in (b"c", b"d", b"e"):
        site.source.write("orders", [value])
        site.back_up()
    held = detail_of(site, 0).detail.points
    assert held is not None
    assert (held.since, held.upto, held.count, held.is_open) == (3, 4, 2, True)
    monkeypatch.setattr(record_detail, "SEGMENTS_READ", 1)
    held = detail_of(site, 0).detail.points
    assert held is not None
    assert (held.since, held.is_open) == (4, True)
    held = find_record_detail(site.backup, ORDERS, 0, deep=True).detail.points
    assert held is not None
    assert (held.since, held.count, held.is_open) == (1, 4, False)


def test_restores_tell_where_they_put_the_record(site: Site) -> None:
    assert detail_of(site, 1).detail.restores == ()
    site.restore(offsets="preserve")
    site.restore(offsets="translate", rename=["orders=again"])
    site.target.write("again", [b"x"])
    site.source.write("orders", [b"c"])
    site.back_up()
    again, kept = sorted(detail_of(site, 1).detail.restores, key=lambda restored: restored.target)
    assert (again.target, again.offset, again.why) == ("again/0", 1, "")
    assert (kept.target, kept.offset, kept.why) == ("orders/0", 1, "")
    assert {restored.why for restored in detail_of(site, 2).detail.restores} == {"left out"}


def test_a_record_of_an_aborted_transaction_is_left_out_by_a_restore(site: Site) -> None:
    site.source.write_in_transaction("orders", [b"x"], committed=False)
    site.source.write("orders", [b"y"])
    site.back_up()
    site.restore(offsets="translate", rename=["orders=again"])
    aborted, following = detail_of(site, 2).detail, detail_of(site, 4).detail
    assert aborted.place.transaction == "aborted"
    assert [(restored.offset, restored.why) for restored in aborted.restores] == [(None, "left out")]
    assert [(restored.offset, restored.why) for restored in following.restores] == [(2, "")]


def test_a_large_record_is_not_decoded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_detail, "DECODED_MAX", 1)
    large = detail_of(site, 0)
    assert large.stored is not None
    assert large.stored.value == b"a"
    assert (large.detail.record, large.detail.is_large) == (None, True)


def test_a_partition_without_a_record_has_no_neighbours(site: Site) -> None:
    empty = detail_of(site, 0, partition=1)
    assert empty.stored is None
    assert (empty.detail.place.previous.offset, empty.detail.place.next.offset) == (None, None)


def test_what_is_not_there_is_refused_by_name(site: Site) -> None:
    for topic, partition, error in (("none", 0, NoSuchTopic), ("regex:.*", 0, BadName), ("orders", 9, BadOption)):
        with pytest.raises(error):
            find_record_detail(site.backup, TopicPartition(topic=topic, partition=partition), 0)
    with pytest.raises(NoSuchRestorePoint):
        detail_of(site, 0, commit=99)
