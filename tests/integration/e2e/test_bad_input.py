"""Wrong input is told by id, exit code and hint, and changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.model.errors import (
    BackupExists,
    BackupNotFound,
    BadKafkaConfig,
    BadName,
    BadOption,
    BadRepositoryUrl,
    ConfirmationMissing,
    FormatTooNew,
    KafkaAuthenticationFailed,
    KafkaUnreachable,
    NoSuchRestorePoint,
    NoSuchTopic,
    OffsiteError,
    OtherCluster,
    RepositoryExists,
    RepositoryNotFound,
    StoreDenied,
    TargetNotEmpty,
)
from offsite.sandbox import SandboxInfo
from offsite.sandbox.settings import free_ports
from tests.conftest import SecureBroker
from tests.integration.e2e.command import Finished, files_under, offsite, succeed
from tests.integration.e2e.site import back_up_here, produce_to
from tests.integration.kafka.cluster import Cluster

UNREACHABLE_MAX_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A repository with the backup `b` of `topics[0]`; `topics[1]` is on the cluster and in no backup."""

    repository: Path
    cluster: Cluster
    topics: tuple[str, str]

    @property
    def ends(self) -> list[object]:
        return ["--repo", self.repository, "--bootstrap", self.cluster.bootstrap, "--backup", "b"]


@pytest.fixture(scope="module")
def given(broker: SandboxInfo, tmp_path_factory: pytest.TempPathFactory) -> Given:
    repository, cluster = tmp_path_factory.mktemp("given") / "repository", Cluster(broker.bootstrap)
    topics = (cluster.make_topic(), cluster.make_topic())
    for topic in topics:
        produce_to(cluster.bootstrap, topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)])
    found = Given(repository=repository, cluster=cluster, topics=topics)
    succeed("init", repository)
    back_up_here(cluster.bootstrap, repository, "b", topics[0])
    return found


def assert_refused(done: Finished, kind: type[OffsiteError]) -> None:
    assert done.exit_code == kind.exit_code, done.stderr
    assert done.error["id"] == kind.id, done.error
    assert done.error["exit_code"] == kind.exit_code
    assert done.error["hint"]
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


Arguments = Callable[[Given], list[object]]
BAD: dict[str, tuple[type[OffsiteError], Arguments]] = {
    "unknown topic": (NoSuchTopic, lambda g: ["backup", "run", *other(g, "nowhere")]),
    "pattern that matches nothing": (NoSuchTopic, lambda g: ["backup", "plan", *other(g, "nowhere-*")]),
    "pattern that is none": (BadOption, lambda g: ["backup", "plan", *other(g, "regex:(")]),
    "first run without topics": (BadOption, lambda g: ["backup", "plan", *other(g)]),
    "another selection": (BackupExists, lambda g: ["backup", "plan", *g.ends, "--topics", g.topics[1]]),
    "slash in a backup's name": (BadName, lambda g: ["backup", "plan", *other(g, g.topics[0], backup="a/b")]),
    "way out in a backup's name": (BadName, lambda g: ["backup", "run", *other(g, g.topics[0], backup="..")]),
    "empty backup name": (BadName, lambda g: ["backup", "plan", *other(g, g.topics[0], backup="")]),
    "no bootstrap": (BadKafkaConfig, lambda g: ["backup", "plan", "--repo", g.repository, "--backup", "b"]),
    "no such backup to show": (BackupNotFound, lambda g: ["show", "other", "--repo", g.repository]),
    "no such backup to verify": (BackupNotFound, lambda g: ["verify", "--repo", g.repository, "--backup", "other"]),
    "no such commit to show": (NoSuchRestorePoint, lambda g: ["show", "b", "--repo", g.repository, "--commit", "99"]),
    "no such commit": (NoSuchRestorePoint, lambda g: ["restore", "plan", *g.ends, "--commit", "99"]),
    "time before the first commit": (
        NoSuchRestorePoint,
        lambda g: ["restore", "plan", *g.ends, "--committed-at", "2001-01-01"],
    ),
    "time that is none": (BadOption, lambda g: ["restore", "plan", *g.ends, "--at", "yesterdayish"]),
    "topic not in the backup": (NoSuchTopic, lambda g: ["restore", "plan", *g.ends, "--topics", g.topics[1]]),
    "target with records": (TargetNotEmpty, lambda g: ["restore", "run", *g.ends, "--yes"]),
    "rename that is none": (BadOption, lambda g: ["restore", "plan", *g.ends, "--rename", "a"]),
    "rename of another topic": (BadOption, lambda g: ["restore", "plan", *g.ends, "--rename", "x=y"]),
    "rename to no topic name": (
        BadName,
        lambda g: ["restore", "plan", *g.ends, "--rename", f"{g.topics[0]}=a/b"],
    ),
    "restore without a yes": (
        ConfirmationMissing,
        lambda g: ["restore", "run", *g.ends, "--rename", f"{g.topics[0]}=unwanted"],
    ),
    "repository that is none": (RepositoryNotFound, lambda g: ["list", "--repo", g.repository / "backups"]),
    "repository that is a file": (RepositoryNotFound, lambda g: ["list", "--repo", g.repository / "offsite.json"]),
    "repository of no known kind": (BadRepositoryUrl, lambda _: ["list", "--repo", "ftp://somewhere/else"]),
    "second init": (RepositoryExists, lambda g: ["init", g.repository]),
}


