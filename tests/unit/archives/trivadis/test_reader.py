from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import pytest

from offsite.archives.archive import ArchiveTopic, Damage
from offsite.log.records.record import Record
from offsite.model.errors import ArchiveNotFound, BadOption
from tests.unit.archives.trivadis.made_archives import (
    TOPIC,
    container,
    java_bytes,
    java_text,
    lines,
    offsets,
    put,
    put_records,
    read_all,
    reader,
    record,
    row,
)

INTEGER = bytes.fromhex(
    "aced0005737200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c7565"
    "787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870"
)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
@pytest.mark.parametrize("block_bytes", [1, 16_000])
def test_a_container_of_any_codec_is_read(tmp_path: Path, codec: str, block_bytes: int) -> None:
    records = [record(offset, b"%d" % offset * 50) for offset in range(5, 80, 3)]
    put(tmp_path, 5, container([row(each) for each in records], codec=codec, block_bytes=block_bytes))
    assert read_all(reader(tmp_path)) == records


def test_header_values_are_turned_back_from_java(tmp_path: Path) -> None:
    headers = {"text": java_text("héllo"), "bytes": java_bytes(b"\xff\0"), "number": INTEGER + (42).to_bytes(4)}
    put(tmp_path, 1, container([row(record(1), headers=headers)]))
    expected = (("text", "héllo".encode()), ("bytes", b"\xff\0"), ("number", b"42"))
    assert read_all(reader(tmp_path)) == [record(1)._replace(headers=expected)]


def test_a_header_value_that_no_one_can_turn_back_stays_a_stream_and_is_noted(tmp_path: Path) -> None:
    stream = bytes.fromhex("aced000570")
    put(tmp_path, 1, container([row(record(1), headers={"h": stream}), row(record(2), headers={"i": stream})]))
    told: list[Damage] = []
    assert [each.headers for each in read_all(reader(tmp_path), told.append)] == [(("h", stream),), (("i", stream),)]
    assert [damage.is_note for damage in told] == [True]
    assert "'h' is the first" in told[0].problem


@pytest.mark.parametrize(("empty_as", "expected"), [("null", None), ("empty", b"")])
def test_what_has_no_bytes_is_null_or_empty_as_asked(tmp_path: Path, empty_as: str, expected: bytes | None) -> None:
    put_records(tmp_path, [record(0, None, key=None)])
    assert read_all(reader(tmp_path, empty_as=empty_as)) == [record(0, expected, key=expected)]
    with pytest.raises(BadOption):
        reader(tmp_path, empty_as="zero")


def test_numbers_in_names_order_objects_whatever_their_padding(tmp_path: Path) -> None:
    for start in (9, 10, 100):
        path = put_records(tmp_path, [record(start)])
        path.rename(path.with_name(f"{TOPIC}-0-{start}.avro"))
    put_records(tmp_path, [record(200)])
    assert offsets(read_all(reader(tmp_path))) == [9, 10, 100, 200]


def test_objects_that_overlap_give_each_offset_once(tmp_path: Path) -> None:
    records = [record(offset) for offset in range(40)]
    for start, end in ((0, 30), (10, 12), (15, 20), (18, 40)):
        put_records(tmp_path, records[start:end])
    assert read_all(reader(tmp_path)) == records


def test_topics_and_partitions_are_told_by_their_folders(tmp_path: Path) -> None:
    put(tmp_path, 0, container([row(record(0), topic="7", partition=12)]), topic="7", partition=12)
    put(tmp_path, 0, container([row(record(0))]))
    put(tmp_path, 3, container([row(record(3), partition=1)]), partition=1)
    (tmp_path / "notes.txt").write_text("not the tool's")
    contents = reader(tmp_path).contents()
    assert contents.topics == (ArchiveTopic(topic="7", partitions=13), ArchiveTopic(topic=TOPIC, partitions=2))
    assert [(piece.topic, piece.partition, piece.start, piece.end) for piece in contents.pieces] == [
        ("7", 12, 0, None),
        (TOPIC, 0, 0, None),
        (TOPIC, 1, 3, None),
    ]
    assert len(read_all(reader(tmp_path))) == 3


def test_a_place_without_any_object_of_the_tool_is_refused(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "orders-0-5.avro").write_bytes(b"")
    with pytest.raises(ArchiveNotFound):
        reader(tmp_path).contents()


ACTIVE, PASSIVE = "sink-activate", "sink-passivate"


def test_of_two_trees_the_one_that_holds_all_is_read_alone(tmp_path: Path) -> None:
    records = [record(offset) for offset in range(0, 60, 2)]
    for start, end in ((0, 10), (10, 30)):
        put_records(tmp_path, records[start:end], tree=ACTIVE)
    put_records(tmp_path, [record(1), record(5)], tree=PASSIVE)
    assert read_all(reader(tmp_path)) == records
    [*_, remark] = reader(tmp_path).contents().fidelity
    assert remark == f"orders/0: of several trees, {ACTIVE} was read, not {PASSIVE}"


