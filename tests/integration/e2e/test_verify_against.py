"""`offsite verify --against` as scripts use it: exit codes, what the document says, what a person reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.model.units import format_time
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import Finished, offsite, succeed
from tests.integration.e2e.site import back_up_here, new_name, produce_to
from tests.integration.kafka.cluster import Cluster

COUNT = 500


class Copied:
    """A backup of one topic, restored under another name beside it."""

    def __init__(self, cluster: Cluster, repository: Path) -> None:
        self.cluster = cluster
        self.topic = cluster.make_topic(partitions=2)
        self.target = new_name(self.topic)
        produce_to(cluster.bootstrap, self.topic, messages(0, COUNT))
        self.names = ["--repo", repository, "--backup", "b"]
        succeed("init", repository)
        back_up_here(cluster.bootstrap, repository, "b", self.topic)
        self.restored = succeed("restore", "run", *self.restore_options(), "--yes")

    def restore_options(self) -> list[object]:
        return [*self.names, "--bootstrap", self.cluster.bootstrap, "--rename", f"{self.topic}={self.target}"]

    def verify(self, *more: object) -> Finished:
        return offsite("verify", *self.names, "--against", self.cluster.bootstrap, *more)


@pytest.fixture(scope="module")
def copied(broker: SandboxInfo, tmp_path_factory: pytest.TempPathFactory) -> Copied:
    return Copied(Cluster(broker.bootstrap), tmp_path_factory.mktemp("copied") / "repository")


def messages(start: int, end: int) -> list[DemoMessage]:
    return [
        DemoMessage(key=b"k", value=b"%d" % n, timestamp_ms=BASE_MS + n, partition=n % 2) for n in range(start, end)
    ]


def test_a_restore_says_that_it_was_verified(copied: Copied) -> None:
    assert (copied.restored["verified"], copied.restored["findings"]) == (True, [])


def test_the_source_and_the_restored_topic_are_both_the_same(copied: Copied) -> None:
    source = copied.verify()
    assert (source.exit_code, source.result["ok"], source.result["damaged"]) == (0, True, [])
    assert source.result["against"]["same_offsets"] == [copied.topic]
    restored = copied.verify("--restore", copied.restored["restore"], "--deep")
    assert (restored.exit_code, restored.result["against"]["records"]) == (0, COUNT)
    digests = [
        [each["digest"] for each in found.result["against"]["topics"][name]["partitions"]]
        for found, name in ((source, copied.topic), (restored, copied.target))
    ]
    assert digests[0] == digests[1]
    assert all(each.startswith("blake3:") for each in digests[0])


@pytest.mark.soak
def test_what_was_written_since_is_told_and_counts_only_with_exact(copied: Copied) -> None:
    produce_to(copied.cluster.bootstrap, copied.target, messages(COUNT, COUNT + 20))
    restore = ["--restore", copied.restored["restore"]]
    found = copied.verify(*restore)
    assert found.exit_code == 0
    assert sum(each["later_offsets"] for each in found.result["against"]["topics"][copied.target]["partitions"]) == 20
    exact = copied.verify(*restore, "--exact")
    assert (exact.exit_code, exact.result["ok"]) == (13, False)
    assert {(each["kind"], each["records"]) for each in exact.result["against"]["findings"]} == {("extra", 10)}


def test_a_cluster_without_the_topic_ends_with_13_and_names_it(copied: Copied, second_broker: SandboxInfo) -> None:
    found = offsite("verify", *copied.names, "--against", second_broker.bootstrap)
    assert (found.exit_code, found.result["against"]["findings"][0]["kind"]) == (13, "topic")
    assert found.result["against"]["findings"][0]["topic"] == copied.topic


def test_a_topic_without_records_is_never_called_verified(copied: Copied, tmp_path: Path) -> None:
    empty = copied.cluster.make_topic()
    names = ["--repo", tmp_path / "repository", "--backup", "e"]
    bootstrap = copied.cluster.bootstrap
    succeed("init", tmp_path / "repository")
    back_up_here(bootstrap, tmp_path / "repository", "e", empty)
    found = offsite("verify", *names, "--against", bootstrap)
    assert (found.exit_code, found.result["ok"], found.result["against"]["verified"]) == (3, False, None)
    ends = [*names, "--bootstrap", bootstrap, "--rename", f"{empty}={new_name(empty)}", "--yes"]
    restored = offsite("restore", "run", *ends, "-o", "table")
    assert restored.exit_code == 3
    assert f"nothing was restored: at commit 1 the backup has no records of {empty}" in restored.stdout
    assert "verified" not in restored.stdout
    drilled = offsite("restore", "drill", *names, "--bootstrap", bootstrap)
    assert (drilled.exit_code, drilled.result["proven"]) == (3, None)
    assert "has no records" in drilled.result["problem"]


@pytest.mark.soak
def test_a_backup_whose_records_the_command_left_out_is_not_called_empty(copied: Copied) -> None:
    early, before = format_time(BASE_MS - 1), f"topic={copied.topic},partition=0,offset=0"
    ends = [*copied.names, "--bootstrap", copied.cluster.bootstrap, "--yes"]
    for options, excluded in (
        (["--at", early], [([f"--at {early}"], COUNT)]),
        (
            ["--partitions", f"{copied.topic}:0", "--before", before],
            [([f"--partitions {copied.topic}:0"], COUNT // 2), ([f"--before {copied.topic}/0=0"], COUNT // 2)],
        ),
    ):
        rename = [*options, "--rename"]
        found = offsite("restore", "run", *ends, *rename, f"{copied.topic}={new_name(copied.topic)}")
        assert (found.exit_code, found.result["records"]) == (3, 0)
        assert [(each["options"], each["records"]) for each in found.result["excluded"]] == excluded
        table = offsite("restore", "run", *ends, *rename, f"{copied.topic}={new_name(copied.topic)}", "-o", "table")
        assert table.exit_code == 3
        for said in (table.stdout, found.result["problem"]):
            assert "has no records" not in said
            assert f"of the {COUNT} records of {copied.topic} that the backup has at commit 1" in said
            assert all(f"{each[0]} left out {records}" in said for each, records in excluded)


@pytest.mark.parametrize(
    ("options", "id_"),
    [
        (["--restore", "20200101-000000-00000000"], "OFF-0209"),
        (["--topics", "no-such-topic"], "OFF-0203"),
        (["--commit", "99"], "OFF-0208"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_its_reason(copied: Copied, options: list[str], id_: str) -> None:
    found = copied.verify(*options)
    assert (found.exit_code, found.error["id"]) == (2, id_)


def test_comparing_options_without_a_cluster_are_refused(copied: Copied) -> None:
    found = offsite("verify", *copied.names, "--exact")
    assert (found.exit_code, found.error["id"]) == (2, "OFF-0202")
