from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from offsite.archives.archive import Damage, collect_damage
from offsite.archives.jsonl import COMPRESSIONS, JsonlReader, JsonlWriter
from offsite.archives.jsonl.line import DECODED_MAX_CHARS
from offsite.log.records.record import Record
from offsite.log.varint import zigzag
from offsite.model.errors import BadOption, DamagedArchive, UnfitArchive
from offsite.model.schema_registry import AVRO, RegistrySnapshot, StoredSchema, SubjectVersion
from offsite.stores.archive_files import ArchiveFolder
from tests.archive_records import TIME_MS, binary_header, export, odd_records, plain_records, read_all, write_range
from tests.examples import sampled

FILE = "topics/orders/partition=0/orders+0-00000000000000000000.jsonl"
SUFFIXES = {"none": "", "gzip": ".gz", "zstd": ".zst"}


@pytest.fixture
def files(tmp_path: Path) -> ArchiveFolder:
    return ArchiveFolder(root=tmp_path)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_oddity_of_a_record_comes_back(files: ArchiveFolder, compression: str) -> None:
    records = [
        *odd_records(),
        binary_header(1_000_001),
        Record(1_000_002, TIME_MS, 0, b'"\\\n\x00\x7f', "\u2028".encode(), ()),
    ]
    export(JsonlWriter(files=files, compression=compression), records, start=0, end=1_000_003)
    assert read_all(JsonlReader(files=files)) == records
    assert files.get(FILE + SUFFIXES[compression])


def test_a_line_is_an_object_that_says_which_bytes_are_base64(files: ArchiveFolder) -> None:
    export(JsonlWriter(files=files), [*odd_records(), binary_header(2_000_000)], start=0, end=2_000_001)
    lines = [json.loads(line) for line in (files.get(FILE) or b"").splitlines()]
    assert lines[0] | {"crc32c": ""} == {
        "topic": "orders", "partition": 0, "offset": 0, "timestamp": TIME_MS, "timestampType": 0, "key": None,
        "value": None, "headers": [], "crc32c": "",
    }  # fmt: skip
    assert (lines[4]["key64"], lines[4]["value64"]) == ("//4=", "AIA=")
    assert lines[4]["headers"][1:] == [
        {"key": "b", "value": None}, {"key": "a", "value": ""}, {"key": "", "value64": "/w=="}
    ]  # fmt: skip
    assert lines[7]["key"] == "größe"
    assert lines[9]["headers"] == [{"key64": "//5uYW1l", "value": "x"}]


def test_lines_that_others_wrote_need_little(files: ArchiveFolder) -> None:
    files.put(
        FILE,
        b'{"offset": 3, "topic": "orders", "partition": 0, "timestamp": -1, "key": null, "value": "v"}\r\n\n'
        b'{"topic":"orders","partition":0,"offset":4,"timestamp":5,"key64":"","value":null,"more":7}',
    )
    found: list[Damage] = []
    assert read_all(JsonlReader(files=files), found.append) == [
        Record(3, -1, 0, None, b"v", ()),
        Record(4, 5, 0, b"", None, ()),
    ]
    assert [(each.problem, each.is_note) for each in found] == [("fields that are not read: more", True)]


def _kcat(**fields: object) -> bytes:
    line = {"topic": "orders", "partition": 0, "offset": 0, "tstype": "create", "ts": 5, "key": "k", "payload": "v"}
    return json.dumps({**line, **fields}).encode() + b"\n"


