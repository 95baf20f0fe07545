"""Records of a backup that a run has made, read and searched without a cluster."""

from __future__ import annotations

from offsite.model.selection import parse_selection
from offsite.restore.request import RestoreRequest
from offsite.table.scan import RecordMatch
from offsite.table.search import RecordsRequest, cat_records, plan_records, search_records
from tests.fake_cluster.site import Site


def written(site: Site) -> None:
    site.source.make_topic("orders", partitions=2)
    site.source.write("orders", [b"apple", b"pear"])
    site.source.write_in_transaction("orders", [b"aborted apple"], committed=False)
    site.back_up("orders")
    site.source.write("orders", [b"apple pie"], partition=1)
    site.back_up()


def test_records_are_those_that_a_consumer_sees_as_of_a_commit(site: Site) -> None:
    written(site)
    point = RestoreRequest(selection=parse_selection(["orders"]))
    shown = [
        each.value.data for each in cat_records(plan_records(site.backup, RecordsRequest(point=point))) if each.value
    ]
    assert shown == ["apple", "pear", "apple pie"]
    first = RestoreRequest(selection=parse_selection(["orders"]), commit=1, isolation="read_uncommitted")
    shown = [
        each.value.data for each in cat_records(plan_records(site.backup, RecordsRequest(point=first))) if each.value
    ]
    assert shown == ["apple", "pear", "aborted apple"]


def test_a_search_finds_records_in_all_partitions(site: Site) -> None:
    written(site)
    point = RestoreRequest(selection=parse_selection(["*"]))
    request = RecordsRequest(point=point, match=RecordMatch(value_holds=b"apple"))
    found = search_records(plan_records(site.backup, request), site.runner)
    assert found.complete
    assert [(each.partition, each.offset) for each in found.records] == [(0, 0), (1, 0)]
