from __future__ import annotations

import json
import random
import struct
import zlib
from pathlib import Path

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.archives.archive import Damage
from offsite.archives.osodevops import OsodevopsReader
from offsite.archives.osodevops.segment import (
    FOOTER,
    FOOTER_MAGIC,
    LZ4,
    MAGIC,
    NONE,
    VERSION,
    ZSTD,
    SegmentHeader,
    encode_record,
)
from offsite.log.records.record import Record
from offsite.model.errors import ArchiveNotFound, DamagedArchive
from offsite.stores.archive_files import ArchiveFolder
from tests.examples import sampled
from tests.unit.archives.osodevops.made_backups import backup, offsets, read_all, read_what_is_whole, record

RECORDS = [record(offset, b"value %d" % offset, headers=(("h", b"%d" % offset),)) for offset in range(10, 22)]


def whole_file(records: list[Record], *, compression: int = NONE, first: int | None = None) -> bytes:
    body = b"".join(
        encode_record(each, tuple((name.encode(), value) for name, value in each.headers)) for each in records
    )
    if compression == LZ4:
        body = bytes(cramjam.lz4.compress_block(body))
    start = records[0].offset if first is None else first
    data = SegmentHeader(MAGIC, VERSION, compression, len(records), start, records[-1].offset).encode() + body
    return data + FOOTER.pack(zlib.crc32(data), FOOTER_MAGIC)


def archive(root: Path, *files: bytes | None, listed: list[tuple[int, int]] | None = None) -> list[Path]:
    """Partition 0 with these files (None: missing); `listed`: first and last offset as the manifest has them."""
    folder = root / "topics" / "orders" / "partition=0"
    folder.mkdir(parents=True)
    spans = listed or [(RECORDS[0].offset, RECORDS[-1].offset)] * len(files)
    rows, paths = [], []
    for number, (data, (start, last)) in enumerate(zip(files, spans, strict=True)):
        paths.append(folder / f"segment-{number:020}.bin")
        if data is not None:
            paths[-1].write_bytes(data)
        key = f"{root.name}/topics/orders/partition=0/{paths[-1].name}"
        rows.append({"key": key, "start_offset": start, "end_offset": last})
    topic = {"name": "orders", "partitions": [{"partition_id": 0, "segments": rows}]}
    (root / "manifest.json").write_text(json.dumps({"backup_id": root.name, "topics": [topic]}))
    return paths


def refusal(root: Path) -> str:
    with pytest.raises(DamagedArchive) as refused:
        read_all(OsodevopsReader(files=ArchiveFolder(root=root)))
    return refused.value.message


def test_the_sample_of_the_format_reads_and_is_written_to_the_byte(tmp_path: Path) -> None:
    sample = bytes.fromhex(
        "4b42414b01000000020000000000000005000000000000000700000000000000"
        "230000000068e5cf8b0100000500000000000000010000006b0100000076010001006 8ffffffff".replace(" ", "")
        + "1a0000000168e5cf8b0100000700000000000000ffffffffffffffff0000b3bd4127424b4145"
    )
    first = Record(5, 1_700_000_000_000, 0, b"k", b"v", (("h", None),))
    records = [first, Record(7, 1_700_000_000_001, 0, None, None)]
    archive(tmp_path / "b", sample, listed=[(5, 7)])
    assert read_all(OsodevopsReader(files=ArchiveFolder(root=tmp_path / "b"))) == records
    assert whole_file(records) == sample


@pytest.mark.parametrize("compression", [NONE, LZ4])
def test_the_headers_compression_byte_decides_and_not_the_suffix(tmp_path: Path, compression: int) -> None:
    archive(tmp_path / "b", whole_file(RECORDS, compression=compression))
    assert read_all(OsodevopsReader(files=ArchiveFolder(root=tmp_path / "b"))) == RECORDS


