"""Transactions replayed into a real broker: markers where they belong, outages, and what a dead process left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsite.kafka.transaction_replay import ENDED_AT_ONCE, PartitionTransactions, TransactionSlot
from offsite.kafka.writer import PartitionWriter
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.errors import TransactionLost
from offsite.sandbox import SandboxInfo
from tests.conftest import StartSandbox
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.integration.kafka.test_outage import killed_and_started_again

Kinds = list[tuple[int, bool]]


class Partition:
    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster, self.topic = cluster, topic
        self.key = TopicPartition(topic=topic, partition=0)

    def transactions(self) -> PartitionTransactions:
        return PartitionTransactions(self.cluster.router, self.key, prefix=f"offsite-test-{self.topic}")

    def write(self, slot: TransactionSlot, values: list[bytes]) -> None:
        with PartitionWriter(self.cluster.router, self.key, on_ack=lambda *_: None) as writer:
            records = [Record(n, 0, 0, None, value) for n, value in enumerate(values)]
            writer.send(encode(records), producer=slot.producer)
            writer.flush()

    def wait_for(self, end: int) -> None:
        wait_until(lambda: self.cluster.end(self.topic) == end)

    def kinds(self) -> Kinds:
        """Base offset of each batch, and whether it is a marker."""
        whole = self.cluster.whole(self.topic)
        return [(batch.header.base_offset, batch.header.is_control) for batch in self.cluster.read(whole)]


@pytest.fixture
def partition(broker: SandboxInfo) -> Partition:
    cluster = Cluster(broker.bootstrap)
    return Partition(cluster, cluster.make_topic())


def test_overlapping_transactions_end_where_they_are_told_to(partition: Partition) -> None:
    transactions = partition.transactions()
    first, second = transactions.begin(), transactions.begin()
    partition.write(first, [b"1", b"2"])
    partition.write(second, [b"3"])
    partition.write(first, [b"4"])
    transactions.end(second, committed=False)
    partition.wait_for(5)
    transactions.end(first, committed=True)
    partition.wait_for(6)
    assert partition.kinds() == [(0, False), (2, False), (3, False), (4, True), (5, True)]


def test_empty_transactions_leave_one_control_record_each(partition: Partition) -> None:
    transactions = partition.transactions()
    assert transactions.end_empty(5) == 5
    partition.wait_for(5)
    assert transactions.end_empty(10_000) == ENDED_AT_ONCE
    partition.wait_for(5 + ENDED_AT_ONCE)
    assert all(is_control for _, is_control in partition.kinds())


def test_another_process_finds_what_is_open_and_goes_on_with_it(partition: Partition) -> None:
    left = partition.transactions()
    partition.write(left.begin(), [b"1", b"2"])
    left.begin()
    found = partition.transactions()
    recovered = found.recover()
    assert list(recovered) == [0]
    assert recovered[0].producer.next_sequence == 2
    partition.write(recovered[0], [b"3"])
    found.end(recovered[0], committed=True)
    partition.wait_for(4)
    stray = found.begin()
    assert stray.producer.next_sequence == 0
    found.end(stray, committed=False)
    partition.wait_for(5)
    assert partition.transactions().recover() == {}


def test_what_is_open_is_never_passed_over(partition: Partition) -> None:
    left = partition.transactions()
    partition.write(left.begin(), [b"1"])
    with pytest.raises(TransactionLost, match="that this restore did not begin"):
        partition.transactions().begin()


def test_what_is_abandoned_is_aborted_and_shut_out(partition: Partition) -> None:
    left = partition.transactions()
    slot = left.begin()
    partition.write(slot, [b"1"])
    partition.transactions().abandon()
    partition.wait_for(2)
    with pytest.raises(TransactionLost):
        left.end(slot, committed=True)
    with pytest.raises(TransactionLost):
        partition.write(slot, [b"2"])


def test_replaying_goes_on_over_a_broker_that_dies(start_sandbox: StartSandbox) -> None:
    sandbox, info = start_sandbox()
    cluster = Cluster(info.bootstrap)
    partition = Partition(cluster, cluster.make_topic())
    transactions = partition.transactions()
    for end in replayed(partition, transactions, count=3):
        partition.wait_for(end)
    slot = transactions.begin()
    partition.write(slot, [b"before"])
    starting = killed_and_started_again(sandbox)
    partition.write(slot, [b"after"])
    transactions.end(slot, committed=True)
    starting.join()
    partition.wait_for(9)
    assert [offset for offset, is_control in partition.kinds() if is_control] == [1, 3, 5, 8]


def replayed(partition: Partition, transactions: PartitionTransactions, *, count: int) -> Iterator[int]:
    """One record a transaction; the end that the partition will have after each."""
    for number in range(count):
        slot = transactions.begin()
        partition.write(slot, [b"%d" % number])
        transactions.end(slot, committed=True)
        yield 2 * number + 2
