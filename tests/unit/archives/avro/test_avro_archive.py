from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import fastavro
import pytest

from offsite.archives.archive import Damage
from offsite.archives.avro import CODECS, PLAIN_SCHEMA, SCHEMA, AvroReader, AvroWriter
from offsite.log.records.record import Record
from offsite.model.errors import BadOption, DamagedArchive, NotRepresentable
from offsite.stores.archive_files import ArchiveFolder
from tests.archive_records import (
    TIME_MS,
    binary_header,
    export,
    files_of,
    odd_records,
    plain_records,
    read_all,
    write_range,
)

FILE = "topics/orders/partition=0/orders+0-00000000000000000000.data"
PUBLISHED = """{
    "namespace": "ch.tbd.kafka.backuprestore.model.avro",
    "type": "record",
    "name": "AvroKafkaRecord",
    "fields" : [
        {"name": "topic", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "timestamp", "type": "long"},
        {"name": "key", "type": [ "bytes", "null" ], "default": "null" },
        {"name": "value", "type": "bytes"},
        {"name": "headers", "type": [ {"type": "map", "values": "bytes"}, "null" ], "default": null}
    ]
}"""
"""As the document of the tool has it."""


@pytest.fixture
def files(tmp_path: Path) -> ArchiveFolder:
    return ArchiveFolder(root=tmp_path)


@pytest.mark.parametrize("codec", CODECS)
def test_every_oddity_of_a_record_comes_back(files: ArchiveFolder, codec: str) -> None:
    records = [*odd_records(), binary_header(1_000_001)]
    export(AvroWriter(files=files, codec=codec), records, start=0, end=1_000_002)
    assert read_all(AvroReader(files=files)) == records


def test_a_reader_with_the_plain_schema_reads_our_files(files: ArchiveFolder) -> None:
    records = odd_records()
    export(AvroWriter(files=files), records, start=0, end=1_000_001)
    rows = list(fastavro.reader(io.BytesIO(files.get(FILE) or b""), reader_schema=PLAIN_SCHEMA))
    assert [list(row) for row in rows] == [[field["name"] for field in PLAIN_SCHEMA["fields"]]] * len(records)  # type: ignore[index, union-attr, call-overload]
    seen = [(row["topic"], row["partition"], row["offset"], row["timestamp"], row["key"], row["value"]) for row in rows]  # type: ignore[index, call-overload]
    assert seen == [("orders", 0, r.offset, r.timestamp_ms, r.key, r.value or b"") for r in records]
    assert [row["headers"] for row in rows] == [  # type: ignore[index, call-overload]
        {name: value for name, value in r.headers if value is not None} if r.headers else None for r in records
    ]


def test_the_file_says_our_schema_and_begins_like_the_plain_one(files: ArchiveFolder) -> None:
    export(AvroWriter(files=files), plain_records(0, 5), start=0, end=5)
    header = fastavro.reader(io.BytesIO(files.get(FILE) or b""))
    assert json.loads(header.metadata["avro.schema"]) == SCHEMA
    ours, plain = (fastavro.parse_schema(each)["fields"] for each in (SCHEMA, PLAIN_SCHEMA))  # type: ignore[index, call-overload]
    assert [(f["name"], f["type"]) for f in ours[:7]] == [(f["name"], f["type"]) for f in plain]


def test_the_plain_schema_is_the_published_one_to_the_letter() -> None:
    assert json.loads(PUBLISHED) == PLAIN_SCHEMA


def test_plain_files_have_the_published_schema_and_come_back(files: ArchiveFolder) -> None:
    records = [*plain_records(0, 600), Record(700, TIME_MS, 0, None, b"", (("b", b"2"), ("a", b"1")))]
    export(AvroWriter(files=files, plain=True), records, start=0, end=701)
    header = fastavro.reader(io.BytesIO(files.get(FILE) or b""))
    assert json.loads(header.metadata["avro.schema"]) == PLAIN_SCHEMA
    assert read_all(AvroReader(files=files)) == records
    assert any("plain" in sentence for sentence in AvroReader(files=files).contents().fidelity)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (Record(7, TIME_MS, 0, b"k", None, ()), "null value"),
        (Record(7, TIME_MS, 1, b"k", b"v", ()), "LogAppendTime"),
        (Record(7, TIME_MS, 0, b"k", b"v", (("a", b"1"), ("a", b"2"))), "the same name"),
        (Record(7, TIME_MS, 0, b"k", b"v", (("a", None),)), "value is null"),
        (binary_header(7), "not UTF-8"),
    ],
)
def test_the_plain_schema_refuses_by_name_what_it_cannot_hold(
    files: ArchiveFolder, record: Record, problem: str
) -> None:
    with pytest.raises(NotRepresentable, match=f"orders/0 offset 7: .*{problem}"):
        write_range(AvroWriter(files=files, plain=True), [*plain_records(0, 5), record], start=0, end=8)
    assert files_of(files.root) == {}


def test_a_lossy_plain_export_counts_what_it_leaves_out(files: ArchiveFolder) -> None:
    records = [
        Record(0, TIME_MS, 0, b"k", None, ()),
        Record(1, TIME_MS, 0, b"k", None, (("a", b"1"), ("a", b"2"), ("b", None))),
    ]
    written = export(AvroWriter(files=files, plain=True, lossy=True), records, start=0, end=2)
    assert {what.split(",")[0]: count for what, count in written.losses} == {
        "a null value": 2,
        "several headers with the same name": 1,
        "a header whose value is null": 1,
    }
    assert read_all(AvroReader(files=files)) == [
        Record(0, TIME_MS, 0, b"k", b"", ()),
        Record(1, TIME_MS, 0, b"k", b"", (("a", b"2"),)),
    ]
    assert any("a null value" in each and "(2 records)" in each for each in AvroReader(files=files).contents().fidelity)


