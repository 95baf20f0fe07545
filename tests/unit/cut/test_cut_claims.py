"""What a found cut claims, and what tails know, where evidence is missing. Pure."""

from __future__ import annotations

from offsite.backup.copy import BackupReceipt
from offsite.backup.copy_plan import PartitionBounds, plan_copy
from offsite.backup.cut.found_cut import SnapshotGroups, find_cut
from offsite.backup.cut.readings import ReadingSeries
from offsite.backup.pass_cut import join_tails
from offsite.cut.readings import CutEvidence, EndsReading, LoggedCommit
from offsite.cut.window import GroupCommit
from offsite.log.markers import Marker, Markers
from offsite.log.range import PartitionId
from offsite.log.transactions import OpenTransaction, PartitionTail, StretchTail

PAID = PartitionId("paid", "id", 0)
OFFSETS = PartitionId("__consumer_offsets", "", 0)
NO_GROUPS = SnapshotGroups(offsets={}, selected=frozenset())


def test_a_topic_is_not_whole_where_the_group_offsets_of_its_transactions_are_not() -> None:
    """Nobody may read `__transaction_state`. The marker in `paid` came before the first end, the one for the group's
    offset after the last: the application will do this payment again, and `paid` has it already."""
    reading = EndsReading(before={}, ends={PAID: 10, OFFSETS: 5}, after={})
    still_open = OpenTransaction(producer_id=7, first_offset=4, last_offset=4)
    commit = GroupCommit(
        group="payers",
        partition=PartitionId("orders", "id", 0),
        offset=9,
        log=OFFSETS,
        position=4,
        exactly_once=True,
    )
    evidence = CutEvidence(
        readings=(reading,) * 3,
        changes=None,
        tails={OFFSETS: PartitionTail(open=(still_open,))},
        commits=(LoggedCommit(commit, 7),),
    )
    cut = find_cut(evidence, {PartitionId(topic="paid", topic_id="id", partition=0): 10}, NO_GROUPS)
    assert dict(cut.classes) == {"paid": "uncoordinated"}


def test_a_topic_with_partitions_that_were_not_read_is_not_whole() -> None:
    """They were added while the ends were read: a transaction may lie there with one half."""
    reading = EndsReading(before={}, ends={PAID: 10}, after={})
    taken = ReadingSeries(readings=(reading,), changes=(), listed={}, partition_counts={"paid": 2, "orders": 1})
    evidence = CutEvidence(readings=(reading,) * 3, changes=())
    positions = {PartitionId(topic="paid", topic_id="id", partition=0): 10}
    cut = find_cut(evidence, positions, NO_GROUPS, partial=taken.partial)
    assert dict(cut.classes) == {"paid": "uncoordinated"}


def test_a_beginning_that_nobody_knows_is_not_the_first_record_that_was_seen() -> None:
    """The commit before has no cut, so nobody knows what was open where it ends. What is seen of producer 7 may be the
    middle of a transaction."""
    bounds = PartitionBounds(
        topic="paid", topic_id="id", partition=0, log_start=0, end=20, size_bytes=20, leader_epoch=0
    )
    plan = plan_copy([bounds], {bounds.partition_id: 10}, slots=1, window_starts={bounds.partition_id: 15})
    marker = Marker(offset=16, producer_id=7, producer_epoch=0, committed=True, first_offset=12)
    receipt = BackupReceipt(segments=(), holes=(), tail=StretchTail(markers=Markers([marker])))
    (tail,) = join_tails(plan, [receipt], known_open=None).values()
    assert [each.first_offset for each in tail.markers] == [-1]
