"""Ctrl-C, SIGTERM and SIGHUP end a command at any moment, quietly, and leave nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.kafka.cluster import connect
from offsite.model.cluster_settings import ClientQuota, QuotaEntity
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import clean_environment, command, succeed
from tests.integration.e2e.site import produce_to
from tests.integration.kafka.cluster import Cluster
from tests.processes import PATIENCE_S, processes_with, wait_until

MARK = "OFFSITE_SIGNAL_TEST"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STEP_S, STEPS = 0.03, 10
SLOW_CLIENT, BYTES_PER_S = "signal-test", 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A repository, a topic that takes long to copy, and a folder for temporary files with a name that is short enough
    for sockets."""

    repository: Path
    scratch: Path
    arguments: tuple[object, ...]

    @property
    def environment(self) -> dict[str, str]:
        return {MARK: str(self.scratch), "TMPDIR": str(self.scratch)}

    def unfinished(self) -> list[Path]:
        return list((self.repository / "~tmp").glob("*"))

    def assert_nothing_left(self) -> None:
        wait_until(lambda: not processes_with(MARK, str(self.scratch)), "every process of the command to end")
        assert list(self.scratch.iterdir()) == []
        assert self.unfinished() == []


@pytest.fixture
def place(broker: SandboxInfo, tmp_path: Path) -> Iterator[Place]:
    repository, properties = tmp_path / "repository", tmp_path / "client.properties"
    topic = Cluster(broker.bootstrap).make_topic()
    records = (DemoMessage(key=b"%d" % n, value=os.urandom(1000), timestamp_ms=BASE_MS + n) for n in range(1000))
    produce_to(broker.bootstrap, topic, records, batch_num_messages=10)
    properties.write_text(f"bootstrap.servers={broker.bootstrap}\nclient.id={SLOW_CLIENT}\n")
    succeed("init", repository)
    ends = ("--repo", repository, "--kafka-config", properties, "--backup", "b", "--topics", topic)
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as scratch, slow_clients(broker.bootstrap):
        yield Place(repository=repository, scratch=Path(scratch), arguments=("backup", "run", *ends))


Moment = Callable[[Place], bool]
SPARK_STARTS: Moment = lambda place: any(place.scratch.glob("offsite-spark-*"))
JVM_IS_UP: Moment = lambda place: any(place.scratch.glob("offsite-spark-*/gateway"))
WORKER_WRITES: Moment = lambda place: any(map(_bytes_in, place.unfinished()))


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        pytest.param(signal.SIGTERM, SPARK_STARTS, id="SIGTERM while Spark starts"),
        pytest.param(signal.SIGHUP, JVM_IS_UP, id="SIGHUP when the JVM is up"),
        pytest.param(signal.SIGINT, WORKER_WRITES, id="SIGINT while a worker writes"),
        pytest.param(signal.SIGTERM, WORKER_WRITES, id="SIGTERM while a worker writes", marks=pytest.mark.soak),
        pytest.param(signal.SIGHUP, WORKER_WRITES, id="SIGHUP while a worker writes", marks=pytest.mark.soak),
    ],
)
def test_a_backup_that_is_ended_leaves_nothing(place: Place, number: signal.Signals, moment: Moment) -> None:
    with running(*place.arguments, environment=place.environment) as run:
        wait_until(lambda: moment(place) or run.poll() is not None, "the moment to come")
        assert run.poll() is None
        send(run, number)
        send(run, signal.SIGTERM)  # whoever ends a service may say so twice
        assert_ended_by(number, run, or_by=signal.SIGTERM)  # which of the two is taken first, the kernel decides
    place.assert_nothing_left()


@pytest.mark.parametrize("number", ENDING, ids=[each.name for each in ENDING])
def test_a_command_is_ended_in_its_first_moments_without_a_word_of_python(
    tmp_path: Path, number: signal.Signals
) -> None:
    succeed("init", tmp_path / "repository")
    exit_codes = set()
    for step in range(STEPS):
        with running("list", "--repo", tmp_path / "repository", environment={}) as run:
            wait_until(lambda: run.poll() is not None or hears(run.pid, number), "the command to hear signals")
            time.sleep(step * STEP_S)
            if run.poll() is None:
                send(run, number)
            out, err = run.communicate(timeout=PATIENCE_S)
            is_said = (
                run.returncode == -number and out
            )  # a Python that ends has taken its handlers off; to a shell the same
            assert run.returncode in {128 + number, 0} or is_said, err
            assert "Traceback" not in err
            assert "KeyboardInterrupt" not in err
            assert run.returncode or out
            exit_codes.add(run.returncode)
    assert 128 + number in exit_codes, "each command was done before the signal"


def test_a_signal_that_was_ignored_before_stays_ignored(tmp_path: Path) -> None:
    """As under nohup, and in the background of a script."""
    succeed("init", tmp_path / "repository")
    with running("list", "--repo", tmp_path / "repository", environment={}, ignore=signal.SIGHUP) as run:
        wait_until(lambda: run.poll() is not None or hears(run.pid, signal.SIGTERM), "the command to hear signals")
        send(run, signal.SIGHUP)
        run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0


@contextmanager
def running(
    *arguments: object, environment: dict[str, str], ignore: signal.Signals | None = None
) -> Iterator[subprocess.Popen[str]]:
    """In a process group of its own, as a terminal starts it: what pytest ignores is not ignored."""

    def begin() -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN if each is ignore else signal.SIG_DFL)

    run = subprocess.Popen(
        command(*arguments),
        env=clean_environment(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=begin,  # noqa: PLW1509  # nothing but signals
    )
    with run:
        try:
            yield run
        finally:
            run.kill()


def send(run: subprocess.Popen[str], number: signal.Signals) -> None:
    """As it is done: a service manager tells the process, a terminal its group."""
    if number == signal.SIGTERM:
        run.send_signal(number)
    else:
        os.killpg(run.pid, number)


def _bytes_in(file: Path) -> int:
    """0 for one that was put in its place, or deleted, since it was listed."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def assert_ended_by(number: signal.Signals, run: subprocess.Popen[str], *, or_by: signal.Signals | None = None) -> None:
    out, err = run.communicate(timeout=PATIENCE_S)
    if or_by is not None and run.returncode == 128 + or_by:
        number = or_by
    assert (run.returncode, out) == (128 + number, ""), err
    said = err.removeprefix("interrupted: no commit was made\n")  # a backup says so
    assert said == ("" if number == signal.SIGINT else f"interrupted by {number.name}\n")


def hears(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for SIGTERM, which Python itself has not: then it has one for `number`."""
    caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    wanted = (1 << (signal.SIGTERM - 1)) | (1 << (number - 1))
    return caught is not None and int(caught[1], 16) & wanted == wanted


@contextmanager
def slow_clients(bootstrap: str) -> Iterator[None]:
    entity = QuotaEntity(parts=(("client-id", SLOW_CLIENT),))
    admin = connect(bootstrap, None).admin
    for bytes_per_s in (BYTES_PER_S, 1e12):
        limits = (("consumer_byte_rate", float(bytes_per_s)),)
        assert not any(admin.settings.set_client_quotas([ClientQuota(entity=entity, limits=limits)]))
        if bytes_per_s == BYTES_PER_S:
            yield