def test_a_file_of_another_writer_is_read_through_its_schema(files: ArchiveFolder) -> None:
    schema = json.loads(json.dumps(PLAIN_SCHEMA))
    schema["fields"].insert(0, {"name": "added", "type": "string"})
    row = {
        "added": "x",
        "topic": "orders",
        "partition": 0,
        "offset": 3,
        "timestamp": 5,
        "key": None,
        "value": b"v",
        "headers": {"a": b"1"},
    }
    out = io.BytesIO()
    fastavro.writer(out, schema, [row], codec="deflate")
    files.put(FILE, out.getvalue())
    assert read_all(AvroReader(files=files)) == [Record(3, 5, 0, None, b"v", (("a", b"1"),))]


def test_an_unknown_codec_is_refused_before_anything_is_written(files: ArchiveFolder) -> None:
    with pytest.raises(BadOption, match="lzo"):
        AvroWriter(files=files, codec="lzo")


def test_an_archive_is_either_plain_or_not(files: ArchiveFolder) -> None:
    export(AvroWriter(files=files), plain_records(0, 5), start=0, end=5)
    with pytest.raises(BadOption, match="avro, not avro-plain"):
        AvroWriter(files=files, plain=True).ends()


def test_the_file_of_one_topic_among_another_topics_is_damage(files: ArchiveFolder) -> None:
    export(AvroWriter(files=files), plain_records(0, 5), start=0, end=5)
    files.put(FILE.replace("orders", "others"), files.get(FILE) or b"")
    files.delete("_archive.json")
    with pytest.raises(DamagedArchive, match="is of orders/0, not of others/0"):
        read_all(AvroReader(files=files))


def _taken(files: ArchiveFolder) -> tuple[Sequence[Record], Sequence[Damage]]:
    found: list[Damage] = []
    return read_all(AvroReader(files=files), found.append), found


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_flipped_bit_anywhere_is_reported_and_never_changes_a_record(
    files: ArchiveFolder, codec: str, is_indexed: bool
) -> None:
    records = plain_records(0, 2_000, value_bytes=60)
    export(AvroWriter(files=files, codec=codec), records, start=0, end=2_000)
    whole = files.get(FILE) or b""
    if not is_indexed:
        files.delete("_archive.json")
        files.delete("topics/orders/_index.json")
    originals = set(records)
    header_bytes = 0 if is_indexed else whole.index(whole[-16:]) + 16  # without an index nothing guards the schema
    for position in range(header_bytes, len(whole), 1_009):
        files.put(FILE, whole[:position] + bytes([whole[position] ^ 0x20]) + whole[position + 1 :])
        taken, found = _taken(files)
        assert found, position
        assert originals.issuperset(taken), position
        assert all(damage.file == FILE for damage in found)


def test_a_damaged_block_costs_its_own_records_only(files: ArchiveFolder) -> None:
    records = plain_records(0, 5_000, value_bytes=100)
    export(AvroWriter(files=files), records, start=0, end=5_000)
    whole = files.get(FILE) or b""
    middle = len(whole) // 2
    files.put(FILE, whole[:middle] + b"\x00\xff\x00" + whole[middle + 3 :])
    with pytest.raises(DamagedArchive, match=f"{FILE.replace('+', '.')} at byte [1-9]"):
        read_all(AvroReader(files=files))
    taken, found = _taken(files)
    assert len(found) == 1
    assert 0 < found[0].position <= middle
    assert 3_900 < len(taken) < 5_000
    assert set(records).issuperset(taken)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_changed_file_without_checksums_of_its_own_is_left_out_as_a_whole(files: ArchiveFolder, codec: str) -> None:
    export(AvroWriter(files=files, codec=codec), plain_records(0, 100), start=0, end=100)
    whole = files.get(FILE) or b""
    files.put(FILE, whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    taken, found = _taken(files)
    assert taken == []
    assert len(found) == 1


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_file_cut_at_any_byte_is_reported_and_gives_whole_blocks(files: ArchiveFolder, is_indexed: bool) -> None:
    records = plain_records(0, 1_100, value_bytes=130)
    export(AvroWriter(files=files), records, start=0, end=1_100)
    whole = files.get(FILE) or b""
    if not is_indexed:
        files.delete("_archive.json")
        files.delete("topics/orders/_index.json")
    block_ends = 0
    for size in [*range(0, 1_600, 61), *range(1_600, len(whole), 2_003)]:
        files.put(FILE, whole[:size])
        taken, found = _taken(files)
        block_ends += not found
        assert found or not is_indexed, size
        assert taken == records[: len(taken)], size
    assert block_ends <= 2


@pytest.mark.parametrize(
    "junk", [b"", b"O", b"Obj\x02" + b"\0" * 40, b"PAR1" * 20, b"Obj\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"]
)
def test_a_file_that_is_not_avro_is_named(files: ArchiveFolder, junk: bytes) -> None:
    files.put(FILE, junk)
    with pytest.raises(DamagedArchive, match=r"orders\+0-00000000000000000000.data at byte"):
        read_all(AvroReader(files=files))


def test_any_codec_of_ours_is_the_same_bytes_however_records_are_handed_over(files: ArchiveFolder) -> None:
    records = plain_records(0, 3_000) + [Record(9_000 + n, TIME_MS, 0, None, b"v" * 900_000, ()) for n in range(12)]
    written = [
        write_range(AvroWriter(files=files, file_bytes=100_000), records, start=0, end=9_012, at_once=at_once)
        for at_once in (1, 333, 5_000)
    ]
    assert written[0] == written[1] == written[2]
    assert len(written[0].files) > 1
    assert [file.range.end for file in written[0].files] == [*(f.range.start for f in written[0].files[1:]), 9_012]
