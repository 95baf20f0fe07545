"""Files that no index lists, as other tools write them: in any order, twice, elsewhere, of another schema. None of that
is damage that may be skipped, and none of it is passed over in silence."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from offsite.archives.archive import Damage, collect_damage
from offsite.archives.avro.encoding import PLAIN_SCHEMA
from offsite.archives.formats import ReadOptions, open_reader, open_writer
from offsite.archives.inspection import ArchiveInspection, ArchiveSource, inspect
from offsite.archives.parquet import archive as parquet_files
from offsite.log.records.record import Record
from offsite.log.varint import zigzag
from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import ArchiveNotFound, DamagedArchive, UnfitArchive
from offsite.stores.archive_files import ArchiveFolder
from tests.archive_records import TIME_MS, export, plain_records, read_all
from tests.unit.archives.osodevops.made_backups import backup
from tests.unit.archives.trivadis.made_archives import SCHEMA as TRIVADIS
from tests.unit.archives.trivadis.made_archives import record as trivadis_record
from tests.unit.archives.trivadis.made_archives import row

Write = Callable[[ArchiveFolder, str, Sequence[Record]], None]
KEYS = {
    "avro": "topics/orders/partition=0/orders+0-{:020d}.data",
    "jsonl": "topics/orders/partition=0/orders+0-{:020d}.jsonl",
    "parquet": "topic=orders/partition=0/part-{:05d}-c0ffee.snappy.parquet",
}


def table(records: Sequence[Record]) -> pa.Table:
    """As Spark writes its Kafka source, but for topic and partition."""
    return pa.table(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "offset": pa.array([record.offset for record in records], pa.int64()),
            "timestamp": pa.array([record.timestamp_ms * 1000 for record in records], pa.timestamp("us", "UTC")),
            "timestampType": pa.array([record.timestamp_type for record in records], pa.int32()),
        }
    )


def write_parquet(files: ArchiveFolder, key: str, records: Sequence[Record], *, group_rows: int = 1_000) -> None:
    put(files, key, table(records), group_rows=group_rows)


def put(files: ArchiveFolder, key: str, of: pa.Table, *, group_rows: int = 1_000) -> None:
    out = io.BytesIO()
    parquet.write_table(of, out, row_group_size=group_rows)
    files.put(key, out.getvalue())


def write_jsonl(files: ArchiveFolder, key: str, records: Sequence[Record]) -> None:
    lines = [
        json.dumps(
            {
                "topic": "orders",
                "partition": 0,
                "offset": record.offset,
                "timestamp": record.timestamp_ms,
                "key": (record.key or b"").decode(),
                "value": (record.value or b"").decode(),
            }
        )
        for record in records
    ]
    files.put(key, "\n".join(lines).encode())


def write_avro(files: ArchiveFolder, key: str, records: Sequence[Record], **schema: str) -> None:
    rows = [
        {
            "topic": "orders",
            "partition": 0,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": record.key,
            "value": record.value,
            "headers": None,
        }
        for record in records
    ]
    out = io.BytesIO()
    fastavro.writer(out, {**json.loads(json.dumps(PLAIN_SCHEMA)), **schema}, rows)
    files.put(key, out.getvalue())


WRITERS: dict[str, Write] = {"avro": write_avro, "jsonl": write_jsonl, "parquet": write_parquet}


@pytest.fixture
def files(tmp_path: Path) -> ArchiveFolder:
    return ArchiveFolder(root=tmp_path / "archive")


@pytest.fixture(params=list(WRITERS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param  # type: ignore[no-any-return]


def write(kind: str, files: ArchiveFolder, records: Sequence[Record], *, number: int = 0) -> str:
    key = KEYS[kind].format(number)
    WRITERS[kind](files, key, records)
    return key


def read(kind: str, files: ArchiveFolder, *, into: list[Damage] | None = None) -> list[Record]:
    """What an import takes; `into` a list: with --skip-damaged."""
    damages: list[Damage] = [] if into is None else into
    return read_all(open_reader(kind, files), collect_damage(damages, skip=into is not None))


def look(kind: str, files: ArchiveFolder) -> ArchiveInspection:
    return inspect(ArchiveSource(format=kind, files=files, reader=open_reader(kind, files)))


def shuffled(records: Sequence[Record], *, seed: int = 7) -> list[Record]:
    return random.Random(seed).sample(records, len(records))


# -- order -------------------------------------------------------------------------------------------------------------

RECORDS = plain_records(5, 3_000)
ORDERS: dict[str, Sequence[Record]] = {
    "sorted": RECORDS,
    "falling": RECORDS[::-1],
    "shuffled": shuffled(RECORDS),
    "row groups swapped": [*RECORDS[2_000:], *RECORDS[:2_000]],
    "two sorted halves one behind the other": [*RECORDS[::2], *RECORDS[1::2]],
    "one record too late": [*RECORDS[:50], *RECORDS[51:], RECORDS[50]],
}


@pytest.mark.parametrize("order", list(ORDERS))
@pytest.mark.parametrize("group_rows", [1, 170, 1_000, 5_000])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_table_in_any_order_is_read_by_offset(files: ArchiveFolder, order: str, group_rows: int, parts: int) -> None:
    records = ORDERS[order] if group_rows > 1 else [each for each in ORDERS[order] if each.offset < 60]
    for part in range(parts):
        write_parquet(files, KEYS["parquet"].format(part), records[part::parts], group_rows=group_rows)
    assert read("parquet", files) == sorted(records)
    (found,) = look("parquet", files).partitions
    assert (found.start, found.end) == (5, max(records).offset + 1)


@pytest.mark.parametrize("order", list(ORDERS)[1:])
def test_other_formats_name_what_is_unsorted_and_do_not_advise_to_skip_it(
    files: ArchiveFolder, kind: str, order: str
) -> None:
    if kind == "parquet":
        return
    key = write(kind, files, ORDERS[order])
    with pytest.raises(UnfitArchive, match=r"unsorted: offset \d+ after \d+") as refused:
        read(kind, files, into=[])
    assert "order of their offsets" in refused.value.hint
    inspected = look(kind, files)
    assert [each.file for each in inspected.unfit] == [key]
    assert inspected.damaged == ()


def test_what_does_not_fit_into_memory_is_refused_as_unsorted(
    files: ArchiveFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "SORTED_BYTES", 1_000_000)
    for part in range(3):  # each fits, and all of them do not
        write_parquet(files, KEYS["parquet"].format(part), ORDERS["shuffled"][part::3])
    with pytest.raises(UnfitArchive, match=r"unsorted: offsets \d+ to \d+ without an order") as refused:
        read("parquet", files, into=[])
    assert "sortWithinPartitions" in refused.value.hint
    (unfit,) = {each.problem for each in look("parquet", files).unfit}
    assert unfit.startswith("unsorted")


def test_row_groups_that_only_stand_in_another_order_need_no_room(
    files: ArchiveFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "SORTED_BYTES", 0)
    records = plain_records(0, 2_000)
    write_parquet(files, KEYS["parquet"].format(0), [*records[500:], *records[:500]], group_rows=500)
    assert read("parquet", files) == records


def test_room_is_given_back_so_that_many_mixed_parts_one_after_the_other_fit(
    files: ArchiveFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "SORTED_BYTES", 100_000)  # of 200 records, and there are 3,000
    parts = [each for at in range(0, len(RECORDS), 200) for each in shuffled(RECORDS[at : at + 200])]
    write_parquet(files, KEYS["parquet"].format(0), parts, group_rows=200)
    assert read("parquet", files) == RECORDS


def test_of_mixed_row_groups_with_one_that_is_damaged_none_is_taken(files: ArchiveFolder) -> None:
    key = KEYS["parquet"].format(0)
    out = io.BytesIO()
    parquet.write_table(
        table(ORDERS["shuffled"]), out, row_group_size=1_000, write_page_checksum=True, compression="none"
    )
    data = bytearray(out.getvalue())
    data[200] ^= 1
    files.put(key, bytes(data))
    with pytest.raises(DamagedArchive, match="row group 0"):
        read("parquet", files)
    found: list[Damage] = []
    assert read("parquet", files, into=found) == []
    assert len(look("parquet", files).damaged) == 1


def test_a_row_group_without_rows_makes_nothing_unsorted(files: ArchiveFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some writers end a file."""
    monkeypatch.setattr(parquet_files, "SORTED_BYTES", 0)
    records, out = plain_records(1_000, 1_200), io.BytesIO()
    of = table(records)
    with parquet.ParquetWriter(out, of.schema) as writer:
        for part in (of.slice(0, 0), of.slice(0, 100), of.slice(0, 0), of.slice(100), of.slice(0, 0)):
            writer.write_table(part)
    files.put(KEYS["parquet"].format(0), out.getvalue())
    assert read("parquet", files) == records
    assert [piece.start for piece in open_reader("parquet", files).contents().pieces] == [1_000]


