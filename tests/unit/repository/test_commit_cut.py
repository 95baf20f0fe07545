from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.range import PartitionId
from offsite.model.errors import DamagedObject
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, Position
from offsite.repository.snapshots.commit_cut import (
    COMMIT_CUT,
    CheckpointParticipant,
    CommitCut,
    CutGroup,
    CutPartition,
    DeclaredPosition,
    LeftOutTransactions,
    OpenAtEnd,
    get_commit_cut,
    put_commit_cut,
)
from offsite.repository.state import BackupState
from tests.backups import PARTITIONS, run_once

texts = st.text(max_size=10)
offsets = st.integers(0, 2**62)
partition_ids = st.builds(PartitionId, topic=st.sampled_from(["a", "b.c"]), topic_id=texts, partition=st.integers(0, 9))


def _partition(partition_id: PartitionId, found: set[int]) -> CutPartition:
    floor, *markers, end = sorted(found)
    return CutPartition(partition_id=partition_id, end=end, floor=floor, markers=tuple(markers))


cuts = st.builds(
    CommitCut,
    partitions=st.lists(st.builds(_partition, partition_ids, st.sets(offsets, min_size=2, max_size=5)), max_size=3).map(
        tuple
    ),
    groups=st.lists(
        st.builds(CutGroup, group=texts, partition_id=partition_ids, offset=st.integers(-1, 2**62)), max_size=3
    ).map(tuple),
    classes=st.dictionaries(texts, texts, max_size=3).map(lambda found: tuple(sorted(found.items()))),
    left_out=st.lists(
        st.builds(
            LeftOutTransactions, name=texts, partitions=st.just(("a/0", "b/1")), why=st.just("open"), because=texts
        ),
        max_size=2,
    ).map(tuple),
    left_out_count=offsets,
    open=st.lists(
        st.builds(OpenAtEnd, partition_id=partition_ids, producer_id=offsets, first_offset=offsets), max_size=2
    ).map(tuple),
    notes=st.lists(texts, max_size=2).map(tuple),
    refused=texts,
    participants=st.lists(
        st.builds(
            CheckpointParticipant,
            name=texts,
            can_replay=st.booleans(),
            positions=st.lists(
                st.builds(
                    DeclaredPosition, topic=st.sampled_from(["a", "b.c"]), partition=st.integers(0, 9), end=offsets
                ),
                max_size=2,
            ).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)
CUT = CommitCut(partitions=(CutPartition(partition_id=PARTITIONS[0], end=9, floor=3, markers=(4, 8)),))


@given(cuts)
def test_a_cut_comes_back_as_it_was(cut: CommitCut) -> None:
    assert COMMIT_CUT.decode(COMMIT_CUT.encode(cut), key="k") == cut


@pytest.mark.parametrize(
    "wrong", [{"floor": 10}, {"markers": (8, 4)}, {"markers": (2,)}, {"markers": (9,)}, {"end": -1}], ids=str
)
def test_markers_outside_of_what_is_left_out_are_refused(wrong: dict[str, int]) -> None:
    forged = replace(CUT, partitions=(replace(CUT.partitions[0], **wrong),))  # type: ignore[arg-type]
    with pytest.raises(DamagedObject):
        COMMIT_CUT.decode(COMMIT_CUT.encode(forged), key="k")


def with_cut(backup: Backup, base: BackupState, cut: CommitCut, end: int) -> BackupState:
    moved = Position(partition_id=PARTITIONS[0], log_start=0, end=end)
    return backup.commit(
        CommitChanges(positions=(moved,), cut=put_commit_cut(backup.store, base, cut)), base=base, writer=str(end)
    )


def test_a_cut_belongs_to_the_ends_it_was_made_for(backup: Backup) -> None:
    base = with_cut(backup, run_once(backup), CUT, 1000)
    assert base.cut is not None
    assert get_commit_cut(backup.store, base.cut) == CUT
    upkeep = backup.commit(CommitChanges(forgotten=((1, 2),)), base=base, writer="u")
    assert upkeep.cut == base.cut, "a commit that moves no end has the cut of the one before"
    assert backup.state() == upkeep
    moved = Position(partition_id=PARTITIONS[0], log_start=0, end=2000)
    beyond = backup.commit(CommitChanges(positions=(moved,)), base=upkeep, writer="m")
    assert beyond.cut is None, "ends without a cut of their own have none"
    assert backup.state_at(base.seq).cut == base.cut


def test_the_same_cut_is_not_stored_again(backup: Backup) -> None:
    first = with_cut(backup, run_once(backup), CUT, 1000)
    second = with_cut(backup, first, CUT, 2000)
    assert second.cut == first.cut
    assert len(list(backup.store.list(backup.layout.cuts_prefix))) == 1


def test_a_missing_or_altered_cut_is_damage(backup: Backup) -> None:
    state = with_cut(backup, run_once(backup), CUT, 1000)
    assert state.cut is not None
    with pytest.raises(DamagedObject, match="hash"):
        get_commit_cut(backup.store, replace(state.cut, hash="blake3:00"))
    with pytest.raises(DamagedObject, match="missing"):
        get_commit_cut(backup.store, replace(state.cut, key=backup.layout.cuts_key(1, "00000000")))
