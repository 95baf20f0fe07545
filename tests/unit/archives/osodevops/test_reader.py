from __future__ import annotations

import json
import pickle
from base64 import b64encode
from pathlib import Path

import cramjam
import pytest
import zstandard

from offsite.archives import file_parts
from offsite.archives.archive import ArchiveHole, ArchiveTopic, Damage
from offsite.archives.osodevops import OsodevopsReader
from offsite.archives.osodevops.segment import make_added_headers, strip_added_headers
from offsite.log.records.record import Record, RecordHeaders
from offsite.model.errors import ArchiveNotFound
from offsite.stores.archive_files import ArchiveFolder
from tests.unit.archives.osodevops.made_backups import backup, log_range, offsets, read_all, record


def reader(root: Path) -> OsodevopsReader:
    return OsodevopsReader(files=ArchiveFolder(root=root))


def change_manifest(root: Path, **partition: object) -> dict[str, object]:
    """Add fields to partition 0 of the only topic; returns the topic's row, written back by a second call."""
    manifest = json.loads((root / "manifest.json").read_bytes())
    manifest["topics"][0]["partitions"][0].update(partition)
    (root / "manifest.json").write_text(json.dumps(manifest))
    topic: dict[str, object] = manifest["topics"][0]
    return topic


def test_gaps_and_pruned_ranges_are_holes_where_no_segment_is(tmp_path: Path) -> None:
    backup(tmp_path / "b", [record(offset) for offset in range(20, 30)])
    gap = {"start_offset": 30, "end_offset": 35, "reason": "offset_out_of_range", "detected_at": 1}
    pruned = {"start_offset": 5, "end_offset": 24, "segments": 1, "bytes": 9, "pruned_at": 1, "reason": "manual"}
    change_manifest(tmp_path / "b", gaps=[gap], pruned=[pruned])
    contents = reader(tmp_path / "b").contents()
    of_range = [log_range(5, 20), log_range(30, 35)]
    assert contents.holes == tuple(ArchiveHole(range=each, reason="retention") for each in of_range)
    assert not [sentence for sentence in contents.fidelity if "between segments" in sentence]


def test_offsets_between_segments_are_said_to_be_in_no_file(tmp_path: Path) -> None:
    records = [record(0), record(1), record(7), record(8), record(20)]
    backup(tmp_path / "b", records, segment_bytes=60)
    [sentence] = [each for each in reader(tmp_path / "b").contents().fidelity if "between segments" in each]
    assert sentence.startswith("orders/0: 16 offsets between segments are in no file, first 2 to 6: ")


def test_offsets_beyond_the_end_are_put_there_and_that_is_said(tmp_path: Path) -> None:
    backup(tmp_path / "b", [record(offset) for offset in range(5)])
    group = {"group_id": "app", "offsets": {"orders": {"0": 9, "3": 70}}}
    (tmp_path / "b" / "consumer-groups-snapshot.json").write_text(json.dumps({"groups": [group]}))
    contents = reader(tmp_path / "b").contents()
    assert contents.groups["app"].topics[0].by_partition() == {0: 5, 3: 70}
    moved = "group app had committed 9 of orders/0, beyond the archive's end: it is set to 5"
    assert contents.fidelity[-1] == moved


def test_orphans_are_counted_and_taken_when_asked_for(tmp_path: Path) -> None:
    records = [record(offset) for offset in range(10)]
    paths = backup(tmp_path / "b", records, segment_bytes=100)
    rows = json.loads((tmp_path / "b" / "manifest.json").read_bytes())["topics"][0]["partitions"][0]["segments"]
    change_manifest(tmp_path / "b", segments=rows[:2])
    known = offsets(read_all(reader(tmp_path / "b")))
    assert known == [0, 1, 2, 3, 4, 5]
    left_out = f"{len(paths) - 2} segments left out that the manifest does not list"
    assert reader(tmp_path / "b").contents().fidelity[-1] == left_out
    adopting = OsodevopsReader(files=ArchiveFolder(root=tmp_path / "b"), adopt_orphans=True)
    assert read_all(adopting) == records


