"""What crashes, bad disks and people leave: nothing false is read, and whatever is skipped is named."""

from __future__ import annotations

import random

import pytest

from offsite.archives.archive import Piece
from offsite.archives.kafka_backup import KafkaBackupReader
from offsite.archives.kafka_backup.partition_files import encode_partition_index
from offsite.archives.kafka_backup.segments.record import encode_record
from offsite.log.records.record import Record
from offsite.model.errors import ArchiveNotFound, DamagedArchive
from tests.examples import sampled
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
)
from tests.unit.archives.kafka_backup.memory_files import MemoryFiles

PARTITION_INDEX = f"{TOPIC}/index_partition_000"


def without_index(files: MemoryFiles) -> MemoryFiles:
    return MemoryFiles({key: data for key, data in files.contents.items() if not key.endswith("_index")})


# -- cuts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_records_file_cut_anywhere_gives_its_whole_records_and_names_the_rest(is_indexed: bool) -> None:
    whole = one_segment(records(0, 9))
    data = whole.contents[RECORDS]
    ends = [1]
    for each in records(0, 9):
        ends.append(ends[-1] + len(encode_record(each)))
    for size in sampled(range(len(data))):
        files = MemoryFiles({**whole.contents, RECORDS: data[:size]})
        found, damage = read_what_is_whole(files if is_indexed else without_index(files))
        kept = len([end for end in ends[1:] if end <= size])
        assert found == records(0, kept), size
        torn = [each for each in damage if each.file == RECORDS]
        assert [each.position for each in torn] == ([] if size in {0, *ends} else [ends[kept]]), size


def test_a_segment_index_cut_anywhere_loses_nothing_and_is_no_damage() -> None:
    whole = one_segment(records(0, 9))
    for size in sampled(range(len(whole.contents[INDEX]))):
        files = MemoryFiles({**whole.contents, INDEX: whole.contents[INDEX][:size]})
        assert read_all(files) == records(0, 9), size


def test_a_partition_index_cut_anywhere_or_absent_loses_nothing() -> None:
    whole = made(records(0, 40))
    for size in sampled(range(len(whole.contents[PARTITION_INDEX]))):
        files = MemoryFiles({**whole.contents, PARTITION_INDEX: whole.contents[PARTITION_INDEX][:size]})
        assert read_all(files) == records(0, 40), size
    del whole.contents[PARTITION_INDEX]
    assert read_all(whole) == records(0, 40)


@pytest.mark.parametrize("data", [b"", b"\x01"])
def test_files_of_no_or_one_byte_are_empty_segments(data: bytes) -> None:
    files = made(records(0, 40))
    files.contents |= {
        f"{TOPIC}/segment_partition_000_from_offset_0000000040_records": data,
        f"{TOPIC}/segment_partition_000_from_offset_0000000040_index": data,
        f"{TOPIC}/segment_partition_007_from_offset_0000000000_records": data,
        f"{TOPIC}/consumer_offsets_partition_000": b"",
    }
    assert read_all(files) == records(0, 40)
    assert KafkaBackupReader(files=files).contents().topics[0].partitions == 8


def test_a_torn_record_says_where_it_is() -> None:
    files = one_segment(records(0, 3))
    files.contents[RECORDS] = files.contents[RECORDS][:-1]
    position = 1 + len(encode_record(records(0, 3)[0])) + len(encode_record(records(0, 3)[1]))
    with pytest.raises(DamagedArchive, match=f"{RECORDS} at byte {position}: .* bytes skipped after offset 1"):
        read_all(files)


# -- what the tool leaves when it crashes and goes on ------------------------------------------------------------------


