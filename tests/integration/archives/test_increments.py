"""Exports and imports that go on where the last one ended, whatever ended it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from offsite.archives.archive import Damage
from offsite.archives.formats import WriteOptions
from offsite.backup.plan import check_cluster
from offsite.engine.runner import OnProgress
from offsite.log.range import PartitionId
from offsite.log.records.batch_records import encode
from offsite.log.records.record import CREATE_TIME, Record
from offsite.model.errors import BackupExists, BadOption, DamagedArchive, OtherCluster, StoreUnreachable
from offsite.repository.commit import CommitChanges, RecordedHole
from tests.batches import make_batch, make_control_batch, make_log
from tests.inline_runner import InlineRunner
from tests.integration.archives.exchange import ALL_FORMATS, Exchange, NewSegment

T = TypeVar("T")
R = TypeVar("R")

T_MS = 1_700_000_000_000
WRITE = WriteOptions()


@dataclass
class FailingRunner(InlineRunner):
    """Loses its store in the middle of the run: after `tasks` tasks."""

    tasks: int

    def run(self, tasks: Sequence[T], function: Callable[[T], R], *, on_progress: OnProgress | None = None) -> list[R]:
        for task in tasks[: self.tasks]:
            function(task)
        raise StoreUnreachable("the store is gone")


def several_segments(exchange: Exchange) -> None:
    for start in range(0, 100, 20):
        exchange.commit(
            NewSegment(partition=0, start=start, end=start + 20, batches=[make_log(start, start + 20)]),
            NewSegment(partition=1, start=start, end=start + 20, batches=[make_log(start, start + 20)]),
        )


def assert_holds_all(exchange: Exchange, format_name: str) -> None:
    exchange.bring_in(format_name, "a", "back")
    assert exchange.content("back") == exchange.content("original")


@pytest.mark.parametrize("format_name", ALL_FORMATS)
def test_a_later_export_adds_what_is_new_and_a_later_import_too(exchange: Exchange, format_name: str) -> None:
    several_segments(exchange)
    added = [exchange.export(format_name, "a", commit=commit).records for commit in (1, 1, 3, 5)]
    assert added == [40, 0, 80, 80]
    assert_holds_all(exchange, format_name)
    exchange.commit(NewSegment(partition=0, start=100, end=110, batches=[make_log(100, 110)]))
    assert exchange.export(format_name, "a").records == 10
    assert exchange.bring_in(format_name, "a", "back").records == 10
    assert exchange.content("back") == exchange.content("original")


@pytest.mark.parametrize("format_name", ALL_FORMATS)
def test_an_export_may_end_inside_a_batch(exchange: Exchange, format_name: str) -> None:
    several_segments(exchange)
    before = exchange.export(format_name, "a", before=["topic=orders,partition=0,offset=33"])
    assert before.records == 133
    assert exchange.export(format_name, "a").records == 67
    assert_holds_all(exchange, format_name)


@pytest.mark.parametrize("format_name", ALL_FORMATS)
def test_an_export_that_failed_is_continued(exchange: Exchange, format_name: str) -> None:
    several_segments(exchange)
    for tasks in (0, 1, 3):
        job = exchange.job(format_name, "a")
        with pytest.raises(StoreUnreachable):
            job.run(job.plan(), FailingRunner(tasks=tasks))
    exchange.export(format_name, "a")
    assert_holds_all(exchange, format_name)


@pytest.mark.parametrize("format_name", ["avro", "kafka-backup"])
def test_a_transaction_without_an_outcome_is_exported_when_it_has_one(exchange: Exchange, format_name: str) -> None:
    open_batch = encode(
        [Record(10, T_MS, CREATE_TIME, b"k", b"v")], producer_id=7, producer_epoch=0, is_transactional=True
    )
    exchange.commit(
        NewSegment(partition=0, start=0, end=21, batches=[make_batch(0), bytes(open_batch), make_batch(11)])
    )
    first = exchange.export(format_name, "a")
    assert (first.records, [each.offset for each in first.postponed]) == (10, [10])
    assert exchange.export(format_name, "a").records == 0
    marker = make_control_batch(21, producer_id=7, committed=True)
    exchange.commit(NewSegment(partition=0, start=21, end=22, batches=[marker]))
    second = exchange.export(format_name, "a")
    assert (second.records, second.postponed) == (11, ())
    assert_holds_all(exchange, format_name)


def test_what_the_backup_has_dropped_since_is_a_hole(exchange: Exchange) -> None:
    several_segments(exchange)
    exchange.export("avro", "a", commit=1)
    backup = exchange.repository.backup("original")
    state = backup.state()
    partition = PartitionId(topic="orders", topic_id="id-orders", partition=1)
    removed = tuple(segment.key for segment in state.segments[partition][:3])
    backup.commit(CommitChanges(removed=removed), base=state, writer="retention")
    result = exchange.export("avro", "a")
    assert [(hole.partition, hole.start, hole.end) for hole in result.holes] == [(1, 20, 60)]
    assert not result.complete
    assert exchange.export("avro", "a").complete, "it is told once"


def test_holes_of_the_backup_are_told(exchange: Exchange) -> None:
    backup = exchange.commit(NewSegment(partition=0, start=20, end=40, batches=[make_log(20, 40)]))
    partition = PartitionId(topic="orders", topic_id="id-orders", partition=0)
    hole = RecordedHole(partition_id=partition, start=0, end=20, reason="retention")
    backup.commit(CommitChanges(holes=(hole,)), base=backup.state(), writer="w")
    assert [(each.start, each.end) for each in exchange.export("avro", "a").holes] == [(0, 20)]


def test_records_left_out_by_date_are_said_to_be_left_out(exchange: Exchange) -> None:
    several_segments(exchange)
    result = exchange.export("avro", "a", at=str(T_MS + 49))
    assert result.records == 100
    assert "left out permanently" in result.notes[0]


def test_a_backup_goes_on_with_its_own_archive_only(exchange: Exchange) -> None:
    several_segments(exchange)
    for place in ("a", "b"):
        exchange.export("avro", place)
    exchange.export("kafka-backup", "c")
    exchange.bring_in("avro", "a", "back")
    for format_name, place in (("avro", "b"), ("kafka-backup", "c")):
        with pytest.raises(BackupExists, match=r"the avro archive .*/a, not from the"):
            exchange.bring_in(format_name, place, "back")
    with pytest.raises(BackupExists, match="cluster"):
        exchange.bring_in("avro", "a", "original")
    with pytest.raises(OtherCluster, match="imported"):
        check_cluster(exchange.repository.backup("back"), "")


def test_damage_ends_an_import_and_nothing_is_made(exchange: Exchange) -> None:
    several_segments(exchange)
    exchange.export("osodevops", "a")
    files = sorted((path for path in _folder(exchange, "a").rglob("*.bin*")), key=str)
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedArchive, match=rf"{files[0].name} at byte \d+"):
        exchange.bring_in("osodevops", "a", "back")
    assert exchange.repository.backups() == ("original",)
    rest = exchange.bring_in("osodevops", "a", "back", skip_damaged=True)
    assert not rest.complete
    assert all(isinstance(each, Damage) and each.file.endswith(files[0].name) for each in rest.damaged)
    assert exchange.content("back")["orders", 1] == exchange.content("original")["orders", 1]


def test_an_export_in_rounds_is_one_export(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsite.archives.export.run.ROUND_TASKS", 3)
    several_segments(exchange)
    result = exchange.export("avro", "a")
    assert (result.records, result.files >= 4) == (200, True)
    assert_holds_all(exchange, "avro")


def test_options_mean_something_to_the_format_or_are_refused(exchange: Exchange) -> None:
    several_segments(exchange)
    for format_name, options, problem in (
        ("jsonl", {"plain": True}, "--plain cannot be used with jsonl archives"),
        ("avro", {"backup_id": "b"}, "--backup-id cannot be used with avro archives"),
        ("avro", {"compression": "zip"}, "no compression 'zip'"),
        ("trivadis", {}, "can only be read"),
        ("zip", {}, "no archive format 'zip'"),
    ):
        with pytest.raises(BadOption, match=problem):
            exchange.job(format_name, "a", options=replace(WRITE, **options))


def _folder(exchange: Exchange, name: str) -> Path:
    return Path(exchange.place(name))


@pytest.mark.parametrize("format_name", ["kafka-backup", "osodevops"])
def test_files_end_where_they_are_large_enough(exchange: Exchange, format_name: str) -> None:
    exchange.commit(NewSegment(partition=0, start=0, end=5000, batches=[make_log(0, 5000)]))
    one = exchange.export(format_name, "b")
    many = exchange.export(format_name, "a", options=WriteOptions(segment_bytes=20_000))
    assert (one.files, many.files > 2) == (1, True)
    assert_holds_all(exchange, format_name)


@pytest.mark.parametrize(("format_name", "compression"), [("avro", "null"), ("avro", "deflate"), ("jsonl", "zstd")])
def test_archives_are_compressed_as_asked(exchange: Exchange, format_name: str, compression: str) -> None:
    several_segments(exchange)
    exchange.export(format_name, "a", options=WriteOptions(compression=compression))
    assert_holds_all(exchange, format_name)
