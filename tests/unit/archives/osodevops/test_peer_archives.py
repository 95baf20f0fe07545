"""What the tool itself wrote, against the truth that another client read from the topic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zstandard

from offsite.archives.archive import ArchiveContents, ArchiveTopic
from offsite.archives.osodevops import OsodevopsReader, OsodevopsWriter
from offsite.log.range import LogRange
from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, Record
from offsite.stores.archive_files import ArchiveFolder
from tests.peer_truth import PEERS, truth

ARCHIVES = ["mixed-default", "mixed-none-nohdr"]


def as_version_0_17_keeps_it(record: Record) -> Record:
    """The losses of 0.17.4: headers of one name are reduced to the last value, null header values are emptied, and
    the timestamp type is not kept."""
    headers = tuple((name, value or b"") for name, value in dict(record.headers).items())
    return record._replace(headers=headers, timestamp_type=CREATE_TIME)


def without_append_times(found: dict[int, list[Record]]) -> dict[int, list[Record]]:
    """Of LogAppendTime batches the tool stored the producers' times, which nobody else sees."""
    appended = {
        of: {row.offset for row in rows if row.timestamp_type == LOG_APPEND_TIME} for of, rows in truth().items()
    }
    return {
        of: [record._replace(timestamp_ms=-1) if record.offset in appended[of] else record for record in rows]
        for of, rows in found.items()
    }


def reader(root: Path) -> OsodevopsReader:
    return OsodevopsReader(files=ArchiveFolder(root=root))


def records_of(reader: OsodevopsReader, contents: ArchiveContents) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for piece in contents.pieces:
        found.setdefault(piece.partition, []).extend(record for batch in reader.read(piece) for record in batch)
    return found


def test_both_archives_of_the_tool_hold_the_same_records() -> None:
    first, second = (reader(PEERS / "osodevops" / name) for name in ARCHIVES)
    assert records_of(first, first.contents()) == records_of(second, second.contents())


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.parametrize("piece_bytes", [1, 10_000, 64 << 20])
def test_the_tools_archive_holds_the_truth_minus_the_losses_of_its_version(name: str, piece_bytes: int) -> None:
    archive = OsodevopsReader(files=ArchiveFolder(root=PEERS / "osodevops" / name), piece_bytes=piece_bytes)
    contents = archive.contents()
    expected = {partition: list(map(as_version_0_17_keeps_it, records)) for partition, records in truth().items()}
    assert without_append_times(records_of(archive, contents)) == without_append_times(expected)
    assert contents.topics == (ArchiveTopic(topic="mixed-it", partitions=3),)
    assert contents.holes == ()
    assert "up to version 0.17 of the tool, a null header value was stored as an empty value" in contents.fidelity


@pytest.mark.parametrize("name", ARCHIVES)
def test_the_tools_snapshot_holds_the_groups_without_their_metadata(name: str) -> None:
    expected = {
        group: {row["partition"]: row["offset"] for row in rows}
        for group, rows in json.loads((PEERS / "mixed-it.groups.json").read_text()).items()
    }
    groups = reader(PEERS / "osodevops" / name).contents().groups
    assert {name: group.topics[0].by_partition() for name, group in groups.items()} == expected
    assert {group.topics[0].topic for group in groups.values()} == {"mixed-it"}


def test_a_root_with_several_backups_asks_for_one(tmp_path: Path) -> None:
    root = ArchiveFolder(root=PEERS / "osodevops")
    with pytest.raises(Exception, match="several backups: mixed-default, mixed-none-nohdr"):
        OsodevopsReader(files=root).contents()
    chosen = OsodevopsReader(files=root, backup_id="mixed-default")
    contents = chosen.contents()
    assert contents.pieces[0].files[0].startswith("mixed-default/topics/")
    assert sum(map(len, records_of(chosen, contents).values())) == 510 + 255 + 230


def plain_body(file: Path) -> bytes:
    stored = file.read_bytes()[32:-8]
    return zstandard.ZstdDecompressor().decompressobj().decompress(stored) if file.suffix == ".zst" else stored


@pytest.mark.parametrize(("name", "offset_headers"), [("mixed-default", True), ("mixed-none-nohdr", False)])
def test_our_export_of_the_same_records_is_the_tools_to_the_byte_but_for_compression(
    tmp_path: Path, name: str, offset_headers: bool
) -> None:
    theirs = reader(PEERS / "osodevops" / name)
    found = records_of(theirs, theirs.contents())
    writer = OsodevopsWriter(files=ArchiveFolder(root=tmp_path / name), offset_headers=offset_headers)
    for partition, records in found.items():
        where = LogRange(topic="mixed-it", partition=partition, start=0, end=records[-1].offset + 1)
        with writer.open(where) as out:
            out.append(records)
            [receipt] = out.close().files
        files = (PEERS / "osodevops" / name / "topics" / "mixed-it" / f"partition={partition}").iterdir()
        assert plain_body(tmp_path / name / receipt.name) == b"".join(map(plain_body, sorted(files)))