def test_a_row_group_with_unreadable_offsets_takes_none_beside_it_away(files: ArchiveFolder) -> None:
    records, out = plain_records(0, 300), io.BytesIO()
    parquet.write_table(table(records), out, row_group_size=100)
    data = bytearray(out.getvalue())
    chunk = parquet.ParquetFile(io.BytesIO(out.getvalue())).metadata.row_group(1).column(2)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    files.put(KEYS["parquet"].format(0), bytes(data))
    found: list[Damage] = []
    assert read("parquet", files, into=found) == [*records[:100], *records[200:]]
    assert [each.problem.partition(" cannot")[0] for each in found] == ["row group 1"]


@pytest.mark.parametrize("copies", [1, 2])
def test_an_offset_that_no_record_has_is_damage_wherever_it_stands(
    files: ArchiveFolder, kind: str, copies: int
) -> None:
    records = plain_records(0, 3)
    write(kind, files, [*records, *[records[0]._replace(offset=MAX_OFFSET)] * copies])
    found: list[Damage] = []
    assert read(kind, files, into=found) == records
    assert {each.problem for each in found} == {f"offset {MAX_OFFSET} is impossible"}


def test_an_offset_below_0_is_damage_in_avro_as_well(files: ArchiveFolder) -> None:
    """The other formats tell by themselves."""
    records = plain_records(0, 3)
    write("avro", files, [records[0]._replace(offset=-1), *records])
    found: list[Damage] = []
    assert read("avro", files, into=found) == records
    assert [each.problem for each in found] == ["offset -1 is impossible"]
    assert [each.problem for each in look("avro", files).damaged] == ["offset -1 is impossible"]


