"""Three results: the same, different, not known. Nothing compared is not the same; a sick partition is listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from offsite.engine.bundles import Bundle
from offsite.engine.runner import Done, Failed
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.kafka.protocol.metadata import PartitionMetadata, TopicMetadata
from offsite.log.difference import RecordDifference
from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import DamagedBatch, DamagedObject, KafkaTimeout, LeaderUnavailable, OffsiteError
from offsite.points.point_in_time import PartitionChain
from offsite.restore.compare.bounds import find_bounds
from offsite.restore.compare.expected import BackupExtent, ExpectedTopic
from offsite.restore.compare.partition import ProofEnds
from offsite.restore.compare.proof import Proof, prove
from offsite.restore.compare.records import PartitionProof
from offsite.stores.store import Store
from tests.inline_runner import InlineRunner
from tests.unit.restore.test_restore_plan import segment
from tests.virtual_time import VirtualClock

ENDS = ProofEnds(kafka=KafkaConfig(bootstrap=parse_bootstrap("nowhere:1")), store=cast("Store", None), exact=False)
AWAY = KafkaTimeout("the broker did not answer", hint="look at it")
MISSING = RecordDifference(kind="missing", fields=(), source_offset=3, target_offset=-1, records=7, detail="7 records")

Outcome = PartitionProof | OffsiteError


@dataclass
class Cluster:
    """As far as a proof asks one: a topic's partitions with log ends, some without a leader."""

    ends: Mapping[int, int]
    leaderless: set[int] = field(default_factory=set)
    asked: list[TopicPartition] = field(default_factory=list)

    def topics(self) -> Mapping[str, TopicMetadata]:
        found = tuple(
            PartitionMetadata(
                partition=number,
                leader=-1 if number in self.leaderless else 1,
                leader_epoch=0,
                replicas=(1,),
                in_sync=(),
            )
            for number in self.ends
        )
        return {"orders": TopicMetadata(name="orders", topic_id=None, internal=False, error_code=0, partitions=found)}

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        asked = list(partitions)
        self.asked += asked
        if any(each.partition in self.leaderless for each in asked):
            raise LeaderUnavailable("no leader")
        return dict.fromkeys(asked, 0)

    def end_offsets(self, partitions: Iterable[TopicPartition], **_: object) -> Mapping[TopicPartition, int]:
        return {each: self.ends[each.partition] for each in partitions}


class Scripted(InlineRunner):
    """Ends each partition of a bundle as it was told: always so, or first so and then so."""

    def __init__(self, outcomes: Mapping[int, Outcome | list[Outcome]]) -> None:
        self._outcomes = {number: each if isinstance(each, list) else None for number, each in outcomes.items()}
        self._always = outcomes

    def run_all(self, tasks: Sequence[Any], function: Callable[..., Any], **_: object) -> list[Any]:  # type: ignore[override]
        return [self._bundle(each) for each in tasks]

    def _bundle(self, bundle: Bundle[Any]) -> Any:
        found = [self._next(each.target.partition) for each in bundle.tasks]
        outcomes = [Failed(error=o, trace="") if isinstance(o, OffsiteError) else Done(value=o) for o in found]
        return outcomes[0] if len(outcomes) == 1 and isinstance(outcomes[0], Failed) else Done(value=tuple(outcomes))

    def _next(self, partition: int) -> Any:
        script = self._outcomes[partition]
        return self._always[partition] if script is None else script.pop(0)


@dataclass
class Hurried:
    """A clock on which any patience is over at once."""

    now_s: float = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += 3600.0


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsite.restore.compare.bounds.SystemClock", Hurried)


def orders(ends: Mapping[int, int]) -> ExpectedTopic:
    """The very topic that was backed up, each partition to its end."""
    return ExpectedTopic(
        source="orders",
        target="orders",
        partitions=len(ends),
        chains={
            number: PartitionChain(
                source=PartitionId(topic="orders", topic_id="", partition=number),
                segments=(segment(PartitionId(topic="orders", topic_id="", partition=number), 0, end),),
                end=end,
            )
            for number, end in ends.items()
            if end
        },
        starts=None,
        read_committed=False,
        same_offsets=True,
        extents={number: BackupExtent(start=0, end=end) for number, end in ends.items()},
        whole_log=True,
    )