def test_two_trees_that_reach_each_over_the_other_are_both_read(tmp_path: Path) -> None:
    put_records(tmp_path, [record(offset) for offset in range(0, 20, 2)], tree=ACTIVE)
    put_records(tmp_path, [record(offset) for offset in range(5, 30)], tree=PASSIVE)
    assert offsets(read_all(reader(tmp_path))) == [0, 2, 4, *range(5, 30)]
    assert reader(tmp_path).contents().fidelity[-1].endswith("is complete, so all were read")


def test_lines_of_base64_are_read_gzipped_or_not(tmp_path: Path) -> None:
    rows = [row(record(offset), headers={"h": java_text("v")}) for offset in (3, 4, 9)]
    folder = tmp_path / TOPIC / "0"
    folder.mkdir(parents=True)
    (folder / "index-3.avro-messages").write_bytes(lines(rows))
    later = [row(record(offset)) for offset in (10, 11)]
    (folder / "index-10.avro-messages").write_bytes(gzip.compress(lines(later)))
    expected = [record(offset)._replace(headers=(("h", b"v"),)) for offset in (3, 4, 9)]
    assert read_all(reader(tmp_path)) == [*expected, record(10), record(11)]


def test_keys_and_values_that_are_all_java_bytes_are_unwrapped(tmp_path: Path) -> None:
    wrapped = [record(offset, java_bytes(b"v"), key=java_bytes(b"")) for offset in (1, 2)]
    put_records(tmp_path, wrapped)
    told: list[Damage] = []
    assert read_all(reader(tmp_path), told.append) == [record(1, key=b""), record(2, key=b"")]
    assert [damage.is_note for damage in told] == [True]


def test_a_single_plain_value_leaves_the_whole_file_as_it_is(tmp_path: Path) -> None:
    mixed = [record(offset, java_bytes(b"v"), key=java_bytes(b"k")) for offset in range(500)] + [record(500)]
    put(tmp_path, 0, container([row(each) for each in mixed], block_bytes=1_000))
    assert read_all(reader(tmp_path)) == mixed


@pytest.mark.parametrize("first", ["x-old-offset", "mine"])
def test_headers_of_a_restore_are_taken_off_wherever_the_map_put_them(tmp_path: Path, first: str) -> None:
    number = INTEGER + (17).to_bytes(4)
    headers = {"mine": java_text("1"), "x-old-offset": number, "x-restored": java_text("1560000000000")}
    ordered = dict(sorted(headers.items(), key=lambda header: header[0] != first))
    put(tmp_path, 1, container([row(record(1), headers=ordered)]))
    assert read_all(reader(tmp_path)) == [record(1)._replace(headers=(("mine", b"1"),))]


@pytest.mark.parametrize("extra", [{}, {"x-restored": java_text("soon")}])
def test_such_headers_that_no_restore_made_stay(tmp_path: Path, extra: dict[str, bytes]) -> None:
    put(tmp_path, 1, container([row(record(1), headers={"x-old-offset": java_text("17"), **extra})]))
    [found] = read_all(reader(tmp_path))
    assert len(found.headers) == 1 + len(extra)


def text16(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def commit(position: int, group: str, partition: int, offset: int | None, *, topic: str = TOPIC) -> Record:
    key = struct.pack(">h", 1) + text16(group) + text16(topic) + struct.pack(">i", partition)
    value = b"" if offset is None else struct.pack(">hqi", 3, offset, 5) + text16("note") + struct.pack(">q", 1)
    return record(position, value, key=key)


def test_archived_committed_offsets_become_groups(tmp_path: Path) -> None:
    put_records(tmp_path, [record(0)])
    rows = [
        commit(1, "app", 0, 5),
        commit(2, "app", 1, 6),
        commit(3, "app", 0, 9),
        commit(4, "gone", 0, 1),
        commit(5, "gone", 0, None),
        commit(6, "app", 0, 3, topic="elsewhere"),
        record(7, b"\0\0", key=struct.pack(">h", 2) + text16("app")),
    ]
    topic = "__consumer_offsets"
    put(tmp_path, 1, container([row(each, topic=topic, partition=3) for each in rows]), topic=topic, partition=3)
    contents = reader(tmp_path).contents()
    assert [each.topic for each in contents.topics] == [TOPIC]
    assert {piece.topic for piece in contents.pieces} == {TOPIC}
    assert list(contents.groups) == ["app"]
    [offsets_on] = contents.groups["app"].topics
    assert [tuple(each) for each in offsets_on] == [(0, 9, 5, "note"), (1, 6, 5, "note")]


def test_a_damaged_commit_is_told_and_the_records_are_taken(tmp_path: Path) -> None:
    put_records(tmp_path, [record(0)])
    bad = commit(1, "app", 0, 5)._replace(key=b"\0\1\0\5ap")
    topic = "__consumer_offsets"
    put(tmp_path, 1, container([row(bad, topic=topic)]), topic=topic)
    told: list[Damage] = []
    assert read_all(reader(tmp_path), told.append) == [record(0)]
    assert "the group record at offset 1 is damaged inside" in told[0].problem


def test_a_reader_travels_to_workers(tmp_path: Path) -> None:
    put_records(tmp_path, [record(0)])
    assert read_all(pickle.loads(pickle.dumps(reader(tmp_path)))) == [record(0)]
