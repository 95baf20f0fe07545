"""Restores to the consistent cut of a commit, as an independent client sees them; the cuts are made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from confluent_kafka import TopicPartition as Position

from offsite.backup.pass_cut import NoCut
from offsite.demo.data import read_topic
from offsite.engine.runner import Runner
from offsite.log.offset_vector import parse_before
from offsite.log.range import PartitionId
from offsite.model.errors import DamagedObject, NoConsistentCut
from offsite.model.options import CutChoice
from offsite.model.selection import ALL_GROUPS, parse_selection
from offsite.model.topic_choices import parse_partition_counts, parse_renames
from offsite.overview.contents import show_backup
from offsite.repository.snapshots.commit_cut import CommitCut, CutGroup, LeftOutTransactions
from offsite.restore.compare.run import CompareRequest, plan_comparison, run_comparison
from offsite.restore.plan import prepare_restore
from offsite.restore.plan_report import report_plan
from offsite.restore.request import RestoreRequest
from tests.cuts import commit_cut, commit_markers, leaving_out, partition_of
from tests.inline_runner import InlineRunner
from tests.integration.e2e.copies import Copy, messages
from tests.integration.e2e.group_site import Groups, commit, committed, new_group, new_topic, numbered, run_request
from tests.integration.e2e.transactions import begun, with_transaction
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.shared_spark import shared_spark

OVER_SPARK = pytest.mark.parametrize("spark", [shared_spark], indirect=True, ids=["spark"])

KEPT = [*range(5), *range(11, 16), *range(18, 21)]
LEFT_OUT = [*range(6, 11)]
ABORTED = [*range(21, 24)]


@pytest.fixture
def spark(request: pytest.FixtureRequest) -> Runner:
    """None, but for tests that say `OVER_SPARK`: they show that a cut gets to executors; it is the same in here."""
    runner: Callable[[], Runner] = getattr(request, "param", InlineRunner)
    return runner()


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A partition of several producers: offsets KEPT are committed or plain, LEFT_OUT one committed transaction over
    two segments with another one inside of it, ABORTED an aborted one."""

    topic: str
    partition: PartitionId
    markers: list[int]


def shared(copy: Copy) -> Shared:
    site = copy.site
    topic = site.make_topic()
    with_transaction(site, topic, messages(0, 5), commit=True)  # marker 5
    producer = begun(site, topic, messages(6, 11))
    site.back_up(topic)
    with_transaction(site, topic, messages(11, 16), commit=True)  # marker 16
    producer.commit_transaction()
    wait_until(lambda: site.cluster.end(topic) == 18)  # marker 17
    site.produce(topic, messages(18, 21))
    with_transaction(site, topic, messages(21, 24), commit=False)
    site.back_up(topic)
    partition = partition_of(site.backup.sound_state(), topic)
    assert len(site.backup.sound_state().segments[partition]) > 1
    return Shared(topic=topic, partition=partition, markers=commit_markers(site.backup, partition))


def seen(cluster: Cluster, topic: str, isolation: str = "read_committed") -> list[tuple[int, bytes | None]]:
    return [
        (record.offset, record.value)
        for records in read_topic(cluster.bootstrap, topic, isolation=isolation).values()
        for record in records
    ]


def record_values(offsets: list[int]) -> list[bytes]:
    return [b"record %d" % each for each in offsets]


def cut_of(source: Copy | Groups, shared: Shared, **more: object) -> CommitCut:
    """The transaction over two segments is left out."""
    left_out = LeftOutTransactions(name="pay-1", partitions=(f"{shared.topic}/0",), why="read", because="orders/3")
    return CommitCut(
        partitions=(leaving_out(source.site.backup, shared.partition, [17], floor=6),),
        classes=((shared.topic, "transactional"),),
        left_out=(left_out,),
        left_out_count=1,
        **more,  # type: ignore[arg-type]
    )