# -- duplicates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["the same file", "another file"])
def test_equal_duplicates_are_one(files: ArchiveFolder, kind: str, where: str) -> None:
    records = plain_records(0, 40)
    if where == "another file":
        write(kind, files, records[:30])
        write(kind, files, records[20:], number=20)
    else:
        write(kind, files, [each for record in records for each in (record, record)])
    assert read(kind, files) == records
    assert look(kind, files).damaged == ()


@pytest.mark.parametrize("where", ["the same file", "another file"])
@pytest.mark.parametrize("field", ["key", "value", "timestamp_ms"])
def test_two_records_at_one_offset_are_a_contradiction(files: ArchiveFolder, kind: str, where: str, field: str) -> None:
    records = plain_records(0, 40)
    other = records[25]._replace(**{field: TIME_MS if field == "timestamp_ms" else b"other"})
    if where == "another file":
        write(kind, files, records[:30])
        write(kind, files, [other, *records[26:]], number=25)
    else:
        write(kind, files, [*records[:26], other, *records[26:]])
    with pytest.raises(DamagedArchive, match="offset 25 is another record than in"):
        read(kind, files)
    found: list[Damage] = []
    assert read(kind, files, into=found) == records
    assert (where == "the same file") == ("in the same file" in found[0].problem)
    assert len(found) == 1
    assert [each.problem for each in look(kind, files).damaged] == [found[0].problem]


