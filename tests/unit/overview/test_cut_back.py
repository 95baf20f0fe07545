"""A log that an unclean election cut back: the old history is closed and kept, the new one goes on, and both come
back."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise

import pytest

from offsite.kafka.protocol.request import Api
from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import DamagedCommit, SourceTruncated
from offsite.overview.contents import show_backup
from offsite.overview.status import read_status
from offsite.reports.point_report import BranchReport
from offsite.repository import catalog
from offsite.repository.commit import CommitChanges
from offsite.repository.fold import fold
from offsite.repository.leftovers import find_orphans
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.state import BackupState
from offsite.table.options import read_options
from offsite.table.stream import TableStream
from offsite.upkeep.verification.run import verify_deep, verify_quick
from tests.backups import write_segment
from tests.fake_cluster.partition_log import PartitionLog
from tests.fake_cluster.server import serving
from tests.fake_cluster.site import Site

HERE = TopicPartition(topic="orders", partition=0)


def written(site: Site, *batches: list[bytes], topic: str = "orders") -> PartitionLog:
    for batch in batches:
        site.source.write(topic, batch)
    return site.source.topics[topic].partitions[0]


def begun(site: Site, *batches: list[bytes]) -> PartitionLog:
    """Backed up once, with another topic."""
    site.source.make_topic("orders")
    site.source.make_topic("users")
    log = written(site, *batches)
    site.back_up("*")
    return log


def restored(site: Site, commit: int | None = None, topic: str = "orders", **words: object) -> list[bytes | None]:
    with serving("empty") as target:
        result = site.restore(into=target, topics=[topic], commit=commit, **words)
        assert result.verified in {True, None}
        return target.values(topic)


def partition(site: Site) -> PartitionId:
    return next(each for each in site.backup.state().positions if each.topic == "orders")


def test_the_old_history_is_kept_and_the_new_one_goes_on_in_the_same_run(site: Site) -> None:
    log = begun(site, [b"a", b"b"], [b"c"], [b"d", b"e"])
    log.elect(cut_to=3)
    written(site, [b"x"], [b"y", b"z", b"w"])
    written(site, [b"u"], topic="users")
    result = site.back_up()
    assert (result.records, result.failed, result.holes, result.complete) == (5, (), (), False)
    assert result.cut_back == (
        BranchReport(topic="orders", partition=0, branch=1, at=3, end=5, records=2, found_by=2, last_commit=1),
    )
    assert restored(site) == [b"a", b"b", b"c", b"x", b"y", b"z", b"w"]
    assert restored(site, commit=1) == [b"a", b"b", b"c", b"d", b"e"]
    written(site, [b"v"])
    after = site.back_up()
    assert (after.records, after.cut_back, after.complete) == (1, (), True)


@pytest.mark.parametrize("cut_to", [0, 2, 3])
def test_a_log_that_is_still_shorter_than_what_is_backed_up_is_seen_at_once(site: Site, cut_to: int) -> None:
    log = begun(site, [b"a", b"b"], [b"c"], [b"d", b"e"])
    log.elect(cut_to=cut_to)
    (found,) = site.back_up().cut_back
    assert (found.at, found.end, found.records) == (cut_to, 5, 5 - cut_to)
    assert restored(site, commit=1) == [b"a", b"b", b"c", b"d", b"e"]
    written(site, [b"x"])
    assert site.back_up().complete
    assert restored(site) == [*[b"a", b"b", b"c", b"d", b"e"][:cut_to], b"x"]


def test_both_histories_are_verified_and_each_object_once(site: Site) -> None:
    log = begun(site, [b"a"], [b"b"])
    log.elect(cut_to=1)
    written(site, [b"x"])
    site.back_up()
    state = site.backup.state()
    known = partition(site)
    (below, new), (above,) = state.segments[known], state.branches[0].segments
    assert below.key == above.key
    assert [(s.start, s.end, s.records, s.last_offset) for s in (below, above, new)] == [
        (0, 1, 1, 0),
        (1, 2, 1, 1),
        (1, 2, 1, 1),
    ]
    held = [
        [
            header.base_offset
            for chunk in SegmentReader(store=site.repository.store, segment=each).chunks(start=0, end=9)
            for header in chunk.batches
        ]
        for each in (below, above)
    ]
    assert held == [[0], [1]], "whatever is asked for, a part holds its own batches"
    for result in (verify_quick(site.backup), verify_deep(site.backup, site.runner)):
        assert (result.ok, result.segments, result.unaccounted) == (True, 2, ())
    assert find_orphans(site.backup) == ()
    for key in (below.key, new.key):
        path = site.repository.store.root / key  # type: ignore[attr-defined]
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.chmod(0o600)
        path.write_bytes(data)
        assert [each.key for each in verify_deep(site.backup, site.runner).damaged] == [key]
        data[-1] ^= 1
        path.write_bytes(data)


def test_a_log_that_is_cut_back_again_and_again_keeps_every_history(site: Site) -> None:
    log = begun(site, [b"a"], [b"b"], [b"c"], [b"d"])
    histories = {1: log.records()}
    for commit, cut_to in enumerate((3, 2, 4, 1, 0), 2):
        log.elect(cut_to=cut_to)
        written(site, *([b"%d.%d" % (commit, n)] for n in range(3)))
        assert [each.at for each in site.back_up().cut_back] == [cut_to]
        histories[commit] = log.records()
    for commit, records in histories.items():
        assert restored(site, commit=commit) == [record.value for record in records], commit
    assert verify_deep(site.backup, site.runner).ok


def test_the_catalog_keeps_branches_and_parts_of_segments(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 2)
    log = begun(site, [b"a"], [b"b"], [b"c"])
    for cut_to in (2, 1):
        log.elect(cut_to=cut_to)
        written(site, [b"x"], [b"y"])
        site.back_up()
    site.back_up()
    folded = fold(BackupState(backup=site.backup.descriptor.name), site.backup.log.read(after=0, upto=2))
    assert folded.branches
    assert site.backup.catalog.read(2) == folded
    assert b'"format":2' in (site.repository.store.get(site.backup.layout.commit_key(2)) or b"")
    assert verify_quick(site.backup).ok


def test_transactions_are_decided_by_their_own_history(site: Site) -> None:
    """The marker of the old history says nothing in the new one, where the transaction was aborted."""
    topic = site.source.make_topic("orders")
    log = topic.partitions[0]
    written(site, [b"a"])
    site.source.write_in_transaction("orders", [b"t"], committed=None, producer_id=7)
    log.end_transaction(7, 0, committed=True)
    site.back_up("orders")
    log.elect(cut_to=2)
    log.end_transaction(7, 0, committed=False)
    written(site, [b"x"])
    site.back_up()
    assert restored(site, offsets="translate") == [b"a", b"x"]
    assert restored(site, commit=1, offsets="translate") == [b"a", b"t"]


def test_fast_elections_one_after_the_other_are_told_by_the_epochs_of_both_logs(site: Site) -> None:
    """KIP-279: the new leader never knew our last epoch, and its log is longer than the end of the epoch before."""
    log = begun(site, [b"a"], [b"b"])
    assert log.epoch == 0
    log.elect(cut_to=1)
    log.elect()
    log.epochs[-1] = (2, 1)
    written(site, [b"x"])
    site.back_up()
    assert site.backup.state().positions[partition(site)].leader_epoch == 2
    log.elect(cut_to=1)
    log.epochs = [(0, 0)]
    written(site, [b"of epoch 0"], [b"and so is this"])
    log.epochs.append((3, log.end))
    written(site, [b"y"])
    (found,) = site.back_up().cut_back
    assert (found.at, found.end) == (1, 2)
    assert restored(site) == [b"a", b"of epoch 0", b"and so is this", b"y"]
    assert restored(site, commit=2) == [b"a", b"x"]


def test_a_cut_without_evidence_is_not_guessed(site: Site) -> None:
    """The leader knows none of our epochs any more: retention took what both had in common."""
    log = begun(site, [b"a"], [b"b"], [b"c"])
    log.elect(cut_to=2)
    written(site, [b"x"], [b"y"], topic="orders")
    log.delete_before(2)
    result = site.back_up()
    (failure,) = result.failed
    assert (failure.error, result.cut_back) == (SourceTruncated.id, ())
    log.delete_before(3)
    gone_on = site.back_up()
    assert [(hole.start, hole.end) for hole in gone_on.holes] == []
    assert gone_on.complete, "what was in doubt is gone from the source: what follows is news"


def test_what_the_log_holds_before_the_cut_must_be_what_we_have(site: Site) -> None:
    log = begun(site, [b"a"], [b"b"], [b"c"])
    log.elect(cut_to=1)
    written(site, [b"not b"])
    log.epochs = [(0, 0), (1, 2)]
    (failure,) = site.back_up().failed
    assert failure.error == SourceTruncated.id


def test_compacted_topics_and_topics_without_ids_stay_sick(site: Site) -> None:
    site.source.make_topic("orders", cleanup_policy="compact")
    site.source.make_topic("users")
    log = written(site, [b"a"], [b"b"])
    site.back_up("*")
    log.elect(cut_to=1)
    (failure,) = site.back_up().failed
    assert (failure.topic, failure.error) == ("orders", SourceTruncated.id)


def test_a_cut_that_is_not_served_yet_is_left_to_the_next_run(site: Site) -> None:
    log = begun(site, [b"a"], [b"b"], [b"c"])
    log.elect(cut_to=2)
    site.source.failing[Api.FETCH, HERE] = 6
    site.source.failing[Api.OFFSET_FOR_LEADER_EPOCH, HERE] = 29
    assert [each.topic for each in site.back_up().failed] == ["orders"]
    site.source.failing.clear()
    assert len(site.back_up().cut_back) == 1


def test_status_and_details_tell_of_it(site: Site) -> None:
    log = begun(site, [b"a"], [b"b"])
    log.elect(cut_to=1)
    site.back_up()
    (status,) = read_status(site.repository).backups
    assert not status.safe
    assert any("orders/0 was cut back to offset 1" in each and "--commit 1" in each for each in status.problems)
    (branch,) = show_backup(site.backup).branches
    assert (branch.at, branch.end, branch.last_commit) == (1, 2, 1)


def test_no_segment_may_be_merged_over_a_cut(site: Site) -> None:
    log = begun(site, [b"a"], [b"b"], [b"c"])
    log.elect(cut_to=2)
    written(site, [b"x"])
    site.back_up()
    state, known = site.backup.state(), partition(site)
    assert state.borders(known) == {2}
    merged = write_segment(site.repository.store, site.backup, known, 0, 3)
    keys = tuple(segment.key for segment in state.segments[known])
    with pytest.raises(DamagedCommit, match="reaches over the cut at 2"):
        site.backup.commit(CommitChanges(segments=(merged,), removed=keys), base=state, writer="w")


def test_offsets_of_the_old_history_are_kept_in_a_restore_that_preserves_them(site: Site) -> None:
    log = begun(site, [b"a", b"b"], [b"c"], [b"d", b"e"])
    log.elect(cut_to=3)
    written(site, [b"x"])
    site.back_up()
    for commit, values in ((1, [b"a", b"b", b"c", b"d", b"e"]), (2, [b"a", b"b", b"c", b"x"])):
        assert restored(site, commit=commit, offsets="preserve") == values


def test_damage_of_an_old_history_alone_damages_no_later_restore_point(site: Site) -> None:
    log = begun(site, [b"a"])
    written(site, [b"b"])
    site.back_up()
    log.elect(cut_to=1)
    written(site, [b"x"])
    site.back_up()
    (branch,) = site.backup.state().branches
    site.repository.store.delete(branch.segments[0].object_key)
    (found,) = verify_quick(site.backup).damaged
    assert (found.first_commit, found.last_commit) == (2, 2)
    assert restored(site) == [b"a", b"x"]


def test_a_stream_of_the_table_brings_the_new_history_too(site: Site) -> None:
    log = begun(site, [b"a"], [b"b"], [b"c"])
    site.back_up()
    log.elect(cut_to=1)
    written(site, [b"x"])
    site.back_up()
    written(site, [b"y"], [b"z"])
    site.back_up()
    options = read_options({"repo": site.repository.store.url, "backup": site.backup.descriptor.name})
    for bounds in ([0, 4], [0, 1, 2, 3, 4], [0, 2, 4]):
        following, found = TableStream(options, site.backup), []
        for start, end in pairwise(bounds):
            for part in following.partitions({"commit": start}, {"commit": end}):
                found += [row["value"] for batch in following.read(part) for row in batch.to_pylist()]
        assert found == [b"a", b"b", b"c", b"x", b"y", b"z"], bounds


def test_where_a_hole_lies_before_the_old_end_the_new_history_is_copied_from_before_it(site: Site) -> None:
    """What is missing may have been of a later epoch: nothing of it is held, and the new log has records there."""
    log = begun(site, [b"a", b"b", b"c"], [b"d", b"e"])
    replica = deepcopy(log)
    log.elect(cut_to=3)
    site.back_up()
    written(site, [b"f", b"g", b"h"])
    log.delete_before(6)
    assert site.back_up().holes
    site.source.topics["orders"].partitions[0] = replica
    replica.elect()
    replica.elect()
    result = site.back_up()
    assert [(each.at, each.end) for each in result.cut_back] == [(3, 6)]
    assert restored(site) == [b"a", b"b", b"c", b"d", b"e"]
