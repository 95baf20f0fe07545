"""The commands about archives, as scripts use them."""

from __future__ import annotations

import base64
import json
import shutil
import signal
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.demo.data import ReadRecord, read_topic
from offsite.engine.local.jvm import cache_folder
from offsite.sandbox import SandboxInfo
from tests.batches import make_log
from tests.integration.archives.exchange import Exchange, NewSegment
from tests.integration.e2e.command import offsite, start, succeed
from tests.integration.kafka.cluster import Cluster, wait_until

PEERS = Path(__file__).parents[2] / "fixtures" / "peers"
TOPIC = "mixed-it"


@pytest.fixture
def orders(exchange: Exchange) -> Exchange:
    exchange.commit(NewSegment(partition=0, start=0, end=40, batches=[make_log(0, 40)]))
    return exchange


@pytest.fixture
def target(second_broker: SandboxInfo) -> Iterator[Cluster]:
    cluster = Cluster(second_broker.bootstrap)
    before = set(cluster.admin.topics())
    yield cluster
    cluster.admin.delete_topics(sorted(set(cluster.admin.topics()) - before - {"__consumer_offsets"}))


def truth() -> dict[int, list[ReadRecord]]:
    """What the topic of the fixtures held, read by an independent client."""
    found: dict[int, list[ReadRecord]] = defaultdict(list)
    for line in (PEERS / f"{TOPIC}.truth.jsonl").read_text().splitlines():
        item = json.loads(line)
        found[item["partition"]].append(
            ReadRecord(
                offset=item["offset"],
                timestamp_type=item["timestampType"] + 1,
                timestamp_ms=item["timestamp"],
                key=_bytes(item["key"]),
                value=_bytes(item["value"]),
                headers=tuple((name, _bytes(value)) for name, value in item["headers"]),
            )
        )
    return dict(found)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def test_another_tools_archive_is_restored_as_it_was(target: Cluster, tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_STATE_HOME": str(tmp_path / "state")}
    cache_folder().mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache" / "offsite").mkdir(parents=True)
    (tmp_path / "cache" / "offsite" / "cds").symlink_to(cache_folder())  # Spark's classes: recording them takes seconds
    shutil.copytree(PEERS / "kafka-backup", tmp_path / "archive")
    arguments = ("restore", "run", "--archive", tmp_path / "archive", "--format", "kafka-backup", "--yes")
    groups = ("--groups", "it-app-1,it-app-zero")
    done = succeed(*arguments, *groups, "--bootstrap", target.bootstrap, environment=environment)
    assert (done["verified"], done["records"], done["topics"][TOPIC]["same_offsets"]) == (True, 995, True)
    # The archive does not know that the topic had been switched to LogAppendTime: the times come back, not their type.
    assert read_topic(target.bootstrap, TOPIC) == {
        number: [replace(record, timestamp_type=1) for record in records] for number, records in truth().items()
    }
    staging = tmp_path / "cache" / "offsite" / "staging"
    assert not list(staging.iterdir()), "the copy of the archive is gone, though groups were set"
    assert {"it-app-1", "it-app-zero"} <= group_names(target)
    restored = tmp_path / "state" / "offsite" / "restored"
    assert sum(each.stat().st_size for each in restored.rglob("*") if each.is_file()) < 100_000
    back = ("groups", "undo", "--repo", restored, "--backup", done["backup"], "--bootstrap", target.bootstrap, "--yes")
    assert succeed(*back, environment=environment)["offsets_removed"] == 4


def group_names(cluster: Cluster) -> set[str]:
    return {each.group for each in cluster.admin.groups.list()}


def test_what_is_imported_is_shown_with_what_it_lacks(exchange: Exchange) -> None:
    peers = replace(exchange, places=str(PEERS / "osodevops"))
    done = peers.bring_in("osodevops", "mixed-none-nohdr", "back")
    shown = succeed("show", "back", "--repo", exchange.repository.store.url)
    assert shown["origin"] == f"the osodevops archive {peers.place('mixed-none-nohdr')}"
    assert tuple(shown["fidelity"]) == done.fidelity
    assert any("timestamp types" in lack for lack in done.fidelity)


def test_what_is_imported_is_what_the_topic_held(exchange: Exchange) -> None:
    replace(exchange, places=str(PEERS)).bring_in("kafka-backup", "kafka-backup", "back")
    back = exchange.content("back")
    for partition, records in truth().items():
        assert [(*each[:2], each.timestamp_type + 1, *each[3:]) for each in back[TOPIC, partition]] == [
            (each.offset, each.timestamp_ms, each.timestamp_type, each.key, each.value, each.headers)
            for each in records
        ]


def test_an_archive_follows_a_cluster_until_it_is_told_to_stop(broker: SandboxInfo, tmp_path: Path) -> None:
    cluster, place = Cluster(broker.bootstrap), tmp_path / "archive"
    topic = cluster.make_topic()
    cluster.produce(topic, [b"one", b"two"])
    arguments = ("--from", "kafka", "--bootstrap", broker.bootstrap, "--topics", topic, "--interval", "200ms")
    process = start("export", place, "--format", "kafka-backup", *arguments, "--follow")
    try:
        records = place / topic / "segment_partition_000_from_offset_0000000000_records"
        wait_until(lambda: records.is_file() and b"two" in records.read_bytes(), limit_s=60)
        cluster.produce(topic, [b"three"])
        wait_until(lambda: b"three" in records.read_bytes(), limit_s=60)
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, stderr
    decoder, results = json.JSONDecoder(), []
    while stdout := stdout.strip():
        result, end = decoder.raw_decode(stdout)
        results.append(result["records"])
        stdout = stdout[end:]
    assert sum(results) == 3


def test_a_plan_is_shown_before_anything_is_written(orders: Exchange) -> None:
    place = orders.place("a")
    shown = succeed(
        *("export", place, "--format", "avro", "--repo", orders.repository.store.url, "--backup", "original"),
        "--dry-run",
    )
    assert shown["partitions"] == [{"topic": "orders", "partition": 0, "start": 0, "end": 40}]
    assert not list(Path(place).rglob("*.data"))


def test_indexes_are_inspected_and_made_anew(tmp_path: Path) -> None:
    shutil.copytree(PEERS / "kafka-backup", tmp_path / "archive")
    lost = next((tmp_path / "archive").rglob("*0197_index"))
    whole = lost.read_bytes()
    lost.unlink()
    arguments = ("archive", "inspect", tmp_path / "archive", "--format", "kafka-backup")
    before = succeed(*arguments)
    assert [each["index"] for each in before["segments"]].count("missing") == 1
    done = succeed("archive", "reindex", tmp_path / "archive")
    assert [each["is_rewritten"] for each in done["segments"]].count(True) == 1
    assert lost.read_bytes() == whole
    segment = before["segments"][0]
    lines = succeed(*arguments, "--file", segment["file"], "--limit", 3)
    assert [each["offset"] for each in lines["records"]] == [0, 1, 2]


def test_mistakes_are_told_before_anything_is_done(orders: Exchange, tmp_path: Path) -> None:
    backup = ("--repo", orders.repository.store.url, "--backup", "original")
    empty = tmp_path / "empty"
    empty.mkdir()
    one_byte = tmp_path / "one"
    (one_byte / "t").mkdir(parents=True)
    (one_byte / "t" / "segment_partition_000_from_offset_0000000000_records").write_bytes(b"x")
    for arguments, exit_code, told in (
        (("export", empty, "--format", "zip", *backup), 2, "no archive format 'zip'"),
        (("export", "s3://bucket/x", "--format", "kafka-backup", *backup), 2, "appending"),
        (("export", empty, "--format", "avro"), 2, "--repo and --backup"),
        (
            ("export", empty, "--format", "avro", "--from", "kafka", "--commit", 1, "--bootstrap", "h:1"),
            2,
            "omit the restore point",
        ),
        (("export", empty, "--format", "avro", *backup, "--follow", "--commit", 1), 2, "restore point"),
        (("archive", "inspect", one_byte, "--format", "osodevops"), 2, str(one_byte)),
    ):
        done = offsite(*arguments)
        assert (done.exit_code, told in done.stderr) == (exit_code, True), (arguments, done)
    assert list(empty.iterdir()) == []