def equal(records: int, **changes: Any) -> PartitionProof:
    proof = PartitionProof(
        records=records, decoded_records=0, compacted_records=0, digest="aa", next_target=records, difference=None
    )
    return replace(proof, **changes)


def proven(
    backed_up: Mapping[int, int], outcomes: Mapping[int, Outcome | list[Outcome]], cluster: Cluster | None = None
) -> Proof:
    admin = cluster or Cluster(ends=backed_up)
    runner = Scripted(outcomes)
    return prove([orders(backed_up)], ends=ENDS, admin=cast("ClusterAdmin", admin), runner=runner, clock=VirtualClock())


def verdicts(proof: Proof) -> list[bool | None]:
    return [each.verified for each in proof.topics["orders"].partitions]


def test_what_was_compared_and_is_the_same_is_verified() -> None:
    proof = proven({0: 10, 1: 0}, {0: equal(10)})
    assert (proof.verified, proof.topics["orders"].verified, verdicts(proof)) == (True, True, [True, None])
    assert (proof.compared_partitions, proof.empty_partitions, proof.records) == (1, 1, 10)


@pytest.mark.parametrize("ends", [{0: 0, 1: 0}, {0: 10}], ids=["empty backup", "all compacted since"])
def test_where_nothing_was_compared_nothing_is_verified(ends: Mapping[int, int]) -> None:
    proof = proven(ends, {0: equal(0, compacted_records=10)})
    assert (proof.verified, proof.topics["orders"].verified, proof.findings) == (None, None, ())
    assert (proof.compared_partitions, proof.empty_partitions) == (0, len(ends))


def test_a_verdict_that_the_reading_leaves_open_is_never_called_verified() -> None:
    proof = proven({0: 10, 1: 10}, {0: equal(10), 1: equal(8, compacted_records=2, unknown="too many keys")})
    assert (proof.verified, proof.findings, verdicts(proof)) == (None, (), [True, None])
    assert [(each.partition, each.error, each.message) for each in proof.uncompared] == [(1, "", "too many keys")]
    assert (proof.topics["orders"].verified, proof.compared_partitions, proof.empty_partitions) == (None, 1, 0)
    refuted = proven({0: 10}, {0: equal(8, unknown="too many keys", difference=MISSING)})
    assert (refuted.verified, refuted.uncompared) == (False, ())


def test_markers_alone_are_something_to_compare() -> None:
    assert proven({0: 10}, {0: equal(0, markers=2)}).verified is True


def test_one_difference_refutes_all() -> None:
    proof = proven({0: 10, 1: 10}, {0: equal(10), 1: equal(3, difference=MISSING)})
    assert (proof.verified, verdicts(proof)) == (False, [True, False])
    assert [(each.partition, each.kind) for each in proof.findings] == [(1, "missing")]


def test_a_log_that_ends_below_the_backup_is_a_difference_without_a_record_too() -> None:
    (found,) = (refuted := proven({0: 10}, {0: equal(8)}, Cluster(ends={0: 8}))).findings
    assert (refuted.verified, found.kind, found.detail) == (
        False,
        "truncated",
        "its log ends at offset 8, the backup has records up to 10",
    )
    (found,) = proven({0: 10}, {0: equal(3, difference=MISSING)}, Cluster(ends={0: 3})).findings
    assert (found.kind, found.detail) == (
        "missing",
        "7 records; its log ends at offset 3, the backup has records up to 10",
    )


def test_an_end_that_was_told_too_early_refutes_nothing() -> None:
    """A leader just elected may not know its high watermark yet."""

    class Lagging(Cluster):
        def end_offsets(self, partitions: Iterable[TopicPartition], **isolation: int) -> Mapping[TopicPartition, int]:
            told = super().end_offsets(partitions, **isolation)
            self.ends = {0: 10, 1: 10} if told else self.ends
            return told

    cluster = Lagging(ends={0: 10, 1: 3})
    proof = proven({0: 10, 1: 10}, {0: equal(10), 1: [equal(3, difference=MISSING), equal(10)]}, cluster)
    assert (proof.verified, verdicts(proof), proof.findings) == (True, [True, True], ())