_LINE = {"topic": "orders", "partition": 0, "offset": 0, "timestamp": 5, "key": "k", "value": "v"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (_kcat(), "a line without 'timestamp' and 'value'; not known here: 'tstype', 'ts', 'payload'"),
        (_kcat(payload=None), "without 'timestamp' and 'value'"),
        (_kcat(timestamp=5), "without 'value'; not known here: 'tstype', 'ts', 'payload'"),
        (b"{}", "without 'topic' and 'partition' and 'offset' and 'timestamp' and 'key' and 'value'"),
        *(
            (json.dumps({name: value for name, value in _LINE.items() if name != missing}).encode(), f"'{missing}'")
            for missing in _LINE
        ),
        (
            json.dumps({**_LINE, "headers": ["a", "b"]}).encode(),
            "a header that is not an object with a key and a value",
        ),
        (json.dumps({**_LINE, "headers": [{"key": "a"}]}).encode(), "a header that is not an object"),
        (json.dumps({**_LINE, "headers": [{"value": "a"}]}).encode(), "a header that is not an object"),
        (json.dumps({**_LINE, "headers": {"a": "b"}}).encode(), "'headers' is not a list"),
        (json.dumps({**_LINE, "topic": "others"}).encode(), "a record of others/0, not of orders/0"),
        (json.dumps({**_LINE, "partition": False}).encode(), "field 'partition' is not an integer"),
        (json.dumps({**_LINE, "offset": "9"}).encode(), "field 'offset' is not an integer"),
        (json.dumps({**_LINE, "timestamp": "2026-11-01T00:00:00Z"}).encode(), "field 'timestamp' is not an integer"),
        (json.dumps({**_LINE, "value": {"a": 1}}).encode(), "field 'value' is not text"),
    ],
)
def test_lines_of_another_tool_are_named_and_neither_nulls_nor_damage_to_be_skipped(
    files: ArchiveFolder, line: bytes, problem: str
) -> None:
    files.put(FILE, line)
    with pytest.raises(UnfitArchive, match=problem):
        read_all(JsonlReader(files=files), collect_damage([], skip=True))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (
            b'{"topic":"orders","partition":0,"offset":9,"timestamp":5,"key":"k","value":"v","value":"w"}',
            "a field that occurs twice",
        ),
        (
            b' {"topic":"orders","partition":0,"offset":8,"offset":9,"timestamp":5,"key":"k","value":"v"}',
            "a field that occurs twice",
        ),
        (
            b'{"topic":"orders","partition":0,"offset":9223372036854775808,"timestamp":5,"key":"k","value":"v"}',
            "field 'offset' is not an integer of 64 bits",
        ),
        (b'{"topic":"orders","partition":0,"offset":-1,"timestamp":5,"key":"k","value":"v"}', "is impossible"),
        (
            b'{"topic":"orders","partition":0,"offset":9,"timestamp":5,"key":"k","value":"v","timestampType":7}',
            "is impossible",
        ),
        (
            b'{"topic":"orders","partition":0,"offset":9,"timestamp":5,"value":"v","key":"\\ud800"}',
            "half of a surrogate pair",
        ),
        (
            b'{"topic":"orders","partition":0,"offset":9,"timestamp":5,"value":"v","key64":"*"}',
            "field 'key64' is not base64",
        ),
        (
            b'{"topic":"orders","partition":0,"offset":9,"timestamp":5,"value":"v","key64":"","key":""}',
            "exists too",
        ),
        (
            b'{"topic":"orders","partition":0,"offset":9,"timestamp":5,"key":"k","value":"v","headers":[{"key":null,"value":"x"}]}',
            "a header without a name",
        ),
        (b'{"topic":"orders","partition":0,"offset":9,"crc32c":"00000000"}', "fails its CRC32C"),
    ],
)
def test_a_bad_line_is_named_with_its_byte_and_costs_itself_only(
    files: ArchiveFolder, line: bytes, problem: str
) -> None:
    good = b'{"topic":"orders","partition":0,"offset":1,"timestamp":5,"key":"k","value":"v"}\n'
    files.put(FILE, good + line + b"\n" + good.replace(b"1", b"10"))
    with pytest.raises(DamagedArchive, match=rf"\.jsonl at byte {len(good)}: .*{problem}"):
        read_all(JsonlReader(files=files))
    taken, found = _taken(files)
    assert [record.offset for record in taken] == [1, 10]
    assert len(found) == 1


