from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.archives import file_parts
from offsite.archives.archive import Damage
from offsite.log.records.record import Record
from offsite.model.errors import DamagedArchive
from tests.examples import sampled
from tests.unit.archives.trivadis.made_archives import (
    TOPIC,
    container,
    lines,
    offsets,
    put,
    put_records,
    read_all,
    reader,
    record,
    row,
)

RECORDS = [record(offset, b"value %d" % offset) for offset in range(40)]


def in_blocks(*, codec: str = "null", records: list[Record] = RECORDS) -> bytes:
    return container([row(each) for each in records], codec=codec, block_bytes=150)


def read_what_is_whole(root: Path) -> tuple[list[Record], list[Damage]]:
    told: list[Damage] = []
    return read_all(reader(root), told.append), told


def refusal(root: Path) -> str:
    with pytest.raises(DamagedArchive) as refused:
        read_all(reader(root))
    return refused.value.message


def test_a_file_cut_at_any_byte_gives_the_blocks_before_the_cut(tmp_path: Path) -> None:
    data = in_blocks()
    path = put(tmp_path, 0, data)
    ends = [index + 16 for index in range(len(data)) if data.startswith(b"sync marker 16 b", index)]
    for cut in (*sampled([*range(0, ends[0], 9), *range(ends[0], len(data), 2)]), *ends[1:]):
        path.write_bytes(data[:cut])
        kept, told = read_what_is_whole(tmp_path)
        assert kept == RECORDS[: len(kept)]
        if cut in ends:  # whole blocks are all that a file of this format promises
            assert not told
            continue
        assert [damage.file for damage in told] == [f"{TOPIC}/0/{path.name}"]
        assert told[0].position == max((end for end in ends if end < cut), default=told[0].position)


@pytest.mark.parametrize("codec", ["deflate", "snappy", "null"])
def test_a_flipped_byte_costs_no_more_than_two_blocks(tmp_path: Path, codec: str) -> None:
    data = in_blocks(codec=codec)
    first = data.index(b"sync marker 16 b") + 16
    path = put(tmp_path, 0, data)
    for position in sampled(range(first, len(data), 3)):
        flipped = bytearray(data)
        flipped[position] ^= 0x55
        path.write_bytes(flipped)
        kept, told = read_what_is_whole(tmp_path)
        intact = [each for each in kept if each in RECORDS]
        assert len(intact) >= len(RECORDS) - 12
        if codec == "snappy":  # the only one with a checksum
            assert kept == intact
            assert told


@pytest.mark.parametrize("data", [b"", b"O", b"Obj\x02", b"KBAK and more", b"Obj\x01" + b"\x01" * 40])
def test_what_is_no_container_is_refused_with_its_place_and_the_rest_is_taken(tmp_path: Path, data: bytes) -> None:
    put(tmp_path, 0, data)
    put_records(tmp_path, RECORDS[5:])
    assert f"{TOPIC}/0/{TOPIC}-0-000000000000000.avro at byte " in refusal(tmp_path)
    kept, told = read_what_is_whole(tmp_path)
    assert kept == RECORDS[5:]
    assert len(told) == 1


def test_an_unknown_codec_or_schema_is_refused(tmp_path: Path) -> None:
    data = in_blocks()
    path = put(tmp_path, 0, data.replace(b"avro.codec\x08null", b"avro.codec\x08zstd"))
    assert "has codec 'zstd'" in refusal(tmp_path)
    path.write_bytes(data.replace(b'"timestamp"', b'"timestomp"'))
    assert "the schema lacks one of the fields" in refusal(tmp_path)


def test_a_record_of_another_partition_is_refused_and_left_out(tmp_path: Path) -> None:
    rows = [row(record(0)), row(record(1), partition=4), row(record(2))]
    put(tmp_path, 0, container(rows))
    assert "has a record of orders/4" in refusal(tmp_path)
    assert offsets(read_what_is_whole(tmp_path)[0]) == [0, 2]


def test_offsets_that_go_back_are_refused_and_left_out(tmp_path: Path) -> None:
    put(tmp_path, 5, container([row(record(offset)) for offset in (5, 9, 7, 10)]))
    assert "offset 9 is out of order after 5" in refusal(tmp_path)
    assert offsets(read_what_is_whole(tmp_path)[0]) == [5, 7, 10]


def test_a_name_that_promises_a_later_start_is_refused(tmp_path: Path) -> None:
    put(tmp_path, 7, container([row(record(offset)) for offset in (5, 7, 9)]))
    assert "offset 5 is out of order after 6" in refusal(tmp_path)
    assert offsets(read_what_is_whole(tmp_path)[0]) == [7, 9]


def test_a_damaged_line_is_told_with_its_place_and_the_others_are_taken(tmp_path: Path) -> None:
    text = lines([row(record(offset)) for offset in range(4)])
    where = text.index(b"\n") + 1
    path = tmp_path / TOPIC / "0" / "index-0.avro-messages"
    path.parent.mkdir(parents=True)
    for damaged in (text[:where] + b"!" + text[where + 1 :], text[:where] + text[where + 4 :]):
        path.write_bytes(damaged)
        kept, told = read_what_is_whole(tmp_path)
        assert offsets(kept) == [0, 2, 3]
        assert [damage.position for damage in told] == [where]


def test_a_file_is_read_in_parts_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, 0, in_blocks(codec="deflate"))
    path = tmp_path / TOPIC / "0" / "index-100.avro-messages"
    path.write_bytes(lines([row(record(offset)) for offset in (100, 101)]))
    for part_bytes in (1, 7, 100):
        monkeypatch.setattr(file_parts, "WINDOW_BYTES", part_bytes)
        assert read_all(reader(tmp_path)) == [*RECORDS, record(100), record(101)]


@given(body=st.binary(max_size=200), codec=st.sampled_from(["null", "deflate", "snappy"]))
def test_any_bytes_behind_a_right_header_are_told_as_damage_and_nothing_worse(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, codec: str
) -> None:
    root = tmp_path_factory.mktemp("fuzz")
    header = container([], codec=codec)
    put(root, 0, header + body)
    kept, told = read_what_is_whole(root)
    assert told or not (kept or body)
