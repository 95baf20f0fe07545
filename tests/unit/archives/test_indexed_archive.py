"""What Avro, Parquet and JSON lines share: an index says which files count."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsite.archives.archive import ArchiveReader, ArchiveTopic, ArchiveWriter, Damage
from offsite.archives.avro import AvroReader, AvroWriter
from offsite.archives.files import Files
from offsite.archives.indexed.index_json import BadIndex, parse_index, parse_manifest
from offsite.archives.jsonl import JsonlReader, JsonlWriter
from offsite.archives.parquet import ParquetReader, ParquetWriter
from offsite.log.buffer import Buffer
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import LogRange, TopicPartition
from offsite.model.errors import ArchiveNotFound, BadOption, Bug, DamagedArchive, StoreUnreachable
from offsite.stores.archive_files import ArchiveFolder
from tests.archive_records import TIME_MS, export, files_of, odd_records, plain_records, read_all, write_range

ORDERS = TopicPartition(topic="orders", partition=0)


@dataclass(frozen=True)
class Format:
    name: str
    reader: Callable[[Files], ArchiveReader]
    writer: Callable[..., ArchiveWriter]
    topics: str
    suffix: str

    def file(self, start: int, *, topic: str = "orders", partition: int = 0) -> str:
        return f"{self.topics}{topic}/partition={partition}/{topic}+{partition}-{start:020d}{self.suffix}"

    def index(self, topic: str = "orders") -> str:
        return f"{self.topics}{topic}/_index.json"


FORMATS = [
    Format("avro", lambda files: AvroReader(files=files), AvroWriter, "topics/", ".data"),
    Format("parquet", lambda files: ParquetReader(files=files), ParquetWriter, "topic=", ".parquet"),
    Format("jsonl", lambda files: JsonlReader(files=files), JsonlWriter, "topics/", ".jsonl"),
]


@pytest.fixture(params=FORMATS, ids=lambda form: form.name)
def form(request: pytest.FixtureRequest) -> Format:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def files(tmp_path: Path) -> ArchiveFolder:
    return ArchiveFolder(root=tmp_path / "archive")


def test_an_archive_grows_by_offset(form: Format, files: ArchiveFolder) -> None:
    writer, reader = form.writer(files=files), form.reader(files)
    assert writer.ends() == {}
    export(writer, plain_records(5, 100), start=5, end=100)
    assert writer.ends() == {ORDERS: 100}
    export(writer, plain_records(100, 150), start=100, end=160)
    assert writer.ends() == {ORDERS: 160}
    assert read_all(reader) == plain_records(5, 150)
    assert set(files_of(files.root)) == {"_archive.json", form.index(), form.file(5), form.file(100)}


def test_exporting_the_same_again_changes_no_byte(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, odd_records(), start=0, end=1_000_001)
    before = files_of(files.root)
    export(writer, odd_records(), start=0, end=1_000_001)
    assert files_of(files.root) == before


def test_an_export_that_was_interrupted_leaves_nothing_that_counts(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, plain_records(0, 50), start=0, end=50)
    write_range(writer, plain_records(50, 90), start=50, end=90)
    write_range(writer, plain_records(0, 9), start=0, end=9, topic="new")
    assert read_all(form.reader(files)) == plain_records(0, 50)
    assert writer.ends() == {ORDERS: 50}
    assert set(files_of(files.root)) == {"_archive.json", form.index(), form.file(0)}


def test_a_first_export_that_was_interrupted_is_an_empty_archive(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    writer.ends()
    write_range(writer, plain_records(0, 50), start=0, end=50)
    assert form.reader(files).contents().pieces == ()
    assert writer.ends() == {}
    export(writer, plain_records(0, 60), start=0, end=60)
    assert read_all(form.reader(files)) == plain_records(0, 60)


@dataclass(frozen=True)
class _Breaking(ArchiveFolder):
    """A folder that fails when a certain file is to be written."""

    breaks_at: str = ""

    def put(self, key: str, data: Buffer, *, last_message_ms: int = -1) -> None:
        if key == self.breaks_at:
            raise StoreUnreachable("the place is gone")
        ArchiveFolder.put(self, key, data, last_message_ms=last_message_ms)


def test_a_topic_counts_once_the_manifest_names_it(form: Format, files: ArchiveFolder) -> None:
    export(form.writer(files=files), plain_records(0, 50), start=0, end=50)
    with pytest.raises(StoreUnreachable):
        export(
            form.writer(files=_Breaking(root=files.root, breaks_at="_archive.json")), [], start=0, end=7, topic="new"
        )
    assert {topic.topic for topic in form.reader(files).contents().topics} == {"orders"}
    assert form.writer(files=files).ends() == {ORDERS: 50}
    assert form.index("new") not in files_of(files.root)


def test_leaving_a_range_by_an_exception_leaves_nothing_that_counts(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, plain_records(0, 50), start=0, end=50)
    with suppress(KeyError), writer.open(LogRange(topic="orders", partition=0, start=50, end=60)) as open_range:
        open_range.append(plain_records(50, 55))
        raise KeyError
    assert read_all(form.reader(files)) == plain_records(0, 50)


def test_a_range_without_records_moves_the_end_and_makes_no_file(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    assert export(writer, [], start=10, end=40).files == ()
    assert writer.ends() == {ORDERS: 40}
    assert [(piece.start, piece.end, piece.files) for piece in form.reader(files).contents().pieces] == [(10, 40, ())]
    assert read_all(form.reader(files)) == []


def test_offsets_between_ranges_are_holes(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, plain_records(0, 50), start=0, end=50)
    export(writer, plain_records(80, 90), start=80, end=90)
    contents = form.reader(files).contents()
    assert [(hole.range.start, hole.range.end) for hole in contents.holes] == [(50, 80)]
    assert [(piece.start, piece.end) for piece in contents.pieces] == [(0, 50), (80, 90)]
    assert writer.ends() == {ORDERS: 90}


def test_a_range_over_older_ones_takes_their_place(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, plain_records(20, 30), start=20, end=30)
    export(writer, plain_records(0, 60), start=0, end=60)
    assert form.file(20) not in files_of(files.root)
    assert read_all(form.reader(files)) == plain_records(0, 60)


def test_ranges_side_by_side_are_read_in_order(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    assert writer.divides
    writer.ends()
    written = [
        write_range(writer, plain_records(start, start + 40), start=start, end=start + 40, partition=partition)
        for start in (80, 0, 40)
        for partition in (10, 2)
    ]
    writer.finish(written, [ArchiveTopic(topic="orders", partitions=11)], {})
    reader = form.reader(files)
    assert read_all(reader) == plain_records(0, 120) * 2
    assert [(piece.partition, len(piece.files)) for piece in reader.contents().pieces] == [(2, 3), (10, 3)]


def test_a_partition_is_cut_into_pieces_between_files(
    form: Format, files: ArchiveFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = form.writer(files=files), form.reader(files)
    for start in range(0, 100, 20):
        export(writer, plain_records(start, start + 20), start=start, end=start + 20)
    monkeypatch.setattr("offsite.archives.indexed.index.PIECE_BYTES", 1)
    pieces = reader.contents().pieces
    assert [(piece.start, piece.end) for piece in pieces] == [(start, start + 20) for start in range(0, 100, 20)]
    assert read_all(reader) == plain_records(0, 100)


def test_topics_their_settings_and_groups_come_back(form: Format, files: ArchiveFolder) -> None:
    rows = [CommittedOffset(0, 7, 3, "note"), CommittedOffset(1, 9)]
    group = GroupOffsets(
        group="größe", kind="classic", state="Empty", topics=(TopicOffsets.of("orders", rows, topic_id="abc"),)
    )
    topic = ArchiveTopic(
        topic="orders",
        partitions=3,
        replication_factor=2,
        configs=(("cleanup.policy", "compact"), ("retention.ms", "1")),
    )
    writer = form.writer(files=files)
    writer.ends()
    assert writer.finish([], [topic, ArchiveTopic(topic="empty", partitions=1)], {"größe": group}) == ()
    contents = form.reader(files).contents()
    assert contents.topics == (ArchiveTopic(topic="empty", partitions=1), topic)
    assert contents.groups == {"größe": group}
    assert "records only" in contents.fidelity[0]


def test_a_file_carries_the_time_of_its_newest_record(form: Format, files: ArchiveFolder) -> None:
    records = plain_records(0, 50)
    written = export(
        form.writer(files=files), [records[0]._replace(timestamp_ms=TIME_MS + 9_999), *records[1:]], start=0, end=50
    )
    assert (files.root / form.file(0)).stat().st_mtime_ns == (TIME_MS + 9_999) * 1_000_000
    assert written.files[0].timestamp_max_ms == TIME_MS + 9_999
    assert written.files[0].timestamp_min_ms == TIME_MS + 7


def test_records_outside_the_range_are_a_bug_of_the_caller(form: Format, files: ArchiveFolder) -> None:
    for records in (plain_records(0, 5), plain_records(9, 12), [*plain_records(6, 8), *plain_records(5, 6)]):
        with pytest.raises(Bug):
            write_range(form.writer(files=files), records, start=5, end=10)


def test_readers_and_writers_travel_to_workers(form: Format, files: ArchiveFolder) -> None:
    export(pickle.loads(pickle.dumps(form.writer(files=files))), plain_records(0, 5), start=0, end=5)
    assert read_all(pickle.loads(pickle.dumps(form.reader(files)))) == plain_records(0, 5)


def test_an_archive_of_another_format_is_neither_read_nor_written(form: Format, files: ArchiveFolder) -> None:
    with pytest.raises(ArchiveNotFound, match="no files of this format"):
        form.reader(files).contents()
    other = FORMATS[(FORMATS.index(form) + 1) % len(FORMATS)]
    export(other.writer(files=files), plain_records(0, 5), start=0, end=5)
    with pytest.raises(ArchiveNotFound, match=f"format {other.name}"):
        form.reader(files).contents()
    with pytest.raises(BadOption, match=f"format {other.name}, not {form.name}"):
        form.writer(files=files).ends()


def test_a_writer_leaves_files_alone_that_no_manifest_says_are_ours(form: Format, files: ArchiveFolder) -> None:
    files.put(form.file(3), b"somebody's")
    with pytest.raises(DamagedArchive, match=r"no _archive\.json that shows their origin"):
        form.writer(files=files).ends()
    assert files_of(files.root) == {form.file(3): b"somebody's"}


def _without_index(files: ArchiveFolder) -> None:
    for key in files_of(files.root):
        if key.endswith(".json"):
            files.delete(key)


def test_without_an_index_overlapping_files_give_each_offset_once(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    for start, end in ((0, 50), (30, 80), (35, 40), (80, 100)):
        write_range(writer, plain_records(start, end), start=start, end=end)
    contents = form.reader(files).contents()
    assert [(piece.start, piece.end, len(piece.files)) for piece in contents.pieces] == [(0, None, 4)]
    assert contents.topics == (ArchiveTopic(topic="orders", partitions=1),)
    assert read_all(form.reader(files)) == plain_records(0, 100)


def test_without_an_index_what_is_in_a_file_counts_and_not_its_name(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    write_range(writer, plain_records(70, 90), start=70, end=90)
    write_range(writer, plain_records(20, 50), start=20, end=50)
    files.put(form.file(99), files.get(form.file(20)) or b"")
    files.delete(form.file(20))
    (piece,) = form.reader(files).contents().pieces
    assert piece.start == 20
    assert read_all(form.reader(files)) == plain_records(20, 50) + plain_records(70, 90)


def test_an_index_without_a_manifest_still_counts(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, plain_records(0, 50), start=0, end=50)
    write_range(writer, plain_records(50, 60), start=50, end=60)
    files.delete("_archive.json")
    assert read_all(form.reader(files)) == plain_records(0, 50)


def test_what_no_index_lists_is_said_to_have_nothing_that_vouches_for_it(form: Format, files: ArchiveFolder) -> None:
    for topic in ("orders", "users"):
        export(form.writer(files=files), plain_records(0, 5), start=0, end=5, topic=topic)
    assert not [each for each in form.reader(files).contents().fidelity if "verified" in each]
    for key in ("_archive.json", form.index("orders"), form.index("users")):
        files.delete(key)
    assert form.reader(files).contents().fidelity[-2:] == (
        "no readable _archive.json: the list of topics cannot be verified, and groups are unknown",
        "no index lists the files of orders and 1 more: they can be verified only by their own checksums",
    )


def _changed(data: bytes, change: Mapping[str, object]) -> bytes:
    """As an offsite would have written it that knew no digest yet."""
    fields = {**json.loads(data), **change}
    for later in ("digest", "generation", "generations"):
        fields.pop(later, None)
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": 2}, "format 2; this offsite reads 1"),
        ({"topic": "others"}, "it is of topic 'others'"),
        ({"covered": [[0, 9, 3]]}, "is not a range"),
        ({"covered": [[1, 0, 9], [0, 0, 9]]}, "not in order"),
        ({"covered": [["0", 0, 9]]}, "field 'covered'"),
        ({"files": [{"name": "x"}]}, "field 'partition'"),
        ({"configs": {"a": 1}}, "field 'a' is not text"),
        ({"partitions": True}, "field 'partitions' is not an integer"),
        ({"partitions": 1 << 40}, "field 'partitions' is not from 0 to 1000000"),
        ({"covered": [[1 << 40, 0, 50]]}, "is not a range"),
        ({"covered": [[0, 0, 1 << 63]]}, "field 'covered' is not from 0 to"),
        ({"covered": [[0, 0, 30], [0, 20, 50]]}, "field 'covered' is not in order"),
        ({"losses": {"headers": -1}}, "field 'headers' is not from 0 to"),
        ({"later": 1}, "has 'later', but no matching digest at its end"),
    ],
)
def test_a_wrong_index_is_named_and_the_files_tell_instead(
    form: Format, files: ArchiveFolder, change: dict[str, object], problem: str
) -> None:
    export(form.writer(files=files), plain_records(0, 50), start=0, end=50)
    files.put(form.index(), _changed(files.get(form.index()) or b"", change))
    with pytest.raises(DamagedArchive, match=f"{form.index()} at byte 0: .*{problem}"):
        form.reader(files).contents()
    with pytest.raises(DamagedArchive, match=problem):
        form.writer(files=files).ends()
    found: list[Damage] = []
    assert read_all(form.reader(files), found.append) == plain_records(0, 50)
    assert len(found) == 1


def test_an_index_cut_at_any_byte_is_damage(form: Format, files: ArchiveFolder) -> None:
    export(form.writer(files=files), plain_records(0, 50), start=0, end=50)
    for key in (form.index(), "_archive.json"):
        whole = files.get(key) or b""
        for size in range(0, len(whole) - 2, 13):
            files.put(key, whole[:size])
            with pytest.raises(DamagedArchive, match=rf"{key} at byte \d+: not JSON"):
                form.reader(files).contents()
        found: list[Damage] = []
        assert read_all(form.reader(files), found.append) == plain_records(0, 50)
        assert [damage.file for damage in found] == [key]
        files.put(key, whole)


def test_missing_files_and_indexes_are_named(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, plain_records(0, 50), start=0, end=50)
    export(writer, plain_records(50, 80), start=50, end=80)
    files.delete(form.file(0))
    with pytest.raises(DamagedArchive, match="missing, although the index lists it"):
        read_all(form.reader(files))
    found: list[Damage] = []
    assert read_all(form.reader(files), found.append) == plain_records(50, 80)
    files.delete(form.index())
    with pytest.raises(DamagedArchive, match=f"{form.index()} at byte 0: missing"):
        form.reader(files).contents()


def test_a_file_of_one_byte_or_none_is_named(form: Format, files: ArchiveFolder) -> None:
    export(form.writer(files=files), plain_records(0, 50), start=0, end=50)
    for data in (b"", b"x"):
        files.put(form.file(0), data)
        with pytest.raises(DamagedArchive, match=r"orders\+0-0+\..* at byte"):
            read_all(form.reader(files))


def test_a_long_topic_name_fits_into_a_file_name(form: Format, files: ArchiveFolder) -> None:
    topic = "t" * 240
    export(form.writer(files=files), plain_records(0, 5), start=0, end=5, topic=topic)
    assert read_all(form.reader(files)) == plain_records(0, 5)
    _without_index(files)
    assert [piece.topic for piece in form.reader(files).contents().pieces] == [topic]
    assert read_all(form.reader(files)) == plain_records(0, 5)


def test_files_of_other_names_are_left_alone_and_named(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, plain_records(0, 50), start=0, end=50)
    foreign = f"{form.topics}orders/partition=0/part-00000-77aa.c000.snappy{form.suffix}"
    files.put(foreign, b"the only copy of something")
    assert writer.ends() == {ORDERS: 50}
    export(writer, plain_records(50, 60), start=50, end=60)
    assert files.get(foreign) == b"the only copy of something"
    assert read_all(form.reader(files)) == plain_records(0, 60)
    named = [each for each in writer.left_alone() if foreign in each]
    assert len(named) == (form.name == "parquet"), "the others do not take it for a file with records at all"


def test_an_index_that_misses_a_file_deletes_none(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, plain_records(0, 50), start=0, end=50)
    export(writer, plain_records(50, 80), start=50, end=80)
    export(writer, plain_records(0, 80), start=0, end=80)
    files.delete(form.file(0))
    files.put(form.file(50), b"what the newer index listed")
    before = files_of(files.root)
    with pytest.raises(DamagedArchive, match=f"an index lists {re.escape(form.file(0))}, which .*50"):
        writer.ends()
    assert files_of(files.root) == before


def test_every_flipped_bit_of_an_index_or_a_manifest_is_found(form: Format, files: ArchiveFolder) -> None:
    export(form.writer(files=files), plain_records(0, 50), start=0, end=50)
    index, manifest = files.get(form.index()) or b"", files.get("_archive.json") or b""
    layout = form.reader(files).archive.layout  # type: ignore[attr-defined]
    for data, parse in (
        (index, lambda some: parse_index(some, topic="orders", layout=layout)),
        (manifest, parse_manifest),
    ):
        parse(data)
        for bit in range(len(data) * 8):
            with pytest.raises(BadIndex):
                parse(data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :])


def test_indexes_of_before_there_was_a_digest_are_read(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, plain_records(0, 50), start=0, end=50)
    for key in (form.index(), "_archive.json"):
        files.put(key, _changed(files.get(key) or b"", {}))
    fields = json.loads(files.get(form.index()) or b"")
    del fields["topic_id"]
    files.put(form.index(), json.dumps(fields).encode())
    assert read_all(form.reader(files)) == plain_records(0, 50)
    assert form.reader(files).contents().fidelity[-2:] == (
        "_archive.json has no digest: its topics and groups cannot be verified",
        "the index of orders has no digest: its contents cannot be verified",
    )
    export(writer, plain_records(50, 80), start=50, end=80)
    assert b'"digest":"sha256:' in (files.get(form.index()) or b"")
    assert b'"digest":"sha256:' in (files.get("_archive.json") or b"")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "../../outside"}, "is not a file name for orders/0"),
        ({"start": 1}, "is for orders/0"),
        ({"records": 0}, "has 0 records"),
        ({"records": 51}, "has 51 records"),
        ({"size_bytes": -1}, "field 'size_bytes' is not from 0 to"),
        ({"plain_bytes": 1 << 63}, "field 'plain_bytes' is not from 0 to"),
        ({"partition": 1_000_000}, "is not a range"),
        ({"timestamp_max_ms": -1 << 64}, "field 'timestamp_max_ms' is not from"),
    ],
)
def test_a_file_that_cannot_be_as_the_index_says_is_damage(
    form: Format, files: ArchiveFolder, change: dict[str, object], problem: str
) -> None:
    export(form.writer(files=files), plain_records(0, 50), start=0, end=50)
    (file,) = json.loads(files.get(form.index()) or b"")["files"]
    files.put(form.index(), _changed(files.get(form.index()) or b"", {"files": [{**file, **change}]}))
    with pytest.raises(DamagedArchive, match=problem):
        form.reader(files).contents()


def test_files_that_overlap_in_an_index_are_damage(form: Format, files: ArchiveFolder) -> None:
    export(form.writer(files=files), plain_records(0, 50), start=0, end=50)
    (file,) = json.loads(files.get(form.index()) or b"")["files"]
    other = {**file, "name": form.file(20), "start": 20, "first_offset": 20, "records": 30}
    files.put(form.index(), _changed(files.get(form.index()) or b"", {"files": [file, other]}))
    with pytest.raises(DamagedArchive, match="files overlap"):
        form.reader(files).contents()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"topics": ["orders", "orders"]}, "listed twice"),
        ({"groups": [{"group": "g", "kind": "", "state": "", "topics": []}] * 2}, "listed twice"),
        ({"format": 10**5000}, "not JSON"),
        ({"later": 1}, "has 'later', but no matching digest"),
    ],
)
def test_a_wrong_manifest_is_named(form: Format, files: ArchiveFolder, change: dict[str, object], problem: str) -> None:
    export(form.writer(files=files), plain_records(0, 50), start=0, end=50)
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    data = _changed(files.get("_archive.json") or b"", change)
    sys.set_int_max_str_digits(limit)
    files.put("_archive.json", data)
    with pytest.raises(DamagedArchive, match=f"_archive.json at byte 0: .*{problem}"):
        form.reader(files).contents()


def test_a_file_of_what_is_no_topic_is_nobodys(form: Format, files: ArchiveFolder) -> None:
    write_range(form.writer(files=files), plain_records(0, 50), start=0, end=50)
    files.put(form.file(0, topic="no topic"), files.get(form.file(0)) or b"")
    assert form.reader(files).contents().topics == (ArchiveTopic(topic="orders", partitions=1),)
    assert read_all(form.reader(files)) == plain_records(0, 50)


def test_an_older_index_that_was_put_back_removes_no_newer_file(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, plain_records(0, 50), start=0, end=50)
    older = files.get(form.index()) or b""
    export(writer, plain_records(50, 80), start=50, end=80)
    files.put(form.index(), older)
    before = files_of(files.root)
    for attempt in (writer.ends, form.reader(files).contents):
        with pytest.raises(DamagedArchive, match=f"{form.index()} at byte 0: older than _archive.json: generation 1"):
            attempt()
    assert files_of(files.root) == before
    found: list[Damage] = []
    assert read_all(form.reader(files), found.append) == plain_records(0, 80)


def test_an_index_that_is_newer_than_the_manifest_is_what_a_crash_leaves(form: Format, files: ArchiveFolder) -> None:
    writer = form.writer(files=files)
    export(writer, plain_records(0, 50), start=0, end=50)
    manifest = files.get("_archive.json") or b""
    export(writer, plain_records(50, 80), start=50, end=80)
    files.put("_archive.json", manifest)
    assert writer.ends() == {ORDERS: 80}
    assert read_all(form.reader(files)) == plain_records(0, 80)
