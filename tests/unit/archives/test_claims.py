"""Names and manifests that claim partitions which no topic has: refused by every reader, before anything is as wide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offsite.archives.formats import ReadOptions, open_reader
from offsite.model.errors import DamagedArchive
from offsite.stores.archive_files import ArchiveFolder


@pytest.mark.parametrize("partition", [1_000_000, 999_999_999, 4_294_967_294])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("avro", "topics/orders/partition={0}/orders+{0}-00000000000000000000.data"),
        ("jsonl", "topics/orders/partition={0}/orders+{0}-00000000000000000000.jsonl"),
        ("parquet", "topic=orders/partition={0}/orders+{0}-00000000000000000000.parquet"),
        ("parquet", "topic=orders/partition={0}/part-0.parquet"),
        ("kafka-backup", "orders/segment_partition_{0}_from_offset_0000000000_records"),
        ("kafka-backup", "orders/consumer_offsets_partition_{0}"),
        ("trivadis", "orders/{0}/orders-{0}-000000000000000.avro"),
        ("osodevops", "topics/orders/partition={0}/segment-00000000000000000000.bin"),
    ],
)
def test_a_name_of_a_partition_that_no_topic_has_is_refused(
    tmp_path: Path, kind: str, name: str, partition: int
) -> None:
    path = tmp_path / name.format(partition)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x01")
    options = ReadOptions(adopt_orphans=True) if kind == "osodevops" else ReadOptions()
    with pytest.raises(DamagedArchive, match=f"{partition}"):
        open_reader(kind, ArchiveFolder(root=tmp_path), options).contents(lambda _: None)


@pytest.mark.parametrize(
    "topic",
    [
        {"partitions": [{"partition_id": 1_000_000}]},
        {"partitions": [{"partition_id": -1}]},
        {"original_partition_count": 4_294_967_294},
    ],
)
def test_a_manifest_with_a_partition_that_no_topic_has_is_damaged(tmp_path: Path, topic: dict[str, object]) -> None:
    manifest = {"backup_id": "b", "topics": [{"name": "orders", **topic}]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DamagedArchive, match=r"manifest.json.*'orders'"):
        open_reader("osodevops", ArchiveFolder(root=tmp_path)).contents()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("jsonl", "topics/orders/partition=0/orders+0-09223372036854775807.jsonl"),
        ("kafka-backup", "orders/segment_partition_000_from_offset_9223372036854775807_records"),
        ("kafka-backup", f"orders/segment_partition_000_from_offset_{'9' * 100}_records"),
        ("trivadis", "orders/0/orders-0-9223372036854775807.avro"),
    ],
)
def test_a_name_of_an_offset_that_no_record_has_is_refused(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x01")
    with pytest.raises(DamagedArchive, match="is impossible"):
        open_reader(kind, ArchiveFolder(root=tmp_path)).contents(lambda _: None)