@pytest.mark.parametrize(
    "variant", ["positions are right", "positions lack the torn bytes", "length holds them", "none"]
)
def test_a_torn_record_that_was_written_again_is_read_once_and_whole(variant: str) -> None:
    first, torn_record, third, fourth = (encoded(offset) for offset in (5, 6, 7, 9))
    for torn in range(1, len(torn_record)):
        at = 1 + len(first)
        entries = [(5, 1, len(first))]
        if variant == "length holds them":
            entries.append((6, at, torn + len(torn_record)))
        else:
            entries.append((6, at + (torn if variant == "positions are right" else 0), len(torn_record)))
        for offset, data in ((7, third), (9, fourth)):
            entries.append((offset, entries[-1][1] + entries[-1][2], len(data)))
        chunks = [first, torn_record[:torn], torn_record, third, fourth]
        files = with_bytes(chunks, [] if variant == "none" else entries)
        found, damage = read_what_is_whole(files)
        assert found == [record(offset) for offset in (5, 6, 7, 9)], torn
        assert [(each.file, each.position, each.is_note) for each in damage] == [(RECORDS, at, True)], torn
        assert read_all(files) == found


def test_entries_behind_a_torn_entry_are_not_believed() -> None:
    whole = one_segment(records(0, 9))
    index = whole.contents[INDEX]
    for torn in range(1, 24):
        files = MemoryFiles({**whole.contents, INDEX: index[: 1 + 3 * 24] + index[73 : 73 + torn] + index[73:]})
        assert read_all(files) == records(0, 9), torn


def test_records_without_entries_at_the_end_are_read() -> None:
    files = one_segment(records(0, 9))
    files.contents[INDEX] = files.contents[INDEX][: 1 + 4 * 24]
    assert read_all(files) == records(0, 9)


def test_records_written_twice_are_read_once() -> None:
    chunks = [encoded(0), encoded(1), encoded(2), encoded(1), encoded(2), encoded(3)]
    found, (note,) = read_what_is_whole(with_bytes(chunks, []))
    assert found == [record(offset) for offset in range(4)]
    assert (note.file, note.position, note.is_note) == (RECORDS, 1 + sum(map(len, chunks[:3])), True)


# -- overlaps ----------------------------------------------------------------------------------------------------------


def segment(start: int, some: list[Record]) -> dict[str, bytes]:
    files = one_segment(some)
    stem = f"{TOPIC}/segment_partition_000_from_offset_{start:010d}"
    return {f"{stem}_records": files.contents[RECORDS], f"{stem}_index": files.contents[INDEX]}


@pytest.mark.parametrize("piece_bytes", [1, 1 << 20])
def test_overlapping_segments_give_each_offset_once_and_in_order(piece_bytes: int) -> None:
    all_records = records(0, 60)
    evens, odds = all_records[10:40:2], all_records[11:41:2]
    files = MemoryFiles(
        segment(0, all_records[:15]) | segment(10, evens) | segment(11, odds) | segment(50, all_records[40:])
    )
    assert read_all(files, piece_bytes=piece_bytes) == all_records


def test_segments_that_differ_at_an_offset_contradict_each_other_and_the_earlier_is_the_undamaged_rest() -> None:
    other = record(4)._replace(value=b"something else")
    files = MemoryFiles(segment(0, [record(3), record(4)]) | segment(4, [other, record(5)]))
    with pytest.raises(DamagedArchive, match="offset 4 is another record than in"):
        read_all(files)
    assert read_what_is_whole(files)[0] == [record(3), record(4), record(5)]


# -- flips -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [RECORDS, INDEX])
@pytest.mark.parametrize("piece_bytes", [150, 1 << 20])
def test_a_flip_anywhere_harms_at_most_the_record_that_it_hits(key: str, piece_bytes: int) -> None:
    some = [record(offset) for offset in range(8)]
    whole = one_segment(some)
    for position in sampled(range(len(whole.contents[key]))):
        for mask in (0x01, 0x80, 0xFF):
            data = bytearray(whole.contents[key])
            data[position] ^= mask
            found, damage = read_what_is_whole(
                MemoryFiles({**whole.contents, key: bytes(data)}), piece_bytes=piece_bytes
            )
            if key == RECORDS and position == 0:
                assert not found
                assert "version" in damage[0].problem
                continue
            if key == INDEX:
                assert found == some or (damage and len(found) >= 7), (position, mask)
                assert damage, (position, mask)
                continue
            differing = {each.offset for each in set(found) ^ set(some)}
            assert len(set(found) & set(some)) >= 7, (position, mask)
            assert damage or len(differing) <= 1, (position, mask)