def test_an_end_that_lags_is_waited_for_while_other_partitions_grow() -> None:
    class Busy(Cluster):
        looks = 0

        def end_offsets(self, partitions: Iterable[TopicPartition], **isolation: int) -> Mapping[TopicPartition, int]:
            told = super().end_offsets(partitions, **isolation)
            self.looks += bool(told)
            self.ends = {0: 10 + self.looks, 1: 3 if self.looks < 3 else 10}
            return told

    cluster = Busy(ends={0: 10, 1: 3})
    proof = proven({0: 10, 1: 10}, {0: equal(10), 1: [equal(3, difference=MISSING), equal(10)]}, cluster)
    assert (proof.verified, verdicts(proof)) == (True, [True, True])


def test_what_was_damaged_once_is_read_once_more() -> None:
    assert proven({0: 10}, {0: [DamagedBatch("cut"), equal(10)]}).verified is True
    assert proven({0: 10}, {0: [DamagedBatch("cut"), DamagedBatch("cut")]}).verified is False


def test_a_topic_that_no_broker_has_heard_of_yet_is_asked_for_again() -> None:
    class Late(Cluster):
        def topics(self) -> Mapping[str, TopicMetadata]:
            found, self.heard = super().topics() if self.heard else {}, True
            return found

        heard = False

    assert proven({0: 10}, {0: equal(10)}, Late(ends={0: 10})).verified is True


def test_a_partition_that_cannot_be_read_is_listed_and_the_others_are_compared() -> None:
    proof = proven({0: 10, 1: 10, 2: 10}, {0: equal(10), 1: AWAY, 2: equal(10)})
    assert (proof.verified, verdicts(proof), proof.records) == (None, [True, None, True], 20)
    (left,) = proof.uncompared
    assert (left.topic, left.partition, left.error, left.message, left.hint) == (
        "orders",
        1,
        AWAY.id,
        AWAY.message,
        "look at it",
    )
    assert (proof.compared_partitions, proof.empty_partitions) == (2, 0)


def test_a_difference_counts_beside_a_partition_that_cannot_be_read() -> None:
    assert proven({0: 10, 1: 10}, {0: equal(3, difference=MISSING), 1: AWAY}).verified is False


def test_what_can_never_be_read_is_a_difference() -> None:
    proof = proven({0: 10, 1: 10}, {0: DamagedObject("segment x is cut"), 1: equal(10)})
    (found,) = proof.findings
    assert (proof.verified, found.kind, found.detail, verdicts(proof)) == (
        False,
        "damaged",
        "segment x is cut",
        [False, True],
    )


def test_an_error_is_raised_when_nothing_else_is_known() -> None:
    with pytest.raises(KafkaTimeout, match="did not answer"):
        proven({0: 10, 1: 10}, {0: AWAY, 1: AWAY})


def test_a_partition_without_leader_is_listed_and_not_asked_for() -> None:
    cluster = Cluster(ends={0: 10, 1: 10}, leaderless={1})
    proof = proven({0: 10, 1: 10}, {0: equal(10)}, cluster)
    assert (proof.verified, verdicts(proof)) == (None, [True, None])
    assert [(each.partition, each.error) for each in proof.uncompared] == [(1, LeaderUnavailable.id)]
    assert {each.partition for each in cluster.asked} == {0}


def test_a_leader_lost_between_two_questions_costs_its_partition_only() -> None:
    class Losing(Cluster):
        def start_offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
            self.leaderless = {1}
            return super().start_offsets(partitions)

    found = find_bounds([orders({0: 10, 1: 10})], cast("ClusterAdmin", Losing(ends={0: 10, 1: 10})))
    assert ([each.partition for each in found.bounds], [each.partition for each in found.sick]) == ([0], [1])
