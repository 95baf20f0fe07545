"""`offsite checkpoint` beside producers: taken in the background, killed, on request and on schedule, cluster gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from offsite.checkpoint.request import request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.checkpoint.status import Checkpoints, CheckpointStatus
from offsite.demo.data import BASE_MS, DemoMessage
from offsite.kafka.cluster import connect
from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.range import TopicPartition
from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.inline_runner import InlineRunner
from tests.integration.e2e.command import offsite, start, succeed
from tests.integration.e2e.site import BACKUP, Site, new_name, produce_to
from tests.integration.e2e.test_follow import producing
from tests.integration.kafka.cluster import Cluster
from tests.processes import processes_with, wait_until

MARK = "OFFSITE_CHECKPOINT_TEST"
NOBODY = "127.0.0.1:1"


class Place:
    """A topic of two partitions that is backed up, and the commands for it."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap, self.cluster = bootstrap, Cluster(bootstrap)
        self.topic, self.mark = new_name("checkpoint"), {MARK: str(folder)}
        self.cluster.admin.create_topics([NewTopic(name=self.topic, partitions=2)])
        self.produce(1000)
        self.names: list[object] = ["--repo", folder / "repo", "--backup", BACKUP]
        repository = Repository.init(open_store(str(folder / "repo")))
        self.site = Site(self.cluster, repository, InlineRunner())
        self.site.back_up(self.topic)

    def produce(self, count: int) -> None:
        messages = [DemoMessage(key=b"%d" % n, value=b"v" * 100, timestamp_ms=BASE_MS + n) for n in range(count)]
        produce_to(self.bootstrap, self.topic, messages)

    def take(self, *words: object) -> Any:
        given = [*self.names, "--bootstrap", self.bootstrap, *words]
        return succeed("checkpoint", "take", *given, environment=self.mark)

    def take_here(self, *checkpoints: int) -> None:
        """In this process, for who looks at them afterwards."""
        for checkpoint in checkpoints:
            request_checkpoint(self.site.backup, checkpoint)
        cluster = connect(self.bootstrap, None)
        server = CheckpointServer(
            repository=self.site.repository, backup=self.site.backup, cluster=cluster, runner=self.site.spark
        )
        assert server.serve()

    def show(self, checkpoint: int) -> Any:
        return succeed("checkpoint", "show", checkpoint, *self.names)

    def checkpoints(self) -> list[Any]:
        return list(succeed("checkpoint", "list", *self.names)["checkpoints"])

    def known(self) -> list[CheckpointStatus]:
        """What each has come to, newest first, for who waits: commands would take the core from what is waited for."""
        return [each.status for each in Checkpoints(self.site.backup).list().checkpoints]

    def run(self) -> Any:
        return succeed("backup", "run", *self.names, "--bootstrap", self.bootstrap)

    def restored_ends(self, checkpoint: int) -> dict[int, int]:
        target = new_name(self.topic)
        into = ["--bootstrap", self.bootstrap, "--rename", f"{self.topic}={target}", "--offsets", "preserve", "--yes"]
        succeed("restore", "run", *self.names, *into, "--checkpoint", checkpoint)
        keys = [TopicPartition(topic=target, partition=number) for number in (0, 1)]
        return {key.partition: end for key, end in self.cluster.admin.end_offsets(keys).items()}

    @property
    def processes(self) -> list[int]:
        return list(processes_with(MARK, self.mark[MARK]))

    @contextmanager
    def following(self, *words: object) -> Iterator[None]:
        given = [*self.names, "--bootstrap", self.bootstrap, "--interval", "1s", *words]
        running = start("backup", "run", "--follow", *given, "-o", "jsonl", environment=self.mark)
        try:
            yield
        finally:
            running.send_signal(signal.SIGTERM)
            _, err = running.communicate(timeout=90)
        assert running.returncode == 0, err


@pytest.fixture
def place(broker: SandboxInfo, tmp_path: Path) -> Iterator[Place]:
    place = Place(broker.bootstrap, tmp_path)
    yield place
    wait_until(lambda: not place.processes, "every process to end")


def ends(report: Any) -> dict[int, int]:
    return {each["partition"]: each["end"] for each in report["details"]}


