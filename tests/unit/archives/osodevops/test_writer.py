from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from offsite.archives.archive import ArchiveTopic
from offsite.archives.osodevops import OsodevopsReader, OsodevopsWriter
from offsite.archives.osodevops.segment import make_added_headers
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import TopicPartition
from offsite.log.records.record import LOG_APPEND_TIME, Record, RecordHeaders
from offsite.model.errors import ArchiveNotFound, BadOption, NotRepresentable
from offsite.stores.archive_files import ArchiveBucket, ArchiveFolder
from offsite.stores.object_store import CloudStore
from tests.unit.archives.osodevops.made_backups import TOPIC, backup, log_range, offsets, read_all, record, write

PEER = Path(__file__).parents[3] / "fixtures" / "peers" / "osodevops" / "mixed-none-nohdr"
ODD = [
    Record(3, -1, 0, None, None),
    Record(4, 1_700_000_000_500, 0, b"", b"", (("a", b"1"), ("a", None), ("", b""), ("ü", b"\xff"))),
    Record(9, 1_700_000_000_100, 0, b"\0\xff", b"x" * 5_000, (("a", b"2"),) * 300),
    Record(1 << 40, 0, 0, b"k", None),
]


def writer(root: Path, **options: bool) -> OsodevopsWriter:
    return OsodevopsWriter(files=ArchiveFolder(root=root), lossy=options.get("lossy", False))


def reader(root: Path) -> OsodevopsReader:
    return OsodevopsReader(files=ArchiveFolder(root=root))


def test_what_was_written_reads_back_equal(tmp_path: Path) -> None:
    backup(tmp_path / "b1", ODD)
    assert read_all(reader(tmp_path / "b1")) == ODD