def test_contradictions_in_a_shuffled_table_are_found(files: ArchiveFolder) -> None:
    others = [record._replace(value=b"other") for record in RECORDS[:3]]
    write_parquet(files, KEYS["parquet"].format(0), shuffled([*RECORDS, *others]))
    with pytest.raises(DamagedArchive, match="offset 5 is another record than in the same file"):
        read("parquet", files)
    assert len(look("parquet", files).damaged) == 3


# -- places ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "folder",
    [
        "",
        "dt=2026-11-01/",
        "topic=orders/",
        "partition=0/",
        "topic=orders/dt=2026-11-01/",
        "dt=1/topic=orders/partition=0/",
    ],
)
def test_a_table_that_is_not_in_folders_of_topic_and_partition_is_named_with_what_to_do(
    files: ArchiveFolder, folder: str
) -> None:
    write_parquet(files, f"{folder}part-00000.parquet", RECORDS)
    files.put("_SUCCESS", b"")
    with pytest.raises(
        ArchiveNotFound, match=r"part-00000\.parquet is not in a folder of a topic and a partition"
    ) as error:
        read("parquet", files)
    assert ".partitionBy('topic', 'partition')" in error.value.hint


@pytest.mark.parametrize(
    "folder",
    ["topic=orders/partition=0/dt=2026-11-01/", "topic=orders/partition=0/y=1/m=2/", "topic=orders/dt=1/partition=0/"],
)
def test_folders_of_more_columns_are_read(files: ArchiveFolder, folder: str) -> None:
    write_parquet(files, f"{folder}part-00000.parquet", RECORDS[1_000:])
    write_parquet(files, f"{folder.replace('1', '0')}part-00000.parquet", RECORDS[:1_000])
    assert read("parquet", files) == RECORDS


@pytest.mark.parametrize("folder", ["topic=orders/topic=other/partition=0", "topic=orders/partition=0/partition=1"])
def test_a_folder_that_says_two_topics_or_partitions_says_none(files: ArchiveFolder, folder: str) -> None:
    write_parquet(files, KEYS["parquet"].format(0), RECORDS)
    write_parquet(files, f"{folder}/part-00000.parquet", plain_records(0, 3))
    assert read("parquet", files) == RECORDS
    assert [
        each for each in look("parquet", files).fidelity if f"{folder}/part-00000.parquet is not in a folder" in each
    ]


def test_files_that_lie_elsewhere_are_named_beside_those_that_are_read(files: ArchiveFolder, kind: str) -> None:
    key = write(kind, files, plain_records(0, 40))
    suffix = key.rpartition(".")[2]
    for other in (f"lost/a.{suffix}", f"b.{suffix}", f"_temporary/0/c.{suffix}", f".d.{suffix}"):
        files.put(other, files.get(key) or b"")
    (told,) = [each for each in look(kind, files).fidelity if "not in a folder" in each]
    assert told.startswith(f"2 files such as b.{suffix} are")


