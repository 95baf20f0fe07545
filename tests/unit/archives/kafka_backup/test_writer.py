from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from offsite.archives.archive import ArchiveTopic
from offsite.archives.formats import open_writer
from offsite.archives.kafka_backup import KafkaBackupReader, KafkaBackupWriter
from offsite.archives.kafka_backup.groups import decode_group_file
from offsite.archives.kafka_backup.partition_files import decode_partition_index
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import LogRange, TopicPartition
from offsite.log.records.record import Record
from offsite.model.errors import BadOption, Bug, DamagedArchive, NotRepresentable
from offsite.stores.archive_files import ArchiveBucket, ArchiveFolder
from offsite.stores.object_store import CloudStore
from tests.unit.archives.kafka_backup.made_archives import (
    INDEX,
    RECORDS,
    TOPIC,
    encoded,
    made,
    one_segment,
    read_all,
    record,
    records,
    with_bytes,
    write,
)
from tests.unit.archives.kafka_backup.memory_files import Crash, MemoryFiles

PARTITION = TopicPartition(topic=TOPIC, partition=0)
PARTITION_INDEX = f"{TOPIC}/index_partition_000"


def range_of(start: int, end: int) -> LogRange:
    return LogRange(topic=TOPIC, partition=0, start=start, end=end)


def test_the_first_segment_is_named_zero_and_the_others_by_their_first_offset() -> None:
    files = made(records(25, 60))
    starts = [entry.start for entry in decode_partition_index(files.contents[PARTITION_INDEX])]
    names = sorted(key for key in files.contents if key.endswith("_records"))
    assert starts[0] == 0
    assert all(start > 25 for start in starts[1:])
    assert names == [f"{TOPIC}/segment_partition_000_from_offset_{start:010d}_records" for start in starts]
    assert read_all(files) == records(25, 60)


def test_a_segment_ends_with_the_record_that_passes_the_limit() -> None:
    files = MemoryFiles()
    size = 1 + len(encoded(2)) + len(encoded(4))
    write(files, [record(2), record(4), record(8)], segment_bytes=size)
    assert len([key for key in files.contents if key.endswith("_records")]) == 1
    files = MemoryFiles()
    write(files, [record(2), record(4), record(8)], segment_bytes=size - 1)
    assert sorted(key for key in files.contents if key.endswith("_records")) == [
        RECORDS,
        f"{TOPIC}/segment_partition_000_from_offset_0000000008_records",
    ]


def test_running_again_appends_only_what_is_new() -> None:
    files = made(records(0, 20))
    before = dict(files.contents)
    write(files, records(0, 20))
    assert files.contents == before
    write(files, records(10, 40))
    assert files.contents == made(records(0, 40)).contents


def test_many_small_runs_make_the_same_files_as_one() -> None:
    files = MemoryFiles()
    for start in range(0, 60, 4):
        write(files, records(start, start + 4))
    assert files.contents == made(records(0, 60)).contents


def test_ends_are_the_next_offsets_and_leave_empty_partitions_out() -> None:
    files = made(records(0, 30))
    writer = KafkaBackupWriter(files=files)
    writer.finish([], [ArchiveTopic(topic=TOPIC, partitions=2)], {})
    assert writer.ends() == {PARTITION: 30}


def test_ends_read_only_tails() -> None:
    files = one_segment(records(0, 5_000))
    files.read_bytes = 0
    assert KafkaBackupWriter(files=files).ends() == {PARTITION: 5_000}
    assert files.read_bytes < 20_000


def test_what_was_written_is_told_by_file() -> None:
    files = made(records(0, 20))
    writer = KafkaBackupWriter(files=files, segment_bytes=300)
    with writer.open(range_of(20, 50)) as range_writer:
        range_writer.append(records(20, 50))
        written = range_writer.close()
    assert written.records == 30
    assert not written.losses
    assert written.files[0].first_offset == 20
    assert written.files[-1].last_offset == 49
    assert sum(each.records for each in written.files) == 30
    assert written.files[0].timestamp_min_ms == record(20).timestamp_ms
    grown = sum(map(len, files.contents.values())) - sum(map(len, made(records(0, 20)).contents.values()))
    assert 0 < sum(each.size_bytes for each in written.files) < grown


