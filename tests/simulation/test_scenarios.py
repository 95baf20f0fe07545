"""The scenarios of ZEP008, and those that its users met, each with the outcome that it has to have.

| scenario | here | elsewhere |
|---|---|---|
| S1-S11, S19-S22 for log processors | this file | |
| S12, S13, S14: transactions and groups across the cut | | tests/unit/cut, tests/integration/e2e/test_cut_*.py |
| S15: topics made anew, partitions added | | tests/integration/e2e/test_checkpoints.py |
| S16, S17: retention, unclean elections | | tests/worlds/source_events |
| S18: a clock that steps back | | tests/unit/checkpoint |
| S20: restores of topics that die | | tests/schedules, tests/integration/e2e |
| snapshots beside a checkpoint; deletion, clean-up | | test_snapshots_and_deletion.py |
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from offsite_participant import bcs
from offsite_participant.bcs_copies import BackupStatus, CopyState, restorable
from tests.simulation.coordinator import Taking
from tests.simulation.engine import Command, State
from tests.simulation.judge import state_faults
from tests.simulation.partition import Partition
from tests.simulation.restored import restored
from tests.simulation.store import Snapshot, Store, StoreError
from tests.simulation.upload import RunningUpload
from tests.simulation.world import PARTITIONS, Rates, World
from tests.virtual_time import Scheduler

Crash = Callable[[int, str], bool]


def never(_number: int, _name: str) -> bool:
    return False


def before(*names: str) -> Crash:
    """A leader dies right before each of these effects, once."""
    left = list(names)

    def crash(_number: int, name: str) -> bool:
        if name in left:
            left.remove(name)
            return True
        return False

    return crash


def calm(crash: Crash = never, *, eager_s: float = 0.0, beside_s: float = 0.0) -> World:
    """A world in which nothing goes wrong but what the scenario says, with some deployments and messages."""
    world = World(Scheduler(7, chaos=False), Rates(beside_s=beside_s), crash=crash)
    for each in world.partitions:
        each.eager_s = eager_s
    world.start()
    for number in range(1, 7):
        world.send(1, Command("deploy", number), 0)
        world.send(number % PARTITIONS + 1, Command("start", number, 2), 0)
        world.send(3, Command("publish", 100 + number, 2), 0)
    world.scheduler.run(5)
    return world


def take(world: World, checkpoint: int, *, asked: tuple[int, ...] = (1, 2, 3)) -> Taking:
    chosen = [each for each in world.partitions if each.number in asked]
    taking = Taking(world.scheduler, world.network, chosen, checkpoint)
    world.takings.append(taking)
    taking.begin()
    world.settle()
    return taking


def copies(world: World, checkpoint: int, partition: int = 1) -> list[tuple[int, str]]:
    """The term and the state of each copy."""
    found = (each for each in world.store.manifests.values() if each.checkpoint == checkpoint)
    return sorted((each.term, each.state.value) for each in found if each.partition == partition)


def assert_restores(world: World, checkpoint: int) -> None:
    states = []
    for _ in range(2):
        again = restored(world.store, checkpoint, seed=1)
        again.start()
        again.settle()
        states.append([each.leader.state for each in again.partitions if each.leader])
        assert list(state_faults(states[-1])) == []
        assert again.store.manifests == world.store.manifests, "the marker that is replayed takes no new backup"
    assert states[0] == states[1], "S20: a second restore is the same"


def test_s1_a_leader_dies_before_created_is_durable_the_next_one_takes_it() -> None:
    world = calm(before("p1 append created"))
    assert take(world, 1).acknowledged
    assert copies(world, 1) == [(2, "completed")]
    assert_restores(world, 1)


def test_s2_a_copy_that_was_begun_before_created_was_durable_is_abandoned() -> None:
    world = calm(before("p1 verify"), eager_s=5.0)
    assert take(world, 1).acknowledged
    assert copies(world, 1) == [(1, "abandoned"), (2, "completed")]
    assert_restores(world, 1)


def test_s3_a_copy_that_was_complete_before_created_was_durable_is_the_copy() -> None:
    world = calm(before("p1 append created"), eager_s=5.0)
    assert take(world, 1).acknowledged
    assert copies(world, 1) == [(1, "completed")]
    assert_restores(world, 1)


def fail_over(world: World, step: str, *, behind_snapshot: bool) -> tuple[int, int]:
    """Checkpoint 1 is taken, and partition 1 gets another leader instead of the `step` of its upload. Before that, if
    `behind_snapshot`, it goes on until a snapshot has seen more than the checkpoint. The position up to which the new
    leader begins with a snapshot, and that of the checkpoint."""
    partition, original = world.partitions[0], getattr(RunningUpload, step)
    processed, waiting = list[int](), list[bool]()

    def instead(self: RunningUpload) -> None:
        if self._partition is not partition or processed:
            original(self)
        elif behind_snapshot and partition.snapshots[-1].state.processed <= self._upload.position:
            if not waiting:
                waiting.append(True)
                world.send(1, Command("deploy", 77), 0)
                partition.steps_ahead += 1  # it is at work
            world.scheduler.after(0.1, lambda: instead(self))
        else:
            processed.append(partition.snapshots[-1].state.processed)
            partition.steps_ahead -= len(waiting)
            partition.elect()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunningUpload, step, instead)
        if not behind_snapshot:
            patch.setattr(Partition, "add_snapshot", lambda *_: None)
        take(world, 1)
    (copy,) = (each for each in world.store.manifests.values() if (each.partition, each.checkpoint) == (1, 1))
    assert world.status(1) is BackupStatus.FAILED
    return processed[0], copy.position


def reason(world: World) -> str:
    return next(each.reason for each in world.store.manifests.values() if each.partition == each.checkpoint == 1)


def assert_next_one_is_complete(world: World) -> None:
    take(world, 2)
    assert world.status(2) is BackupStatus.COMPLETED
    assert world.status(1) is BackupStatus.FAILED
    assert_restores(world, 2)


def test_s4_a_leader_dies_during_the_upload_the_next_one_replays_created_and_fails_the_copy() -> None:
    world = calm()
    snapshot, checkpoint = fail_over(world, "_put", behind_snapshot=False)
    assert snapshot < checkpoint
    assert (copies(world, 1), reason(world)) == ([(1, "failed")], "its leader changed")
    assert_next_one_is_complete(world)


def test_s5_a_leader_dies_during_the_upload_the_next_one_begins_behind_created_and_fails_the_copy() -> None:
    world = calm()
    snapshot, checkpoint = fail_over(world, "_put", behind_snapshot=True)
    assert snapshot > checkpoint
    assert (copies(world, 1), reason(world)) == ([(1, "failed")], "its leader changed")
    assert_next_one_is_complete(world)


def test_s6_a_leader_dies_before_the_upload_the_next_one_replays_created_and_puts_a_failed_copy() -> None:
    world = calm()
    snapshot, checkpoint = fail_over(world, "begin", behind_snapshot=False)
    assert snapshot < checkpoint
    assert (copies(world, 1), reason(world)) == ([(2, "failed")], "its leader died before it began")
    assert_next_one_is_complete(world)


def test_s7_a_leader_dies_before_the_upload_the_next_one_begins_behind_created_and_puts_a_failed_copy() -> None:
    world = calm()
    snapshot, checkpoint = fail_over(world, "begin", behind_snapshot=True)
    assert snapshot > checkpoint
    assert (copies(world, 1), reason(world)) == ([(2, "failed")], "its leader died before it began")
    assert_next_one_is_complete(world)


def test_s8_what_is_damaged_on_its_way_is_never_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    world = calm()
    monkeypatch.setattr(Store, "verify", lambda *_: False)
    take(world, 1)
    assert world.status(1) is BackupStatus.FAILED
    assert {each.reason for each in world.store.manifests.values()} == {"the store fails"}


def test_s8_a_store_that_fails_for_a_time_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world, put, left = calm(), Store.put, [StoreError()] * 4

    def failing(self: Store, *given: object) -> None:
        if left:
            raise left.pop()
        put(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "put", failing)
    take(world, 1)
    assert world.status(1) is BackupStatus.COMPLETED


def test_s9_a_coordinator_dies_on_its_way_and_the_same_id_again_completes_it() -> None:
    world = calm()
    take(world, 1, asked=(1,))
    assert world.status(1) is BackupStatus.INCOMPLETE
    with pytest.raises(ValueError, match="is incomplete"):
        restorable(world.store.manifests.values(), checkpoint=1, partitions=PARTITIONS)
    assert take(world, 1).acknowledged
    assert world.status(1) is BackupStatus.COMPLETED
    assert_restores(world, 1)


def test_s9_or_messages_of_the_partition_that_has_it_force_the_others() -> None:
    world = calm()
    take(world, 1, asked=(1,))
    world.send(1, Command("deploy", 99), 0)
    world.settle()
    assert world.status(1) is BackupStatus.COMPLETED
    assert_restores(world, 1)


def test_s10_repeated_and_overtaking_requests() -> None:
    world = calm()
    take(world, 7)
    late = take(world, 6)
    assert (late.acknowledged, late.passed) == (False, True)
    assert take(world, 7).acknowledged
    assert copies(world, 7) == [(1, "completed")]
    assert world.status(6) is BackupStatus.DOES_NOT_EXIST


def test_s11_two_coordinators_with_the_same_id_take_one_backup() -> None:
    world = calm()
    both = [Taking(world.scheduler, world.network, world.partitions, 1) for _ in range(2)]
    for each in both:
        each.begin()
    world.settle()
    assert [each.acknowledged for each in both] == [True, True]
    assert [copies(world, 1, each) for each in (1, 2, 3)] == [[(1, "completed")]] * 3


def test_s19_a_delete_that_broke_off_offers_no_restore() -> None:
    world = calm()
    take(world, 1)
    place = next(iter(world.store.manifests))
    world.store.change_to_deleted(place)
    assert world.status(1) is BackupStatus.DELETED
    with pytest.raises(ValueError, match="is deleted"):
        restorable(world.store.manifests.values(), checkpoint=1, partitions=PARTITIONS)


def test_s21_what_one_partition_lacks_is_missing_from_later_ones_only() -> None:
    world = calm()
    take(world, 5)
    for checkpoint in (6, 7):
        take(world, checkpoint, asked=(1, 2))
    statuses = [world.status(each) for each in (5, 6, 7)]
    assert statuses == [BackupStatus.COMPLETED, BackupStatus.INCOMPLETE, BackupStatus.INCOMPLETE]
    assert_restores(world, 5)
    take(world, 8)
    statuses = [world.status(each) for each in (6, 7, 8)]
    assert statuses == [BackupStatus.INCOMPLETE, BackupStatus.INCOMPLETE, BackupStatus.COMPLETED]
    assert [copies(world, each, 3) for each in (6, 7)] == [[], []], "it passed them over, and makes none of them later"


def test_after_a_restore_nobody_misses_copies_of_what_was_before_it() -> None:
    world = calm()
    take(world, 1, asked=(1,))
    take(world, 2)
    for place in [each for each, copy in world.store.manifests.items() if copy.checkpoint == 1]:
        del world.store.manifests[place]
    assert_restores(world, 2)


def test_a_base_snapshot_ends_before_the_checkpoint_with_all_that_followed_from_it() -> None:
    partition = calm().partitions[0]
    partition.snapshots = [Snapshot.exact(5, State(processed=4)), Snapshot.exact(13, State(processed=10))]
    partition.pin(1, 1, before=11)
    assert partition.pinned(1, 1) == partition.snapshots[0]


def test_a_leader_that_stalls_before_its_copy_is_in_progress_gives_way_to_the_next_one() -> None:
    """It processes the `Create`, stalls, and goes on after its successor has told that there is no copy."""
    world, stalled = calm(), list[int]()
    partition = world.partitions[0]
    partition.unaware_s, create = 1e9, RunningUpload._create

    def late(self: RunningUpload) -> None:
        if stalled or self._partition is not partition:
            return create(self)
        stalled.append(self._leader.term)
        partition.elect()
        return world.scheduler.after(5, lambda: create(self))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunningUpload, "_create", late)
        take(world, 1)
        world.scheduler.run(world.scheduler.now + 10)
    assert copies(world, 1) == [(1, "abandoned"), (2, "failed")]
    assert world.statuses[1][-1] is BackupStatus.FAILED


def test_s22_a_record_of_a_version_that_is_not_known_stops_the_partition() -> None:
    with pytest.raises(ValueError, match="version 2"):
        bcs.on_create(bcs.Progress(), bcs.Create(checkpoint=1, version=2), 0)
    with pytest.raises(ValueError, match="version 2"):
        bcs.on_replayed(bcs.Progress(), bcs.Created(checkpoint=1, position=0, version=2))


def test_the_log_behind_the_checkpoint_is_stored_and_left_out_of_a_restore() -> None:
    world = calm()
    for number in range(200, 230):
        world.scheduler.after(0.05 * (number - 200), lambda number=number: world.send(1, Command("deploy", number), 0))  # type: ignore[misc]
    take(world, 1)
    again = restored(world.store, 1, seed=1)
    behind = [
        len(world.store.contents[place].records) - len(partition.log.records)
        for partition in again.partitions
        for place, copy in world.store.manifests.items()
        if copy.partition == partition.number and copy.state is CopyState.COMPLETED
    ]
    assert max(behind) > 0
    assert_restores(world, 1)