@pytest.mark.parametrize(("log", "name"), [("_delta_log", "Delta Lake"), (".hoodie", "Hudi")])
def test_a_table_that_counts_its_files_itself_is_said_to_be_one(files: ArchiveFolder, log: str, name: str) -> None:
    """What it deleted lies there still, and comes back."""
    write_parquet(files, KEYS["parquet"].format(0), RECORDS)
    files.put(f"{log}/00000000000000000000.json", b"{}")
    assert read("parquet", files) == RECORDS
    assert [each for each in look("parquet", files).fidelity if f"{log}/ of {name} is not read" in each]


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", [1, 2, 5, 19, 20, 21])
def test_files_are_read_whatever_the_number_of_digits_in_their_names(
    files: ArchiveFolder, kind: str, digits: int
) -> None:
    suffix = KEYS[kind].rpartition(".")[2]
    folder = "topic=orders" if kind == "parquet" else "topics/orders"
    for number in range(12):  # by text, 10 comes before 2
        key = f"{folder}/partition=0/orders+0-{number:0{digits}d}.{suffix}"
        WRITERS[kind](files, key, RECORDS[number * 100 : number * 100 + 100])
    assert read(kind, files) == RECORDS[:1_200]
    (partition,) = look(kind, files).partitions
    assert (partition.topic, partition.partition, partition.start, partition.end) == ("orders", 0, 5, 1_205)
    with pytest.raises(DamagedArchive, match=r"no _archive\.json that shows their origin"):
        export(open_writer(kind, files), [], start=0, end=1)
    assert len([*files.list()]) == 12


def numbered(files: ArchiveFolder, number: str, records: Sequence[Record]) -> str:
    key = f"topics/orders/partition=0/orders+0-{number}.data"
    write_avro(files, key, records)
    return key


def test_a_number_says_which_file_comes_first_and_no_offset(files: ArchiveFolder) -> None:
    records = plain_records(5_000, 5_020)
    numbered(files, "10", [record._replace(value=b"later") for record in records])
    numbered(files, "9", records)
    with pytest.raises(
        DamagedArchive, match=r"orders\+0-10\.data.*offset 5000 is another record than in .*orders\+0-9\.data"
    ):
        read("avro", files)
    assert read("avro", files, into=[]) == records


def test_an_empty_file_of_a_number_lies_at_no_offset(files: ArchiveFolder) -> None:
    numbered(files, "700", [])
    numbered(files, "1", plain_records(3, 9))
    assert read("avro", files) == plain_records(3, 9)


@pytest.mark.parametrize("number", ["00", "0", "000000000000000000000"])
def test_two_files_of_one_number_are_named_and_their_records_decide(files: ArchiveFolder, number: str) -> None:
    first = numbered(files, "0" * 20, plain_records(0, 10))
    second = numbered(files, number, plain_records(5, 15))
    numbered(files, "1", plain_records(15, 20))
    assert read("avro", files) == plain_records(0, 20)
    (note,) = [each for each in look("avro", files).fidelity if "number 0" in each]
    assert first in note
    assert second in note


@pytest.mark.parametrize(
    "name",
    [
        "orders+1-0",
        "other+0-0",
        "orders+0-",
        "orders+0--1",
        "orders+0-0x",
        "orders+0-1e3",
        "orders+0-0.tmp",
        "orders-0-0",
        "orders+0-٣",
    ],
)
def test_what_is_numbered_otherwise_is_named_and_not_read(files: ArchiveFolder, name: str) -> None:
    numbered(files, "0", plain_records(0, 3))
    write_avro(files, f"topics/orders/partition=0/{name}.data", plain_records(3, 6))
    assert read("avro", files) == plain_records(0, 3)
    assert [each for each in look("avro", files).fidelity if f"{name}.data is not in a folder" in each]


# -- schemas -----------------------------------------------------------------------------------------------------------

KAFKA = table(plain_records(0, 5))


