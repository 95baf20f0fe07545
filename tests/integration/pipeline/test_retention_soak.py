"""A backup that follows topics of every cleanup policy, lets restore points go and deletes what nobody needs, while it
is killed, stopped and overtaken: every kept restore point gives back what was written.

`make soak` runs some seconds of it in a folder, and five minutes in a folder and in two S3 servers; the seed of a run
(`OFFSITE_SEED`) is printed with a failure. Who is right says an independent judge (`retained_judge`).
"""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import CommitLost, NoSuchRestorePoint
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import FOR_EVER
from offsite.repository.layout import BackupLayout
from offsite.repository.repository import Repository
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from offsite.upkeep.collection.run import plan_collection
from offsite.upkeep.retention.pins import pin_point, unpin_point
from tests.integration.e2e.command import Finished, clean_environment, offsite
from tests.integration.e2e.site import new_name
from tests.integration.kafka.cluster import Cluster
from tests.integration.pipeline.retained_judge import CommitReader, Judged, judge, read_topic
from tests.integration.pipeline.retained_topics import RetainedTopics
from tests.processes import processes_with, wait_until
from tests.s3_servers import ENVIRONMENT, moto_server, new_s3_store, s3proxy_server
from tests.shared_spark import shared_spark

_log = logging.getLogger(__name__)