@pytest.mark.soak
def test_one_taken_in_the_background_ends_where_it_was_taken_while_producers_go_on(place: Place) -> None:
    with producing(place.bootstrap, [place.topic]):
        report = place.take("--id", 7)
        assert report["status"] in {"ongoing", "completed"}
        wait_until(lambda: place.known() == ["completed"], "the checkpoint to complete")
        assert place.show(7)["status"] == "completed"
        assert place.run()["records"] > 0
    assert place.restored_ends(7) == ends(place.show(7)) == ends(report)
    assert place.take("--id", 7, "--wait")["commit"] == place.show(7)["commit"]
    refused = offsite("checkpoint", "take", *place.names, "--bootstrap", NOBODY, "--id", 6, "-o", "json")
    assert (refused.exit_code, refused.error["id"]) == (14, "OFF-1470")
    assert [(each["id"], each["status"]) for each in place.checkpoints()] == [(7, "completed")]


def test_one_whose_process_is_killed_is_never_called_completed_and_the_next_id_works(place: Place) -> None:
    place.produce(20_000)
    assert place.take("--id", 7)["status"] == "ongoing"
    for pid in place.processes:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not place.processes, "every process to end")
    wait_until(lambda: place.show(7)["status"] != "ongoing", "its files to be closed, which comes a little later")
    killed = place.show(7)
    assert (killed["status"], killed["commit"]) == ("incomplete", 0)
    assert place.take("--id", 8, "--wait")["status"] == "completed"
    after = place.show(7)
    assert (after["status"], "another pass" in after["failure_reason"]) == ("failed", True)
    again = offsite("checkpoint", "take", *place.names, "--bootstrap", place.bootstrap, "--id", 7, "-o", "json")
    assert (again.exit_code, again.error["id"]) == (14, "OFF-1470")


def test_one_that_cannot_begin_has_failed_and_says_why(place: Place) -> None:
    done = offsite("checkpoint", "take", *place.names, "--bootstrap", NOBODY, "--id", 7, "--wait", "-o", "json")
    assert done.exit_code == 15
    assert (place.show(7)["status"], "OFF-1501" in place.show(7)["failure_reason"]) == ("failed", True)


def test_who_can_take_none_asks_for_none(place: Place, tmp_path: Path) -> None:
    """Else whoever takes the next one would take this one, too, though it was said to have failed."""
    missing = offsite("checkpoint", "take", *place.names, "--id", 7)
    unread = offsite("checkpoint", "take", *place.names, "--id", 7, "--kafka-config", tmp_path / "none")
    assert (missing.error["id"], unread.error["id"]) == ("OFF-0204", "OFF-0204")
    assert succeed("checkpoint", "show", 7, *place.names)["status"] == "doesNotExist"


def test_a_run_that_follows_takes_those_that_are_due_and_those_that_are_asked_for(place: Place) -> None:
    with producing(place.bootstrap, [place.topic]), place.following("--every", "5s"):
        wait_until(lambda: len(place.known()) >= 2, "two that were due")
        asked = place.take("--wait")
        assert asked["status"] == "completed"
    found = place.checkpoints()
    assert {each["status"] for each in found} == {"completed"}
    assert [each["id"] for each in found] == sorted((each["id"] for each in found), reverse=True)
    assert place.restored_ends(asked["id"]) == ends(asked)


def test_with_the_cluster_gone_all_is_known_and_one_is_deleted(place: Place) -> None:
    place.take_here(7, 8)
    assert place.show(7)["status"] == "completed"  # `show` is never told of a cluster
    assert succeed("checkpoint", "explain", 7, *place.names)["classes"] == [[place.topic, "unchanged"]]
    assert succeed("checkpoint", "delete", 7, *place.names, "--yes")["status"] == "deleted"
    assert [(each["id"], each["status"]) for each in place.checkpoints()] == [(8, "completed"), (7, "deleted")]
    gone = offsite("restore", "plan", *place.names, "--bootstrap", place.bootstrap, "--checkpoint", 7, "-o", "json")
    assert (gone.exit_code, gone.error["id"]) == (2, "OFF-0208")
