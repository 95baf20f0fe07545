"""The coordinator of the example: what it says of checkpoints, and what it deletes, from the store alone."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from examples.stream_processor import coordinator
from examples.stream_processor.__main__ import main
from examples.stream_processor.backup import Backup
from examples.stream_processor.coordinator import Coordinator
from examples.stream_processor.copies import FILES, CopyStore, Stored
from examples.stream_processor.place import Begun, Place, begin
from examples.stream_processor.snapshots import SnapshotFolder
from offsite_participant.bcs import Upload
from offsite_participant.bcs_copies import BackupStatus, Copy, CopyState

DATA = {"base.json": b"a base", "log.jsonl": b"a log"}
PARTITIONS = 2


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(name="engine", bootstrap="", folder=tmp_path, store_url=str(tmp_path / "store"))
    place.store().prepare()
    begin(place, Begun(partitions=PARTITIONS))
    return place


def put(place: Place, checkpoint: int, partition: int, *states: CopyState, term: int = 1, reason: str = "") -> Stored:
    """A copy with its files, in the last of its `states`."""
    copy = Copy(
        partition=partition,
        checkpoint=checkpoint,
        term=term,
        state=CopyState.IN_PROGRESS,
        position=4,
        partitions=PARTITIONS,
    )
    store = CopyStore(place)
    stored = store.begin(copy)
    store.write(copy, DATA)
    for state in states:
        assert stored is not None
        stored = store.change(stored, state, reason)
    assert stored is not None
    return stored


def completed(place: Place, checkpoint: int) -> None:
    for partition in range(1, PARTITIONS + 1):
        put(place, checkpoint, partition, CopyState.COMPLETED)


def files(place: Place) -> set[tuple[int, int, int, str]]:
    """Checkpoint, partition, term and name of each file that is stored of a copy."""
    keys = [info.key for info in place.store().list(f"{place.prefix}copies/") if "/state/" not in info.key]
    parts = [key.split("/")[2:] for key in keys]
    return {(int(checkpoint), int(partition), int(term), name) for checkpoint, partition, term, name in parts}


def copies_with_files(place: Place) -> set[tuple[int, int, int]]:
    return {(checkpoint, partition, term) for checkpoint, partition, term, _ in files(place)}


def test_the_status_is_told_as_a_whole_and_of_each_partition_with_the_reason(place: Place) -> None:
    put(place, 7, 1, CopyState.COMPLETED)
    put(place, 7, 2, CopyState.FAILED, reason="its leader died")
    report = Coordinator(place).report(7)
    assert report.status is BackupStatus.FAILED
    assert [partition.status for partition in report.partitions] == [BackupStatus.COMPLETED, BackupStatus.FAILED]
    assert [partition.copy.reason for partition in report.partitions if partition.copy] == ["", "its leader died"]
    assert Coordinator(place).status(8) is BackupStatus.DOES_NOT_EXIST


def test_it_answers_when_all_partitions_have_begun_and_asks_those_again_that_have_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()

    def ask(_self: Coordinator, checkpoint: int, *partitions: int) -> None:
        """The first request reaches partition 1 alone."""
        asked.append(checkpoint)
        if len(asked) <= len(partitions):
            put(place, checkpoint, len(asked))

    monkeypatch.setattr(coordinator, "REPEAT_S", 0.0)
    monkeypatch.setattr(Coordinator, "ask", ask)
    assert Coordinator(place).begin(7) is BackupStatus.ONGOING
    assert asked == [7, 7]


def test_a_list_has_the_newest_first_whatever_became_of_them(place: Place) -> None:
    completed(place, 7)
    put(place, 12, 1)
    put(place, 9, 2, CopyState.FAILED)
    told = [(report.checkpoint, report.status.value) for report in Coordinator(place).list()]
    assert told == [(12, "incomplete"), (9, "failed"), (7, "completed")]


def test_an_id_may_be_chosen_once_above_all_others(place: Place) -> None:
    taker = Coordinator(place)
    taker.claim(40)
    taker.claim(40)
    assert taker.new_id() == 41
    with pytest.raises(ValueError, match="take 42, or a higher one"):
        taker.claim(39)


def test_what_is_deleted_loses_its_files_keeps_its_mark_and_leaves_others_alone(place: Place) -> None:
    completed(place, 7)
    completed(place, 8)
    Coordinator(place).delete(7)
    assert Coordinator(place).status(7) is BackupStatus.DELETED
    assert copies_with_files(place) == {(8, 1, 1), (8, 2, 1)}
    assert Coordinator(place).status(8) is BackupStatus.COMPLETED


def test_nothing_is_deleted_of_what_is_not_there(place: Place) -> None:
    with pytest.raises(ValueError, match="nothing is stored of checkpoint 7"):
        Coordinator(place).delete(7)


def test_a_deletion_that_breaks_off_is_one_and_is_finished_by_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    completed(place, 7)
    change = CopyStore.change

    def once(store: CopyStore, stored: Stored, state: CopyState, reason: str = "") -> Stored | None:
        monkeypatch.setattr(CopyStore, "change", _breaks)
        return change(store, stored, state, reason)

    monkeypatch.setattr(CopyStore, "change", once)
    with pytest.raises(OSError, match="broken off"):
        Coordinator(place).delete(7)
    monkeypatch.setattr(CopyStore, "change", change)
    assert Coordinator(place).status(7) is BackupStatus.DELETED
    assert copies_with_files(place) == {(7, 1, 1), (7, 2, 1)}, "nothing goes before all are marked"
    Coordinator(place).delete(7)
    assert files(place) == set()


def _breaks(*_: object) -> None:
    raise OSError("broken off")


def test_a_leader_that_is_at_work_on_what_is_deleted_completes_nothing(place: Place) -> None:
    stored = put(place, 7, 1)
    Coordinator(place).delete(7)
    assert CopyStore(place).change(stored, CopyState.COMPLETED) is None
    CopyStore(place).write(stored.copy, DATA)  # it does not know yet
    assert Coordinator(place).status(7) is BackupStatus.DELETED
    assert len(Coordinator(place).clean_up()) == len(FILES)
    assert files(place) == set()


def test_a_clean_up_takes_what_ended_badly_and_nothing_else(place: Place) -> None:
    completed(place, 6)
    put(place, 7, 1, CopyState.ABANDONED)
    put(place, 7, 1, CopyState.COMPLETED, term=2)
    put(place, 7, 2)
    put(place, 8, 1, CopyState.FAILED)
    put(place, 9, 1, CopyState.COMPLETED, CopyState.DELETED)
    Coordinator(place).clean_up()
    assert copies_with_files(place) == {(6, 1, 1), (6, 2, 1), (7, 1, 2), (7, 2, 1)}
    assert Coordinator(place).clean_up() == ()


def test_a_state_that_was_seen_before_is_asked_for_again(place: Place) -> None:
    """Whoever cleans up may have looked long ago, or be wrong."""
    stored = put(place, 7, 1, CopyState.COMPLETED)
    wrong = replace(stored, copy=replace(stored.copy, state=CopyState.FAILED))
    with pytest.raises(ValueError, match="not to be removed"):
        CopyStore(place).remove_files(wrong)
    assert len(files(place)) == len(FILES)


def test_a_state_that_lies_where_it_does_not_belong_removes_nothing(place: Place) -> None:
    completed(place, 7)
    put(place, 8, 1, CopyState.FAILED)
    store = place.store()
    failed = store.get("engine/copies/0000000008/001/000000000001/state/0001.json")
    store.put_if_absent("engine/copies/0000000007/001/000000000001/state/0002.json", failed or b"")
    with pytest.raises(ValueError, match="is the state of another copy"):
        Coordinator(place).clean_up()
    assert copies_with_files(place) == {(7, 1, 1), (7, 2, 1), (8, 1, 1)}


def test_what_is_not_ours_stays_beside_what_goes(place: Place) -> None:
    put(place, 7, 1, CopyState.FAILED)
    (key,) = [info.key for info in place.store().list("engine/copies/") if info.key.endswith("base.json")]
    place.store().put_if_absent(key.replace("base.json", "notes.txt"), b"somebody's")
    Coordinator(place).clean_up()
    assert {name for *_, name in files(place)} == {"notes.txt"}


@pytest.fixture
def again(place: Place) -> Place:
    """A processor that was restored from checkpoint 7 of the other one."""
    again = replace(place, name="again")
    begin(again, Begun(partitions=PARTITIONS, parent=place.name, checkpoint=7))
    return again


def test_a_restored_one_deletes_nothing_of_its_parent(place: Place, again: Place) -> None:
    completed(place, 7)
    put(place, 6, 1, CopyState.FAILED)
    with pytest.raises(ValueError, match="belongs to the processor that this one was restored from"):
        Coordinator(again).delete(7)
    Coordinator(again).clean_up()
    assert copies_with_files(place) == {(7, 1, 1), (7, 2, 1), (6, 1, 1)}


def test_a_restored_one_makes_no_copy_of_what_its_parent_has_deleted_since(place: Place, again: Place) -> None:
    """Its log ends with the request for that checkpoint, which it processes once more."""
    completed(place, 7)
    Coordinator(place).delete(7)
    before = {info.key for info in place.store().list("")}
    Backup(again, 1, SnapshotFolder(path=again.folder), term=9)._upload(Upload(checkpoint=7, position=4), None)
    assert {info.key for info in place.store().list("")} == before
    assert Coordinator(again).status(7) is BackupStatus.DELETED


def test_a_restored_one_makes_no_copy_of_a_checkpoint_of_its_parent(place: Place, again: Place) -> None:
    """Its log holds the request for checkpoint 6 right before that for 7, and so not that the first was carried out."""
    completed(place, 7)
    before = {info.key for info in place.store().list("")}
    Backup(again, 1, SnapshotFolder(path=again.folder), term=9)._upload(Upload(checkpoint=6, position=3), None)
    assert {info.key for info in place.store().list("")} == before


def run(place: Place, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """The exit code of a command line, and what it printed."""
    options = ["--name", place.name, "--folder", str(place.folder), "--store", place.store_url]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["processor", *options, *words])
        code = main()
    printed = capsys.readouterr()
    return code, (printed.out + printed.err).splitlines()


def test_the_commands_need_nothing_but_the_store(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    completed(place, 7)
    put(place, 8, 1, CopyState.FAILED, reason="its leader died")
    assert run(place, capsys, "list") == (0, ["checkpoint 8: failed", "checkpoint 7: completed"])
    failed = ["checkpoint 8: failed", "  partition 1: failed (its leader died)", "  partition 2: doesNotExist"]
    assert run(place, capsys, "status", "8") == (1, failed)
    assert run(place, capsys, "status", "7")[0] == 0
    code, removed = run(place, capsys, "clean-up")
    assert (code, len(removed)) == (0, len(FILES))
    assert run(place, capsys, "delete", "7") == (0, ["checkpoint 7: deleted"])
    assert run(place, capsys, "delete", "9") == (1, ["nothing is stored of checkpoint 9"])
    Coordinator(place).claim(9)
    assert run(place, capsys, "backup", "--id", "3") == (
        1,
        ["checkpoint 9 was asked for already: take 10, or a higher one"],
    )