MARK = "OFFSITE_RETENTION_SOAK"
SOAK_S = 300.0
RULES = ("keep-age=20s", "mirror", "keep-age=12s", "keep-age=30s,max-bytes=400KB", "keep-age=5s,keep-hourly=3")
SHORT_RULES = ("keep-age=5s",)
SHORTEST_AGE_S = 5.0
GRACE = "4s"
CHECK_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long a soak is: seconds until its end, and for which the backup is frozen at most, restore points that are
    compared, the rules of retention of which each run takes one, and how busy the source is."""

    soak_s: float
    frozen_s: float
    points: int
    rules: tuple[str, ...]
    burst: int
    pause_s: float
    is_long: bool


SHORT = Length(soak_s=6, frozen_s=2, points=2, rules=SHORT_RULES, burst=3, pause_s=0.25, is_long=False)
LONG = Length(
    soak_s=float(os.environ.get("OFFSITE_SOAK_S", SOAK_S)),
    frozen_s=8,
    points=int(os.environ.get("OFFSITE_SOAK_POINTS", "20")),
    rules=RULES,
    burst=3,
    pause_s=0.1,
    is_long=True,
)


@dataclass(slots=True, kw_only=True)
class Soak:
    """The topics, the backup beside them, and the processes at work on it."""

    repository: Repository
    url: str
    cluster: Cluster
    topics: RetainedTopics
    prefix: str
    folder: Path
    rng: random.Random
    length: Length
    commits: CommitReader = field(default_factory=CommitReader)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    runs: int = 0
    pins: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    checks: dict[str, int] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def backup(self) -> Backup:
        return self.repository.backup("b")

    @property
    def names(self) -> list[str]:
        return ["--repo", self.url, "--backup", "b"]

    @property
    def environment(self) -> dict[str, str]:
        return {**ENVIRONMENT, MARK: str(self.folder)}

    def offsite(self, *words: object) -> Finished:
        return offsite(*words, environment=self.environment)

    def start(self) -> None:
        """Follow, and return when there is a new commit."""
        rules = self.length.rules[0] if not self.runs else self.rng.choice(self.length.rules)
        before, self.runs = self.note_commits(), self.runs + 1
        words = ["backup", "run", "--follow", *self.names, "--bootstrap", self.cluster.bootstrap]
        words += ["--topics", f"{self.prefix}-*", "--interval", "1s", "--retain", rules, "--retain-every", "2s"]
        words += ["--collect-after", GRACE, "-o", "jsonl", "--log-file", str(self.folder / "log")]
        with self.output("out").open("wb") as out, self.output("err").open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.impatient_offsite", *words],
                env=clean_environment(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )
        self.running.append(process)
        wait_until(lambda: self.note_commits() > before or process.poll() is not None, "a commit")
        assert process.poll() is None, self.output("err").read_text()

    def output(self, kind: str) -> Path:
        return self.folder / f"{kind}-{self.runs}"

    def kill(self, process: subprocess.Popen[bytes], *, with_workers: bool) -> None:
        if with_workers or process.poll() is not None:
            with_all(process, signal.SIGKILL)
        process.kill()
        process.wait()
        self.running.remove(process)

    def stop(self) -> None:
        """SIGTERM: an orderly end."""
        (process,) = self.running
        process.terminate()
        assert process.wait(60) == 0, self.output("err").read_text()
        self.running.clear()
        wait_until(lambda: not processes_with(MARK, str(self.folder)), "every process to end")

    def note_commits(self) -> int:
        """How many there are; each is remembered as it is when it is new."""
        while True:
            seq = len(self.commits.data) + 1
            data = self.repository.store.get(BackupLayout(backup="b").commit_key(seq))
            if data is None:
                return seq - 1
            self.commits.take(data)

    def kill_and_restart(self) -> None:
        self.kill(self.running[0], with_workers=self.rng.random() < 0.5)
        self.start()

    def freeze(self) -> None:
        """For longer or shorter than what was let go is kept."""
        with_all(self.running[0], signal.SIGSTOP)
        time.sleep(self.rng.uniform(1, self.length.frozen_s))
        with_all(self.running[0], signal.SIGCONT)

    def overtake(self) -> None:
        """Another one follows while the first is frozen, which then goes on with what it had decided."""
        first = self.running[0]
        with_all(first, signal.SIGSTOP)
        self.start()
        time.sleep(self.rng.uniform(0, 5))
        with_all(first, signal.SIGCONT)
        time.sleep(self.rng.uniform(0, 5))
        self.kill(first, with_workers=True)
        if self.running[0].poll() is not None:  # the two were in each other's way
            self.kill(self.running[0], with_workers=True)
            self.start()

    def pin(self) -> None:
        """The newest restore point, for ever or for some seconds. In this process: a command takes longer to begin on a
        busy machine than a point lives here."""
        backup = self.backup
        seq = backup.state().history[-1].seq
        is_for_ever = self.rng.random() < 0.7
        until_ms = FOR_EVER if is_for_ever else backup.store.now_ms() + 15_000
        try:
            pin_point(backup, seq, reason="a soak", until_ms=until_ms)
        except (NoSuchRestorePoint, CommitLost) as error:
            _log.info("not pinned: %s", error.message)
            return
        if is_for_ever:
            self.pins.add(seq)

    def compact(self) -> None:
        done = self.offsite("compact", "run", *self.names, "--yes", "--min-dirty-ratio", "0")
        assert done.exit_code == 0, done.stderr
        self.count("compact")

    def let_run(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.note_commits()
            time.sleep(0.3)

    def count(self, what: str) -> None:
        self.checks[what] = self.checks.get(what, 0) + 1

    def check_always(self) -> None:
        """Verify, by turns, until it is over: any damage is a fault."""
        number = 0
        while not self.over.is_set():
            deep = ["--deep"] if number % 2 else []
            done = self.offsite("verify", *self.names, *deep)
            self.count("deep" if deep else "quick")
            if done.exit_code != 0:
                self.faults.append(f"verify {deep}: exit code {done.exit_code}\n{done.stdout}\n{done.stderr}")
            number += 1
            self.over.wait(CHECK_EVERY_S)


def with_all(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send it to the process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@contextmanager
def place(kind: str, folder: Path) -> Iterator[str]:
    """URL of a new, empty place."""
    with ExitStack() as servers:
        if kind == "folder":
            yield str(folder / "repository")
        else:
            server = moto_server() if kind == "moto" else s3proxy_server(folder)
            endpoint = servers.enter_context(server)
            yield f"{new_s3_store(endpoint).url}?endpoint={endpoint}"


@pytest.fixture
def soak(request: pytest.FixtureRequest, broker: SandboxInfo, tmp_path: Path) -> Iterator[Soak]:
    kind, length = request.param
    seed = int(os.environ.get("OFFSITE_SEED", time.time_ns() % 1_000_000))
    print(f"OFFSITE_SEED={seed}")  # noqa: T201  # shown with a failure, and taken back from the environment
    rng, prefix = random.Random(seed), new_name("retained")
    topics = RetainedTopics(broker.bootstrap, prefix, random.Random(seed), burst=length.burst, pause_s=length.pause_s)
    with place(kind, tmp_path) as url:
        soak = Soak(
            repository=Repository.init(open_store(url, environment=ENVIRONMENT)),
            url=url,
            cluster=Cluster(broker.bootstrap),
            topics=topics,
            prefix=prefix,
            folder=tmp_path,
            rng=rng,
            length=length,
        )
        try:
            yield soak
        finally:
            soak.over.set()
            for each in tuple(soak.running):
                soak.kill(each, with_workers=True)
            topics.stop()


def short_run(soak: Soak) -> None:
    """Each thing once."""
    soak.let_run(soak.length.soak_s / 3)
    soak.pin()
    soak.kill_and_restart()
    soak.let_run(soak.length.soak_s / 3)
    soak.pin()
    soak.freeze()
    soak.let_run(soak.length.soak_s / 3)


def long_run(soak: Soak) -> None:
    end_s = time.monotonic() + soak.length.soak_s
    often = [soak.kill_and_restart, soak.freeze, soak.overtake, soak.compact]
    once = soak.rng.sample(often, k=len(often))
    while time.monotonic() < end_s:
        action = once.pop() if once else soak.rng.choice(often)
        began_s = time.monotonic()
        action()
        _log.info("%s: %.1f s, %d commits", action.__name__, time.monotonic() - began_s, soak.note_commits())
        for _ in range(2):
            soak.pin()
            soak.let_run(soak.rng.uniform(1, 4))
        assert not soak.faults, soak.faults[0]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "soak",
    [
        pytest.param(("folder", SHORT), id="folder-short", marks=pytest.mark.soak),
        *(pytest.param((kind, LONG), id=kind, marks=pytest.mark.soak) for kind in ("folder", "moto", "s3proxy")),
    ],
    indirect=True,
)
def test_every_kept_point_gives_back_what_was_written(soak: Soak) -> None:
    soak.topics.start()
    soak.start()
    checking = threading.Thread(target=soak.check_always, name="verify")
    checking.start()
    try:
        (long_run if soak.length.is_long else short_run)(soak)
    finally:
        soak.over.set()
        checking.join()
    soak.topics.stop()
    while len(soak.running) > 1:
        soak.kill(soak.running[0], with_workers=True)
    soak.let_run(2)
    soak.stop()
    soak.note_commits()
    assert not soak.faults, soak.faults[0]
    print(figures(soak))  # noqa: T201  # shown with -rP: what the bars of the soak are judged by
    assert_kept(soak)
    assert_restored(soak)
    assert_nothing_unneeded(soak)
    assert soak.commits.compacted or not soak.length.is_long, "no range was compacted"


def figures(soak: Soak) -> str:
    read = soak.commits
    return (
        f"{soak.topics.records} records, {len(read.data)} commits, {read.forgotten} points forgotten, {read.expired} "
        f"ranges expired, {read.roll_ups} roll-ups, {read.compacted} ranges compacted, {soak.runs} runs, "
        f"{len(soak.pins)} pins, {soak.checks}"
    )


def assert_kept(soak: Soak) -> None:
    """What each rule of the soak would keep is kept, and commits say nothing else than when they were new."""
    kept = {each.seq for each in soak.backup.state().history}
    points = soak.commits.points
    newest_s = points[max(points)].at_s
    young = {each.seq for each in points.values() if each.is_complete and each.at_s > newest_s - SHORTEST_AGE_S}
    assert not soak.pins - kept
    assert soak.commits.forgotten, "nothing was let go"
    assert young & kept, "nothing is kept"
    for seq, data in soak.commits.data.items():
        assert soak.backup.store.get(soak.backup.layout.commit_key(seq)) == data, seq
    for written in soak.topics.topics.values():
        for partition in written.rows:
            low, key = soak.topics.low(written.topic, partition), (written.topic, partition)
            for point in points.values():
                held = point.held.get(key)
                gone = max([held.start, *(end for _, end in held.holes)]) if held else 0
                assert gone <= low, f"commit {point.seq} misses what {key} has: {held}, from {low} on"


def assert_restored(soak: Soak) -> None:
    """Restore points of all ages come back whole."""
    history = [each.seq for each in soak.backup.state().history]
    wanted = soak.rng.sample(history, min(len(history), soak.length.points))
    assert len(wanted) == soak.length.points, f"only {len(history)} points are kept"
    judged = Judged()
    for seq in sorted(wanted):
        target = new_name("back")
        request = RestoreRequest(
            selection=parse_selection([f"{soak.prefix}-*"]),
            renames=parse_renames([f"{soak.prefix}-*={target}-*"]),
            commit=seq,
            offsets="preserve",
        )
        prepared = prepare_restore(soak.backup, soak.cluster.admin, request)
        done = run_restore(prepared, cluster=soak.cluster, runner=shared_spark())
        assert done.verified is not False, seq
        restored = {}
        for name, written in soak.topics.topics.items():
            restored[name] = f"{target}-{name}"
            judge(soak.commits.points[seq], written, read_topic(soak.cluster.bootstrap, restored[name]), judged)
        soak.cluster.admin.delete_topics(sorted(restored.values()))
    _log.info("points %s: %d records, %d keys, %d overtaken", wanted, judged.records, judged.keys, judged.overtaken)
    assert not judged.faults, "\n".join(judged.faults[:20])


def assert_nothing_unneeded(soak: Soak) -> None:
    """After one more retention and collection there is, of all that commits ever named, what states need."""
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr(catalog, "COMMITS_PER_CATALOG", 1)
        applied = soak.offsite("retention", "apply", *soak.names, "--keep-age", "5s", "--yes")
        assert applied.exit_code == 0, applied.stderr
        for _ in range(2):  # commits behind which a catalog names what was let go
            seq = soak.backup.state().history[-1].seq
            pin_point(soak.backup, seq, reason="the last")
            unpin_point(soak.backup, seq)
    soak.note_commits()
    collected = soak.offsite("collect", "run", *soak.names, "--collect-after", "0s", "--yes")
    assert collected.exit_code == 0, collected.stderr
    assert not plan_collection(soak.backup, clock=SystemClock(), grace_ms=0).objects
    state, layout = soak.backup.state(), soak.backup.layout
    needed = {key for each in state.stored_segments() for key in (each.object_key, each.index_key) if key}
    there = {info.key for info in soak.backup.store.list(layout.prefix) if layout.is_stored_body(info.key)}
    named = "".join(data.decode() for data in soak.commits.data.values())
    assert needed <= there, needed - there
    assert not {key for key in there - needed if key in named}
    _log.info("%d objects needed, %d never committed", len(needed), len(there - needed))
    checked = soak.offsite("verify", *soak.names, *(["--deep"] if soak.length.is_long else []))
    assert checked.exit_code == 0, checked.stdout