@OVER_SPARK
def test_a_transaction_that_the_cut_leaves_out_is_aborted_in_its_place(copy: Copy) -> None:
    log = shared(copy)
    assert log.markers == [5, 16, 17]
    commit_cut(copy.site.backup, cut_of(copy, log))
    result = copy.restore(log.topic)
    assert result.verified
    assert copy.bounds(copy.target, log.topic) == copy.bounds(copy.site.cluster, log.topic)
    assert seen(copy.target, log.topic) == list(zip(KEPT, record_values(KEPT), strict=True))
    everything = sorted([*KEPT, *LEFT_OUT, *ABORTED])
    assert [offset for offset, _ in seen(copy.target, log.topic, "read_uncommitted")] == everything
    assert result.consistency is not None
    assert (result.consistency.cut, result.consistency.weakest) == ("consistent", "transactional")
    assert [each.why for each in result.consistency.left_out] == ["it read records that are left out: orders/3"]
    again = plan_comparison(
        copy.site.backup,
        copy.target.admin,
        CompareRequest(selection=parse_selection([log.topic]), restore=result.restore),
    )
    compared = run_comparison(again, cluster=copy.target, runner=copy.site.spark)
    assert compared.verified, compared.findings


def test_as_copied_brings_it_back(copy: Copy) -> None:
    log = shared(copy)
    commit_cut(copy.site.backup, cut_of(copy, log))
    result = copy.restore(log.topic, cut=CutChoice.AS_COPIED)
    assert result.verified
    copy.assert_the_same_log(log.topic)
    assert result.consistency is not None
    assert (result.consistency.cut, result.consistency.weakest) == ("as-copied", "uncoordinated")


@pytest.mark.parametrize(
    ("isolation", "kept"), [("read_committed", KEPT), ("read_uncommitted", sorted([*KEPT, *ABORTED]))]
)
def test_no_isolation_sees_it_where_gaps_are_closed(copy: Copy, isolation: str, kept: list[int]) -> None:
    log = shared(copy)
    commit_cut(copy.site.backup, cut_of(copy, log))
    result = copy.restore(log.topic, offsets="translate", isolation=isolation, cut=CutChoice.CONSISTENT)
    assert result.verified
    assert [value for _, value in seen(copy.target, log.topic)] == record_values(kept)


@OVER_SPARK
def test_nor_where_records_go_to_other_partitions(copy: Copy) -> None:
    log = shared(copy)
    commit_cut(copy.site.backup, cut_of(copy, log))
    result = copy.restore(log.topic, offsets="auto", repartition=parse_partition_counts(["3"], keyless_in_turn=False))
    assert result.verified
    assert sorted(value or b"" for _, value in seen(copy.target, log.topic)) == sorted(record_values(KEPT))


def test_a_cut_may_end_before_its_commit(copy: Copy) -> None:
    log = shared(copy)
    ends_at = leaving_out(copy.site.backup, log.partition, [16], floor=11, end=17)  # 17 decides what is open before it
    commit_cut(copy.site.backup, CommitCut(partitions=(ends_at,), left_out_count=2))
    result = copy.restore(log.topic)
    assert result.verified
    assert [offset for offset, _ in seen(copy.target, log.topic)] == [*range(5)]
    assert copy.bounds(copy.target, log.topic) == [(0, 17)]


@pytest.mark.parametrize("listed", [6, 18, 24], ids=["data", "plain data", "an abort"])
def test_a_listed_offset_that_is_no_commit_marker_is_refused_before_anything_is_made(copy: Copy, listed: int) -> None:
    log = shared(copy)
    forged = leaving_out(copy.site.backup, log.partition, [listed], floor=listed)
    commit_cut(copy.site.backup, CommitCut(partitions=(forged,)))
    with pytest.raises(
        DamagedObject, match=f"committed at offset {listed}, but the backup has no commit marker"
    ) as told:
        copy.restore(log.topic)
    assert "--cut as-copied" in told.value.hint
    assert log.topic not in copy.target.admin.topics()
    assert copy.restore(log.topic, cut=CutChoice.AS_COPIED).verified