def test_a_file_cut_at_any_byte_is_refused_and_gives_the_records_before_the_cut_when_that_is_accepted(
    tmp_path: Path,
) -> None:
    data = whole_file(RECORDS)
    [path] = archive(tmp_path / "b", data)
    size = (len(data) - 40) // len(RECORDS)
    for cut in sampled(range(len(data))):
        path.write_bytes(data[:cut])
        assert f"{path.name} at byte " in refusal(tmp_path / "b")
        kept, told = read_what_is_whole(tmp_path / "b")
        assert kept == RECORDS[: max(0, min((cut - 32) // size, len(RECORDS)))]
        assert told[0].file.endswith(path.name)
        assert told[0].position <= cut


def test_a_flipped_bit_anywhere_is_refused_and_no_record_of_the_file_is_taken_on_trust(tmp_path: Path) -> None:
    data = whole_file(RECORDS)
    [path] = archive(tmp_path / "b", data)
    for position in sampled({*range(40), *range(40, len(data), 5), *range(len(data) - 8, len(data))}):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        assert path.name in refusal(tmp_path / "b")
        kept, told = read_what_is_whole(tmp_path / "b")
        assert told
        assert kept == (RECORDS if position >= len(data) - 4 else [])


def test_a_flip_in_a_compressed_file_is_refused(tmp_path: Path) -> None:
    [path] = backup(tmp_path / "b", RECORDS)
    data = path.read_bytes()
    for position in random.Random(5).sample(range(len(data)), 60):
        flipped = bytearray(data)
        flipped[position] ^= 0x10
        path.write_bytes(flipped)
        assert path.name in refusal(tmp_path / "b")
        assert set(read_what_is_whole(tmp_path / "b")[0]) <= set(RECORDS)


def test_a_cut_compressed_file_gives_what_its_frame_still_holds(tmp_path: Path) -> None:
    big = [record(offset, random.Random(offset).randbytes(1_000)) for offset in range(600)]
    [path] = backup(tmp_path / "b", big)
    path.write_bytes(path.read_bytes()[:400_000])
    kept, told = read_what_is_whole(tmp_path / "b")
    assert 100 < len(kept) < 500
    assert kept == big[: len(kept)]
    assert [damage.position for damage in told][:1] == [400_000]


@pytest.mark.parametrize(
    ("position", "byte", "problem"),
    [(0, 0x4C, "at byte 0: begins with b'LBAK'"), (4, 2, "at byte 4: has version 2"), (5, 3, "at byte 5: has compr")],
)
def test_a_strange_header_is_refused_with_its_place(tmp_path: Path, position: int, byte: int, problem: str) -> None:
    data = bytearray(whole_file(RECORDS))
    data[position] = byte
    data[-8:-4] = struct.pack("<I", zlib.crc32(data[:-8]))
    archive(tmp_path / "b", bytes(data))
    assert problem in refusal(tmp_path / "b")
    assert read_what_is_whole(tmp_path / "b")[0] == []


@pytest.mark.parametrize("data", [b"", b"K", b"[", b"\0"])
def test_a_file_of_no_or_one_byte_is_refused_and_the_others_are_taken(tmp_path: Path, data: bytes) -> None:
    more = [record(offset) for offset in (30, 31)]
    archive(tmp_path / "b", data, whole_file(more), listed=[(10, 21), (30, 31)])
    assert "segment-00000000000000000000.bin at byte" in refusal(tmp_path / "b")
    assert read_what_is_whole(tmp_path / "b")[0] == more


def test_a_missing_segment_is_named_and_the_others_are_taken(tmp_path: Path) -> None:
    archive(tmp_path / "b", None, whole_file(RECORDS), listed=[(0, 9), (10, 21)])
    assert refusal(tmp_path / "b").endswith("0.bin at byte 0: is missing; the manifest lists it for offsets 0 to 9")
    assert read_what_is_whole(tmp_path / "b")[0] == RECORDS


@pytest.mark.parametrize("span", [(10, 30), (5, 21), (12, 21), (10, 15)])
def test_a_manifest_that_says_other_offsets_than_the_file_is_refused(tmp_path: Path, span: tuple[int, int]) -> None:
    archive(tmp_path / "b", whole_file(RECORDS), listed=[span])
    assert "at byte 16: has offsets 10 to 21; the manifest lists it for" in refusal(tmp_path / "b")
    kept, _ = read_what_is_whole(tmp_path / "b")
    assert offsets(kept) == [offset for offset in offsets(RECORDS) if span[0] <= offset <= span[1]]


def test_offsets_that_go_back_inside_a_file_are_refused_and_left_out(tmp_path: Path) -> None:
    archive(tmp_path / "b", whole_file([RECORDS[0], RECORDS[5], RECORDS[2], RECORDS[-1]]))
    assert "offset 12 is outside of the expected 16 to 21" in refusal(tmp_path / "b")
    assert offsets(read_what_is_whole(tmp_path / "b")[0]) == [10, 15, 21]


def test_files_that_overlap_give_each_offset_once(tmp_path: Path) -> None:
    parts = [RECORDS[:7], RECORDS[3:5], RECORDS[4:12]]
    spans = [(part[0].offset, part[-1].offset) for part in parts]
    archive(tmp_path / "b", *map(whole_file, parts), listed=spans)
    for piece_bytes in (1, 1 << 20):
        reader = OsodevopsReader(files=ArchiveFolder(root=tmp_path / "b"), piece_bytes=piece_bytes)
        assert read_all(reader) == RECORDS


def test_a_segment_that_a_later_session_has_written_over_is_told(tmp_path: Path) -> None:
    [path] = archive(tmp_path / "b", whole_file(RECORDS))
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_bytes())
    rows = manifest["topics"][0]["partitions"][0]["segments"]
    rows.append({**rows[0], "start_offset": 0, "end_offset": 9})
    (tmp_path / "b" / "manifest.json").write_text(json.dumps(manifest))
    assert f"{path.name} at byte 16: has offsets 10 to 21; the manifest lists it for offsets 0 to 9" in refusal(
        tmp_path / "b"
    )
    assert read_what_is_whole(tmp_path / "b")[0] == RECORDS


def test_a_segment_with_another_hash_than_the_manifests_is_refused_and_left_out(tmp_path: Path) -> None:
    [path] = backup(tmp_path / "b", RECORDS)
    path.write_bytes(whole_file([*RECORDS[:-1], RECORDS[-1]._replace(value=b"forged")]))
    assert "at byte 0: differs from the file in the manifest: its SHA-256 is another" in refusal(tmp_path / "b")
    assert read_what_is_whole(tmp_path / "b")[0] == []


def test_a_missing_manifest_is_no_archive_unless_orphans_are_adopted(tmp_path: Path) -> None:
    archive(tmp_path / "b", whole_file(RECORDS))
    (tmp_path / "b" / "manifest.json").unlink()
    for root in (tmp_path, tmp_path / "b"):
        with pytest.raises(ArchiveNotFound, match=r"no manifest\.json"):
            OsodevopsReader(files=ArchiveFolder(root=root)).contents()
        assert read_all(OsodevopsReader(files=ArchiveFolder(root=root), adopt_orphans=True)) == RECORDS


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"backup_id": "b", "topics": [}', "at byte 30: not JSON"),
        ('{"backup_id": "ü", "topics": [}', "at byte 31: not JSON"),
        ('{"backup_id": "b", "top', "at byte 19: not JSON"),
        ("[]", "the file is not an object"),
        ('{"topics": []}', "field 'backup_id' is not text"),
        ('{"backup_id": "b", "topics": [{"name": "t", "partitions": [{"partition_id": "0"}]}]}', "'partition_id'"),
        ('{"backup_id": "b", "topics": {"name": "t"}}', "field 'topics' is not a list"),
    ],
)
def test_an_unreadable_manifest_is_refused_and_what_lies_there_is_taken_when_that_is_accepted(
    tmp_path: Path, text: str, problem: str
) -> None:
    archive(tmp_path / "b", whole_file(RECORDS))
    (tmp_path / "b" / "manifest.json").write_text(text)
    assert "manifest.json at byte" in refusal(tmp_path / "b")
    assert problem in refusal(tmp_path / "b")
    kept, told = read_what_is_whole(tmp_path / "b")
    assert kept == RECORDS
    assert len(told) == 1


