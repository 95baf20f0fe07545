"""What the tool itself wrote, against the truth that another client read from the topic; and the same made by us."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copyfile, copytree

import pytest

from offsite.archives.archive import ArchiveTopic
from offsite.archives.kafka_backup import IndexState, KafkaBackupReader, KafkaBackupWriter, inspect, reindex
from offsite.log.group_offsets import CommittedOffset
from offsite.log.range import LogRange
from offsite.log.records.record import Record
from offsite.stores.archive_files import ArchiveFolder
from tests.peer_truth import PEERS, truth

TOPIC = "mixed-it"
SEGMENT_BYTES = 20_000


def peer_reader(*, piece_bytes: int = 1 << 20) -> KafkaBackupReader:
    return KafkaBackupReader(files=ArchiveFolder(root=PEERS / "kafka-backup"), piece_bytes=piece_bytes)


@pytest.mark.parametrize("piece_bytes", [3_000, 30_000, 1 << 20])
def test_its_records_equal_the_truth_however_they_are_divided(piece_bytes: int) -> None:
    reader = peer_reader(piece_bytes=piece_bytes)
    found: dict[int, list[Record]] = {}
    for piece in reader.contents().pieces:
        records = [record for batch in reader.read(piece) for record in batch]
        assert records
        assert all(piece.covers(record.offset) for record in records)
        found.setdefault(piece.partition, []).extend(records)
    assert found == truth()


def test_its_pieces_are_disjoint_and_hold_all_bytes() -> None:
    pieces = [piece for piece in peer_reader(piece_bytes=5_000).contents().pieces if piece.partition == 0]
    assert len(pieces) > 4
    assert [piece.end for piece in pieces] == [*(piece.start for piece in pieces[1:]), 510]
    assert sum(piece.size_bytes for piece in pieces) == 20_029 + 25_464 + 20_049 + 5_907


def test_its_contents_name_partitions_and_groups() -> None:
    contents = peer_reader().contents()
    assert contents.topics == (ArchiveTopic(topic=TOPIC, partitions=3),)
    assert {piece.partition: piece.start for piece in contents.pieces} == {0: 0, 1: 0, 2: 25}
    expected = json.loads((PEERS / "mixed-it.groups.json").read_text())
    assert list(contents.groups) == sorted(expected)
    for name, group in contents.groups.items():
        (offsets,) = group.topics
        assert offsets.topic == TOPIC
        assert list(offsets) == [CommittedOffset(row["partition"], row["offset"]) for row in expected[name]]


@pytest.mark.parametrize("at_once", [7, 10_000])
def test_our_export_of_the_same_records_is_the_same_bytes_file_by_file(tmp_path: Path, at_once: int) -> None:
    writer = KafkaBackupWriter(files=ArchiveFolder(root=tmp_path), segment_bytes=SEGMENT_BYTES)
    written = []
    for partition, records in truth().items():
        end = records[-1].offset + 1
        log_range = LogRange(topic=TOPIC, partition=partition, start=records[0].offset, end=end)
        with writer.open(log_range) as range_writer:
            for first in range(0, len(records), at_once):
                range_writer.append(records[first : first + at_once])
            written.append(range_writer.close())
    contents = peer_reader().contents()
    assert not writer.finish(written, contents.topics, contents.groups)
    assert files_of(tmp_path) == files_of(PEERS / "kafka-backup")


def test_its_archive_is_continued_by_us(tmp_path: Path) -> None:
    copytree(PEERS / "kafka-backup", tmp_path, dirs_exist_ok=True, copy_function=copyfile)
    before = files_of(tmp_path)
    writer = KafkaBackupWriter(files=ArchiveFolder(root=tmp_path), segment_bytes=SEGMENT_BYTES)
    assert {partition.partition: end for partition, end in writer.ends().items()} == {0: 510, 1: 255, 2: 255}
    assert files_of(tmp_path) == before
    more = [Record(offset, 1_700_000_000_000, 0, None, b"v" * 1000) for offset in range(600, 650)]
    with writer.open(LogRange(topic=TOPIC, partition=1, start=255, end=650)) as range_writer:
        range_writer.append(more)
        range_writer.close()
    after = files_of(tmp_path)
    assert all(after[name].startswith(data) for name, data in before.items())
    reader = KafkaBackupReader(files=ArchiveFolder(root=tmp_path))
    pieces = [piece for piece in reader.contents().pieces if piece.partition == 1]
    assert [record for piece in pieces for batch in reader.read(piece) for record in batch] == truth()[1] + more


def test_its_indexes_are_what_we_would_make_of_its_records(tmp_path: Path) -> None:
    for name, data in files_of(PEERS / "kafka-backup").items():
        if "index" not in name:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(data)
    done = reindex(ArchiveFolder(root=tmp_path))
    assert not done.damage
    assert done.records == sum(map(len, truth().values()))
    assert files_of(tmp_path) == files_of(PEERS / "kafka-backup")


def test_it_is_inspected_as_sound() -> None:
    inspection = inspect(peer_reader().files)
    assert not inspection.damage
    assert [partition.records for partition in inspection.partitions] == [510, 255, 230]
    for partition in inspection.partitions:
        assert partition.index is IndexState.OK
        assert partition.has_groups
        assert {segment.index for segment in partition.segments} == {IndexState.OK}


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
