"""A restore point is written as two files of YAML, and each thing that they leave out is named."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from offsite.archives.strimzi.manifest import document_text
from offsite.cli.app import app
from offsite.cli.commands.export_strimzi import how_to_apply
from offsite.model.errors import BadOption, NoSuchTopic
from tests.unit.archives.strimzi.settings import SAYABLE, SHAPES, UNSAYABLE, documents, make_backup


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a backup of one commit with topics, users, rights, and one right that no resource can say."""
    make_backup(tmp_path, replace(SAYABLE, acls=(*(SAYABLE.acls or ()), next(iter(UNSAYABLE)))))  # type: ignore[arg-type]
    return tmp_path


def export(folder: Path, *words: str) -> Result:
    named = ("--repo", str(folder / "repo"), "--backup", "shop")
    return CliRunner().invoke(app, ["export", str(folder / "out"), "--as", "strimzi", *named, *words])


def refusal(ended: Result) -> str:
    assert isinstance(ended.exception, BadOption)
    return ended.exception.message


def test_topics_and_users_are_written_with_the_label_of_their_cluster(folder: Path) -> None:
    ended = export(folder, "--cluster", "prod", "-o", "json")
    assert ended.exit_code == 3, ended.output
    topics, users = documents(folder / "out" / "kafkatopics.yaml"), documents(folder / "out" / "kafkausers.yaml")
    assert [topic["spec"].get("topicName", topic["metadata"]["name"]) for topic in topics] == ["Payments", "orders"]
    assert [user["metadata"]["name"] for user in users] == ["alice", "billing", "bob", "oauth.app"]
    assert {resource["apiVersion"] for resource in (*topics, *users)} == {"kafka.strimzi.io/v1"}
    assert all(resource["metadata"]["labels"] == {"strimzi.io/cluster": "prod"} for resource in (*topics, *users))
    result = json.loads(ended.stdout)
    assert (result["topics"], result["users"]) == (2, 4)
    assert result["left_out"] == ["__consumer_offsets", "__own"]


@pytest.mark.parametrize("cluster", ["Prod", "my cluster", "a" * 64, "-", "x\ny: z"])
def test_a_cluster_whose_name_kubernetes_refuses_is_refused(folder: Path, cluster: str) -> None:
    assert "no resource Kafka may have that name" in refusal(export(folder, f"--cluster={cluster}"))
    assert not (folder / "out").exists()


def test_what_is_not_said_is_in_the_file_in_the_result_and_in_the_exit_code(folder: Path) -> None:
    ended = export(folder)
    sentence = "ACL ALLOW User:* READ on TOPIC LITERAL:orders: no KafkaUser may be for the user *"
    assert ended.exit_code == 3
    assert f"not in the resources: {sentence}" in ended.stdout
    assert f"# - {sentence}" in (folder / "out" / "kafkausers.yaml").read_text(encoding="utf-8")


def test_what_strimzi_takes_away_is_said_before_anybody_applies_it(folder: Path) -> None:
    """A restore holds a retention back that would delete its records, and brokers would get it by the resource."""
    ended = export(folder)
    printed = ended.stdout.splitlines()
    assert any("note: the Topic Operator gives a topic the settings of its resource" in line for line in printed[:-1])
    assert any("note: the User Operator deletes the ACLs" in line for line in printed[:-1])
    assert printed[-1] == f"next, after a restore: kubectl apply -f {folder / 'out'}"
    texts = [(folder / "out" / name).read_text(encoding="utf-8") for name in ("kafkatopics.yaml", "kafkausers.yaml")]
    assert "# Note: the Topic Operator gives" in texts[0]
    assert "retention.ms: -1" in texts[0]
    assert "# Note: the User Operator deletes" in texts[1]


def test_the_next_command_can_be_copied(folder: Path) -> None:
    named = ("--repo", str(folder / "repo"), "--backup", "shop")
    ended = CliRunner().invoke(app, ["export", str(folder / "a b'$c"), "--as", "strimzi", *named])
    command = ended.stdout.splitlines()[-1].partition(": ")[2]
    assert shlex.split(command) == ["kubectl", "apply", "-f", str(folder / "a b'$c")]