def test_a_flip_without_an_index_harms_at_most_the_record_that_it_hits_and_its_neighbour() -> None:
    some = [record(offset) for offset in range(8)]
    whole = without_index(one_segment(some))
    for position in range(1, len(whole.contents[RECORDS])):
        data = bytearray(whole.contents[RECORDS])
        data[position] ^= 0xFF
        found, _ = read_what_is_whole(MemoryFiles({RECORDS: bytes(data)}))
        assert len(set(found) & set(some)) >= 6, position


@pytest.mark.slow
def test_damage_at_random_never_ends_in_anything_but_a_report() -> None:
    dice = random.Random(20_260_101)
    whole = made(records(0, 40))
    for _ in range(80):
        files = whole.copy()
        for _ in range(dice.randint(1, 4)):
            key = dice.choice(sorted(files.contents))
            data = bytearray(files.contents[key])
            at = dice.randrange(len(data) + 1)
            data[at : at + dice.choice((0, 1, 30))] = dice.randbytes(dice.choice((0, 1, 8, 40)))
            files.contents[key] = bytes(data)
        found, _ = read_what_is_whole(files, piece_bytes=dice.choice((1, 200, 1 << 20)))
        offsets = [each.offset for each in found]
        assert offsets == sorted(set(offsets))


def test_damage_is_told_once_however_the_partition_is_divided() -> None:
    files = one_segment(records(0, 200))
    data = bytearray(files.contents[RECORDS])
    data[5_000:5_040] = b"\xff" * 40
    files.contents[RECORDS] = bytes(data)
    found, damage = read_what_is_whole(files)
    assert damage
    for piece_bytes in (100, 700, 3_000):
        again, told = read_what_is_whole(files, piece_bytes=piece_bytes)
        assert again == found
        assert {each.position for each in told} == {each.position for each in damage}
        assert len(told) == len(set(told))


# -- versions and names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2, 255])
@pytest.mark.parametrize("key", [RECORDS, INDEX, PARTITION_INDEX])
def test_another_version_is_refused_by_file(key: str, version: int) -> None:
    files = one_segment(records(0, 9))
    files.contents[key] = bytes([version]) + files.contents[key][1:]
    with pytest.raises(DamagedArchive, match=f"{key} at byte 0: its version is {version}"):
        read_all(files)
    found, damage = read_what_is_whole(files)
    assert found == ([] if key == RECORDS else records(0, 9))
    assert len(damage) == 1


def test_a_segment_missing_in_the_middle_is_damage_and_at_the_beginning_is_not() -> None:
    files = made(records(0, 60))
    names = sorted(key for key in files.contents if key.endswith("_records"))
    del files.contents[names[0]]
    start = int(names[1][-18:-8])
    assert read_all(files) == records(start, 60)
    del files.contents[names[2]]
    with pytest.raises(DamagedArchive, match=f"{PARTITION_INDEX} at byte .*: {names[2]} is missing"):
        read_all(files)


def test_a_partition_index_that_names_no_segment_is_told() -> None:
    files = one_segment(records(0, 9))
    files.contents[PARTITION_INDEX] = encode_partition_index([("segment_partition_x", 0)])
    _, damage = read_what_is_whole(files)
    assert [(each.file, each.position) for each in damage] == [(PARTITION_INDEX, 1)]


def test_files_of_other_names_are_not_looked_at() -> None:
    files = one_segment(records(0, 9))
    files.contents |= {
        "restore.offsets": b"\xac\xed",
        f"{TOPIC}/notes.txt": b"x",
        f"{TOPIC}/segment_partition_000_from_offset_x_records": b"x",
        f"deep/{RECORDS}": b"x",
    }
    assert read_all(files) == records(0, 9)
    assert len(KafkaBackupReader(files=files).contents().topics) == 1