def test_the_manifest_says_what_the_tool_wants_to_know(tmp_path: Path) -> None:
    writer = OsodevopsWriter(files=ArchiveFolder(root=tmp_path), backup_id="b1", cluster_id="the-source")
    written = write(writer, log_range(3, 1 << 41), ODD)
    topic = ArchiveTopic(topic=TOPIC, partitions=4, replication_factor=3, configs=(("cleanup.policy", "compact"),))
    writer.finish([written], [topic, ArchiveTopic(topic="empty", partitions=2)], {})
    manifest = json.loads((tmp_path / "b1" / "manifest.json").read_bytes())
    assert (manifest["backup_id"], manifest["source_cluster_id"], manifest["compression"]) == (
        "b1",
        "the-source",
        "zstd",
    )
    rows = {row["name"]: row for row in manifest["topics"]}
    assert rows["empty"] == {"name": "empty", "original_partition_count": 2, "partitions": []}
    assert rows[TOPIC]["original_partition_count"] == 4
    assert rows[TOPIC]["source_replication_factor"] == 3
    assert rows[TOPIC]["configurations"] == {"cleanup.policy": "compact"}
    [segment] = rows[TOPIC]["partitions"][0]["segments"]
    data = (tmp_path / segment["key"]).read_bytes()
    assert segment["key"] == f"b1/topics/{TOPIC}/partition=0/segment-{3:020}.bin.zst"
    assert (segment["start_offset"], segment["end_offset"], segment["record_count"]) == (3, 1 << 40, 4)
    assert (segment["start_timestamp"], segment["end_timestamp"]) == (-1, 1_700_000_000_500)
    assert (segment["compressed_size"], segment["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert segment["uploaded_at"] == manifest["created_at"] > 1_700_000_000_000


def test_segments_end_before_they_would_grow_beyond_their_size(tmp_path: Path) -> None:
    records = [record(offset, b"x" * 100) for offset in range(50)]
    paths = backup(tmp_path / "b1", records, segment_bytes=1_000)
    rows = json.loads((tmp_path / "b1" / "manifest.json").read_bytes())["topics"][0]["partitions"][0]["segments"]
    assert len(paths) == len(rows) > 5
    assert all(row["uncompressed_size"] <= 1_000 for row in rows)
    assert read_all(reader(tmp_path / "b1")) == records


def test_writing_a_range_again_gives_the_same_files(tmp_path: Path) -> None:
    records = [record(offset) for offset in range(50)]
    [first] = backup(tmp_path / "b1", records)
    before, listed = first.read_bytes(), (tmp_path / "b1" / "manifest.json").read_text()
    assert backup(tmp_path / "b1", records) == [first]
    assert first.read_bytes() == before
    assert len(json.loads((tmp_path / "b1" / "manifest.json").read_text())["topics"][0]["partitions"]) == 1
    assert listed.count("segment-") == (tmp_path / "b1" / "manifest.json").read_text().count("segment-") == 1


def test_an_export_goes_on_where_the_archive_ends(tmp_path: Path) -> None:
    records = [record(offset) for offset in range(0, 90, 3)]
    for start, end in ((0, 40), (40, 41), (41, 90)):
        exporter = writer(tmp_path / "b1")
        assert exporter.ends().get(TopicPartition(topic=TOPIC, partition=0), 0) <= start
        part = [each for each in records if start <= each.offset < end]
        exporter.finish([write(exporter, log_range(start, end), part)], [ArchiveTopic(topic=TOPIC, partitions=1)], {})
    assert read_all(reader(tmp_path / "b1")) == records
    assert writer(tmp_path / "b1").ends() == {TopicPartition(topic=TOPIC, partition=0): 88}


def test_the_tools_own_backup_is_continued_and_what_is_unknown_in_its_manifest_stays(tmp_path: Path) -> None:
    root = tmp_path / "mixed-none-nohdr"
    shutil.copytree(PEER, root, copy_function=shutil.copyfile)
    manifest = json.loads((root / "manifest.json").read_bytes())
    manifest["of_a_later_version"] = manifest["topics"][0]["partitions"][0]["also"] = {"kept": [1]}
    (root / "manifest.json").chmod(0o600)
    (root / "manifest.json").write_text(json.dumps(manifest))
    before = read_all(reader(root))
    exporter = writer(root)
    end = exporter.ends()[TopicPartition(topic="mixed-it", partition=1)]
    more = [record(end), record(end + 5)]
    written = write(exporter, log_range(end, end + 6, partition=1, topic="mixed-it"), more)
    exporter.finish([written], [ArchiveTopic(topic="mixed-it", partitions=3)], {})
    assert sorted(read_all(reader(root))) == sorted(before + more)
    after = json.loads((root / "manifest.json").read_bytes())
    assert after["of_a_later_version"] == after["topics"][0]["partitions"][0]["also"] == {"kept": [1]}
    assert (after["created_at"], after["backup_id"]) == (manifest["created_at"], "mixed-none-nohdr")


def test_segments_that_a_crashed_export_left_are_replaced_or_removed(tmp_path: Path) -> None:
    records = [record(offset) for offset in range(20)]
    crashed = writer(tmp_path / "b1")
    for start, end in ((0, 5), (5, 12), (12, 20)):
        write(crashed, log_range(start, end), records[start:end])
    with pytest.raises(ArchiveNotFound):
        reader(tmp_path / "b1").contents()
    [kept] = backup(tmp_path / "b1", records[:15])
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    assert read_all(reader(tmp_path / "b1")) == records[:15]


def test_a_range_left_by_an_exception_counts_for_nothing(tmp_path: Path) -> None:
    exporter = writer(tmp_path / "b1")
    with pytest.raises(NotRepresentable):
        write(exporter, log_range(0, 5), [record(0), record(1, kind=LOG_APPEND_TIME)])
    assert exporter.ends() == {}
    assert not (tmp_path / "b1").exists()


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (record(7, kind=LOG_APPEND_TIME), "timestamp type LogAppendTime"),
        (record(7, headers=(("n" * 65_536, b""),)), "a header name of more than 65535 bytes"),
        (record(7, headers=(("\udcff", b"v"),)), "a header name that is not UTF-8"),
        (record(7, headers=(("n", b""),) * 65_536), "more than 65535 headers"),
    ],
)
def test_what_the_format_cannot_hold_is_refused_by_name_or_counted_as_lost(
    tmp_path: Path, bad: Record, what: str
) -> None:
    with pytest.raises(NotRepresentable, match=f"orders/0 offset 7: .* {what}"):
        write(writer(tmp_path / "b1"), log_range(0, 8), [bad])
    written = write(writer(tmp_path / "b2", lossy=True), log_range(0, 8), [record(6), bad])
    assert written.losses == ((what, 1),)
    assert written.records == 2