def test_leaving_by_an_exception_writes_nothing_more() -> None:
    files = MemoryFiles()
    range_writer = KafkaBackupWriter(files=files).open(range_of(0, 9))
    range_writer.append(records(0, 8))
    with pytest.raises(NotRepresentable), range_writer:
        range_writer.append([Record(8, 1_000, -1, None, None)])
    assert not files.contents


def test_records_beyond_the_range_are_a_bug() -> None:
    writer = KafkaBackupWriter(files=MemoryFiles())
    with pytest.raises(Bug), writer.open(range_of(0, 5)) as range_writer:
        range_writer.append(records(0, 6))


def test_a_time_without_a_type_is_refused_by_name_unless_lossy() -> None:
    untyped = Record(3, 1_000, -1, b"k", None)
    with (
        pytest.raises(NotRepresentable, match="orders/0 offset 3"),
        KafkaBackupWriter(files=MemoryFiles()).open(range_of(0, 5)) as range_writer,
    ):
        range_writer.append([record(2), untyped])
    files = MemoryFiles()
    with KafkaBackupWriter(files=files, lossy=True).open(range_of(0, 5)) as range_writer:
        range_writer.append([record(2), untyped])
        ((_, count),) = range_writer.close().losses
    assert count == 1
    assert read_all(files) == [record(2), untyped._replace(timestamp_ms=-1)]


@pytest.mark.parametrize("segment_bytes", [0, (1 << 30) + 1])
def test_sizes_that_no_segment_can_have_are_refused(segment_bytes: int) -> None:
    with pytest.raises(BadOption):
        KafkaBackupWriter(files=MemoryFiles(), segment_bytes=segment_bytes)


def test_a_writer_and_a_reader_travel_to_workers(tmp_path: Path) -> None:
    files = ArchiveFolder(root=tmp_path)
    write(pickle.loads(pickle.dumps(files)), records(0, 40))
    writer = pickle.loads(pickle.dumps(KafkaBackupWriter(files=files)))
    assert writer.ends() == {PARTITION: 40}
    reader = pickle.loads(pickle.dumps(KafkaBackupReader(files=files)))
    assert read_all(reader.files) == records(0, 40)
    write(files, records(30, 90))
    assert read_all(files) == records(0, 90)


# -- finish ------------------------------------------------------------------------------------------------------------


def group(name: str, *rows: CommittedOffset) -> GroupOffsets:
    return GroupOffsets(group=name, topics=(TopicOffsets.of(TOPIC, rows),))


def test_partitions_without_records_are_not_forgotten() -> None:
    files = made(records(0, 3))
    KafkaBackupWriter(files=files).finish([], [ArchiveTopic(topic=TOPIC, partitions=3)], {})
    contents = KafkaBackupReader(files=files).contents()
    assert contents.topics == (ArchiveTopic(topic=TOPIC, partitions=3),)
    assert files.contents[RECORDS.replace("n_000", "n_002")] == b"\x01"
    write(files, records(5, 40), partition=2)
    fresh = MemoryFiles()
    write(fresh, records(5, 40), partition=2)
    assert {key: data for key, data in files.contents.items() if "n_002" in key} == fresh.contents


def test_groups_are_replaced_and_left_alone_when_none_are_given() -> None:
    files = made(records(0, 3))
    writer, topics = KafkaBackupWriter(files=files), [ArchiveTopic(topic=TOPIC, partitions=2)]
    first = {"a": group("a", CommittedOffset(0, 2), CommittedOffset(1, 0)), "b": group("b", CommittedOffset(0, 1))}
    writer.finish([], topics, first)
    writer.finish([], topics, {})
    assert KafkaBackupReader(files=files).contents().groups == first
    writer.finish([], topics, {"b": group("b", CommittedOffset(0, 3))})
    assert decode_group_file(files.contents[f"{TOPIC}/consumer_offsets_partition_000"]) == {"b": 3}
    assert decode_group_file(files.contents[f"{TOPIC}/consumer_offsets_partition_001"]) == {}


def test_what_the_format_has_no_place_for_is_said() -> None:
    topics = [ArchiveTopic(topic=TOPIC, partitions=1, configs=(("cleanup.policy", "compact"),))]
    said = KafkaBackupWriter(files=MemoryFiles()).finish(
        [], topics, {"a": group("a", CommittedOffset(0, 2, metadata="mine"))}
    )
    assert len(said) == 2


# -- crashes -----------------------------------------------------------------------------------------------------------