@pytest.mark.parametrize(
    ("of", "problem"),
    [
        *(
            (KAFKA.drop_columns([name]), f"no column '{name}'; there are")
            for name in ("key", "value", "offset", "timestamp")
        ),
        (
            KAFKA.rename_columns([name.capitalize() for name in KAFKA.column_names]),
            "no column 'key'; there are Key, Value",
        ),
        (
            KAFKA.rename_columns(["key", "payload", "offset", "ts", "tstype"]),
            "no column 'value'; there are key, payload",
        ),
        (KAFKA.set_column(3, "timestamp", pa.array([1] * 5)), "timestamp of type int64"),
        (KAFKA.set_column(2, "offset", pa.array(["1"] * 5)), "offset of type string"),
        (KAFKA.set_column(2, "offset", pa.array([1] * 5, pa.timestamp("us"))), "offset of type timestamp"),
        (KAFKA.set_column(2, "offset", pa.array([[1]] * 5)), "offset of type list"),
        (KAFKA.set_column(0, "key", pa.array([1] * 5)), "key of type int64"),
        (KAFKA.set_column(1, "value", pa.array([None, 1, 1, 1, 1])), "value of type int64"),
        (KAFKA.set_column(1, "value", pa.array([["a"]] * 5)), "value of type list"),
        (KAFKA.set_column(4, "timestampType", pa.array(["CreateTime"] * 5)), "timestampType of type string"),
        (KAFKA.append_column("value", KAFKA["value"]), "2 columns 'value'"),
        (KAFKA.append_column("headers", pa.array(["a"] * 5)), "headers of type string"),
        (KAFKA.append_column("headers", pa.array([["a"]] * 5)), "headers of type list"),
        (KAFKA.append_column("headers", pa.array([[{"key": "a", "value": 1}]] * 5)), "headers of type list"),
        (
            KAFKA.append_column("headers", pa.nulls(5, pa.list_(pa.struct({"key": "string", "value": "null"})))),
            "headers of type list",
        ),
        (KAFKA.append_column("partition", pa.array(["0"] * 5)), "partition of type string"),
        (KAFKA.append_column("partition", pa.array([0, 0, 1, 0, 0])), "rows of partition 1, not of orders/0"),
        (KAFKA.append_column("topic", pa.array(["orders", None, *["orders"] * 3])), "rows of topic None, not of"),
    ],
)
def test_a_table_of_other_columns_is_named_and_never_skipped(files: ArchiveFolder, of: pa.Table, problem: str) -> None:
    put(files, KEYS["parquet"].format(0), of)
    with pytest.raises(UnfitArchive, match=problem):
        read("parquet", files, into=[])
    assert [problem in each.problem for each in look("parquet", files).unfit] == [True]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_without_a_zone_are_taken_for_utc_and_that_is_said(files: ArchiveFolder, unit: str) -> None:
    """Spark's old ones have none either, and are of UTC."""
    times = KAFKA["timestamp"].cast(pa.timestamp(unit))
    put(files, KEYS["parquet"].format(0), KAFKA.set_column(3, "timestamp", times))
    assert read("parquet", files) == plain_records(0, 5)
    assert [each for each in look("parquet", files).fidelity if "timestamps without a time zone" in each]
    out = io.BytesIO()
    parquet.write_table(KAFKA, out, use_deprecated_int96_timestamps=True)
    files.put(KEYS["parquet"].format(0), out.getvalue())
    assert read("parquet", files) == plain_records(0, 5)
    assert not [each for each in look("parquet", files).fidelity if "timestamps without a time zone" in each]


def test_a_column_of_headers_without_a_type_has_none(files: ArchiveFolder) -> None:
    put(files, KEYS["parquet"].format(0), KAFKA.append_column("headers", pa.nulls(5)))
    assert read("parquet", files) == plain_records(0, 5)


@pytest.mark.parametrize("place", ["orders/partition=1", "payments/partition=0"])
def test_records_in_the_folder_of_others_are_named_and_never_skipped(
    files: ArchiveFolder, kind: str, place: str
) -> None:
    """As most of a file may be that holds several topics or partitions: skipped as damage, all but its own would go."""
    key = write(kind, files, plain_records(0, 5))
    other = key.replace("orders/partition=0", place).replace("orders+0", place.replace("/partition=", "+"))
    if kind == "parquet":
        put(files, other, KAFKA.append_column("partition", pa.array([0] * 5)).append_column("topic", [["orders"] * 5]))
    elif kind == "avro":
        write_avro(files, other, plain_records(0, 5), doc="theirs")
    else:
        files.put(other, files.get(key) or b"")
    files.delete(key)
    with pytest.raises(UnfitArchive, match="orders"):
        read(kind, files, into=[])
    assert len(look(kind, files).unfit) == 1


