"""The example `examples/stream_processor` on a real broker: what its checkpoints promise."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from examples.stream_processor.coordinator import Coordinator
from examples.stream_processor.log import Deposed, LogWriter, read_log
from examples.stream_processor.node import Node
from examples.stream_processor.place import Place, begin, begun_of, create_topics
from examples.stream_processor.records import ELECTED, Record
from examples.stream_processor.restore import restore
from examples.stream_processor.view import read_all
from offsite.sandbox import SandboxInfo
from offsite_participant.bcs_copies import BackupStatus
from tests.integration.stream_processor.processor_world import (
    PARTITIONS,
    NodeProcess,
    Traffic,
    new_place,
    node_in_process,
    restored,
    states_at_rest,
    traffic,
    violations,
    wait_until,
)


@pytest.fixture
def place(broker: SandboxInfo, tmp_path: Path) -> Place:
    return new_place(broker.bootstrap, tmp_path)


def test_checkpoints_under_load_restore_to_what_all_partitions_agree_on_though_leaders_are_killed(
    place: Place,
) -> None:
    coordinator, nodes = Coordinator(place), [NodeProcess(place), NodeProcess(place)]
    try:
        with traffic(place, random.Random(1)):
            _taken(coordinator)
            nodes[0].kill()
            checkpoint = _taken(coordinator)
    finally:
        for node in nodes:
            node.kill()
    states = restored(place, checkpoint)
    assert violations(states) == []
    assert all(any(each.messages for each in state.instances.values()) for state in states.values())


def test_a_partition_that_nobody_asked_is_forced_by_the_messages_that_it_gets(place: Place) -> None:
    checkpoint, status = _first_partition_first(place, stamps=True)
    assert status is BackupStatus.COMPLETED
    assert violations(restored(place, checkpoint)) == []


def test_without_stamps_on_messages_the_same_checkpoint_is_none(place: Place) -> None:
    checkpoint, status = _first_partition_first(place, stamps=False)
    assert status is BackupStatus.INCOMPLETE
    with node_in_process(place, stamps=False):
        assert Coordinator(place).take(checkpoint) is BackupStatus.COMPLETED
    found = violations(restored(place, checkpoint, stamps=False))
    assert any("versions" in each for each in found), found
    assert any("nobody published" in each for each in found), found


def test_a_deposed_leader_cannot_append(place: Place) -> None:
    deposed, leader = LogWriter(place, 1), LogWriter(place, 1)
    with pytest.raises(Deposed):
        deposed.append([Record(position=0, term=0, kind=ELECTED, body={"by": "the deposed"})])
    leader.append([Record(position=0, term=0, kind=ELECTED, body={"by": "the leader"})])
    assert [record.body["by"] for record, _ in read_log(place, 1, offset=0)] == ["the leader"]


def test_nobody_leads_before_a_restore_is_complete(place: Place) -> None:
    target = replace(place, name=f"{place.name}-half")
    create_topics(target, PARTITIONS, replicas=1)
    with pytest.raises(ValueError, match="not complete"):
        Node(target)
    begin(target, begun_of(place))
    Node(target)


def test_a_damaged_copy_is_not_restored(place: Place) -> None:
    with node_in_process(place):
        checkpoint = _taken(Coordinator(place))
    log = next(Path(place.store_url).glob("*/copies/*/002/*/log.jsonl"))
    log.chmod(0o600)
    log.write_bytes(log.read_bytes().replace(b'"position":0', b'"position":1', 1))
    target = replace(place, name=f"{place.name}-damaged")
    with pytest.raises(ValueError, match="damaged"):
        restore(place, checkpoint, target, replicas=1)
    create_topics(target, PARTITIONS, replicas=1)  # nothing was made


def _taken(coordinator: Coordinator) -> int:
    """The id of a completed checkpoint: a leader that dies fails its copies, so that it may take more than one."""
    for _ in range(5):
        checkpoint = coordinator.new_id()
        if coordinator.take(checkpoint) is BackupStatus.COMPLETED:
            return checkpoint
    raise AssertionError("none was completed")


def _first_partition_first(place: Place, *, stamps: bool) -> tuple[int, BackupStatus]:
    """A checkpoint for which only partition 1 is asked, before a deployment and correlations; its status after them."""
    coordinator, clients = Coordinator(place), Traffic(place, random.Random(2))
    with node_in_process(place, stamps=stamps):
        checkpoint = coordinator.new_id()
        coordinator.ask(checkpoint, 1)
        wait_until(lambda: read_all(place)[1].state.checkpoint == checkpoint, "partition 1 to take its checkpoint")
        clients.deploy()
        for number in range(20):
            clients.begin_instance(home=number % PARTITIONS + 1, key=f"key-{number}")
            clients.publish(f"key-{number}")
        clients.flush()
        wait_until(lambda: len(read_all(place)[1].state.deployments) == 1, "the deployment")
        states_at_rest(place)
        if stamps:
            wait_until(lambda: coordinator.status(checkpoint) is BackupStatus.COMPLETED, "the forced checkpoints")
        return checkpoint, coordinator.status(checkpoint)
