"""Scenarios of snapshots that end beside a checkpoint, and of copies that are deleted or cleaned up."""

from __future__ import annotations

import pytest

from offsite_participant import bcs_snapshots
from offsite_participant.bcs_copies import BackupStatus
from tests.simulation.engine import Command
from tests.simulation.partition import Partition
from tests.simulation.restored import NotRestorable, restored
from tests.simulation.store import Snapshot
from tests.simulation.test_scenarios import assert_restores, before, calm, copies, take
from tests.simulation.upload import NO_BASE, RunningUpload
from tests.simulation.world import World


@pytest.mark.parametrize("goes_by", ["both ends", "what was processed"])
@pytest.mark.parametrize("aborts", [True, False])
def test_a_snapshot_that_ends_beside_the_upload_is_aborted_or_the_checkpoint_is_lost(
    goes_by: str, aborts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZEP008's reason for its abort rule: the base is chosen after the `Create` was processed, and meanwhile a snapshot
    has ended that began before it, and that has seen what came behind it."""
    world = calm(beside_s=1e9)  # each leader has begun one, which ends when the scenario says so
    partition = world.partitions[0]
    if not aborts:
        monkeypatch.setattr(bcs_snapshots, "doubtful", lambda *_: None)
    if goes_by == "what was processed":
        monkeypatch.setattr(bcs_snapshots, "is_base", lambda span, *, before: span.processed < before)
    with pytest.MonkeyPatch.context() as patch:
        _chooses_its_base_late(world, partition, patch)
        take(world, 1)
        world.scheduler.run(world.scheduler.now + 15)
    assert any("aborted p1" in line for line in world.scheduler.trace) == aborts
    if aborts:
        assert copies(world, 1) == [(1, "completed")]
        assert_restores(world, 1)
    elif goes_by == "both ends":  # the snapshot is no base, and has taken the place of the one that was
        assert [copy.reason for copy in world.store.manifests.values() if copy.partition == 1] == [NO_BASE]
    else:
        with pytest.raises(NotRestorable, match="the base snapshot ends at"):
            restored(world.store, 1, seed=1)


def _chooses_its_base_late(world: World, partition: Partition, patch: pytest.MonkeyPatch) -> None:
    """Its upload comes to the store 5 s late, and only then asks for a base. Before that more is processed, and the
    snapshot ends."""
    pin, pinned, create = Partition.pin, Partition.pinned, RunningUpload._create
    asked: dict[tuple[int, int, int], int | None] = {}

    def note(self: Partition, checkpoint: int, term: int, *, before: int | None) -> None:
        asked[self.number, checkpoint, term] = before

    def choose(self: Partition, checkpoint: int, term: int) -> Snapshot | None:
        pin(self, checkpoint, term, before=asked[self.number, checkpoint, term])
        return pinned(self, checkpoint, term)

    def end_snapshot() -> None:
        assert partition.leader is not None
        assert partition.leader.slow is not None
        partition.leader.slow.settle()
        partition.leader.slow.finish()

    def late(self: RunningUpload) -> None:
        if self._partition is not partition:
            create(self)
            return
        world.scheduler.after(1, lambda: world.send(1, Command("deploy", 500), 0))
        world.scheduler.after(4, end_snapshot)
        world.scheduler.after(5, lambda: create(self))

    patch.setattr(Partition, "pin", note)
    patch.setattr(Partition, "pinned", choose)
    patch.setattr(RunningUpload, "_create", late)


def test_one_that_is_deleted_while_a_leader_is_at_work_stays_deleted() -> None:
    world = calm()
    partition, create = world.partitions[0], RunningUpload._create

    def deleted_first(self: RunningUpload) -> None:
        create(self)
        if self._partition is partition:
            world.delete(1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunningUpload, "_create", deleted_first)
        take(world, 1)
    assert world.status(1) is BackupStatus.DELETED
    assert copies(world, 1) == [(1, "deleted")]
    world.clean_up()
    assert with_files(world) == set()
    take(world, 1)
    assert world.status(1) is BackupStatus.DELETED, "an id is used once"


def test_files_of_what_failed_go_and_those_of_what_is_restored_stay() -> None:
    world = calm(before("p1 verify"))
    take(world, 1)
    take(world, 2)
    assert (world.status(1), world.status(2)) == (BackupStatus.FAILED, BackupStatus.COMPLETED)
    assert (1, "failed") in with_files(world)
    world.clean_up()
    assert with_files(world) == {(1, "completed"), (2, "completed")}, "one that is completed is no leftover"
    assert world.status(1) is BackupStatus.FAILED
    assert_restores(world, 2)


def with_files(world: World) -> set[tuple[int, str]]:
    """Checkpoint and state of each copy of which files are stored."""
    stored = (copy for place, copy in world.store.manifests.items() if place in world.store.contents)
    return {(copy.checkpoint, copy.state.value) for copy in stored}
