"""The same restore command twice: the second one is told of the first, or takes it over, and what the first one still
does then changes nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from offsite.model.errors import Refused, RestoreRunning, RestoreTakenOver, WriterFenced
from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.inline_runner import InlineRunner
from tests.integration.e2e.command import Finished, offsite, start
from tests.integration.e2e.site import BACKUP, Site, new_name, produce_to
from tests.integration.e2e.test_crash import assert_no_process_left, assert_same, numbered
from tests.integration.kafka.cluster import Cluster
from tests.processes import processes_with, wait_until

MARK = "OFFSITE_TWO_RESTORES"
PARTITIONS, PARTS, RECORDS = 2, 5, 4000
ROUNDS = 1
SOAK_ROUNDS = max(1, int(os.environ.get("OFFSITE_SOAK_ROUNDS", "200")) // 20)
"""In each mode; most rounds are those of `test_restore_fence`, which need no JVM, and run both modes in `make test`."""
LATER_S = 1.5

rounds = pytest.mark.parametrize("count", [ROUNDS, pytest.param(SOAK_ROUNDS, marks=pytest.mark.soak)])


class Restoring:
    """`restore run` of one backup under another name."""

    def __init__(self, broker: SandboxInfo, folder: Path, offsets: str) -> None:
        self.cluster, self.folder = Cluster(broker.bootstrap), folder
        self.topic = self.cluster.make_topic(partitions=PARTITIONS)
        for part in range(PARTS):
            records = numbered(part * RECORDS, (part + 1) * RECORDS, partitions=PARTITIONS, size_bytes=1000)
            produce_to(broker.bootstrap, self.topic, records)
        repository = folder / "repository"
        Site(self.cluster, Repository.init(open_store(str(repository))), InlineRunner()).back_up(self.topic)
        self.ends = ["--repo", repository, "--bootstrap", broker.bootstrap, "--backup", BACKUP]
        self.offsets = offsets
        self.again()

    def again(self) -> None:
        self.target = new_name(self.topic)

    @property
    def command(self) -> list[object]:
        renamed = f"{self.topic}={self.target}"
        return ["restore", "run", *self.ends, "--rename", renamed, "--offsets", self.offsets, "--yes"]

    def begin(self) -> subprocess.Popen[str]:
        return start(*self.command, environment={MARK: str(self.folder)})

    def signal_all(self, number: signal.Signals) -> None:
        """To the command, its JVM and its workers: each has a process group of its own."""
        known: set[int] = set()
        while new := set(processes_with(MARK, str(self.folder))) - known:
            for pid in new:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
            known |= new

    def has_begun_to_write(self) -> bool:
        return self.target in self.cluster.admin.topics() and self.cluster.end(self.target) > 0

    def ends_of_target(self) -> list[int]:
        return [self.cluster.end(self.target, partition) for partition in range(PARTITIONS)]


@pytest.mark.timeout(3600)
@pytest.mark.soak  # the same at the level of workers is quicker: test_restore_fence
@pytest.mark.parametrize("offsets", ["translate", "preserve"])
@rounds
def test_a_restore_that_was_stopped_and_taken_over_ends_with_an_error_and_appends_nothing(
    broker: SandboxInfo, tmp_path: Path, offsets: str, count: int
) -> None:
    restoring = Restoring(broker, tmp_path, offsets)
    chance, tally = random.Random(count), {"ended before": 0, "shut out": 0}
    for number in range(count):
        restoring.again()
        first = restoring.begin()
        try:
            wait_until(restoring.has_begun_to_write, "the first command to write")
            time.sleep(chance.uniform(0, LATER_S) if number else 0)
            restoring.signal_all(signal.SIGSTOP)
            if not number:
                assert_is_told_of(first, offsite(*restoring.command))
            second = offsite(*restoring.command, "--take-over")
            had_ended = second.exit_code == Refused.exit_code  # all but its process: the target is full
            assert had_ended or (second.exit_code == 0 and second.result["verified"]), second.stderr
            before = restoring.ends_of_target()
            restoring.signal_all(signal.SIGCONT)
            _, stderr = first.communicate(timeout=120)
            assert restoring.ends_of_target() == before
            assert not (had_ended and first.returncode), stderr
            if first.returncode:
                told = json.loads(stderr.splitlines()[-1])["error"]
                assert told["id"] in {RestoreTakenOver.id, WriterFenced.id}, stderr
            tally["shut out" if first.returncode else "ended before"] += 1
            assert_same(broker.bootstrap, restoring.topic, restoring.target)
        finally:
            restoring.signal_all(signal.SIGKILL)
            first.communicate()
    assert tally["shut out"]
    print(f"{offsets}: {count} rounds, {tally}")  # noqa: T201
    assert_no_process_left(tmp_path)


def assert_is_told_of(first: subprocess.Popen[str], second: Finished) -> None:
    assert (second.exit_code, second.error["id"]) == (11, RestoreRunning.id), second.stderr
    assert f"process {first.pid} " in second.error["message"]
    assert "--take-over" in second.error["hint"]
