"""The pure part of the example `examples/stream_processor`: replicas, snapshots and copies, without Kafka."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from examples.stream_processor import engine
from examples.stream_processor.backup import check_files
from examples.stream_processor.copies import CopyStore
from examples.stream_processor.engine import Here
from examples.stream_processor.place import Begun, Place
from examples.stream_processor.records import (
    CHECKPOINT_CREATE,
    CHECKPOINT_CREATED,
    CHECKPOINT_IGNORED,
    IGNORED,
    Message,
    Record,
    read_record,
    record_bytes,
)
from examples.stream_processor.replica import Replica, commands
from examples.stream_processor.snapshots import SnapshotFolder, snapshot_bytes, snapshot_of
from examples.stream_processor.state import State
from offsite_participant.bcs import Create, Progress
from offsite_participant.bcs_copies import Copy, CopyState

HERE = Here(number=2, partitions=3)
COPY = Copy(partition=2, checkpoint=7, term=0, state=CopyState.IN_PROGRESS, position=2, partitions=3)


def deployment(version: int, *, checkpoint: int = 0) -> Message:
    body = {"version": version, "deployment": f"process-{version}"}
    name = f"deployment/{version}/2"
    return Message(to=2, kind="deployment:distribute", body=body, sender=1, name=name, checkpoint=checkpoint)


def led(replica: Replica, *messages: Message) -> list[Record]:
    """What a leader appends for `messages`, which come in at once."""
    appended = commands(replica.state.progress, messages, first=replica.next_position, term=0)
    for each in appended:
        replica.take(each, each.position)
    return [*appended, *(each.event for each in replica.process(0))]


def kinds(records: list[Record]) -> list[str]:
    return [each.kind for each in records]


def test_a_message_of_a_sender_that_is_ahead_forces_its_checkpoint_first() -> None:
    records = led(Replica(HERE, State()), deployment(1), deployment(2, checkpoint=7), deployment(3, checkpoint=7))
    assert kinds(records[:4]) == ["deployment:distribute", CHECKPOINT_CREATE, *["deployment:distribute"] * 2]
    assert kinds(records[4:]) == ["deployment:distributed", CHECKPOINT_CREATED, *["deployment:distributed"] * 2]


CREATE = Message(to=2, kind=CHECKPOINT_CREATE, body=asdict(Create(checkpoint=7)))


def test_a_message_right_behind_the_request_forces_no_second_checkpoint() -> None:
    """ZEP008, case 1."""
    replica = Replica(HERE, State())
    records = led(replica, CREATE, deployment(1, checkpoint=7))
    assert kinds(records) == [
        CHECKPOINT_CREATE,
        CHECKPOINT_CREATE,
        "deployment:distribute",
        CHECKPOINT_CREATED,
        CHECKPOINT_IGNORED,
        "deployment:distributed",
    ]
    assert replica.state.progress.position == 0


def test_a_message_right_before_the_request_forces_the_checkpoint_and_the_request_is_ignored() -> None:
    """ZEP008, case 2."""
    replica = Replica(HERE, State())
    records = led(replica, deployment(1, checkpoint=7), CREATE)
    assert kinds(records) == [
        CHECKPOINT_CREATE,
        "deployment:distribute",
        CHECKPOINT_CREATE,
        CHECKPOINT_CREATED,
        "deployment:distributed",
        CHECKPOINT_IGNORED,
    ]
    assert replica.state.progress.position == 0


def test_the_engine_does_not_know_that_there_are_checkpoints() -> None:
    source = Path(engine.__file__).read_text(encoding="utf-8")
    assert "checkpoint" not in source.lower()
    assert engine.process(State(), HERE, commands(Progress(), [CREATE], first=0, term=0)[0]).kind == IGNORED


def test_a_request_that_comes_late_is_ignored() -> None:
    replica = Replica(HERE, State())
    assert kinds(led(replica, CREATE)) == [CHECKPOINT_CREATE, CHECKPOINT_CREATED]
    assert kinds(led(replica, CREATE)) == [CHECKPOINT_CREATE, CHECKPOINT_IGNORED]
    assert replica.state.progress.position == 0


def test_a_repetition_is_acknowledged_and_changes_nothing() -> None:
    replica = Replica(HERE, State())
    led(replica, deployment(1))
    replica.take(commands(replica.state.progress, [deployment(1)], first=2, term=0)[0], 2)
    (outcome,) = replica.process(0)
    assert outcome.event.kind == "ignored"
    assert outcome.reply == Message(to=1, kind="acknowledge", body={"name": "deployment/1/2"})


def test_a_replay_from_any_snapshot_comes_to_the_state_of_the_leader(tmp_path: Path) -> None:
    rng, leader, log = random.Random(3), Replica(HERE, State()), list[Record]()
    folder = SnapshotFolder(path=tmp_path)
    for number in range(1, 40):
        messages = [deployment(rng.randint(1, 30), checkpoint=number // 9) for _ in range(rng.randint(1, 5))]
        log += led(leader, *messages, Message(to=2, kind="instance:create", body={"instance": f"{number}", "key": "k"}))
        if rng.random() < 0.5:
            folder.save(snapshot_of(leader.state, leader.offset))
        base = folder.newest()
        follower = Replica(HERE, base.read() if base else State(), offset=base.offset if base else 0)
        for each in log[follower.offset :]:
            follower.take(read_record(record_bytes(each)), each.position)
        assert follower.is_idle
        assert asdict(follower.state) == asdict(leader.state)


def test_a_hole_in_the_log_and_a_version_that_is_not_known_stop_the_partition() -> None:
    records = led(Replica(HERE, State()), deployment(1), deployment(2))
    replica = Replica(HERE, State())
    replica.take(records[0], 0)
    with pytest.raises(ValueError, match="goes on with 2, and not with 1"):
        replica.take(records[2], 2)
    with pytest.raises(ValueError, match="version 2"):
        read_record(record_bytes(replace(records[0], version=2)))


def test_a_pinned_snapshot_stays_until_it_is_let_go(tmp_path: Path) -> None:
    folder = SnapshotFolder(path=tmp_path)
    for processed in (3, 8, 12):
        folder.save(snapshot_of(State(processed=processed, last=processed + 1), offset=processed))
    pinned = folder.pin(before=9)  # that of 8 has seen 9
    assert pinned is not None
    assert pinned.processed == 3
    assert [folder.remove_old(), len(list(tmp_path.iterdir()))] == [pinned, 2]
    folder.unpin(pinned)
    assert folder.remove_old() == folder.newest()
    assert folder.pin(before=9) is None


def test_a_state_of_a_copy_is_changed_by_one_writer_only(tmp_path: Path) -> None:
    store = copies_at(tmp_path)
    begun = store.begin(COPY)
    assert begun is not None
    assert store.change(begun, CopyState.FAILED, "its leader died") is not None
    assert store.change(begun, CopyState.COMPLETED) is None
    assert [each.copy.state for each in store.copies(7)] == [CopyState.FAILED]


def test_a_copy_is_cut_off_after_its_checkpoint_and_refused_if_that_is_not_there() -> None:
    log = led(Replica(HERE, State()), deployment(1), deployment(2), deployment(3, checkpoint=7), deployment(4))
    files = {"log.jsonl": b"".join(record_bytes(each) + b"\n" for each in log)}
    base, kept = check_files(COPY, files)
    assert (base, kept) == (None, log[:3])
    with pytest.raises(ValueError, match="not that of checkpoint 7"):
        check_files(replace(COPY, position=1), files)
    with pytest.raises(ValueError, match="not all records"):
        check_files(COPY, {"log.jsonl": record_bytes(log[0])})
    base = snapshot_of(State(processed=1, last=4), offset=0)
    with pytest.raises(ValueError, match="has seen 4"):
        check_files(COPY, {**files, "base.json": snapshot_bytes(base)})


def test_a_snapshot_knows_the_checkpoints_that_were_taken_before_it() -> None:
    replica = Replica(HERE, State())
    asked = [asdict(Create(checkpoint=each, is_marker=each == 8)) for each in (7, 8)]
    led(replica, *(Message(to=2, kind=CHECKPOINT_CREATE, body=each) for each in asked))
    read = snapshot_of(replica.state, 0).read()
    assert [(each.checkpoint, each.is_marker) for each in read.taken] == [(7, False), (8, True)]


def place_at(folder: Path) -> Place:
    place = Place(name="engine", bootstrap="", folder=folder, store_url=str(folder / "store"))
    place.store().prepare()
    return place


def copies_at(folder: Path) -> CopyStore:
    return CopyStore(place_at(folder), begun=Begun(partitions=3))
