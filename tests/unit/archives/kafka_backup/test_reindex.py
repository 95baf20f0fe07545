from __future__ import annotations

import pytest

from offsite.archives.kafka_backup import KafkaBackupWriter, reindex
from offsite.archives.kafka_backup.partition_files import decode_partition_index
from offsite.log.range import TopicPartition
from offsite.model.errors import ArchiveNotFound
from tests.unit.archives.kafka_backup.made_archives import (
    INDEX,
    RECORDS,
    TOPIC,
    encoded,
    made,
    one_segment,
    read_all,
    read_what_is_whole,
    record,
    records,
    with_bytes,
    write,
)
from tests.unit.archives.kafka_backup.memory_files import Crash, MemoryFiles

PARTITION_INDEX = f"{TOPIC}/index_partition_000"


def test_sound_indexes_are_left_alone() -> None:
    files = made(records(0, 40))
    before = dict(files.contents)
    done = reindex(files)
    assert files.contents == before
    assert done.records == 40
    assert not any(segment.is_rewritten or segment.cut_bytes for segment in done.segments)
    assert not done.partition_indexes


def test_all_indexes_come_back_from_the_records() -> None:
    whole = made(records(0, 40)).contents
    files = MemoryFiles({key: data for key, data in whole.items() if key.endswith("_records")})
    done = reindex(files)
    assert files.contents == whole
    assert all(segment.is_rewritten for segment in done.segments)
    assert done.partition_indexes == (PARTITION_INDEX,)


@pytest.mark.parametrize("key", [INDEX, PARTITION_INDEX])
def test_an_index_cut_or_flipped_anywhere_is_made_whole(key: str) -> None:
    whole = one_segment(records(0, 9)).contents
    for position in range(len(whole[key])):
        flipped = bytearray(whole[key])
        flipped[position] ^= 0xFF
        for data in (whole[key][:position], bytes(flipped), whole[key] + b"\x00" * (1 + position)):
            files = MemoryFiles({**whole, key: data})
            reindex(files)
            assert files.contents == whole, position


def test_entries_of_deleted_segments_vanish() -> None:
    files = made(records(0, 60))
    names = sorted(key for key in files.contents if key.endswith("_records"))
    del files.contents[names[0]]
    del files.contents[names[1]]
    del files.contents[names[1].replace("_records", "_index")]
    done = reindex(files)
    kept = [name.removeprefix(f"{TOPIC}/").removesuffix("_records") for name in names[2:]]
    assert [entry.stem for entry in decode_partition_index(files.contents[PARTITION_INDEX])] == kept
    assert done.removed == (INDEX,)
    write(files, records(0, 80))
    assert read_all(files) == records(int(kept[0][-10:]), 80)


def test_an_index_of_a_partition_without_segments_goes() -> None:
    files = made(records(0, 5))
    files.contents = {PARTITION_INDEX: files.contents[PARTITION_INDEX]}
    assert reindex(files).removed == (PARTITION_INDEX,)
    assert not files.contents


def test_a_torn_end_is_cut_off_the_last_segment_and_told() -> None:
    whole = one_segment(records(0, 9)).contents
    last_start = len(one_segment(records(0, 8)).contents[RECORDS])
    for size in range(last_start + 1, len(whole[RECORDS])):
        files = MemoryFiles({**whole, RECORDS: whole[RECORDS][:size]})
        done = reindex(files)
        assert files.contents == one_segment(records(0, 8)).contents
        assert done.segments[0].cut_bytes == size - last_start
        assert [(each.file, each.position) for each in done.damage] == [(RECORDS, last_start)]


def test_whole_records_behind_damage_stay_and_are_indexed() -> None:
    chunks = [encoded(0), encoded(1), b"\x00\x01garbage", encoded(2), encoded(3)]
    files = with_bytes(chunks, [(0, 1, len(chunks[0]))])
    before = files.contents[RECORDS]
    done = reindex(files)
    assert files.contents[RECORDS] == before
    assert done.records == 4
    assert [each.position for each in done.damage] == [1 + len(chunks[0]) + len(chunks[1])]
    assert read_what_is_whole(files)[0] == [record(offset) for offset in range(4)]
    assert KafkaBackupWriter(files=files).ends() == {TopicPartition(topic=TOPIC, partition=0): 4}
    write(files, [record(4)], segment_bytes=1 << 20)
    assert read_what_is_whole(files)[0] == [record(offset) for offset in range(5)]


def test_a_records_file_of_another_version_is_told_and_not_touched() -> None:
    files = one_segment(records(0, 9))
    files.contents[RECORDS] = b"\x07" + files.contents[RECORDS][1:]
    before = dict(files.contents)
    done = reindex(files)
    assert files.contents == before
    assert [(each.file, each.position) for each in done.damage] == [(RECORDS, 0)]


def test_only_the_asked_topic_is_read() -> None:
    files = made(records(0, 9))
    files.contents |= {key.replace(TOPIC, "other"): data for key, data in files.contents.items()}
    assert {segment.file.partition("/")[0] for segment in reindex(files, TOPIC).segments} == {TOPIC}
    with pytest.raises(ArchiveNotFound):
        reindex(files, "none")


def test_a_crash_on_the_way_is_made_good_by_the_next_run() -> None:
    whole = made(records(0, 20)).contents
    damaged = {key: data for key, data in whole.items() if key.endswith("_records")}
    for lives_bytes in range(0, 20 * 24, 3):
        files = MemoryFiles(dict(damaged), lives_bytes=lives_bytes)
        with pytest.raises(Crash):
            reindex(files)
        again = files.copy()
        assert read_all(again) == records(0, 20)
        reindex(again)
        assert again.contents == whole, lives_bytes
