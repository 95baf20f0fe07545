"""One checkpoint over a real Kafka and Zeebe's management API, by the command line, killed and failing midway."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from offsite.checkpoint.status import CheckpointStatus
from offsite.sandbox import SandboxInfo
from tests.fake_zeebe.cluster import Exporter, FakeZeebe
from tests.fake_zeebe.conversation import ATTEMPTS, Talker, converse, refuse
from tests.fake_zeebe.server import ZeebeServer, serving
from tests.integration.e2e.command import offsite, start, succeed
from tests.integration.e2e.test_checkpoints import Place
from tests.integration.e2e.test_follow import producing
from tests.processes import wait_until
from tests.zeebe_broker import s3_for_zeebe, zeebe_broker

SECRET = "Bearer s3cr3t-of-a-test"  # of a test


@pytest.fixture
def place(broker: SandboxInfo, tmp_path: Path) -> Iterator[Place]:
    place = Place(broker.bootstrap, tmp_path)
    yield place
    wait_until(lambda: not place.processes, "every process to end")


@pytest.fixture
def zeebe() -> Iterator[ZeebeServer]:
    with serving(FakeZeebe()) as server:
        yield server


def refused(place: Place, zeebe: ZeebeServer, *words: object) -> Any:
    given = [*place.names, "--bootstrap", place.bootstrap, "--zeebe", zeebe.url, *words, "-o", "json"]
    return offsite("checkpoint", "take", *given, environment=place.mark)


def test_one_id_spans_both_while_producers_go_on_and_is_deleted_in_both(
    place: Place, zeebe: ZeebeServer, tmp_path: Path
) -> None:
    zeebe.authorization = SECRET
    (tmp_path / "token").write_text(SECRET)
    words = ["--zeebe", f"east={zeebe.url}", "--zeebe-token-file", tmp_path / "token"]
    with producing(place.bootstrap, [place.topic]):
        report = place.take("--id", 7, *words)
        assert report["status"] in {"ongoing", "completed"}
        assert zeebe.zeebe.ids == [7], "in the background, with the same options"
        wait_until(lambda: place.known() == [CheckpointStatus.COMPLETED], "both to complete")
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}
    shown = place.show(7)
    assert [each["name"] for each in shown["participants"]] == ["east"]
    stored = b"".join(each.read_bytes() for each in (tmp_path / "repo").rglob("*") if each.is_file())
    assert b"s3cr3t" not in stored
    assert succeed("checkpoint", "delete", 7, *place.names, "--yes", *words)["status"] == "deleted"
    assert zeebe.zeebe.ids == []


def test_a_taker_that_is_killed_leaves_it_paused_and_the_next_command_resumes_it(
    place: Place, zeebe: ZeebeServer
) -> None:
    zeebe.zeebe.copying = -1
    given = [*place.names, "--bootstrap", place.bootstrap, "--zeebe", zeebe.url]
    killed = start("checkpoint", "take", *given, "--id", 7, "--wait", "-o", "json", environment=place.mark)
    wait_until(lambda: "take 7" in zeebe.zeebe.history, "Zeebe to begin")
    for pid in place.processes:
        os.kill(pid, signal.SIGKILL)
    killed.communicate(timeout=30)
    wait_until(lambda: not place.processes, "every process to end")
    assert zeebe.zeebe.exporters == {Exporter.SOFT_PAUSED}
    zeebe.zeebe.copying = zeebe.zeebe.partitions[1].parts[7].left = zeebe.zeebe.partitions[2].parts[7].left = 2
    report = place.take("--id", 8, "--wait", "--zeebe", zeebe.url)
    assert (report["status"], zeebe.zeebe.exporters) == ("completed", {Exporter.EXPORTING})
    resumed = zeebe.zeebe.history.index("EXPORTING", zeebe.zeebe.history.index("take 7"))
    assert resumed < zeebe.zeebe.history.index("take 8")


def test_exporting_goes_on_when_the_taker_is_interrupted(place: Place, zeebe: ZeebeServer) -> None:
    zeebe.zeebe.copying = -1
    given = [*place.names, "--bootstrap", place.bootstrap, "--zeebe", zeebe.url]
    taker = start("checkpoint", "take", *given, "--id", 7, "--wait", "-o", "json", environment=place.mark)
    wait_until(lambda: "take 7" in zeebe.zeebe.history, "Zeebe to begin")
    taker.send_signal(signal.SIGTERM)
    taker.communicate(timeout=90)
    assert taker.returncode != 0
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


def test_zeebe_fails_and_so_does_the_checkpoint_with_its_reason(place: Place, zeebe: ZeebeServer) -> None:
    zeebe.zeebe.fails[2] = "bucket is gone"
    done = refused(place, zeebe, "--id", 7, "--wait")
    assert done.exit_code != 0
    assert "bucket is gone" in place.show(7)["failure_reason"]
    assert (place.show(7)["status"], zeebe.zeebe.exporters) == ("failed", {Exporter.EXPORTING})


@pytest.mark.soak  # waits for what has failed in the background
def test_an_id_that_zeebe_passed_is_told_with_the_way_out_also_from_the_background(
    place: Place, zeebe: ZeebeServer
) -> None:
    zeebe.zeebe.take(9_000_000_000_000)
    done = refused(place, zeebe)
    assert done.exit_code != 0
    assert "--id 9000000000001" in done.stdout + done.stderr
    assert place.take("--id", 9_000_000_000_001, "--wait", "--zeebe", zeebe.url)["status"] == "completed"
    zeebe.zeebe.copying = 0
    assert place.take("--wait", "--zeebe", zeebe.url)["id"] == 9_000_000_000_002, "ours go on above it"


@pytest.mark.soak
def test_a_run_that_follows_takes_them_with_zeebe(place: Place, zeebe: ZeebeServer) -> None:
    with producing(place.bootstrap, [place.topic]), place.following("--every", "4s", "--zeebe", zeebe.url):
        wait_until(lambda: place.known().count(CheckpointStatus.COMPLETED) >= 2, "two that were due")
        asked = place.take("--wait", "--zeebe", zeebe.url)
        assert asked["status"] == "completed"
    assert asked["id"] in zeebe.zeebe.ids
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


def test_without_follow_it_is_refused(place: Place, zeebe: ZeebeServer) -> None:
    done = offsite("backup", "run", *place.names, "--bootstrap", place.bootstrap, "--zeebe", zeebe.url, "-o", "json")
    assert (done.exit_code, done.error["id"]) == (2, "OFF-0202")
    assert zeebe.asked == []


@pytest.fixture
def live(tmp_path: Path) -> Iterator[str]:
    """A management API of a real Zeebe: the one that `ZEEBE_MANAGEMENT_URL` names, which gets some backups, or else
    that of a broker of our own."""
    if given := os.environ.get("ZEEBE_MANAGEMENT_URL"):
        yield given
        return
    with s3_for_zeebe() as s3, zeebe_broker(tmp_path, s3) as url:
        yield url


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_real_zeebe_takes_part(place: Place, live: str) -> None:
    zeebe = talker(live)
    for _ in range(ATTEMPTS):
        with phases(zeebe) as seen:
            done = take_live(place, live)
        assert seen[-1] in {"EXPORTING", "unknown"}, seen
        if done["status"] == "completed" and set(seen) & {"SOFT_PAUSED", "unknown"}:
            break  # a pause that is shorter than a look on a busy machine is looked for again
        if done["status"] != "completed":
            assert "checksum" in done["failure_reason"], "what its own client says of its store"
    assert zeebe.status(done["id"])[1]["state"] == "COMPLETED"
    assert set(seen) & {"SOFT_PAUSED", "unknown"}, seen
    refuse(zeebe)
    converse(zeebe, done["id"] + 1)


def talker(live: str) -> Talker:
    host, port = urlsplit(live).hostname or "", urlsplit(live).port or 9600
    newer = Talker(host, port, "backupRuntime")
    return newer if newer.ask("GET", newer.route)[0] != 404 else Talker(host, port, "backups")


@contextmanager
def phases(zeebe: Talker) -> Iterator[list[str]]:
    """What the exporters do, as a broker tells of itself; a gateway that stands alone does not know."""
    seen, over = list[str](), threading.Event()

    def look() -> None:
        code, said = zeebe.ask("GET", "partitions")
        seen.extend([each["exporterPhase"] for each in said.values()] if code == 200 else ["unknown"])

    def watch() -> None:
        while not over.wait(0.02):
            look()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        over.set()
        watching.join()
        look()


def take_live(place: Place, live: str) -> Any:
    given = [*place.names, "--bootstrap", place.bootstrap, "--zeebe", live]
    done = offsite("checkpoint", "take", *given, "--wait", "-o", "json", environment=place.mark)
    return json.loads(done.stdout)