def test_an_adopted_segment_fills_the_hole_that_pruning_made(tmp_path: Path) -> None:
    backup(tmp_path / "b", [record(offset) for offset in range(3, 6)])
    pruned = {"start_offset": 0, "end_offset": 9, "reason": "manual"}
    change_manifest(tmp_path / "b", segments=[], pruned=[pruned])
    assert [hole.range for hole in reader(tmp_path / "b").contents().holes] == [log_range(0, 10)]
    adopting = OsodevopsReader(files=ArchiveFolder(root=tmp_path / "b"), adopt_orphans=True)
    assert [hole.range for hole in adopting.contents().holes] == [log_range(0, 3), log_range(6, 10)]


def test_what_is_no_segment_is_not_adopted(tmp_path: Path) -> None:
    [path] = backup(tmp_path / "b", [record(0)])
    stray = path.with_name(f"segment-{7:020}.bin.zst")
    stray.write_bytes(b"torn")
    adopting = OsodevopsReader(files=ArchiveFolder(root=tmp_path / "b"), adopt_orphans=True)
    told: list[Damage] = []
    assert read_all(adopting, None, told.append) == [record(0)]
    assert [(damage.file, damage.is_note) for damage in told] == [(f"topics/orders/partition=0/{stray.name}", False)]


@pytest.mark.parametrize("kind", [b"\0\0\0\0", b"\0\0\0\1"])
def test_records_like_transaction_markers_are_noted_or_dropped(tmp_path: Path, kind: bytes) -> None:
    marker = record(3, b"\0\0\0\0\0\7", key=kind)
    records = [record(2), marker, record(4, b"\0\0\0\0\0\7"), record(5, key=b"\0\0\0\3")]
    backup(tmp_path / "b", records)
    for is_dropped, done in ((False, "kept"), (True, "left out")):
        told: list[Damage] = []
        chosen = OsodevopsReader(files=ArchiveFolder(root=tmp_path / "b"), drop_control_like=is_dropped)
        expected = [each for each in records if each is not marker or not is_dropped]
        assert read_all(chosen, None, told.append) == expected
        assert [damage.is_note for damage in told] == [True]
        assert f"like transaction markers were {done}, the first at offset 3" in told[0].problem
    assert read_all(reader(tmp_path / "b")) == records


OTHER_LIFE = make_added_headers(record(9))


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        (make_added_headers(record(7)), ()),
        (make_added_headers(record(7), "cluster"), ()),
        ((("a", b"1"), *make_added_headers(record(7), "cluster")), (("a", b"1"),)),
        ((*OTHER_LIFE, *make_added_headers(record(7))), OTHER_LIFE),
        (OTHER_LIFE, OTHER_LIFE),
        ((*make_added_headers(record(7)), ("a", None)), (*make_added_headers(record(7)), ("a", None))),
        (make_added_headers(record(7))[:1], make_added_headers(record(7))[:1]),
        (make_added_headers(record(7))[::-1], make_added_headers(record(7))[::-1]),
        ((("x-source-cluster", b"c"),), (("x-source-cluster", b"c"),)),
    ],
)
def test_only_trailing_headers_with_the_records_own_offset_are_the_tools(
    headers: RecordHeaders, kept: RecordHeaders
) -> None:
    assert strip_added_headers(record(7, headers=headers)).headers == kept


def json_segment(records: list[Record]) -> bytes:
    def text(value: bytes | None) -> str | None:
        return None if value is None else b64encode(value).decode()

    rows = [
        {
            "key": text(each.key),
            "value": text(each.value),
            "headers": [{"key": name, "value": text(value)} for name, value in each.headers],
            "timestamp": each.timestamp_ms,
            "offset": each.offset,
        }
        for each in records
    ]
    return json.dumps(rows).encode()


OLD = [record(4, headers=(("ü", b"\xff"),)), record(6, None, key=None), record(9, b"")]