def test_kubectl_is_sent_to_no_object_store() -> None:
    assert how_to_apply("s3://bucket/shop").startswith("copy the two files out of s3://bucket/shop into a folder")


def test_a_topic_whose_settings_nobody_could_read_is_named(tmp_path: Path) -> None:
    make_backup(tmp_path, SAYABLE, shapes=[replace(SHAPES[0], configs=(), configs_unread=True)])
    ended = export(tmp_path, "-o", "json")
    sentence = "settings of topic orders: the backup may not read them"
    assert ended.exit_code == 3
    assert json.loads(ended.stdout)["not_said"] == [sentence]
    assert f"# - {sentence}" in (tmp_path / "out" / "kafkatopics.yaml").read_text(encoding="utf-8")


def test_patterns_that_select_nothing_replace_no_earlier_export(folder: Path) -> None:
    export(folder)
    ended = export(folder, "--topics", "nothing-*")
    assert isinstance(ended.exception, NoSuchTopic)
    assert len(documents(folder / "out" / "kafkatopics.yaml")) == 2


def test_a_restore_point_without_settings_says_so(tmp_path: Path) -> None:
    make_backup(tmp_path, None)
    ended = export(tmp_path)
    assert ended.exit_code == 3
    assert "users: commit 1 has no settings of the cluster" in ended.stdout
    assert documents(tmp_path / "out" / "kafkausers.yaml") == []


def test_a_topic_of_a_program_is_written_where_it_is_named_in_full(folder: Path) -> None:
    export(folder, "--topics", "__own,ord*", "--api-version", "v1beta2")
    topics = documents(folder / "out" / "kafkatopics.yaml")
    assert [topic["spec"].get("topicName", topic["metadata"]["name"]) for topic in topics] == ["__own", "orders"]
    assert {topic["apiVersion"] for topic in topics} == {"kafka.strimzi.io/v1beta2"}


def test_the_same_export_again_replaces_its_files_and_no_file_of_others(folder: Path) -> None:
    export(folder, "--topics", "orders")
    export(folder)
    assert len(documents(folder / "out" / "kafkatopics.yaml")) == 2
    (folder / "out" / "kafkausers.yaml").write_text("kind: KafkaUser\n", encoding="utf-8")
    ended = export(folder, "--topics", "orders")
    assert "offsite did not write the existing kafkausers.yaml" in refusal(ended)
    assert (folder / "out" / "kafkausers.yaml").read_text(encoding="utf-8") == "kind: KafkaUser\n"
    assert len(documents(folder / "out" / "kafkatopics.yaml")) == 2, "nothing was written"


@pytest.mark.parametrize(
    "words",
    [
        ("--format", "avro"),
        ("--from", "kafka"),
        ("--groups", "all"),
        ("--lossy",),
        ("--follow",),
        ("--dry-run",),
        ("--interval", "5s"),
        ("--give-up-after", "1h"),
        ("--at", "1h-ago"),
        ("--before", "topic=orders,partition=0,offset=1"),
        ("--partitions", "orders:0"),
        ("--isolation", "read_uncommitted"),
    ],
    ids=" ".join,
)
def test_options_for_records_are_refused(folder: Path, words: tuple[str, ...]) -> None:
    ended = export(folder, *words)
    assert f"{words[0]} is for records, and --as strimzi writes none" in refusal(ended)
    assert not (folder / "out").exists()


@pytest.mark.parametrize("words", [("--cluster", "prod"), ("--api-version", "v1beta2")], ids=" ".join)
def test_an_archive_takes_no_options_for_resources(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = CliRunner().invoke(app, ["export", str(tmp_path / "out"), "--format", "avro", *words])
    assert "work only with --as strimzi" in refusal(ended)


def test_an_export_says_what_it_writes(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["export", str(tmp_path / "out"), "--repo", str(tmp_path), "--backup", "shop"])
    assert "nothing says what to write" in refusal(ended)


SCALARS = st.text() | st.integers() | st.booleans() | st.sampled_from(["yes", "null", "1e3", "a: b", "- x", "#", "Off"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=9
)


@given(st.dictionaries(st.text(), VALUES, min_size=1, max_size=4))
def test_a_reader_of_yaml_reads_what_was_written(document: dict[str, Any]) -> None:
    assert yaml.safe_load(document_text(document)) == document