@pytest.mark.parametrize(
    "headers",
    [(("n" * 65_535, b"v"),), (("n", b"v"),) * 65_535],
    ids=["name", "count"],
)
def test_the_formats_limits_themselves_are_held(tmp_path: Path, headers: RecordHeaders) -> None:
    backup(tmp_path / "b1", [record(0, headers=headers)])
    assert read_all(reader(tmp_path / "b1")) == [record(0, headers=headers)]


def test_headers_of_the_tool_are_added_when_asked_for_and_taken_off_again(tmp_path: Path) -> None:
    files = ArchiveFolder(root=tmp_path / "b1")
    asked = OsodevopsWriter(files=files, offset_headers=True, cluster_id="c")
    records = [record(5, headers=(("mine", b"1"),)), record(6)]
    asked.finish([write(asked, log_range(5, 7), records)], [ArchiveTopic(topic=TOPIC, partitions=1)], {})
    [path] = (tmp_path / "b1").rglob("*.zst")
    import zstandard

    plain = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()[32:-8])
    assert plain.count(b"x-original-offset") == plain.count(b"x-original-timestamp") == 2
    assert plain.count(b"x-source-cluster") == 2
    assert read_all(reader(tmp_path / "b1")) == records


def test_a_producers_own_headers_of_those_names_survive(tmp_path: Path) -> None:
    plain = record(5)
    records = [plain._replace(headers=make_added_headers(plain, "c")), record(6, headers=make_added_headers(plain))]
    backup(tmp_path / "b1", records)
    assert read_all(reader(tmp_path / "b1")) == records


def test_committed_offsets_are_written_and_what_has_no_place_is_said(tmp_path: Path) -> None:
    rows = [CommittedOffset(0, 2, 4, "note"), CommittedOffset(1, 0)]
    topics = (TopicOffsets.of("other", [CommittedOffset(0, 1)]), TopicOffsets.of(TOPIC, rows))
    exporter = writer(tmp_path / "b1")
    written = write(exporter, log_range(0, 3), [record(2)])
    described = [ArchiveTopic(topic=TOPIC, partitions=2)]
    left_out = exporter.finish([written], described, {"app": GroupOffsets(group="app", topics=topics)})
    assert left_out == (
        "the metadata of 1 committed offset",
        "the leader epochs of 1 committed offset",
        "1 committed offset on other topics",
    )
    groups = reader(tmp_path / "b1").contents().groups
    assert {name: [topic.by_partition() for topic in group.topics] for name, group in groups.items()} == {
        "app": [{0: 2, 1: 0}]
    }


def test_segments_larger_than_the_tool_reads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="the tool reads up to 134217728"):
        OsodevopsWriter(files=ArchiveFolder(root=tmp_path), segment_bytes=(128 << 20) + 1)


def test_a_place_without_a_name_needs_a_backup_id() -> None:
    bucket = ArchiveBucket(store=CloudStore(url="s3://bucket"))
    with pytest.raises(BadOption, match="s3://bucket has no name"):
        OsodevopsWriter(files=bucket)._new_backup_id()
    assert OsodevopsWriter(files=bucket, backup_id="b")._new_backup_id() == "b"


def test_ranges_of_one_partition_can_be_written_side_by_side(tmp_path: Path) -> None:
    exporter = writer(tmp_path / "b1")
    assert exporter.divides
    second = write(exporter, log_range(10, 20), [record(12), record(19)])
    first = write(exporter, log_range(0, 10), [record(0), record(9)])
    exporter.finish([second, first], [ArchiveTopic(topic=TOPIC, partitions=1)], {})
    assert offsets(read_all(reader(tmp_path / "b1"))) == [0, 9, 12, 19]
