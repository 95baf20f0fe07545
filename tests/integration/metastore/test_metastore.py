"""The command topic of a real broker, backed up and restored by the command line."""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from offsite.log.range import TopicPartition
from offsite.log.records.record import CREATE_TIME, Record
from offsite.metastore.backup_file import BackupFile, load, sidecar_of
from offsite.metastore.folder import BackupName, NameForm
from offsite.sandbox import SandboxInfo
from offsite.sandbox.jars import CONSOLE_PRODUCER, run_tool
from tests.integration.e2e.command import Finished, offsite, start
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.integration.metastore.ksql import Ksql, Written, create_stream
from tests.unit.metastore.commands import HEADER

ODD: list[Written] = [
    (b'"stream/`a:b`/create"', b'{"statement":"x"}'),
    (b'"stream/`a`/drop"', None),
    (b"\xff\xfe", b"not text"),
    (b'"x"', b'{\n"pretty": 1\n}'),
]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a ksqlDB cluster: a service, and a folder for its backups."""

    ksql: Ksql
    location: Path

    def run(self, verb: str, *words: object) -> Finished:
        return offsite("metastore", verb, *words, "-o", "json")

    def back_up(self, *words: object, exit_code: int = 0) -> Any:
        done = self.run("backup", *self.place, *words)
        assert done.exit_code == exit_code, done.stderr
        return done.result

    @property
    def ends(self) -> tuple[object, ...]:
        return ("--bootstrap", self.ksql.cluster.bootstrap, "--service-id", self.ksql.service)

    @property
    def place(self) -> tuple[object, ...]:
        return (*self.ends, "--location", self.location)

    @property
    def files(self) -> list[Path]:
        return sorted(each for each in self.location.iterdir() if each.suffix == ".bak")

    @contextmanager
    def following(self) -> Iterator[subprocess.Popen[str]]:
        process = start("metastore", "backup", *self.place, "--follow", "-o", "jsonl")
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


@pytest.fixture
def node(broker: SandboxInfo, tmp_path: Path) -> Node:
    node = Node(Ksql(Cluster(broker.bootstrap)), tmp_path / "backups")
    node.ksql.make_topic()
    return node


def delete(node: Node) -> None:
    node.ksql.cluster.admin.delete_topics([node.ksql.topic])
    wait_until(lambda: node.ksql.topic not in node.ksql.cluster.admin.topics())


def test_a_file_is_what_the_topic_is_and_goes_on_with_it(node: Node) -> None:
    node.ksql.write([create_stream(1), create_stream(2)])
    node.ksql.write([create_stream(9)], commit=False)
    first = node.back_up()
    assert (first["verdict"], first["commands"], first["appended"]) == ("current", 2, 2)
    (file,) = node.files
    lines = [b"%s:%s\n" % create_stream(number) for number in (1, 2)]
    assert file.read_bytes() == b"".join(lines)
    assert [each.stat().st_mode & 0o777 for each in (node.location, file, sidecar_of(file))] == [0o700, 0o600, 0o600]
    before = (file.read_bytes(), sidecar_of(file).read_bytes())
    assert node.back_up()["appended"] == 0
    assert (file.read_bytes(), sidecar_of(file).read_bytes()) == before
    node.ksql.write([create_stream(3), *ODD])
    assert node.back_up()["appended"] == 5
    assert node.files == [file]
    assert [each.record for each in load(file).commands] == node.ksql.records()
    assert node.run("verify", file, *node.ends).result["ok"]
    status = node.run("status", "--location", node.location).result["backups"][0]
    assert (status["service"], status["safe"], status["commands"]) == (node.ksql.service, True, 7)


def test_another_history_begins_another_file(node: Node) -> None:
    node.ksql.write([create_stream(1), create_stream(2)])
    old = Path(node.back_up()["file"])
    whole = old.read_bytes()
    delete(node)
    node.ksql.make_topic()
    node.ksql.write([create_stream(1), create_stream(7)])
    told = node.back_up(exit_code=3)
    assert "line 2 of the file differs from command 2 of the topic" in told["diverged"]
    assert Path(told["file"]) != old
    assert old.read_bytes() == whole
    assert Path(told["file"]).read_bytes() == b"".join(b"%s:%s\n" % create_stream(number) for number in (1, 7))
    assert node.back_up()["appended"] == 0
    verified = node.run("verify", old, *node.ends)
    assert (verified.exit_code, "line 2" in verified.result["difference"]) == (13, True)


def test_a_topic_that_lost_its_commands_is_an_alarm_and_takes_nothing_out_of_a_file(node: Node) -> None:
    node.ksql.write([create_stream(1), create_stream(2)])
    file = Path(node.back_up()["file"])
    whole = file.read_bytes()
    node.ksql.cluster.admin.delete_records({TopicPartition(topic=node.ksql.topic, partition=0): 4})
    emptied = node.run("backup", *node.place)
    assert (emptied.exit_code, emptied.error["id"], emptied.result["verdict"]) == (14, "OFF-1490", "emptied")
    delete(node)
    gone = node.run("backup", *node.place)
    assert (gone.exit_code, gone.result["verdict"], gone.result["missing"]) == (14, "gone", 2)
    assert f"restore {file}" in gone.error["hint"]
    assert (file.read_bytes(), node.files) == (whole, [file])


def test_a_deleted_topic_comes_back_at_its_offsets(node: Node) -> None:
    node.ksql.write([create_stream(1), *ODD])
    node.ksql.write([create_stream(2), create_stream(3)], at_once=True)
    node.ksql.write([create_stream(9)], commit=False)
    node.ksql.write([create_stream(4)])
    before = node.ksql.records()
    file = node.back_up()["file"]
    delete(node)
    done = node.run("restore", file, *node.ends, "--yes")
    assert done.exit_code == 0, done.stderr
    assert (done.result["same_offsets"], done.result["verified"], done.result["copy"]) == (True, True, None)
    assert node.ksql.records() == before, "offsets, times and headers too"
    configs = node.ksql.cluster.configs(node.ksql.topic)
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("-1", "delete")
    assert node.back_up()["appended"] == 0, "the file goes on"
    node.ksql.write([create_stream(5)])
    assert node.back_up()["appended"] == 1


def test_what_a_restore_replaces_is_kept_and_a_second_one_does_nothing(node: Node) -> None:
    node.ksql.write([create_stream(1)])
    file = node.back_up()["file"]
    delete(node)
    node.ksql.make_topic()
    node.ksql.write([create_stream(8)])
    asked = offsite("metastore", "restore", file, *node.ends)
    assert (asked.exit_code, node.ksql.written()) == (14, [create_stream(8)]), "nobody said yes"
    done = node.run("restore", file, *node.ends, "--yes")
    assert [each.record.value for each in load(Path(done.result["copy"])).commands] == [create_stream(8)[1]]
    assert node.ksql.written() == [create_stream(1)]
    again = node.run("restore", file, *node.ends, "--yes").result
    assert (again["copy"], again["verified"]) == (None, True)


def test_commands_behind_an_open_transaction_are_not_deleted_without_a_copy(node: Node) -> None:
    node.ksql.write([create_stream(1)])
    file = Path(node.back_up()["file"])
    with node.ksql.transaction() as other:
        other.produce(node.ksql.topic, b"{}", key=b'"stream/`O`/create"')
        other.flush(30)
        node.ksql.write([create_stream(2)])
        refused = node.run("restore", file, *node.ends, "--yes")
        assert (refused.exit_code, refused.error["id"]) == (14, "OFF-1422")
        assert "is open" in refused.error["message"]
    wait_until(lambda: node.ksql.written() == [create_stream(1), create_stream(2)])
    done = node.run("restore", file, *node.ends, "--yes")
    assert done.exit_code == 0, done.stderr
    assert len(load(Path(done.result["copy"])).commands) == 2


def test_commands_one_right_after_the_other_come_back_into_a_topic_of_small_messages(node: Node) -> None:
    node.ksql.cluster.admin.alter_topic_configs({node.ksql.topic: {"max.message.bytes": "10000"}})
    given = [create_stream(number, size=2000) for number in range(20)]
    plain = Producer({"bootstrap.servers": node.ksql.cluster.bootstrap, "batch.size": 5000})
    for key, value in given:
        plain.produce(node.ksql.topic, value, key=key)
    plain.flush(30)
    file = node.back_up()["file"]
    node.ksql.write([create_stream(99)])
    done = node.run("restore", file, *node.ends, "--yes")
    assert done.exit_code == 0, done.stderr
    assert (node.ksql.written(), done.result["same_offsets"]) == (given, True)


def test_a_command_of_a_time_to_come_is_restored_with_that_of_now(node: Node, tmp_path: Path) -> None:
    node.ksql.write([create_stream(8)])
    key, value = create_stream(1)
    tomorrow_ms = int(time.time() * 1000) + 86_400_000
    name = BackupName(topic=node.ksql.topic, made_ms=1000, form=NameForm.KLIP)
    with BackupFile.create(tmp_path, name, HEADER) as file:
        file.append([Record(0, tomorrow_ms, CREATE_TIME, key, value)])
    done = node.run("restore", file.path, *node.ends, "--yes")
    assert done.exit_code == 0, done.stderr
    (record,) = node.ksql.records()
    assert (record.key, record.timestamp_ms < tomorrow_ms) == (key, True)


def test_a_topic_that_would_lose_its_commands_again_gets_its_settings(node: Node) -> None:
    node.ksql.write([create_stream(1)])
    file = node.back_up()["file"]
    node.ksql.cluster.admin.alter_topic_configs({node.ksql.topic: {"retention.ms": "60000"}})
    assert node.run("restore", file, *node.ends).exit_code == 14, "nobody said yes"
    assert node.run("restore", file, *node.ends, "--yes").exit_code == 0
    assert node.ksql.cluster.configs(node.ksql.topic)["retention.ms"] == "-1"
    assert node.run("restore", file, *node.ends).exit_code == 0, "nothing is to be done"


def test_a_damaged_file_is_not_restored(node: Node) -> None:
    node.ksql.write([create_stream(1), create_stream(2)])
    file = Path(node.back_up()["file"])
    file.write_bytes(file.read_bytes().replace(b"`S2`", b"`S9`"))
    assert node.run("status", "--location", node.location).exit_code == 13
    refused = node.run("restore", file, *node.ends, "--yes")
    assert (refused.exit_code, refused.error["id"]) == (13, "OFF-1308")
    assert "line 2" in refused.error["message"]
    assert node.ksql.written() == [create_stream(1), create_stream(2)]


def test_what_ksqldb_would_not_read_is_told_and_left_out_when_asked(node: Node) -> None:
    newer = create_stream(2)[0], create_stream(2)[1].replace(b'"version":18', b'"version":99')
    node.ksql.write([create_stream(1), newer, (b'"stream/`a`/drop"', None)])
    file = node.back_up()["file"]
    delete(node)
    done = node.run("restore", file, *node.ends, "--yes", "--skip-incompatible")
    assert (done.result["skipped"], node.ksql.written()) == (2, [create_stream(1)])


def test_kafkas_console_producer_restores_a_file_as_the_proposal_says(node: Node) -> None:
    node.ksql.write([create_stream(1), ODD[0], create_stream(2)])
    file = Path(node.back_up()["file"])
    delete(node)
    node.ksql.make_topic()
    words = ["--property", "parse.key=true", "--property", "key.separator=:"]
    ends = ["--bootstrap-server", node.ksql.cluster.bootstrap, "--topic", node.ksql.topic]
    run_tool(CONSOLE_PRODUCER, [*ends, *words], stdin=file)
    key, value = ODD[0]
    assert [(json.loads(k), json.loads(v)) for k, v in node.ksql.written() if k and v] == [
        (json.loads(k), json.loads(v)) for k, v in (create_stream(1), (key, value), create_stream(2)) if k and v
    ]


def test_ksqldbs_names_and_properties(node: Node, tmp_path: Path) -> None:
    node.ksql.write([create_stream(1)])
    properties = tmp_path / "ksql-server.properties"
    lines = {
        "bootstrap.servers": node.ksql.cluster.bootstrap,
        "listeners": "http://127.0.0.1:8088",
        "ksql.service.id": node.ksql.service,
        "ksql.metastore.backup.location": node.location,
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    unsaid = node.run("backup", "--properties", properties)
    assert (unsaid.exit_code, unsaid.stdout, node.location.exists()) == (3, "", False)
    properties.write_text(properties.read_text() + "ksql.metastore.enable.backup=true\n")
    told = node.run("backup", "--properties", properties, "--ksqldb-names").result
    assert Path(told["file"]).name.startswith(f"backup_{node.ksql.topic}_1")
    properties.write_text(properties.read_text().replace("backup=true", "backup=false"))
    assert node.run("backup", "--properties", properties).stdout == ""
    assert "listeners" not in node.run("verify", told["file"], "--properties", properties).stderr


def test_each_command_is_on_the_disk_as_it_comes_and_one_process_writes(node: Node) -> None:
    node.ksql.write([create_stream(1)])
    with node.following():
        wait_until(lambda: node.location.is_dir() and bool(node.files) and load(node.files[0]).entries == 1)
        (file,) = node.files
        second = node.run("backup", *node.place)
        assert (second.exit_code, second.error["id"]) == (11, "OFF-1137")
        took_s = []
        for number in range(2, 8):
            node.ksql.write([create_stream(number)])
            began_s = time.monotonic()
            wait_until(lambda: load(file).entries == number)  # noqa: B023
            took_s.append(time.monotonic() - began_s)
        assert statistics.median(took_s) < 1, "one may come late on a busy machine"
        delete(node)
        node.ksql.make_topic()
        node.ksql.write([create_stream(100)])
        wait_until(lambda: len(node.files) == 2 and load(node.files[1]).entries == 1)
    assert load(file).entries == 7


def test_a_follower_that_is_told_to_end_says_what_it_did(node: Node) -> None:
    node.ksql.write([create_stream(1)])
    with node.following() as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["commands"] == 1
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "stopped: 1 command was added" in err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--location", "x"), "OFF-0202"),
        (("--topic", "a", "--service-id", "b", "--location", "x"), "OFF-0202"),
        (("--topic", "a", "--location", "s3://bucket/ms"), "OFF-0205"),
        (("--topic", "a/b", "--location", "x"), "OFF-0202"),
        (("--properties", "none"), "OFF-0202"),
    ],
)
def test_what_is_not_clear_is_asked(words: tuple[str, ...], error: str) -> None:
    done = offsite("metastore", "backup", "--bootstrap", "127.0.0.1:1", *words, "-o", "json")
    assert (done.exit_code, done.error["id"]) == (2, error)
    assert done.error["hint"]


@pytest.mark.parametrize(("words", "code"), [(("verify", "none"), 2), (("status", "--location", "none"), 3)])
def test_a_file_that_is_not_there_is_told(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    verb, *rest, name = words
    assert offsite("metastore", verb, *rest, tmp_path / name, "-o", "json").exit_code == code


def test_a_topic_that_is_not_there_is_told(broker: SandboxInfo, tmp_path: Path) -> None:
    place = ["--bootstrap", broker.bootstrap, "--service-id", "typo", "--location", tmp_path / "b"]
    done = offsite("metastore", "backup", *place, "-o", "json")
    assert (done.exit_code != 0, "there is no topic" in done.error["message"]) == (True, True)


def test_a_topic_of_several_partitions_is_no_command_topic(broker: SandboxInfo, tmp_path: Path) -> None:
    topic = Cluster(broker.bootstrap).make_topic(partitions=2)
    place = ["--bootstrap", broker.bootstrap, "--topic", topic, "--location", tmp_path / "b"]
    done = offsite("metastore", "backup", *place, "-o", "json")
    assert (done.exit_code, done.error["id"]) == (2, "OFF-0217")


@pytest.mark.parametrize("at_once", [False, True])
def test_commands_larger_than_a_batch_by_default_come_back(node: Node, *, at_once: bool) -> None:
    node.ksql.cluster.admin.alter_topic_configs({node.ksql.topic: {"max.message.bytes": str(8_000_000)}})
    sizes = [10, 3_000_000, 600_000, 600_000, 7_000_000]
    node.ksql.write([create_stream(n, size=size) for n, size in enumerate(sizes)], at_once=at_once)
    before = node.ksql.records()
    file = node.back_up()["file"]
    delete(node)
    done = node.run("restore", file, *node.ends, "--yes")
    assert (done.exit_code, done.result["same_offsets"]) == (0, True), done.stderr
    assert node.ksql.records() == before
    assert node.back_up()["appended"] == 0
    assert node.ksql.cluster.configs(node.ksql.topic)["max.message.bytes"] == str(8_000_000), "as the file tells"
