"""What counts as somebody else's writing while a restore is read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from offsite.kafka.admin import ClusterAdmin
from offsite.log.range import PartitionId, TopicPartition
from offsite.points.point_in_time import PartitionChain
from offsite.restore import run as restore_proof
from offsite.restore.compare.proof import Proof, ProvenPartition, ProvenTopic
from offsite.restore.run import WrittenRestore, prove_restore
from offsite.restore.write.plan import PartitionRestore, RestorePlan

KEY = TopicPartition(topic="t2", partition=0)
UNUSED: Any = None


class Ends:
    """Tells of one end after the other."""

    def __init__(self, *ends: int) -> None:
        self._ends = list(ends)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, self._ends.pop(0))


def restored(*, same_offsets: bool) -> WrittenRestore:
    chain = PartitionChain(source=PartitionId(topic="t", topic_id="", partition=0), segments=(), end=400)
    partition = PartitionRestore(chain=chain, target=KEY)
    plan = RestorePlan(backup="b", commit=1, topics=(), partitions=(partition,), skipped=(), holes=())
    kept = frozenset({"t2"} if same_offsets else set())
    return WrittenRestore(plan=plan, starts={KEY: 0}, makings=(), read_committed=True, same_offsets=kept)


@pytest.mark.parametrize(
    ("before", "after", "records", "same_offsets", "extra"),
    [
        (400, 400, 400, False, []),
        (400, 407, 400, False, [7]),
        (400, 350, 400, False, []),
        (350, 400, 400, False, []),
        (350, 400, 398, True, []),
        (350, 402, 398, True, [2]),
    ],
    ids=["alone", "another wrote", "told too low after", "told too low before", "with markers", "and another wrote"],
)
def test_only_what_lies_behind_the_records_seen_was_written_by_others(  # noqa: PLR0917  # a table
    monkeypatch: pytest.MonkeyPatch, before: int, after: int, records: int, same_offsets: bool, extra: list[int]
) -> None:
    monkeypatch.setattr(restore_proof, "expected_topics", lambda *_, **__: [])
    monkeypatch.setattr(restore_proof, "prove", lambda *_, **__: proof(records))
    admin = cast("ClusterAdmin", Ends(before, after))
    found = prove_restore(restored(same_offsets=same_offsets), ends=UNUSED, admin=admin, runner=UNUSED)
    assert [each.records for each in found.findings] == extra
    assert found.verified is (not extra)


def proof(records: int) -> Proof:
    partition = ProvenPartition(
        partition=0,
        verified=True,
        records=records,
        markers=0,
        decoded_records=0,
        compacted_records=0,
        digest="",
        target_start=0,
        target_end=records,
        later_offsets=0,
        expired_offsets=0,
        hole_offsets=0,
    )
    topic = ProvenTopic(source="t", verified=True, records=records, partitions=(partition,))
    return Proof(verified=True, records=records, topics={"t2": topic}, findings=(), uncompared=())
