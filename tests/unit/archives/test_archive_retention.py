"""What retention takes out of an archive, what it never does, and what is left wherever it is broken off."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from offsite.archives.archive import ArchiveReader, ArchiveTopic, ArchiveWriter
from offsite.archives.formats import ReadOptions, WriteOptions, open_reader, open_retention, open_writer
from offsite.archives.kafka_backup.partition_files import decode_partition_index
from offsite.archives.retention import (
    ArchiveFile,
    ExpiredObject,
    LastMessage,
    RetentionLimits,
    choose_files,
    find_age_reference_ms,
)
from offsite.archives.retention_audit import ArchiveAudit
from offsite.archives.retention_run import (
    ArchiveRetentionPlan,
    ArchiveRetentionResult,
    RetentionTarget,
    carry_out,
    plan_retention,
)
from offsite.log.buffer import Buffer
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record
from offsite.model.clock import SystemClock
from offsite.model.errors import (
    ArchiveBusy,
    ArchiveNotFound,
    BadOption,
    ClocksDiffer,
    OverwritingStore,
    StoreDenied,
    StoreFull,
)
from offsite.model.untrusted.bounded_json import check_digest
from offsite.repository.snapshots.audit_record import AuditLine, read_audit
from tests.archive_records import write_range
from tests.faulty_store import Crash
from tests.memory_archive import MemoryArchive

HOUR_MS = 3_600_000
QUARTER_MS = HOUR_MS // 4
NOW_MS = 1_700_000_000_000
FORMATS = ("avro", "parquet", "jsonl", "osodevops", "kafka-backup")
INDEXED = FORMATS[:3]
FILES = 6
PER_FILE = 4
END = FILES * PER_FILE


class FixedClock(SystemClock):
    def now_ms(self) -> int:
        return NOW_MS


@dataclass(frozen=True)
class Archive:
    format: str
    files: MemoryArchive
    collect_after_ms: int = 0

    @property
    def writer(self) -> ArchiveWriter:
        options = WriteOptions(backup_id="b" if self.format == "osodevops" else "")
        if self.format == "kafka-backup":
            options = replace(options, segment_bytes=200)
        return open_writer(self.format, self.files, options)

    @property
    def reader(self) -> ArchiveReader:
        return open_reader(self.format, self.files)

    @property
    def target(self) -> RetentionTarget:
        archive = open_retention(self.format, self.files)
        return RetentionTarget(
            format=self.format, files=self.files, archive=archive, collect_after_ms=self.collect_after_ms
        )

    def export(self, start: int, end: int, *, partition: int = 0) -> None:
        writer = self.writer
        assert writer.ends().get(TopicPartition(topic="orders", partition=partition), 0) == start
        written = write_range(writer, records(start, end), start=start, end=end, partition=partition)
        writer.finish([written], [ArchiveTopic(topic="orders", partitions=2)], {})

    def plan(self, *, keep_age_ms: int | None = None, max_bytes: int | None = None) -> ArchiveRetentionPlan:
        limits = RetentionLimits(keep_age_ms=keep_age_ms, max_bytes=max_bytes)
        return plan_retention(self.target, limits, clock=FixedClock())

    def apply(self, plan: ArchiveRetentionPlan) -> ArchiveRetentionResult:
        return carry_out(self.target, plan, clock=FixedClock())

    def offsets(self, partition: int = 0) -> list[int]:
        """Of all that a reader gets, who refuses damage."""
        reader = self.reader
        pieces = [each for each in reader.contents().pieces if each.partition == partition]
        return [record.offset for piece in pieces for batch in reader.read(piece) for record in batch]


def records(start: int, end: int) -> list[Record]:
    """The one at offset 0 is the oldest, 25 hours old; each is a quarter of one younger than the one before."""
    value = b"v" * 20
    return [Record(at, NOW_MS - (100 - at) * QUARTER_MS, 0, b"k%d" % at, value, ()) for at in range(start, end)]


def made(format_name: str, *, collect_after_ms: int = 0) -> Archive:
    """Six files of four records in partition 0, one in partition 1."""
    files = MemoryArchive(NOW_MS, is_folder=format_name == "kafka-backup")
    archive = Archive(format_name, files, collect_after_ms)
    for start in range(0, END, PER_FILE):
        archive.export(start, start + PER_FILE)
    archive.export(0, PER_FILE, partition=1)
    return archive


@pytest.fixture(params=FORMATS)
def archive(request: pytest.FixtureRequest) -> Archive:
    return made(request.param)


def age_of(offset: int) -> int:
    """What keeps the record at `offset` and all behind it."""
    return (100 - offset) * QUARTER_MS


def bodies(archive: Archive) -> set[str]:
    keys = {each.key for each in archive.files.list() if ".json" not in each.key or "jsonl" in each.key}
    return {key for key in keys if not key.startswith("_audit/")}


def lines(archive: Archive) -> list[AuditLine]:
    audit = ArchiveAudit(files=archive.files)
    found = list(read_audit(audit, audit))
    assert all(isinstance(each, AuditLine) for each in found)
    return [each for each in found if isinstance(each, AuditLine)]


def told(archive: Archive, kind: str) -> set[str]:
    return {each.deletion.what for each in lines(archive) if each.deletion.kind == kind}


def test_files_go_whose_last_message_is_old_and_the_rest_is_read_on(archive: Archive) -> None:
    assert archive.offsets() == list(range(END))
    before = bodies(archive)
    plan = archive.plan(keep_age_ms=age_of(10))  # within the third file, and the newest of partition 1 is as old
    assert [(each.file.start, each.file.partition.partition) for each in plan.going] == [(0, 0), (4, 0)]
    assert [each.last_message_ms for each in plan.going] == [
        records(3, 4)[0].timestamp_ms,
        records(7, 8)[0].timestamp_ms,
    ]
    assert archive.offsets() == list(range(END)), "a plan changes nothing"
    done = archive.apply(plan)
    gone = {key for each in plan.going for key in each.file.keys}
    assert {each.key for each in done.deleted} == gone
    assert bodies(archive) == before - gone
    assert (done.locked, done.waiting) == ((), ())
    assert archive.offsets() == list(range(8, END))
    assert archive.offsets(1) == list(range(PER_FILE))
    contents = archive.reader.contents()
    assert min(each.start for each in contents.pieces if not each.partition) == 8, (
        "else it would say: nothing was there"
    )
    holes = [(each.range.start, each.range.end, each.reason) for each in contents.holes]
    assert holes == ([(0, 8, "retention")] if archive.format == "osodevops" else [])
    archive.export(END, END + 4)
    assert archive.offsets() == list(range(8, END + 4))


def test_the_index_of_a_partition_names_what_retention_left_of_it() -> None:
    archive = made("kafka-backup")
    before = segments_in_index(archive)
    archive.apply(archive.plan(keep_age_ms=age_of(10)))
    assert segments_in_index(archive) == before[2:] == sorted(each for each in bodies(archive) if each in before)


def segments_in_index(archive: Archive) -> list[str]:
    index = archive.files.get("orders/index_partition_000")
    return [f"orders/{each.stem}_records" for each in decode_partition_index(bytes(index or b""))]


def test_a_plan_says_what_stays_and_why(archive: Archive) -> None:
    first, second = archive.plan(keep_age_ms=age_of(10)).kept_files
    assert (first.partition.partition, first.start, first.files) == (0, 8, 4)
    assert first.why.startswith("the last message of ")
    assert (second.partition.partition, second.files, second.why) == (1, 1, "the newest file of a partition is kept")
    assert first.size_bytes > second.size_bytes > 0


def test_the_newest_file_of_a_partition_never_goes(archive: Archive) -> None:
    archive.apply(archive.plan(keep_age_ms=0, max_bytes=0))
    assert archive.offsets() == list(range(END - PER_FILE, END))
    assert archive.offsets(1) == list(range(PER_FILE))
    again = archive.plan(keep_age_ms=0, max_bytes=0)
    assert (again.going, again.collectable, again.waiting) == ((), (), ())


@pytest.mark.parametrize("apart_ms", [365 * 24 * HOUR_MS, 60 * 24 * HOUR_MS])
def test_a_clock_that_is_ahead_or_a_silent_source_makes_no_file_older(archive: Archive, apart_ms: int) -> None:
    """The folder's clock is the machine's: nothing tells which of the two it is."""
    archive.files.clock_ms += apart_ms
    limits = RetentionLimits(keep_age_ms=30 * 24 * HOUR_MS)
    plan = plan_retention(archive.target, limits, clock=_At(archive.files.clock_ms))
    assert (plan.going, plan.from_ms) == ((), records(END - 1, END)[0].timestamp_ms)
    limits = RetentionLimits(keep_age_ms=(END - 1 - 10) * QUARTER_MS)
    plan = plan_retention(archive.target, limits, clock=_At(archive.files.clock_ms))
    assert [each.file.start for each in plan.going] == [0, 4], "the newest record is who tells the time"


@pytest.mark.parametrize("at_ms", [None, NOW_MS + HOUR_MS])
def test_where_no_record_tells_the_time_nothing_goes_by_age(at_ms: int | None) -> None:
    times = {0: 1, 10: 2, 20: at_ms, 30: at_ms}
    files = [file(start, start + 10) for start in times]
    from_ms = find_age_reference_ms([files], lambda each: LastMessage(at_ms=times[each.start]), now_ms=NOW_MS)
    assert from_ms == 0


def test_the_oldest_go_until_the_rest_is_small_enough(archive: Archive) -> None:
    sizes = [each.file.size_bytes for each in archive.plan(keep_age_ms=0).going]
    total = sum(each.size_bytes for each in archive.plan(keep_age_ms=age_of(0)).kept_files)
    plan = archive.plan(max_bytes=total - sizes[0] - 1)
    assert [each.file.start for each in plan.going] == [0, 4]
    assert {each.why for each in plan.going} == {"beyond --max-bytes"}
    assert sum(each.size_bytes for each in plan.kept_files) == total - sum(sizes[:2])
    assert archive.plan(max_bytes=total).going == ()
    both = archive.plan(keep_age_ms=age_of(4), max_bytes=total - sum(sizes[:2]))
    assert [each.why for each in both.going] == ["older than 1 d 0 h", "beyond --max-bytes"]


@pytest.mark.slow
def test_broken_off_anywhere_the_archive_is_whole_and_the_next_run_ends_it(archive: Archive) -> None:
    plan = archive.plan(keep_age_ms=age_of(10))
    whole = Archive(archive.format, archive.files.copy())
    before = whole.files.changes
    whole.apply(plan)
    changes = whole.files.changes - before
    assert changes >= 4
    for dies_at in range(changes):
        copy = Archive(archive.format, archive.files.copy())
        copy.files.dies_at = dies_at
        with pytest.raises(Crash):
            copy.apply(plan)
        copy.files.dies_at = -1
        left = copy.offsets()
        assert left == list(range(left[0], END))
        assert left[0] in (0, 4, 8)
        going_on = Archive(archive.format, copy.files.copy())
        going_on.export(END, END + 4)
        assert going_on.offsets() == list(range(going_on.offsets()[0], END + 4))
        for each in (copy, going_on):
            each.apply(each.plan(keep_age_ms=age_of(10)))
            assert each.offsets()[0] == 8
        assert bodies(copy) == bodies(whole)


def test_nothing_goes_before_its_line_is_written(archive: Archive) -> None:
    plan = archive.plan(keep_age_ms=age_of(10))
    going, before = [each.file for each in plan.going], bodies(archive)

    def judge() -> None:
        gone = before - bodies(archive)
        assert gone <= told(archive, "object")
        starts = {each.start for each in archive.reader.contents().pieces if not each.partition}
        if min(starts) > 0:
            assert {each.name for each in going} == told(archive, "file")

    archive.files.before = judge
    archive.apply(plan)
    archive.files.before = None
    judge()
    assert told(archive, "object") == before - bodies(archive) != set()
    freed = {each.deletion.what: each.deletion.bytes for each in lines(archive) if each.deletion.kind == "file"}
    assert freed == {each.name: each.size_bytes for each in going}
    assert {(each.at_ms, each.by, each.deletion.rule) for each in lines(archive) if each.deletion.kind == "file"} == {
        (NOW_MS, "archive retention", plan.going[0].why)
    }
    written = len(lines(archive))
    archive.apply(archive.plan(keep_age_ms=age_of(10)))
    assert len(lines(archive)) == written, "nothing went"


def test_what_cannot_be_written_down_stays(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    put, before = archive.files.put, dict(archive.files.objects)

    def full(key: str, data: Buffer, **more: int) -> None:
        if key.startswith("_audit/"):
            raise StoreFull("no space is left")
        put(key, data, **more)

    monkeypatch.setattr(archive.files, "put", full)
    with pytest.raises(StoreFull):
        archive.apply(archive.plan(keep_age_ms=age_of(10)))
    assert archive.files.objects == before


def test_no_reader_of_any_format_sees_the_audit(archive: Archive) -> None:
    silent = Archive(archive.format, archive.files.copy())
    ArchiveAudit(files=archive.files, at_ms=NOW_MS).note_objects(
        [ExpiredObject(key="k", partition=TopicPartition(topic="orders", partition=0), size_bytes=1, since_ms=0)]
    )
    assert len(archive.files.objects) == len(silent.files.objects) + 1
    options = [ReadOptions()] + [ReadOptions(adopt_orphans=True)] * (archive.format == "osodevops")
    for each in options:
        seen, unseen = (open_reader(archive.format, files, each).contents() for files in (archive.files, silent.files))
        assert seen == unseen
    assert archive.writer.ends() == silent.writer.ends()
    assert archive.writer.left_alone() == ()
    assert lines(archive), "whoever goes on with the archive leaves it, too"
    for manifest in [key for key in archive.files.objects if key.endswith(("_archive.json", "manifest.json"))]:
        for files in (archive.files, silent.files):
            del files.objects[manifest]
    unnamed = ReadOptions(adopt_orphans=archive.format == "osodevops")
    seen, unseen = (open_reader(archive.format, files, unnamed).contents() for files in (archive.files, silent.files))
    assert seen == unseen, "nor who has only names to go by"


@pytest.mark.parametrize("format_name", FORMATS[:-1])
def test_objects_stay_until_their_file_is_out_for_long_enough(format_name: str) -> None:
    archive = made(format_name, collect_after_ms=HOUR_MS)
    before = bodies(archive)
    plan = archive.plan(keep_age_ms=age_of(10))
    done = archive.apply(plan)
    assert (done.deleted, {each.key for each in done.waiting}) == ((), {each.file.name for each in plan.going})
    assert archive.offsets() == list(range(8, END))
    assert bodies(archive) == before
    archive.export(END, END + 4)  # it goes on, and does not take them for what a crash left
    assert bodies(archive) > before
    later = archive.plan(keep_age_ms=age_of(10))
    assert (later.going, later.collectable, len(later.waiting)) == ((), (), 2)
    archive.files.clock_ms += HOUR_MS
    after = plan_retention(
        archive.target, RetentionLimits(keep_age_ms=200 * QUARTER_MS), clock=_At(archive.files.clock_ms)
    )
    assert len(after.collectable) == 2
    done = carry_out(archive.target, after, clock=_At(archive.files.clock_ms))
    assert {each.key for each in done.deleted} == {each.file.name for each in plan.going}
    assert told(archive, "object") == told(archive, "file") == {each.file.name for each in plan.going}
    assert done.waiting == ()
    assert archive.offsets() == list(range(8, END + 4))


def test_what_the_tool_writes_of_a_topic_made_anew_is_not_what_was_pruned() -> None:
    """Its offsets begin at 0 again, within what was pruned long ago; the manifest lists its objects when it ends."""
    archive = made("osodevops")
    going = archive.plan(keep_age_ms=age_of(10)).going
    name = going[0].file.name
    data = archive.files.objects[name]
    archive.apply(archive.plan(keep_age_ms=age_of(10)))
    assert name not in archive.files.objects
    archive.files.clock_ms += HOUR_MS
    archive.files.put(name, data[0])
    clock = _At(archive.files.clock_ms)
    plan = plan_retention(archive.target, RetentionLimits(keep_age_ms=200 * QUARTER_MS), clock=clock)
    assert (plan.collectable, plan.waiting) == ((), ())
    carry_out(archive.target, plan, clock=clock)
    assert name in archive.files.objects


class _At(SystemClock):
    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


def test_what_the_store_protects_is_left_and_listed(archive: Archive) -> None:
    plan = archive.plan(keep_age_ms=age_of(10))
    protected = plan.going[0].file.keys[-1]
    archive.files.protected = {protected}
    done = archive.apply(plan)
    assert protected in {each.key for each in done.locked}
    assert protected in bodies(archive)
    offsets = archive.offsets()
    assert offsets == list(range(offsets[0], END)), "no hole behind what stays"
    archive.export(END, END + 4)
    again = archive.apply(archive.plan(keep_age_ms=age_of(10)))
    assert protected in {each.key for each in again.locked}
    archive.files.protected = set()
    archive.apply(archive.plan(keep_age_ms=age_of(10)))
    assert protected not in bodies(archive)
    assert archive.offsets() == list(range(8, END + 4))


def test_who_may_not_delete_at_all_changes_nothing(archive: Archive) -> None:
    plan = archive.plan(keep_age_ms=age_of(10))
    archive.files.protected = {"never-written"}
    before = dict(archive.files.objects)
    with pytest.raises(StoreDenied):
        archive.apply(plan)
    assert archive.files.objects == before


def test_a_file_whose_last_message_has_no_known_time_stays_with_all_behind_it(archive: Archive) -> None:
    fresh = Archive(archive.format, MemoryArchive(NOW_MS, is_folder=archive.files.is_folder))
    for start in range(0, END, PER_FILE):
        timed = records(start, start + PER_FILE)
        if start == PER_FILE:
            timed[1] = Record(timed[1].offset, -1, 0, b"k", b"v" * 20, ())
        writer = fresh.writer
        writer.ends()
        written = write_range(writer, timed, start=start, end=start + PER_FILE)
        writer.finish([written], [ArchiveTopic(topic="orders", partitions=1)], {})
    if fresh.format == "osodevops":  # as the tool's own objects: nothing is kept with them
        fresh.files.objects = {key: (data, -1) for key, (data, _) in fresh.files.objects.items()}
    plan = fresh.plan(keep_age_ms=0)
    assert [each.file.start for each in plan.going] == [0]
    assert plan.kept_files[0].why.endswith("it has records without a time")


@pytest.mark.parametrize("format_name", ["osodevops", "kafka-backup"])
def test_a_damaged_file_of_a_format_that_must_be_read_stays(format_name: str) -> None:
    archive = made(format_name)
    name = archive.plan(keep_age_ms=0).going[1].file.name
    data = archive.files.objects[name][0]
    archive.files.objects = {key: (data, -1) for key, (data, _) in archive.files.objects.items()}
    archive.files.objects[name] = (data[:-9], -1)
    plan = archive.plan(keep_age_ms=0)
    assert [each.file.start for each in plan.going] == [0]
    assert "its last message is unknown" in plan.kept_files[0].why


@pytest.mark.parametrize("format_name", ["avro", "parquet", "jsonl"])
def test_without_a_digest_the_time_that_is_kept_with_the_object_counts(format_name: str) -> None:
    archive = made(format_name)
    key = next(key for key in archive.files.objects if key.endswith("orders/_index.json"))
    fields = json.loads(archive.files.objects[key][0])
    for name in [name for name in fields if name in ("generation", "digest") or "sha" in name]:
        del fields[name]
    bare = json.dumps(fields).encode()
    archive.files.objects[key] = (bare, -1)
    manifest = next(key for key in archive.files.objects if key == "_archive.json")
    archive.files.objects[manifest] = (
        json.dumps({"format": 1, "archive": format_name, "topics": ["orders"], "groups": []}).encode(),
        -1,
    )
    assert check_digest(bare) is not None
    assert [each.file.start for each in archive.plan(keep_age_ms=age_of(10)).going] == [0, 4]
    archive.files.objects = {key: (data, -1) for key, (data, _) in archive.files.objects.items()}
    plan = archive.plan(keep_age_ms=age_of(10))
    assert plan.going == ()
    assert "the index has no digest" in plan.kept_files[0].why


@pytest.mark.parametrize("format_name", FORMATS[:-1])
def test_an_export_in_the_midst_loses_and_doubles_nothing(format_name: str) -> None:
    """Of a store without a lock: a whole run of the export between any two changes of retention."""
    plan = made(format_name, collect_after_ms=HOUR_MS).plan(keep_age_ms=age_of(10))
    counted = made(format_name, collect_after_ms=HOUR_MS)
    first = counted.files.changes
    counted.apply(plan)
    for number in range(counted.files.changes - first):
        archive = made(format_name, collect_after_ms=HOUR_MS)
        archive.files.before = _once(archive, at=archive.files.changes + number, act=lambda a: a.export(END, END + 4))
        with suppress(ArchiveBusy):
            archive.apply(plan)
        archive.files.before = None
        offsets = archive.offsets()
        assert offsets == list(range(offsets[0], END + 4))
        archive.apply(archive.plan(keep_age_ms=age_of(10)))
        assert archive.offsets() == list(range(8, END + 4))


@pytest.mark.parametrize("format_name", FORMATS[:-1])
def test_retention_in_the_midst_of_an_export_breaks_and_loses_nothing(format_name: str) -> None:
    counted = made(format_name)
    first = counted.files.changes
    counted.export(END, END + 4)
    for number in range(counted.files.changes - first):
        archive = made(format_name, collect_after_ms=HOUR_MS)
        archive.files.before = _once(
            archive, at=archive.files.changes + number, act=lambda a: a.apply(a.plan(keep_age_ms=age_of(10)))
        )
        archive.export(END, END + 4)
        archive.files.before = None
        offsets = archive.offsets()
        assert offsets == list(range(offsets[0], END + 4))
        archive.apply(archive.plan(keep_age_ms=age_of(10)))
        assert archive.offsets() == list(range(8, END + 4))


@pytest.mark.parametrize("format_name", INDEXED)
def test_an_export_that_slept_for_long_lists_nothing_that_was_deleted_meanwhile(format_name: str) -> None:
    """It has read the index, and is stopped until retention has taken files out of it, and deleted them."""

    def retain(archive: Archive) -> None:
        for _ in range(2):
            clock = _At(archive.files.clock_ms)
            plan = plan_retention(archive.target, RetentionLimits(keep_age_ms=age_of(10)), clock=clock)
            carry_out(archive.target, plan, clock=clock)
            archive.files.clock_ms += 2 * HOUR_MS

    counted = made(format_name)
    first = counted.files.changes
    counted.export(END, END + 4)
    for number in range(counted.files.changes - first):
        archive = made(format_name, collect_after_ms=HOUR_MS)
        archive.files.before = _once(archive, at=archive.files.changes + number, act=retain)
        archive.export(END, END + 4)
        archive.files.before = None
        offsets = archive.offsets()
        assert offsets == list(range(offsets[0], END + 4))
        assert {each.name for files in archive.target.archive.partitions() for each in files} <= bodies(archive)


@pytest.mark.parametrize("format_name", INDEXED)
def test_an_export_that_another_one_overtakes_does_not_count(format_name: str) -> None:
    archive = made(format_name)
    writer, again = archive.writer, archive.writer
    written = write_range(writer, records(END, END + 4), start=END, end=END + 4)
    theirs = write_range(again, records(END, END + 2), start=END, end=END + 2)
    topics = [ArchiveTopic(topic="orders", partitions=2)]
    act = _once(archive, at=archive.files.changes, act=lambda _: again.finish([theirs], topics, {}))
    archive.files.before = act
    with pytest.raises(ArchiveBusy, match="was written by another process"):
        writer.finish([written], topics, {})


@pytest.mark.parametrize("format_name", INDEXED)
def test_an_export_into_a_store_that_cannot_compare_writes_as_ever(
    format_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bool:
        raise OverwritingStore("it ignores the condition of a put", hint="")

    archive = made(format_name)
    monkeypatch.setattr(MemoryArchive, "replace", refused)
    archive.export(END, END + 4)
    assert archive.offsets() == list(range(END + 4))


def _once(archive: Archive, *, at: int, act: Callable[[Archive], object]) -> Callable[[], None]:
    def before() -> None:
        if archive.files.changes == at and not done:
            done.append(at)
            act(archive)

    done: list[int] = []
    return before


def test_a_plan_that_another_run_has_carried_out_is_refused(archive: Archive) -> None:
    plan = archive.plan(keep_age_ms=age_of(10))
    archive.apply(plan)
    with pytest.raises(ArchiveBusy, match="has changed since the plan"):
        archive.apply(plan)
    assert archive.offsets() == list(range(8, END))


def test_clocks_that_differ_by_more_than_five_minutes_are_refused(archive: Archive) -> None:
    plan = archive.plan(keep_age_ms=age_of(10))
    archive.files.clock_ms += 5 * 60_000 + 1
    before = bodies(archive)
    for wrong in (archive.files.clock_ms, NOW_MS - 5 * 60_000 - 1):
        archive.files.clock_ms = wrong
        with pytest.raises(ClocksDiffer, match="one clock is wrong"):
            archive.plan(keep_age_ms=age_of(10))
        with pytest.raises(ClocksDiffer):
            archive.apply(plan)
    assert bodies(archive) == before


def test_what_cannot_be_shortened_is_refused(archive: Archive) -> None:
    with pytest.raises(BadOption, match="no rule"):
        archive.plan()
    with pytest.raises(BadOption, match="trivadis archives can only be read"):
        open_retention("trivadis", archive.files, ReadOptions())
    empty = Archive(archive.format, MemoryArchive(NOW_MS))
    with pytest.raises(ArchiveNotFound):
        empty.plan(keep_age_ms=0)


@pytest.mark.parametrize("format_name", ["avro", "osodevops", "kafka-backup"])
@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_beside_each_other_no_record_in_the_midst_is_ever_missing(format_name: str, seed: int) -> None:
    """Exports and retention, killed at any change, or a whole run of the other one between any two of one."""
    chance = random.Random(seed)
    archive = made(format_name, collect_after_ms=0 if format_name == "kafka-backup" else HOUR_MS)
    end = _End(END)

    def export(_: object = None) -> None:
        count = chance.randrange(1, 6)
        start = archive.writer.ends()[TopicPartition(topic="orders", partition=0)]
        assert start >= end.offset, "nothing is ever given up at the end"
        archive.export(start, start + count)
        end.offset = start + count

    def retain(_: object = None, *, quarters: int = 0) -> None:
        clock = _At(archive.files.clock_ms)
        limits = RetentionLimits(keep_age_ms=(quarters or chance.randrange(70, 110)) * QUARTER_MS)
        with suppress(ArchiveBusy):
            carry_out(archive.target, plan_retention(archive.target, limits, clock=clock), clock=clock)

    for _ in range(25):
        act, other = (export, retain) if chance.random() < 0.5 else (retain, export)
        archive.files.dies_at, archive.files.before = -1, None
        at = archive.files.changes + chance.randrange(12)
        fate = chance.choice(["well", "dies", "beside"])
        if fate == "dies":
            archive.files.dies_at = at
        elif fate == "beside" and not archive.files.is_folder:
            archive.files.before = _once(archive, at=at, act=other)
        with suppress(Crash, ArchiveBusy):
            act()
        archive.files.dies_at, archive.files.before = -1, None
        archive.files.clock_ms += chance.choice([0, HOUR_MS // 3, 2 * HOUR_MS])
        offsets = archive.offsets()
        assert offsets == list(range(offsets[0], offsets[-1] + 1))
        assert offsets[-1] + 1 >= end.offset
    export()
    archive.files.clock_ms += 2 * HOUR_MS
    for _ in range(2):
        retain(quarters=200)  # it takes nothing out any more
        archive.files.clock_ms += 2 * HOUR_MS
    listed = {each.name for files in archive.target.archive.partitions() for each in files}
    assert {key for key in bodies(archive) if key.endswith((".data", ".bin.zst", "_records"))} == listed


@dataclass
class _End:
    """The offset behind the last record of an export that ended well."""

    offset: int


PARTITION = TopicPartition(topic="t", partition=0)


def file(start: int, end: int) -> ArchiveFile:
    return ArchiveFile(name=f"f{start}", partition=PARTITION, start=start, end=end, size_bytes=1, keys=(f"f{start}",))


def going(files: Sequence[ArchiveFile], *, read_end: int = 0) -> list[int]:
    limits = RetentionLimits(keep_age_ms=1)
    gone, _ = choose_files([files], lambda _: LastMessage(at_ms=0, end=read_end), limits, from_ms=10)
    return [each.file.start for each in gone]


def test_files_that_share_offsets_go_together_or_stay() -> None:
    assert going([file(0, 10), file(10, 20), file(20, 30)]) == [0, 10]
    assert going([file(0, 15), file(10, 20), file(20, 30)]) == [0, 10]
    assert going([file(0, 10), file(10, 25), file(20, 30)]) == [0]
    assert going([file(0, 100), file(50, 60), file(100, 130)]) == [0, 50]
    assert going([file(0, 5), file(10, 20), file(20, 30)], read_end=21) == [], "reading finds that it reaches further"