def test_an_unreadable_snapshot_of_groups_is_told_and_the_records_are_taken(tmp_path: Path) -> None:
    archive(tmp_path / "b", whole_file(RECORDS))
    (tmp_path / "b" / "consumer-groups-snapshot.json").write_text('{"groups": [{"group_id": 1}]}')
    assert refusal(tmp_path / "b").startswith("consumer-groups-snapshot.json at byte 0: field 'group_id'")
    kept, told = read_what_is_whole(tmp_path / "b")
    assert kept == RECORDS
    assert told == [Damage(file="consumer-groups-snapshot.json", position=0, problem="field 'group_id' is not text")]


@given(body=st.binary(max_size=200), compression=st.sampled_from([NONE, ZSTD, LZ4]), count=st.integers(0, 3))
def test_any_bytes_behind_a_right_checksum_are_told_as_damage_and_nothing_worse(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, compression: int, count: int
) -> None:
    data = SegmentHeader(MAGIC, VERSION, compression, count, 10, 21).encode() + body
    root = tmp_path_factory.mktemp("fuzz") / "b"
    archive(root, data + FOOTER.pack(zlib.crc32(data), FOOTER_MAGIC))
    kept, told = read_what_is_whole(root)
    assert told or len(kept) == count


@pytest.mark.parametrize(
    "partition",
    [
        f'{{"partition_id": {"9" * 5000}}}',
        '{"partition_id": 1000000}',
        '{"partition_id": -1}',
        f'{{"partition_id": 0, "segments": [{{"key": "k", "start_offset": {1 << 70}, "end_offset": {1 << 70}}}]}}',
        '{"partition_id": 0, "segments": [{"key": "../../outside", "start_offset": 0, "end_offset": 0}]}',
        "[" * 100_000,
    ],
)
def test_what_a_manifest_cannot_mean_is_damage(tmp_path: Path, partition: str) -> None:
    topics = f'[{{"name": "orders", "partitions": [{partition}]}}]'
    (tmp_path / "manifest.json").write_text(f'{{"backup_id": "b", "topics": {topics}}}')
    reader = OsodevopsReader(files=ArchiveFolder(root=tmp_path))
    with pytest.raises(DamagedArchive):
        read_all(reader)