def test_a_cut_that_is_missing_or_ends_beyond_its_commit_is_refused(copy: Copy) -> None:
    log = shared(copy)
    beyond = leaving_out(copy.site.backup, log.partition, [17], floor=6, end=1_000)
    commit_cut(copy.site.backup, CommitCut(partitions=(beyond,)))
    with pytest.raises(DamagedObject, match="at offset 1000, but the backup has records only up to 25"):
        copy.restore(log.topic)
    state = commit_cut(copy.site.backup, cut_of(copy, log))
    assert state.cut is not None
    copy.site.backup.store.delete(state.cut.key)
    with pytest.raises(DamagedObject, match="is missing") as told:
        copy.restore(log.topic)
    assert "--cut as-copied" in told.value.hint
    shown = show_backup(copy.site.backup).consistency
    assert shown is not None
    assert "is missing" in shown.why
    assert copy.restore(log.topic, cut=CutChoice.AS_COPIED).verified


def test_what_has_no_cut_is_as_copied_and_says_so(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setattr("offsite.backup.pass_commits.cut_of_pass", lambda *_, **__: NoCut(why="none wanted"))
        log = shared(copy)
    prepared = prepare_restore(copy.site.backup, copy.target.admin, copy.request(log.topic, "auto"))
    report = report_plan(prepared).consistency
    assert (report.cut, report.weakest, report.why) == (
        "as-copied",
        "uncoordinated",
        f"no consistent cut is known for commit {prepared.record.commit}",
    )
    with pytest.raises(NoConsistentCut, match="no consistent cut is known for commit"):
        copy.restore(log.topic, cut=CutChoice.CONSISTENT)
    commit_cut(copy.site.backup, cut_of(copy, log, refused="the window is too short"))
    with pytest.raises(NoConsistentCut, match="cannot be used: the window is too short"):
        copy.restore(log.topic, cut=CutChoice.CONSISTENT)
    shown = show_backup(copy.site.backup).consistency
    assert shown is not None
    assert shown.refused == "the window is too short"
    commit_cut(copy.site.backup, cut_of(copy, log))
    for point in ({"at": "2h-ago"}, {"before": parse_before([f"topic={log.topic},partition=0,offset=10"])}):
        with pytest.raises(NoConsistentCut, match=f"--{next(iter(point))} "):
            copy.restore(log.topic, cut=CutChoice.CONSISTENT, **point)
        prepared = prepare_restore(copy.site.backup, copy.target.admin, copy.request(log.topic, "auto", **point))
        assert report_plan(prepared).consistency.cut == "as-copied"


def test_groups_stand_where_the_cut_has_them(groups: Groups) -> None:
    topic = new_topic(groups)
    groups.site.produce(topic, numbered(10))
    plain, moved, gone, new = (new_group() for _ in range(4))
    for group in (plain, moved, gone):
        commit(groups.source, group, Position(topic, 0, 8))
    groups.back_up(topic)
    partition = partition_of(groups.site.backup.sound_state(), topic)
    entries = ((moved, 3), (gone, -1), (new, 5))
    commit_cut(
        groups.site.backup,
        CommitCut(groups=tuple(CutGroup(group=name, partition_id=partition, offset=at) for name, at in entries)),
    )
    for cut, expected in ((CutChoice.AUTO, (8, 3, -1001, 5)), (CutChoice.AS_COPIED, (8, 8, 8, -1001))):
        target = f"{topic}-{cut}"
        request = RestoreRequest(
            selection=parse_selection([topic]),
            renames=parse_renames([f"{topic}={target}"]),
            groups=ALL_GROUPS,
            offsets="preserve",
            cut=cut,
        )
        assert run_request(groups, request).verified
        assert tuple(committed(groups.target, group, target) for group in (plain, moved, gone, new)) == expected