def test_an_unknown_compression_is_refused_before_anything_is_written(files: ArchiveFolder) -> None:
    with pytest.raises(BadOption, match="rar"):
        JsonlWriter(files=files, compression="rar")


def _taken(files: ArchiveFolder) -> tuple[Sequence[Record], Sequence[Damage]]:
    found: list[Damage] = []
    return read_all(JsonlReader(files=files), found.append), found


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_flips_and_cuts_are_reported_and_never_change_a_record(files: ArchiveFolder, compression: str) -> None:
    records = plain_records(0, 400)
    export(JsonlWriter(files=files, compression=compression), records, start=0, end=400)
    key = FILE + SUFFIXES[compression]
    whole = files.get(key) or b""
    originals = set(records)
    for position in sampled(range(0, len(whole), max(1, len(whole) // 150))):
        files.put(key, whole[:position] + bytes([whole[position] ^ 0x01]) + whole[position + 1 :])
        taken, found = _taken(files)
        assert found, position
        assert originals.issuperset(taken), position
        files.put(key, whole[:position])
        taken, found = _taken(files)
        assert found, position
        assert taken == records[: len(taken)], position


def test_a_flip_in_a_plain_file_costs_one_line(files: ArchiveFolder) -> None:
    records = plain_records(0, 4_000)
    export(JsonlWriter(files=files), records, start=0, end=4_000)
    whole = files.get(FILE) or b""
    middle = whole.index(b'"offset":2000') + 80
    files.put(FILE, whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    taken, found = _taken(files)
    assert taken == records[:2_000] + records[2_001:]
    assert [(damage.file, damage.position) for damage in found] == [(FILE, whole.rindex(b"\n", 0, middle) + 1)]


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_compressed_file_of_many_parts_is_read_through(files: ArchiveFolder, compression: str) -> None:
    records = plain_records(0, 9_000, value_bytes=300)
    export(JsonlWriter(files=files, compression=compression), records, start=0, end=9_000)
    assert read_all(JsonlReader(files=files)) == records


def test_files_are_the_same_however_records_are_handed_over(files: ArchiveFolder) -> None:
    records = plain_records(0, 3_000, value_bytes=1_000)
    writer = JsonlWriter(files=files, file_bytes=1_500_000)
    written = [write_range(writer, records, start=0, end=3_000, at_once=at_once) for at_once in (1, 999)]
    assert written[0] == written[1]
    assert len(written[0].files) > 1


def test_what_a_schema_explains_stands_beside_it_and_comes_back_as_it_was(files: ArchiveFolder) -> None:
    text = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "note", "type": "string"}]})
    schemas = RegistrySnapshot(
        schemas=(StoredSchema(id=5, kind=AVRO, text=text),),
        versions=(SubjectVersion(subject="orders-value", version=3, id=5),),
    )
    prefix = b"\0\0\0\0\x05"
    long = prefix + zigzag(DECODED_MAX_CHARS) + b"a" * DECODED_MAX_CHARS
    values = [prefix + b"\x06\xc3\xbc!", prefix, b"text", None, long]
    records = [Record(offset, TIME_MS, 0, values[0], value, ()) for offset, value in enumerate(values)]
    export(JsonlWriter(files=files, decode=schemas), records, start=0, end=5)
    lines = [json.loads(line) for line in (files.get(FILE) or b"").splitlines()]
    decoded = {
        "encoding": "avro",
        "data": {"note": "ü!"},
        "schema_id": 5,
        "schema": {"subject": "orders-value", "version": 3, "name": "Order"},
    }
    assert [line.get("decodedKey") for line in lines] == [decoded] * 5
    assert [line.get("decodedValue") for line in lines] == [decoded, None, None, None, None]
    damage: list[Damage] = []
    assert read_all(JsonlReader(files=files), damage.append) == records
    assert damage == [], "nothing of it is unknown to a reader"
