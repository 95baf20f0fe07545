"""Groups of the streams protocol (KIP-1071): what is said of them, by release, before and after they are set."""

from __future__ import annotations

import pytest

from offsite.groups.run import GroupsRequest, apply_groups, prepare_groups
from offsite.kafka.protocol.request import Api
from offsite.restore.plan_report import report_plan
from tests.fake_cluster.cluster import FakeGroup
from tests.fake_cluster.site import Site

KAFKA_4_1: dict[int, int] = {Api.STREAMS_GROUP_HEARTBEAT: 0, Api.WRITE_TXN_MARKERS: 1, Api.DESCRIBE_LOG_DIRS: 4}
KAFKA_4_2: dict[int, int] = {Api.STREAMS_GROUP_HEARTBEAT: 0, Api.WRITE_TXN_MARKERS: 2, Api.DESCRIBE_LOG_DIRS: 4}
KAFKA_4_3: dict[int, int] = {Api.STREAMS_GROUP_HEARTBEAT: 0, Api.WRITE_TXN_MARKERS: 2, Api.DESCRIBE_LOG_DIRS: 5}
RELEASES: dict[str, tuple[dict[int, int], str]] = {
    "4.0": ({}, "brokers of the target have no such groups"),
    "4.1": (KAFKA_4_1, "brokers of Kafka 4.1 then refuse an application"),
    "4.2": (KAFKA_4_2, "upgrade the target to 4.2.1 or later first"),
}


def backed_up(site: Site, *, kind: str = "streams") -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a", b"b"])
    site.source.groups["app"] = FakeGroup(kind=kind)
    site.source.commit_group("app", "orders", [1])
    site.back_up("orders")


def notes(site: Site) -> tuple[str, ...]:
    outlook = report_plan(site.plan_restore(groups=["*"])).groups
    assert outlook is not None
    assert [group.group for group in outlook.groups] == ["app"]
    return outlook.notes


@pytest.mark.parametrize(("versions", "warning"), RELEASES.values(), ids=RELEASES.keys())
def test_plan_and_result_say_what_the_release_makes_of_the_group(
    site: Site, versions: dict[int, int], warning: str
) -> None:
    backed_up(site)
    site.target.newest_versions = versions
    (note,) = notes(site)
    assert note.startswith("streams groups app: ")
    assert warning in note
    restored = site.restore(groups=["*"])
    assert restored.groups is not None
    assert restored.groups.notes == (note,)
    assert restored.groups.complete


def test_nothing_is_said_where_brokers_convert_the_group_for_good(site: Site) -> None:
    backed_up(site)
    site.target.newest_versions = KAFKA_4_3
    assert notes(site) == ()


def test_nothing_is_said_of_a_group_that_is_a_streams_group_there(site: Site) -> None:
    backed_up(site)
    site.target.newest_versions = KAFKA_4_1
    site.target.groups["app"] = FakeGroup(kind="streams")
    assert notes(site) == ()
    site.target.groups["app"] = FakeGroup(kind="classic")
    assert len(notes(site)) == 1


def test_nothing_is_said_of_other_groups(site: Site) -> None:
    backed_up(site, kind="consumer")
    assert notes(site) == ()


def test_groups_that_are_set_later_are_warned_of_too(site: Site) -> None:
    backed_up(site)
    site.target.newest_versions = KAFKA_4_1
    site.restore()
    planned = prepare_groups(site.backup, site.target.admin, GroupsRequest())
    applied = apply_groups(planned, site.target.admin)
    assert (applied.offsets_set, len(applied.notes)) == (1, 1)
    assert "group.protocol=classic" in applied.notes[0]


def test_a_backup_does_not_call_a_streams_group_left_out(site: Site) -> None:
    backed_up(site)
    assert site.back_up().not_carried == ()