def test_what_is_told_of_a_damage_is_short(files: ArchiveFolder) -> None:
    line = json.dumps({"topic": "x" * 100_000, "partition": 0, "offset": 0, "timestamp": 1, "key": None, "value": None})
    files.put(KEYS["jsonl"].format(0), f"{line}\n".encode())
    (problem,) = look("jsonl", files).unfit
    assert len(problem.problem) < 1_000
    assert len(Damage(file="a", position=0, problem="x" * 100_000).problem) < 1_000


def test_columns_that_are_not_read_are_named(files: ArchiveFolder) -> None:
    put(files, KEYS["parquet"].format(0), KAFKA.append_column("ingest", pa.array([1] * 5)))
    assert read("parquet", files) == plain_records(0, 5)
    assert [each for each in look("parquet", files).fidelity if "columns that are not read: ingest" in each]


@pytest.mark.parametrize("missing", ["offset", "timestamp", "key", "value"])
def test_avro_of_another_schema_is_named_and_never_skipped(files: ArchiveFolder, missing: str) -> None:
    schema = json.loads(json.dumps(PLAIN_SCHEMA))
    schema["fields"] = [{**each, "name": "other"} if each["name"] == missing else each for each in schema["fields"]]
    row = {"topic": "orders", "partition": 0, "offset": 3, "timestamp": 5, "key": b"k", "value": b"v", "headers": None}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{**row, "other": row[missing]}])
    files.put(KEYS["avro"].format(0), out.getvalue())
    with pytest.raises(UnfitArchive, match=f"its schema has no field '{missing}'; it has topic"):
        read("avro", files, into=[])
    assert len(look("avro", files).unfit) == 1


@pytest.mark.parametrize("logical", ["timestamp-micros", "timestamp-nanos", "local-timestamp-millis", "date"])
def test_avro_with_times_that_are_no_milliseconds_is_named(files: ArchiveFolder, logical: str) -> None:
    """Spark writes microseconds, also under a schema with the names of ours: they would be a thousand times too far."""
    schema = json.loads(json.dumps(PLAIN_SCHEMA))
    schema["fields"][3]["type"] = kind = {"type": "long", "logicalType": logical}
    write("avro", files, plain_records(0, 5))
    files.put(KEYS["avro"].format(0), _with_schema(files.get(KEYS["avro"].format(0)) or b"", schema))
    with pytest.raises(UnfitArchive, match=f"logical type '{logical}', not 'timestamp-millis'"):
        read("avro", files, into=[])
    kind["logicalType"] = "timestamp-millis"
    files.put(KEYS["avro"].format(0), _with_schema(files.get(KEYS["avro"].format(0)) or b"", schema))
    assert read("avro", files) == plain_records(0, 5)


def _with_schema(data: bytes, schema: object) -> bytes:
    """The blocks of an Avro file under another schema, of the same bytes."""
    out = io.BytesIO()
    fastavro.writer(out, schema, [])
    header, old = out.getvalue(), fastavro.block_reader(io.BytesIO(data))
    for block in old:
        plain = block.bytes_.getvalue()
        header += zigzag(block.num_records) + zigzag(len(plain)) + plain + header[-16:]
    return header


def test_avro_of_other_types_is_named_and_never_skipped(files: ArchiveFolder) -> None:
    schema = json.loads(json.dumps(PLAIN_SCHEMA))
    schema["fields"][2]["type"] = "string"
    row = {
        "topic": "orders",
        "partition": 0,
        "offset": "3",
        "timestamp": 5,
        "key": b"k",
        "value": b"v",
        "headers": None,
    }
    out = io.BytesIO()
    fastavro.writer(out, schema, [row])
    files.put(KEYS["avro"].format(0), out.getvalue())
    with pytest.raises(UnfitArchive, match="cannot be resolved"):
        read("avro", files, into=[])