CRASHING = records(0, 12)
UNINTERRUPTED = made(CRASHING, segment_bytes=160).contents
LIFE_BYTES = sum(map(len, UNINTERRUPTED.values())) + 20
"""Of a process that writes `CRASHING`: its bytes, and one for each call."""


def run_until_crash(files: MemoryFiles) -> bool:
    try:
        write(files, CRASHING, segment_bytes=160)
    except Crash:
        return True
    return False


def test_a_crash_at_any_byte_of_any_write_is_made_good_by_the_next_run() -> None:
    crashes = 0
    for lives_bytes in range(LIFE_BYTES):
        files = MemoryFiles(lives_bytes=lives_bytes)
        crashes += run_until_crash(files)
        again = files.copy()
        write(again, CRASHING, segment_bytes=160)
        assert again.contents == UNINTERRUPTED, lives_bytes
    assert crashes > 1_000


def test_a_crash_while_mending_is_made_good_as_well() -> None:
    for first_life in range(0, LIFE_BYTES, 23):
        files = MemoryFiles(lives_bytes=first_life)
        run_until_crash(files)
        for second_life in range(8):
            again = files.copy(lives_bytes=second_life)
            run_until_crash(again)
            finished = again.copy()
            write(finished, CRASHING, segment_bytes=160)
            assert finished.contents == UNINTERRUPTED, (first_life, second_life)


@pytest.mark.parametrize("key", [RECORDS, INDEX])
def test_a_last_segment_cut_anywhere_is_written_again_from_there(key: str) -> None:
    whole = one_segment(records(0, 9)).contents
    for size in range(len(whole[key]) + 1):
        files = MemoryFiles({**whole, key: whole[key][:size]})
        write(files, records(0, 9), segment_bytes=1 << 20)
        assert files.contents == whole, size


def test_an_index_that_was_lost_is_made_anew_before_anything_is_added() -> None:
    files = made(records(0, 30))
    complete = dict(files.contents)
    last = max(key for key in complete if key.endswith("_index"))
    for key in (last, PARTITION_INDEX):
        del files.contents[key]
    assert KafkaBackupWriter(files=files).ends() == {PARTITION: 30}
    assert files.contents == complete


def test_records_behind_damage_are_never_cut_off() -> None:
    chunks = [encoded(0), encoded(1), b"\x00\x01garbage", encoded(2), encoded(3)]
    files = with_bytes(chunks, [(0, 1, len(chunks[0]))])
    before = files.contents[RECORDS]
    with pytest.raises(DamagedArchive, match=f"{RECORDS} at byte"):
        KafkaBackupWriter(files=files).ends()
    assert files.contents[RECORDS] == before


def test_a_torn_record_that_the_tool_wrote_again_does_not_stop_us() -> None:
    files = with_bytes([encoded(0), encoded(1)[:20], encoded(1), encoded(2)], [(0, 1, len(encoded(0)))])
    write(files, [*records(0, 3), record(7)], segment_bytes=1 << 20)
    assert read_all(files) == [record(0), record(1), record(2), record(7)]


@pytest.mark.parametrize("key", [RECORDS, INDEX, PARTITION_INDEX])
def test_a_file_of_another_version_is_not_touched(key: str) -> None:
    files = one_segment(records(0, 9))
    files.contents[key] = b"\x02" + files.contents[key][1:]
    before = dict(files.contents)
    with pytest.raises(DamagedArchive, match=f"{key} at byte 0: its version is 2"):
        KafkaBackupWriter(files=files).open(range_of(9, 12))
    assert files.contents == before


def test_when_all_segments_were_deleted_the_partition_begins_anew() -> None:
    files = made(records(0, 30))
    files.contents = {PARTITION_INDEX: files.contents[PARTITION_INDEX]}
    assert not KafkaBackupWriter(files=files).ends()
    write(files, records(40, 60))
    assert files.contents == made(records(40, 60)).contents


def test_an_index_whose_records_were_deleted_is_replaced() -> None:
    files = one_segment(records(0, 9))
    files.contents = {INDEX: files.contents[INDEX]}
    write(files, records(3, 9), segment_bytes=1 << 20)
    assert files.contents == one_segment(records(3, 9)).contents


def test_an_object_store_cannot_hold_what_grows_by_appending() -> None:
    bucket = ArchiveBucket(store=CloudStore(url="memory:///bucket"))
    with pytest.raises(BadOption, match="a kafka-backup archive grows by appending to its files, and memory:///bucket"):
        open_writer("kafka-backup", bucket)
