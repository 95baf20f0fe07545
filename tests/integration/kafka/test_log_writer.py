"""A log written at known offsets over a broker that dies: not one outcome is lost or doubled."""

from __future__ import annotations

import pytest

from offsite.kafka.log_writer import LogWriter
from offsite.kafka.transaction_replay import PartitionTransactions
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.errors import OffsiteError, TargetDisturbed
from tests.conftest import StartSandbox
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_outage import killed_and_started_again

ROUNDS, SLOTS = 400, 3


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.soak)])
def test_writing_goes_on_over_a_broker_that_dies(start_sandbox: StartSandbox, kills: int) -> None:
    sandbox, info = start_sandbox()
    cluster = Cluster(info.bootstrap)
    where = TopicPartition(topic=cluster.make_topic(), partition=0)
    transactions = PartitionTransactions(cluster.router, where, prefix="offsite-test")
    slots = [transactions.begin() for _ in range(SLOTS)]
    log = LogWriter(cluster.router, where, at=0, unexpected=_unexpected, guard=lambda: None)
    expected = list[tuple[int, bool]]()
    for number in range(kills * ROUNDS):
        for slot in slots:
            expected.append((log.at, False))
            log.send_batch(encode([Record(n, 0, 0, None, b"%d" % number) for n in range(2)]), 2, slot.producer)
        for slot in slots:
            expected.append((log.at, True))
            log.send_outcomes([transactions.outcome(slot, committed=number % 2 == 0)])
            transactions.begin()
        if number % ROUNDS == ROUNDS // 2:
            starting = killed_and_started_again(sandbox)
    log.flush()
    starting.join()
    found = [(each.header.base_offset, each.header.is_control) for each in cluster.read(cluster.whole(where.topic))]
    assert found == expected


def _unexpected(start: int, end: int) -> OffsiteError:
    return TargetDisturbed(f"{start} to {end}")