# -- inspect judges as import does -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 20, -3])
def test_inspect_tells_of_empty_and_cut_files_as_an_import_does(files: ArchiveFolder, kind: str, cut: int) -> None:
    key = write(kind, files, plain_records(0, 40))
    files.put(key, (files.get(key) or b"")[:cut])
    taken: list[Damage] = []
    read(kind, files, into=taken)
    assert look(kind, files).damaged == tuple(dict.fromkeys(each for each in taken if not each.is_note))
    assert len(taken) == (0 if (kind, cut) == ("jsonl", 0) else 1), "a file without lines is one"


def test_inspect_tells_where_the_records_end(files: ArchiveFolder, kind: str) -> None:
    write(kind, files, plain_records(7, 40))
    (found,) = look(kind, files).partitions
    assert (replace(found, files=0, size_bytes=0).start, found.end) == (7, 40)


@pytest.mark.parametrize("size_bytes", [None, 0, 20, 10_000])
def test_inspect_tells_of_files_that_are_not_as_long_as_the_index_says(
    files: ArchiveFolder, kind: str, size_bytes: int | None
) -> None:
    writer = open_writer(kind, files)
    receipt = export(writer, plain_records(0, 40), start=0, end=40).files[0]
    assert look(kind, files).damaged == ()
    whole = files.get(receipt.name) or b""
    if size_bytes is None:
        files.delete(receipt.name)
    else:
        files.put(receipt.name, whole.ljust(size_bytes, b"x")[:size_bytes])
    (damage,) = look(kind, files).damaged
    assert damage.file == receipt.name
    told = "missing" if size_bytes is None else f"{size_bytes} bytes, {len(whole)} in the index"
    assert damage.problem.startswith(told)


# -- contradictions in the formats of other tools ----------------------------------------------------------------------


def test_contradicting_objects_of_trivadis_are_damage(tmp_path: Path) -> None:
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    for start, values in ((0, [b"a", b"b"]), (1, [b"other", b"c"])):
        rows = [row(trivadis_record(start + at, value)) for at, value in enumerate(values)]
        out = io.BytesIO()
        fastavro.writer(out, json.loads(json.dumps(TRIVADIS)), rows)
        (folder / f"orders-0-{start:015d}.avro").write_bytes(out.getvalue())
    files = ArchiveFolder(root=tmp_path)
    with pytest.raises(DamagedArchive, match="offset 1 is another record than in"):
        read("trivadis", files)
    assert [record.value for record in read("trivadis", files, into=[])] == [b"a", b"b", b"c"]
    assert len(look("trivadis", files).damaged) == 1


def test_contradicting_segments_of_osodevops_are_damage(tmp_path: Path) -> None:
    first, second = plain_records(0, 5), [record._replace(value=b"other") for record in plain_records(3, 8)]
    where = tmp_path / "b"
    for number, records in enumerate((first, second)):
        backup(tmp_path / str(number), records)
    keys = [next((tmp_path / str(number)).rglob("segment-*")) for number in (0, 1)]
    folder = where / "topics/orders/partition=0"
    folder.mkdir(parents=True)
    for key in keys:
        (folder / key.name).write_bytes(key.read_bytes())
    files = ArchiveFolder(root=where)
    reader = open_reader("osodevops", files, ReadOptions(adopt_orphans=True))
    with pytest.raises(DamagedArchive, match="offset 3 is another record than in"):
        read_all(reader)
    found: list[Damage] = []
    assert [record.offset for record in read_all(reader, found.append)] == list(range(8))
    assert len([each for each in found if "another record" in each.problem]) == 2
