"""Is a backup whole, and is a cluster what it says? Against clusters that are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.selection import parse_selection
from offsite.restore.compare.run import CompareRequest, plan_comparison, run_comparison
from offsite.upkeep.verification.run import VerifyResult, VerifyVerdict, verify_deep, verify_quick
from tests.fake_cluster.cluster import DENIED, FakeCluster
from tests.fake_cluster.site import Site


def backed_up(site: Site) -> None:
    site.source.make_topic("orders", partitions=2)
    site.source.write("orders", [b"a", b"b"])
    site.source.write("orders", [b"c"], partition=1)
    site.source.commit_group("readers", "orders", [1, 1])
    site.back_up("orders")


def against(site: Site, cluster: FakeCluster) -> VerifyResult:
    planned = plan_comparison(site.backup, cluster.admin, CompareRequest(selection=parse_selection(["*"])))
    compared = run_comparison(planned, cluster=cluster.connected, runner=site.runner)
    return replace(verify_quick(site.backup), against=compared)


def segment_file(site: Site, folder: Path, partition: int) -> Path:
    (segments,) = [found for known, found in site.backup.state().segments.items() if known.partition == partition]
    return folder / "repository" / segments.last.key


def test_a_backup_is_whole_in_both_depths(site: Site) -> None:
    backed_up(site)
    quick, deep = verify_quick(site.backup), verify_deep(site.backup, site.runner)
    assert (quick.ok, quick.verdict, quick.commits, quick.segments, quick.records) == (True, VerifyVerdict.OK, 1, 2, 3)
    assert (deep.ok, deep.depth, deep.damaged, deep.unvouched) == (True, "deep", (), ())


def test_a_missing_segment_costs_the_restore_points_that_need_it(site: Site, tmp_path: Path) -> None:
    backed_up(site)
    site.source.write("orders", [b"d"])
    site.back_up()
    segment_file(site, tmp_path, 1).unlink()
    result = verify_quick(site.backup)
    (damage,) = result.damaged
    assert (damage.topic, damage.partition, damage.start, damage.end) == ("orders", 1, 0, 1)
    assert (damage.problem, damage.first_commit, damage.last_commit) == ("the object is missing", 1, 2)
    assert (result.ok, result.verdict) == (False, VerifyVerdict.DAMAGED)


def test_a_changed_byte_is_found_by_reading_all(site: Site, tmp_path: Path) -> None:
    backed_up(site)
    file = segment_file(site, tmp_path, 0)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.chmod(0o600)
    file.write_bytes(data)
    assert verify_quick(site.backup).ok
    result = verify_deep(site.backup, site.runner)
    assert [(each.topic, each.partition) for each in result.damaged] == [("orders", 0)]
    assert not result.ok


def test_records_of_restores_and_groups_are_read_as_well(site: Site) -> None:
    backed_up(site)
    site.restore(offsets="translate", groups=["all"])
    result = verify_deep(site.backup, site.runner)
    assert (result.ok, result.damaged_objects, result.unvouched) == (True, (), ())


def test_a_cluster_is_the_same_another_or_not_to_be_told(site: Site) -> None:
    backed_up(site)
    assert against(site, site.source).verdict is VerifyVerdict.OK
    assert against(site, site.target).verdict is VerifyVerdict.DIFFERENT
    site.source.failing[Api.FETCH, TopicPartition(topic="orders", partition=0)] = DENIED
    assert against(site, site.source).verdict is VerifyVerdict.UNKNOWN