@pytest.mark.parametrize("suffix", ["", ".zst", ".lz4"])
def test_segments_of_the_first_versions_are_json(tmp_path: Path, suffix: str) -> None:
    data = json_segment(OLD)
    compressed = {"": data, ".zst": zstandard.compress(data), ".lz4": bytes(cramjam.lz4.compress_block(data))}[suffix]
    [path] = backup(tmp_path / "b", [record(4), record(9)])
    name = f"segment-000001.bin{suffix}"
    path.with_name(name).write_bytes(compressed)
    listed = {"key": f"b/topics/orders/partition=0/{name}", "start_offset": 4, "end_offset": 9, "record_count": 3}
    change_manifest(tmp_path / "b", segments=[listed])
    assert read_all(reader(tmp_path / "b")) == OLD
    (tmp_path / "b" / "manifest.json").unlink()
    path.unlink()
    assert read_all(OsodevopsReader(files=ArchiveFolder(root=tmp_path / "b"), adopt_orphans=True)) == OLD


def test_a_cut_json_segment_gives_the_records_before_the_cut(tmp_path: Path) -> None:
    data = json_segment(OLD)
    [path] = backup(tmp_path / "b", OLD)
    listed = {"key": f"b/topics/orders/partition=0/{path.name[:-4]}", "start_offset": 4, "end_offset": 9}
    change_manifest(tmp_path / "b", segments=[{**listed, "record_count": 3}])
    for cut in range(1, len(data), 2):
        path.with_name(path.name[:-4]).write_bytes(data[:cut])
        told: list[Damage] = []
        kept = read_all(reader(tmp_path / "b"), None, told.append)
        assert kept == OLD[: len(kept)]
        assert told
        assert told[0].position <= cut


def test_a_file_longer_than_a_part_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record(offset, b"%d" % offset * 50) for offset in range(300)]
    backup(tmp_path / "b", records)
    for part_bytes in (32, 40, 77, 1_000):
        monkeypatch.setattr(file_parts, "STORED_PART_BYTES", part_bytes)
        assert read_all(reader(tmp_path / "b")) == records


def test_pieces_are_disjoint_and_hold_all(tmp_path: Path) -> None:
    records = [record(offset) for offset in range(0, 200, 2)]
    backup(tmp_path / "b", records, segment_bytes=300)
    pieces = OsodevopsReader(files=ArchiveFolder(root=tmp_path / "b"), piece_bytes=400).contents().pieces
    assert len(pieces) == 3
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert (pieces[0].start, pieces[-1].end) == (0, 199)


def test_topics_are_as_the_manifest_has_them(tmp_path: Path) -> None:
    backup(tmp_path / "b", [record(0)])
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_bytes())
    manifest["topics"][0] |= {"source_replication_factor": 3, "configurations": {"retention.ms": "5", "a": "b"}}
    manifest["topics"][0]["original_partition_count"] = None
    manifest["source_cluster_id"] = "src"
    (tmp_path / "b" / "manifest.json").write_text(json.dumps(manifest))
    contents = reader(tmp_path / "b").contents()
    configs = (("a", "b"), ("retention.ms", "5"))
    assert contents.topics == (ArchiveTopic(topic="orders", partitions=1, replication_factor=3, configs=configs),)
    assert contents.cluster_id == "src"
    assert "configurations of topics are not kept" not in contents.fidelity


def test_a_backup_that_was_copied_under_another_name_is_read(tmp_path: Path) -> None:
    backup(tmp_path / "b", [record(0)])
    (tmp_path / "b").rename(tmp_path / "renamed")
    for root, backup_id in (
        (tmp_path, ""),
        (tmp_path, "renamed"),
        (tmp_path / "renamed", ""),
        (tmp_path / "renamed", "b"),
    ):
        assert read_all(OsodevopsReader(files=ArchiveFolder(root=root), backup_id=backup_id)) == [record(0)]


def test_an_unknown_backup_id_is_refused(tmp_path: Path) -> None:
    backup(tmp_path / "b", [record(0)])
    with pytest.raises(ArchiveNotFound, match="has no manifest of a backup 'c'"):
        OsodevopsReader(files=ArchiveFolder(root=tmp_path), backup_id="c").contents()


def test_a_reader_travels_to_workers(tmp_path: Path) -> None:
    backup(tmp_path / "b", [record(0)])
    assert read_all(pickle.loads(pickle.dumps(reader(tmp_path / "b")))) == [record(0)]
