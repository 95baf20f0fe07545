"""The rules one by one, on histories that a reader can follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.cut.cut import Cut, CutRefusal, TopicClass
from offsite.cut.effect import UNSEEN, EffectLine
from offsite.cut.greatest import greatest_cut
from offsite.cut.window import (
    REMOVED,
    ExternalParticipant,
    GroupCommit,
    ParticipantRecord,
    SpanOutcome,
    SupersededRecord,
    TransactionSpan,
    Window,
    WriterKind,
    WrittenRange,
)
from offsite.log.range import PartitionId
from tests.cut_judge import violations
from tests.cut_steps import chain, direct_causes, held_back

ORDERS, PAID, MAIL = (PartitionId(name, f"id-{name}", 0) for name in ("orders", "paid", "mail"))
OFFSETS = PartitionId("__consumer_offsets", "id-offsets", 7)
ENDS = {ORDERS: 100, PAID: 50, MAIL: 20, OFFSETS: 30}


def commit(position: int, offset: int, *, group: str = "billing", exactly_once: bool = False) -> GroupCommit:
    return GroupCommit(
        group=group, partition=ORDERS, offset=offset, log=OFFSETS, position=position, exactly_once=exactly_once
    )


TRANSFER = TransactionSpan(
    producer_id=7,
    epoch=0,
    name="transfer-1",
    written={PAID: WrittenRange(40, 42, 43), OFFSETS: WrittenRange(20, 20, 21)},
    outcome=SpanOutcome.COMMIT,
    reads=(commit(20, 90, exactly_once=True),),
)


def out(cut: Cut) -> list[TransactionSpan]:
    return [each.span for each in cut.left_out]


def cut_of(*transactions: TransactionSpan, **facts: object) -> Cut:
    return greatest_cut(ENDS, Window(transactions=transactions, **facts))  # type: ignore[arg-type]


def test_a_transaction_below_all_ends_is_kept() -> None:
    cut = cut_of(TRANSFER)
    assert cut.ends == ENDS
    assert [(each.group, each.offset) for each in cut.groups] == [("billing", 90)]
    assert (cut.left_out, cut.holds, cut.refusals, held_back(cut)) == ((), (), (), {})


def test_the_example_of_the_explanation_page() -> None:
    payment = replace(TRANSFER, written={PAID: WrittenRange(40, 42, 43), OFFSETS: WrittenRange(20, 20, None)})
    ends = {ORDERS: 100, PAID: 50, OFFSETS: 21}
    cut = greatest_cut(ends, Window(transactions=(payment,)))
    assert (cut.ends, out(cut)) == (ends, [payment])
    assert cut.floors() == {PAID: 40, OFFSETS: 20}
    assert cut.markers_left_out() == {PAID: (43,)}
    assert (cut.left_out[0].short, cut.left_out[0].needed) == (EffectLine("end", OFFSETS), UNSEEN)
    assert [each.rule for each in violations(ends, (), Window(transactions=(payment,)))] == ["C1"]


@pytest.mark.parametrize(("end", "is_kept"), [(43, False), (44, True)])
def test_c1_needs_the_marker_below_the_end(end: int, is_kept: bool) -> None:
    assert (out(greatest_cut({**ENDS, PAID: end}, Window(transactions=(TRANSFER,)))) == []) == is_kept


def test_c1_leaves_an_open_transaction_out_and_names_it() -> None:
    hanging = TransactionSpan(
        producer_id=9, epoch=3, written={MAIL: WrittenRange(4, 9, None)}, outcome=SpanOutcome.OPEN
    )
    cut = cut_of(hanging)
    assert (cut.ends, cut.floors(), cut.markers_left_out()) == (ENDS, {MAIL: 4}, {})
    assert [step.short for step in chain(cut, direct_causes(cut)[MAIL])] == [None]


@pytest.mark.parametrize("marker", [None, 10, 99])
def test_an_aborted_transaction_constrains_nothing(marker: int | None) -> None:
    aborted = TransactionSpan(
        producer_id=9, epoch=3, written={MAIL: WrittenRange(4, 9, marker)}, outcome=SpanOutcome.ABORT
    )
    cut = cut_of(replace(aborted, reads=(commit(5, 1000, exactly_once=True),)))
    assert (cut.ends, cut.left_out, cut.groups) == (ENDS, (), ())


def test_who_read_what_is_left_out_is_left_out() -> None:
    late = TransactionSpan(
        producer_id=9, epoch=0, written={ORDERS: WrittenRange(88, 89, None)}, outcome=SpanOutcome.OPEN
    )
    cut = cut_of(late, TRANSFER)
    assert (cut.ends, out(cut)) == (ENDS, [late, TRANSFER])
    assert cut.markers_left_out() == {PAID: (43,), OFFSETS: (21,)}
    assert [step.cause for step in chain(cut, cut.left_out[1])] == [late, None]


@pytest.mark.parametrize(("end", "is_kept"), [(90, True), (89, False)])
def test_c2_keeps_a_transaction_with_what_it_read(end: int, is_kept: bool) -> None:
    cut = greatest_cut({**ENDS, ORDERS: end}, Window(transactions=(TRANSFER,)))
    assert (out(cut) == [], bool(cut.groups)) == (is_kept, is_kept)


def test_an_episode_has_all_of_its_commit_markers_left_out() -> None:
    written = {PAID: WrittenRange(40, 48, 49, (43, 49)), OFFSETS: WrittenRange(20, 24, None, (21,))}
    assert cut_of(replace(TRANSFER, written=written)).markers_left_out() == {PAID: (43, 49), OFFSETS: (21,)}


def test_c2_order_of_a_producer() -> None:
    first = replace(TRANSFER, written={MAIL: WrittenRange(3, 4, None)}, reads=(), number=1)
    later = replace(TRANSFER, number=2)
    assert out(cut_of(later, first)) == [first, later]
    assert out(cut_of(replace(later, name="another"), first)) == [first]


def test_c2_order_of_a_group() -> None:
    first = replace(TRANSFER, name="transfer-2", written={MAIL: WrittenRange(3, 4, None)}, reads=(commit(10, 80),))
    assert out(cut_of(TRANSFER, first)) == [first, TRANSFER]
    behind = replace(first, reads=(commit(25, 95),))
    cut = cut_of(TRANSFER, behind, commits=(commit(26, 99),))
    assert (out(cut), [each.offset for each in cut.groups]) == ([behind], [90])


def test_c2_refuses_older_commits_that_it_cannot_leave_out() -> None:
    older = commit(5, 101, exactly_once=True)
    assert cut_of(commits=(older,)).refusals == (
        CutRefusal(rule="C2", partition=ORDERS, offset=101, end=100, participant="billing"),
    )
    assert not cut_of(commits=(replace(older, offset=100),)).refusals


def test_c6_refuses_to_leave_out_what_began_before_the_window() -> None:
    cut = cut_of(replace(TRANSFER, written={PAID: WrittenRange(40, 42, None)}, is_whole=False))
    assert cut.refusals == (CutRefusal(rule="C6", partition=PAID, offset=40, end=50, participant="transfer-1"),)
    assert not cut_of(replace(TRANSFER, is_whole=False)).refusals


def test_c5_refuses_who_has_read_what_is_left_out() -> None:
    hanging = TransactionSpan(
        producer_id=9, epoch=3, written={MAIL: WrittenRange(4, 9, None)}, outcome=SpanOutcome.OPEN
    )
    database = ExternalParticipant(name="db", positions={MAIL: 5}, can_replay=True)
    assert [each.end for each in cut_of(hanging, externals=(database,)).refusals] == [4]


@pytest.mark.parametrize(("dependency", "expected"), [(100, 20), (101, 12)])
def test_c3_keeps_a_record_with_what_it_depends_on(dependency: int, expected: int) -> None:
    cut = cut_of(records=(ParticipantRecord(partition=MAIL, offset=12, deps={ORDERS: dependency}),))
    assert cut.ends == {**ENDS, MAIL: expected}


def test_c4_clamps_a_plain_group() -> None:
    (group,) = cut_of(commits=(commit(3, 10), commit(8, 120))).groups
    assert (group.offset, group.committed, group.is_clamped) == (100, 120, True)


def test_c4_goes_by_the_order_of_the_log_not_of_the_markers() -> None:
    """KIP-98: a commit that was written after one of a transaction stays, though the marker comes later still."""
    assert cut_of(TRANSFER, commits=(commit(19, 5),)).groups[0].offset == 90
    assert cut_of(TRANSFER, commits=(commit(21, 5),)).groups[0].offset == 5


@pytest.mark.parametrize(("position", "offsets"), [(29, [7]), (30, [6])])
def test_c4_counts_commits_below_the_end_of_their_log(position: int, offsets: list[int]) -> None:
    cut = cut_of(commits=(commit(position, 7), commit(1, 6)))
    assert [each.offset for each in cut.groups] == offsets


def test_c4_forgets_a_group_offset_that_was_removed() -> None:
    assert not cut_of(commits=(commit(3, 10), commit(8, REMOVED))).groups
    assert cut_of(commits=(commit(3, REMOVED), commit(8, 10))).groups


def test_c5_refuses_a_position_that_is_not_the_end() -> None:
    flink = ExternalParticipant(name="flink", positions={ORDERS: 99, PAID: 50})
    assert cut_of(externals=(flink,)).refusals == (
        CutRefusal(rule="C5", partition=ORDERS, offset=99, end=100, participant="flink"),
    )
    assert not cut_of(externals=(replace(flink, can_replay=True),)).refusals
    ahead = ExternalParticipant(name="db", positions={ORDERS: 101}, can_replay=True)
    assert [each.rule for each in cut_of(externals=(ahead,)).refusals] == ["C5"]
    elsewhere = ExternalParticipant(name="db", positions={PartitionId("gone", "id", 0): 1}, can_replay=True)
    assert cut_of(externals=(elsewhere,)).refusals[0].end is None


@pytest.mark.parametrize(
    ("gap", "is_refused"), [((10, 20), True), ((99, 130), True), ((100, 130), False), ((0, 5), False), ((3, 6), True)]
)
def test_c6_refuses_a_gap_between_base_and_end(gap: tuple[int, int], is_refused: bool) -> None:
    cut = cut_of(bases={ORDERS: 5}, gaps={ORDERS: (gap,)})
    assert bool(cut.refusals) == is_refused


@pytest.mark.parametrize(("end", "expected"), [(70, 60), (71, 71), (60, 60)])
def test_c7_keeps_a_lost_record_with_its_successor(end: int, expected: int) -> None:
    window = Window(superseded=(SupersededRecord(partition=ORDERS, offset=60, successor=70),))
    assert greatest_cut({**ENDS, ORDERS: end}, window).ends[ORDERS] == expected


def test_partitions_that_were_not_read_are_named_and_hold_nothing() -> None:
    elsewhere = PartitionId("elsewhere", "id", 3)
    wide = replace(TRANSFER, written={**TRANSFER.written, elsewhere: WrittenRange(0, 5, None)})
    cut = cut_of(wide)
    assert cut.ends == ENDS
    assert cut.outside == {elsewhere}
    assert not list(violations(cut.ends, (), Window(transactions=(wide,))))


def test_transactions_beside_participants_are_uncoordinated() -> None:
    """A participant may have read a committed transaction that the cut leaves out."""
    both = frozenset({WriterKind.TRANSACTION, WriterKind.PARTICIPANT})
    assert cut_of(writers={"orders": both}).classes["orders"] is TopicClass.UNCOORDINATED


def test_classes_claim_no_more_than_was_seen() -> None:
    one = WriterKind
    writers = {
        "orders": frozenset({one.TRANSACTION}),
        "paid": frozenset({one.PARTICIPANT}),
        "mail": frozenset({one.TRANSACTION, one.PLAIN}),
    }
    cut = cut_of(writers=writers)
    assert cut.classes == {
        "__consumer_offsets": TopicClass.UNCOORDINATED,
        "orders": TopicClass.TRANSACTIONAL,
        "paid": TopicClass.PARTICIPANT,
        "mail": TopicClass.UNCOORDINATED,
    }
    fenced = cut_of(writers=writers, unpaired=frozenset({"orders"}), time_fenced=frozenset({"mail", "paid"})).classes
    assert [fenced[topic] for topic in ("orders", "paid", "mail")] == [
        TopicClass.UNCOORDINATED,
        TopicClass.PARTICIPANT,
        TopicClass.TIME_FENCED,
    ]