@pytest.mark.parametrize("contents", [{}, {"readme.txt": b"x"}, {RECORDS.rpartition("/")[2]: b"\x01"}])
def test_a_place_without_segments_is_no_archive(contents: dict[str, bytes]) -> None:
    with pytest.raises(ArchiveNotFound):
        KafkaBackupReader(files=MemoryFiles(contents)).contents()


def test_a_segment_that_goes_away_between_planning_and_reading_is_told() -> None:
    files = one_segment(records(0, 9))
    (piece,) = KafkaBackupReader(files=files).contents().pieces
    del files.contents[RECORDS]
    with pytest.raises(DamagedArchive, match=f"{RECORDS} at byte 0: it was removed after"):
        list(KafkaBackupReader(files=files).read(piece))


# -- options and bounds ------------------------------------------------------------------------------------------------


def test_old_archives_can_have_their_empty_keys_and_header_values_read_as_null() -> None:
    stored = Record(3, 1, 0, b"", b"", (("h", b""),))
    reader = KafkaBackupReader(files=one_segment([stored]), empty_as_null=True)
    contents = reader.contents()
    (batch,) = reader.read(contents.pieces[0])
    assert list(batch) == [Record(3, 1, 0, None, b"", (("h", None),))]
    assert "March 2020" in contents.fidelity[-1]


def groups_read(own_group: str = "", **offsets: int) -> tuple[list[str], str]:
    files = one_segment([record(1)])
    text = ",".join(f'"{group}":{offset}' for group, offset in offsets.items()).replace("_", "-")
    files.contents[f"{TOPIC}/consumer_offsets_partition_000"] = b"{%s}" % text.encode()
    contents = KafkaBackupReader(files=files, own_group=own_group).contents()
    return list(contents.groups), contents.fidelity[-1]


def test_the_group_of_the_backup_itself_is_left_out_and_said() -> None:
    assert groups_read(connect_mine=2, app=1) == (
        ["app"],
        "the group connect-mine was left out: it belongs to the backup itself",
    )
    assert groups_read(connect_mine=2, connect_backup_sink=1)[0] == ["connect-mine"]
    assert groups_read(connect_a=2, connect_b=1)[0] == ["connect-a", "connect-b"]
    assert groups_read("connect-b", connect_a=2, connect_b=1)[0] == ["connect-a"]


def test_committed_offsets_cut_by_a_crash_count_as_absent_and_are_said() -> None:
    files = one_segment([record(1)])
    key = f"{TOPIC}/consumer_offsets_partition_000"
    files.contents[key] = b'{"app":12'
    contents = KafkaBackupReader(files=files).contents()
    assert not contents.groups
    assert key in contents.fidelity[-1]


def test_large_files_are_read_in_windows_and_by_parts() -> None:
    some = [record(offset, value=b"x" * 100_000) for offset in range(200)]
    files = one_segment(some)
    files.longest_read_bytes = 0
    assert read_all(files, piece_bytes=5 << 20) == some
    assert files.longest_read_bytes <= (4 << 20) + 200_000
    reader = KafkaBackupReader(files=files, piece_bytes=5 << 20)
    last = reader.contents().pieces[-1]
    files.read_bytes = 0
    assert [each.offset for batch in reader.read(last) for each in batch] == list(range(last.start, 200))
    assert files.read_bytes < 2 * last.size_bytes


def test_records_larger_than_a_window_are_read_with_and_without_an_index() -> None:
    some = [record(0), record(1, value=b"y" * (9 << 20)), record(2), record(3, value=b"z" * (5 << 20))]
    files = one_segment(some)
    assert read_all(files) == some
    assert read_all(without_index(files)) == some


def test_a_piece_stops_where_it_ends() -> None:
    files = one_segment(records(0, 100))
    piece = Piece(topic=TOPIC, partition=0, start=30, end=40, files=(RECORDS,), size_bytes=0)
    (batch,) = KafkaBackupReader(files=files).read(piece)
    assert list(batch) == records(30, 40)
