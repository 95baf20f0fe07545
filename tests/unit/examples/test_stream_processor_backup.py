"""Leaders of the example that do not know of each other: what each does to the copies of one checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples.stream_processor import backup as backup_module
from examples.stream_processor.backup import Backup, check_files
from examples.stream_processor.copies import CopyStore, Stored
from examples.stream_processor.place import Begun, Place, begin
from examples.stream_processor.records import CHECKPOINT_CREATE, Record, record_bytes
from examples.stream_processor.restore import restore
from examples.stream_processor.snapshots import SnapshotFolder, snapshot_of
from examples.stream_processor.state import State
from offsite_participant.bcs import Created, Upload
from offsite_participant.bcs_copies import Copy, CopyState

TAKEN = Created(checkpoint=7, position=0)
EARLIER, LATER = 1, 5
FILES = Backup._files
LOG = record_bytes(Record(position=0, term=0, kind=CHECKPOINT_CREATE, body={"checkpoint": 7})) + b"\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(name="engine", bootstrap="", folder=tmp_path, store_url=str(tmp_path / "store"))
    place.store().prepare()
    monkeypatch.setattr(Backup, "_files", lambda *_: {"log.jsonl": LOG})
    return place


def backup(place: Place, term: int) -> Backup:
    return Backup(place, 2, SnapshotFolder(path=place.folder), term=term)


def uploads(place: Place, term: int) -> None:
    backup(place, term)._upload(Upload(checkpoint=TAKEN.checkpoint, position=TAKEN.position), None)


def cleans_up(place: Place, term: int) -> None:
    backup(place, term)._clean_up(TAKEN.checkpoint, (TAKEN,))


def states(place: Place) -> dict[int, str]:
    return {each.copy.term: each.copy.state.value for each in CopyStore(place).copies(7)}


def right_before_the_copy_of(term: int, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    put = CopyStore.begin

    def late(store: CopyStore, copy: Copy) -> Stored | None:
        if copy.term == term:
            act()
        return put(store, copy)

    monkeypatch.setattr(CopyStore, "begin", late)


@pytest.mark.parametrize(
    ("successor", "ends"),
    [(cleans_up, {EARLIER: "abandoned", LATER: "failed"}), (uploads, {EARLIER: "abandoned", LATER: "completed"})],
)
def test_a_leader_whose_copy_comes_after_that_of_its_successor_gives_way(
    successor: Callable[[Place, int], None], ends: dict[int, str], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(place, Begun(partitions=3))
    right_before_the_copy_of(EARLIER, lambda: successor(place, LATER), monkeypatch)
    uploads(place, EARLIER)
    assert states(place) == ends


def test_what_was_completed_while_a_successor_missed_it_stays_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(place, Begun(partitions=3))
    right_before_the_copy_of(LATER, lambda: uploads(place, EARLIER), monkeypatch)
    cleans_up(place, LATER)
    assert states(place) == {EARLIER: "completed", LATER: "abandoned"}


def test_what_was_begun_while_a_successor_missed_it_fails(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the last copy that is unfinished: nobody is told that it has failed while another one may be completed."""
    begin(place, Begun(partitions=3))
    upload = Upload(checkpoint=TAKEN.checkpoint, position=TAKEN.position)
    right_before_the_copy_of(LATER, lambda: backup(place, EARLIER)._begun(upload), monkeypatch)
    cleans_up(place, LATER)
    assert states(place) == {EARLIER: "abandoned", LATER: "failed"}


@pytest.mark.parametrize(("restored", "said"), [(0, {LATER: "failed"}), (6, {LATER: "failed"}), (7, {}), (8, {})])
def test_after_a_restore_nothing_is_said_of_what_was_before_it(
    restored: int, said: dict[int, str], place: Place
) -> None:
    begin(place, Begun(partitions=3, parent="origin" if restored else "", checkpoint=restored))
    cleans_up(place, LATER)
    assert states(place) == said
    assert not list(place.store().list("origin/")), "the parent's part of the store is not written to"


@pytest.mark.parametrize("log", [LOG, b""], ids=["completed", "failed"])
def test_the_snapshot_is_let_go_whatever_becomes_of_its_copy(
    log: bytes, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(place, Begun(partitions=3))
    monkeypatch.setattr(Backup, "_files", lambda *_: {"log.jsonl": log})
    folder = SnapshotFolder(path=place.folder / "snapshots")
    for processed in (3, 8):
        folder.save(snapshot_of(State(processed=processed, last=processed), offset=processed))
    base = folder.pin(before=5)
    assert folder.remove_old() == base, "neither the snapshot goes, nor the log behind it"
    upload = Upload(checkpoint=TAKEN.checkpoint, position=TAKEN.position)
    Backup(place, 2, folder, term=EARLIER)._upload(upload, base)
    assert states(place) == {EARLIER: "completed" if log else "failed"}
    assert folder.remove_old() == folder.newest() != base


def test_a_copy_holds_the_snapshot_the_log_behind_it_and_the_position(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [Record(position=number, term=0, kind="ignored", body={}) for number in range(9)]
    log[6] = Record(position=6, term=0, kind=CHECKPOINT_CREATE, body={"checkpoint": 7})

    def read_log(_place: Place, partition: int, *, offset: int) -> Iterator[tuple[Record, int]]:
        assert partition == 2
        yield from ((record, record.position) for record in log[offset:])

    monkeypatch.setattr(Backup, "_files", FILES)
    monkeypatch.setattr(backup_module, "read_log", read_log)
    begin(place, Begun(partitions=3))
    base = snapshot_of(State(processed=3, last=3), offset=4)
    backup(place, EARLIER)._upload(Upload(checkpoint=7, position=6), base)
    (stored,) = CopyStore(place).copies(7)
    assert (stored.copy.state, stored.copy.position) == (CopyState.COMPLETED, 6)
    files = CopyStore(place).read(stored.copy)
    assert files["log.jsonl"].splitlines() == [record_bytes(record) for record in log[4:]], "what lies behind as well"
    assert check_files(stored.copy, files) == (base, log[4:7])


def test_a_restore_never_goes_into_what_is_there(place: Place) -> None:
    begin(place, Begun(partitions=3))
    (place.folder / place.name).mkdir(exist_ok=True)
    with pytest.raises(ValueError, match="exists already"):
        restore(place, 7, place, replicas=1)