@pytest.mark.parametrize(("kind", "arguments"), BAD.values(), ids=BAD.keys())
def test_wrong_input_is_told_and_changes_nothing(given: Given, kind: type[OffsiteError], arguments: Arguments) -> None:
    files, topics = files_under(given.repository), set(given.cluster.admin.topics())
    assert_refused(offsite(*arguments(given)), kind)
    assert files_under(given.repository) == files
    assert set(given.cluster.admin.topics()) == topics


def other(given: Given, *topics: str, backup: str = "other") -> list[object]:
    ends = ["--repo", given.repository, "--bootstrap", given.cluster.bootstrap, "--backup", backup]
    return [*ends, *(["--topics", ",".join(topics)] if topics else [])]


def at(bootstrap: str, given: Given) -> list[object]:
    return ["--repo", given.repository, "--bootstrap", bootstrap, "--backup", "b"]


def test_two_topics_under_one_name_are_refused(given: Given, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    succeed("init", repository)
    ends = ["--repo", repository, "--bootstrap", given.cluster.bootstrap, "--backup", "two"]
    back_up_here(given.cluster.bootstrap, repository, "two", *given.topics)
    renames = ",".join(f"{topic}=collision" for topic in given.topics)
    assert_refused(offsite("restore", "plan", *ends, "--rename", renames), BadOption)
    assert "collision" not in given.cluster.admin.topics()


def test_a_backup_of_another_cluster_is_refused(given: Given, second_broker: SandboxInfo) -> None:
    done = offsite("backup", "plan", *at(second_broker.bootstrap, given))
    assert_refused(done, OtherCluster)


@pytest.mark.parametrize("arguments", [["backup", "run"], ["restore", "run", "--yes"]], ids=["backup", "restore"])
def test_a_cluster_that_does_not_answer_is_told_in_time(given: Given, arguments: list[object]) -> None:
    done = offsite(*arguments, *at(f"127.0.0.1:{free_ports(1)[0]}", given))
    assert_refused(done, KafkaUnreachable)
    assert done.took_s < UNREACHABLE_MAX_S


@pytest.mark.soak
def test_a_wrong_password_is_told(given: Given, secure_broker: SecureBroker, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        f"bootstrap.servers={secure_broker.info.listeners['SASL_PLAINTEXT']}\n"
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=wrong-secret\n"
    )
    ends = ["--repo", given.repository, "--kafka-config", properties, "--backup", "c", "--topics", "*"]
    done = offsite("backup", "run", *ends)
    assert_refused(done, KafkaAuthenticationFailed)
    assert "wrong-secret" not in done.stderr


PROPERTIES = {
    "not properties": b"\x00\xff\x00binary",
    "no brokers": b"security.protocol=PLAINTEXT\n",
    "unknown protocol": b"bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_TSL\n",
    "unknown mechanism": b"bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAINER\n",
}


@pytest.mark.parametrize("content", PROPERTIES.values(), ids=PROPERTIES.keys())
def test_a_client_properties_that_cannot_be_used_is_refused(given: Given, tmp_path: Path, content: bytes) -> None:
    properties = tmp_path / "client.properties"
    properties.write_bytes(content)
    done = offsite("backup", "plan", "--repo", given.repository, "--kafka-config", properties, "--backup", "b")
    assert_refused(done, BadKafkaConfig)


def test_a_client_properties_that_is_not_there_is_refused(given: Given, tmp_path: Path) -> None:
    missing = tmp_path / "client.properties"
    done = offsite("backup", "plan", "--repo", given.repository, "--kafka-config", missing, "--backup", "b")
    assert_refused(done, BadKafkaConfig)


@pytest.mark.parametrize("name", ["offsite.json", "backups/b/backup.json", "backups/b/commits"])
def test_a_newer_format_is_refused_and_left_alone(given: Given, tmp_path: Path, name: str) -> None:
    repository = copy_of(given.repository, tmp_path / "newer")
    changed = repository / name
    if changed.is_dir():
        changed = max(changed.iterdir())
    document = json.loads(changed.read_text())
    changed.write_text(json.dumps(document | {"format": 99}, sort_keys=True, separators=(",", ":")))
    catalog = repository / "backups" / "b" / "catalog"
    assert not catalog.exists()
    before = files_under(repository)
    for arguments in (["show", "b", "--repo", repository], ["backup", "plan", *given.ends, "--repo", repository]):
        assert_refused(offsite(*arguments), FormatTooNew)
    assert files_under(repository) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everywhere")
@pytest.mark.parametrize("mode", [0o000, 0o500], ids=["unreadable", "read-only"])
def test_a_folder_without_the_rights_is_told(given: Given, tmp_path: Path, mode: int) -> None:
    repository = copy_of(given.repository, tmp_path / "locked")
    for each in [*repository.rglob("*"), repository]:
        if each.is_dir():
            each.chmod(mode)
    done = offsite("backup", "run", *given.ends, "--repo", repository)
    for each in [repository, *repository.rglob("*")]:
        if each.is_dir():
            each.chmod(0o700)
    assert_refused(done, StoreDenied)


def copy_of(folder: Path, target: Path) -> Path:
    for name, content in files_under(folder).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)
    return target


def environment_of(given: Given) -> Mapping[str, str]:
    return {"OFFSITE_REPO": str(given.repository), "OFFSITE_BOOTSTRAP": given.cluster.bootstrap}


def test_the_environment_stands_in_for_options(given: Given) -> None:
    planned = succeed("backup", "plan", "--backup", "b", environment=environment_of(given))
    assert planned["continues_from_commit"] == 1
