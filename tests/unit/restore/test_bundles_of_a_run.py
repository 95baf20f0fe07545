"""Restores of many partitions in one task, over a cluster that refuses, sleeps and is away at the worst moment:
nothing is lost, doubled or written after the end, and nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from offsite.engine.bundles import Bundle
from offsite.engine.runner import Failed
from offsite.kafka.log_writer import LogWriter
from offsite.kafka.net.backoff import Backoff
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.errors import OffsiteError, TargetNotEmpty, WriterFenced
from offsite.repository.restores import fence
from offsite.repository.restores.fence import PartitionFence
from offsite.restore import write_jobs
from offsite.restore.run import run_restore
from offsite.restore.write import bundle as task_module
from tests.batches import FIRST_TIME_MS, make_batch
from tests.fake_cluster.partition_log import PartitionLog, RefusedError
from tests.fake_cluster.site import Site, open_site
from tests.inline_runner import InlineRunner

TOPIC = "orders"
NOT_ENOUGH_REPLICAS, NOT_LEADER, NOT_AUTHORIZED = 19, 6, 29
OFFSETS = (0, 1, 2, 3, 4, 10, 11, 12)
"""Of the source: the gap is filled with outcomes."""
BATCHES = 4
PATIENCE_S = 0.5
"""For 120 s."""
BROKERS_PATIENCE = 900 / 120
"""After so many patiences coordinators abort what is open."""


@pytest.fixture
def site(tmp_path: Path) -> Any:
    with open_site(tmp_path) as site:
        yield site


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Backoff.__init__.__kwdefaults__, "limit_s", PATIENCE_S)


def key(number: int) -> TopicPartition:
    return TopicPartition(topic=TOPIC, partition=number)


def fill_with_gap(site: Site, partitions: int) -> None:
    for log in site.source.make_topic(TOPIC, partitions=partitions, retention_ms="-1").partitions:
        for at in OFFSETS:
            log.put(bytes(encode([Record(at, FIRST_TIME_MS + at, 0, b"k", b"v%d" % at)])))
    site.back_up("*")


def fill(site: Site, partitions: int, batches: int = BATCHES) -> None:
    site.source.make_topic(TOPIC, partitions=partitions, retention_ms="-1")
    for number in range(partitions):
        for n in range(batches):
            site.source.write(TOPIC, [b"%d %d" % (number, n)], partition=number)
    site.back_up("*")


def refuse_once(monkeypatch: pytest.MonkeyPatch, site: Site, *, at: int) -> None:
    """The target's leader refuses the batch at that offset, and takes what comes behind it."""
    produce, refused = PartitionLog.produce, list[int]()

    def produced(self: PartitionLog, batch: bytes) -> int:
        topic = site.target.topics.get(TOPIC)
        if topic is not None and self is topic.partitions[0] and not refused and self.end == at:
            refused.append(at)
            raise RefusedError(NOT_ENOUGH_REPLICAS)
        return produce(self, batch)

    monkeypatch.setattr(PartitionLog, "produce", produced)


class KilledError(BaseException):
    pass


def test_outcomes_that_took_the_place_of_a_refused_batch_are_not_taken_for_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies before it sees the refusal."""

    def die(*_: object) -> None:
        raise KilledError

    fill_with_gap(site, 1)
    refuse_once(monkeypatch, site, at=3)
    with monkeypatch.context() as patch:
        patch.setattr(LogWriter, "_fail", die)
        with pytest.raises(KilledError):
            site.restore(offsets="preserve", verify=False)
    result = site.restore(offsets="preserve", verify=False)
    assert result.records == len(OFFSETS)
    assert [each.offset for each in site.target.read(TOPIC)] == list(OFFSETS)


@pytest.mark.usefixtures("impatient")
def test_nor_when_the_partition_is_tried_again_in_the_same_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[list[int]] = []

    class Runner(InlineRunner):
        def run_all(self, tasks: Sequence[Any], function: Callable[[Any], Any], **given: Any) -> list[Any]:
            if isinstance(tasks[0], Bundle):
                runs.append([len(each.tasks) for each in tasks])
                if len(runs) > 1:
                    site.target.failing.clear()  # the leader is back
            return super().run_all(tasks, function, **given)

    lost = LogWriter.end_lane

    def away(self: LogWriter, error: OffsiteError | None) -> None:
        if self.partition == key(0) and error is not None and "NOT_ENOUGH" in error.message:
            site.target.failing[Api.LIST_OFFSETS, key(0)] = NOT_LEADER
        lost(self, error)

    fill_with_gap(site, 4)
    object.__setattr__(site, "runner", Runner())
    refuse_once(monkeypatch, site, at=3)
    monkeypatch.setattr(LogWriter, "end_lane", away)
    site.restore(offsets="preserve", verify=False)
    assert len(runs) > 1
    for number in range(4):
        assert [each.offset for each in site.target.read(TOPIC, partition=number)] == list(OFFSETS)


@pytest.mark.parametrize("code", [0, NOT_AUTHORIZED, -1])
@pytest.mark.parametrize("batches", [2, 3])
def test_what_the_judge_of_one_partition_meets_is_told_of_that_one(
    site: Site, monkeypatch: pytest.MonkeyPatch, code: int, batches: int
) -> None:
    """A stranger writes into a partition, and the broker does not let us see who it was."""
    fill(site, 8, batches)
    produce, done = PartitionLog.produce, list[int]()

    def produced(self: PartitionLog, batch: bytes) -> int:
        base = produce(self, batch)
        topic = site.target.topics.get(TOPIC)
        if topic is not None and self is topic.partitions[2] and not done:
            done.append(base)
            self.put(bytes(make_batch(0, records=1)))
            if code:
                site.target.failing[Api.FETCH, key(2)] = code
        return base

    monkeypatch.setattr(PartitionLog, "produce", produced)
    error = ended(lambda: site.restore(offsets="translate", verify=False))
    assert isinstance(error, OffsiteError)
    assert code or isinstance(error, TargetNotEmpty)
    assert f"{TOPIC}/2" in error.message
    others = [n for n in range(8) if n != 2]
    assert all(site.target.values(TOPIC, n) == [b"%d %d" % (n, m) for m in range(batches)] for n in others)


def ended(run: Callable[[], object]) -> object:
    """What it returned or raised; fails when it does neither."""
    found: list[object] = []

    def catch() -> None:
        try:
            found.append(run())
        except Exception as error:  # noqa: BLE001  # told to the test
            found.append(error)

    thread = threading.Thread(target=catch, daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it waits for ever"
    return found[0]


def as_one(bundles: Sequence[Bundle[Any]]) -> Bundle[Any]:
    """All their tasks, in the plan's order."""
    tasks = {n: task for each in bundles for n, task in zip(each.numbers, each.tasks, strict=True)}
    return Bundle(numbers=tuple(sorted(tasks)), tasks=tuple(tasks[n] for n in sorted(tasks)))


COUNT = 12
"""Partitions of a bundle, of which a third are under way at a time."""


class Sleeper:
    """A worker that is stopped with its first partitions under way, while another one takes its place."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch, *, successor_sleeps: bool) -> None:
        self.site, self._successor_sleeps = site, successor_sleeps
        self.slept, self.wake, self.amid, self.go_on = (threading.Event() for _ in range(4))
        self.outcomes: dict[str, Sequence[Any]] = {}
        self._steps: dict[str, int] = {}
        self._step = task_module._step
        monkeypatch.setattr(task_module, "_step", self._stepped)
        monkeypatch.setattr(write_jobs, "run_bundles", self._run_bundles)

    def _stepped(self, steps: Any) -> Any:
        name = threading.current_thread().name
        self._steps[name] = self._steps.get(name, 0) + 1
        if name == "stale" and self._steps[name] == 5:
            self.slept.set()
            self.wake.wait(60)
        outcome = self._step(steps)
        begun = sum(bool(each.end) for each in self.site.target.topics[TOPIC].partitions)
        if name == "new" and self._successor_sleeps and begun > COUNT // 2 and not self.amid.is_set():
            self.amid.set()
            self.go_on.wait(60)
        return outcome

    def _run_bundles(self, bundles: Sequence[Bundle[Any]], write: Callable[..., Any], **_: Any) -> Mapping[int, Any]:
        whole = as_one(bundles)

        def run(name: str) -> threading.Thread:
            thread = threading.Thread(target=lambda: self.outcomes.update({name: write(whole)}), name=name)
            thread.start()
            return thread

        self.stale = run("stale")
        assert self.slept.wait(60)
        new = run("new")
        if self._successor_sleeps:
            assert self.amid.wait(60)
            self.wakes_up()
            self.go_on.set()
        new.join(60)
        return dict(enumerate(self.outcomes["new"]))

    def wakes_up(self) -> None:
        time.sleep(1.1)  # so long it counts as a pause, see `PAUSE_S`
        self.wake.set()
        self.stale.join(60)


def test_a_bundle_that_wakes_up_amid_its_successor_leaves_everything_to_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(site, COUNT)
    sleeper = Sleeper(site, monkeypatch, successor_sleeps=True)
    site.restore(offsets="translate", verify=False)
    assert all(site.target.values(TOPIC, n) == [b"%d %d" % (n, m) for m in range(BATCHES)] for n in range(COUNT))
    errors = [each.error for each in sleeper.outcomes["stale"] if isinstance(each, Failed)]
    assert len(errors) == COUNT
    assert all(isinstance(each, WriterFenced) for each in errors)


def test_a_bundle_that_wakes_up_after_the_end_writes_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is another one by then."""
    fill(site, COUNT)
    sleeper = Sleeper(site, monkeypatch, successor_sleeps=False)
    assert site.restore(offsets="translate").verified
    site.target.remake_topic(TOPIC)
    sleeper.wakes_up()
    assert not any(site.target.values(TOPIC, number) for number in range(COUNT))


@pytest.mark.usefixtures("impatient")
def test_leaders_that_are_away_do_not_hold_a_transaction_open_beside_them(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = 24
    log = site.source.make_topic(TOPIC, partitions=partitions, retention_ms="-1").partitions[0]
    producer = site.source.next_producer_id()
    for n in range(20):
        record = Record(log.end, FIRST_TIME_MS, 0, b"k", b"v")
        batch = encode([record], producer_id=producer, producer_epoch=0, base_sequence=n, is_transactional=True)
        log.put(bytes(batch))
    log.end_transaction(producer, 0, committed=True)
    for number in range(1, partitions):
        site.source.write(TOPIC, [b"v"], partition=number)
    site.back_up("*")
    step, times, first = task_module._step, list[float](), list[Any]()

    def stepped(steps: Any) -> Any:
        first[:] = first or [steps]
        if steps is first[0]:
            times.append(time.monotonic())
        return step(steps)

    def one_bundle(bundles: Sequence[Bundle[Any]], write: Callable[..., Any], **_: Any) -> Mapping[int, Any]:
        site.target.failing |= {(Api.LIST_OFFSETS, key(n)): NOT_LEADER for n in range(1, partitions)}
        return dict(enumerate(write(as_one(bundles))))

    monkeypatch.setattr(task_module, "_step", stepped)
    monkeypatch.setattr(write_jobs, "run_bundles", one_bundle)
    planned = site.plan_restore(offsets="preserve")
    with pytest.raises(OffsiteError):
        run_restore(planned, cluster=site.target.connected, runner=site.runner, verify=False)
    assert max(b - a for a, b in pairwise(times)) / PATIENCE_S < BROKERS_PATIENCE
    assert (times[-1] - times[0]) / PATIENCE_S < partitions / 2, "one wait for each leader that is away"


def test_a_worker_that_was_stopped_in_front_of_its_first_attempt_writes_nothing_after_the_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(site, COUNT)
    stopped, wake = threading.Event(), threading.Event()
    take, stale = PartitionFence.take, list[threading.Thread]()

    def taking(self: PartitionFence, *, by: str) -> int:
        if threading.current_thread().name == "stale" and not stopped.is_set():
            stopped.set()
            wake.wait(60)
        return take(self, by=by)

    def run_bundles(bundles: Sequence[Bundle[Any]], write: Callable[..., Any], **_: Any) -> Mapping[int, Any]:
        whole = as_one(bundles)
        stale.append(threading.Thread(target=write, args=(whole,), name="stale"))
        stale[0].start()
        assert stopped.wait(60)
        return dict(enumerate(write(whole)))

    monkeypatch.setattr(PartitionFence, "take", taking)
    monkeypatch.setattr(write_jobs, "run_bundles", run_bundles)
    assert site.restore(offsets="translate").verified
    site.target.remake_topic(TOPIC)
    wake.set()
    stale[0].join(60)
    assert not any(site.target.values(TOPIC, number) for number in range(COUNT))


@pytest.mark.parametrize(
    "how", [{"offsets": "translate"}, {"offsets": "preserve"}, {"offsets": "translate", "repartition": [f"{TOPIC}=3"]}]
)
@pytest.mark.parametrize("partitions", [1, 4])
def test_no_attempt_writes_for_a_restore_that_has_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], partitions: int
) -> None:
    take = PartitionFence.take

    def taking(self: PartitionFence, *, by: str) -> int:
        self.store.put_if_absent(self.layout.report_key, b"{}")
        return take(self, by=by)

    fill(site, partitions)
    monkeypatch.setattr(PartitionFence, "take", taking)
    with pytest.raises(WriterFenced):
        site.restore(**how, verify=False)
    assert not any(log.end for log in site.target.topics[TOPIC].partitions)


def test_one_without_a_number_left_spares_the_others(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(site, COUNT)
    take = PartitionFence.take

    def taking(self: PartitionFence, *, by: str) -> int:
        with monkeypatch.context() as patch:
            if self.target == key(9):
                patch.setattr(fence, "ATTEMPTS_MAX", 0)
            return take(self, by=by)

    monkeypatch.setattr(PartitionFence, "take", taking)
    with pytest.raises(WriterFenced, match="no producer epoch is left"):
        site.restore(offsets="translate", verify=False)
    assert [bool(site.target.values(TOPIC, number)) for number in range(COUNT)] == [n != 9 for n in range(COUNT)]


def test_sick_partitions_do_not_starve_those_beside_them(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """min.insync.replicas of one topic is above what it has."""
    monkeypatch.setitem(Backoff.__init__.__kwdefaults__, "limit_s", 0.1)
    topics = ("a-sick", "b-well")
    for topic in topics:
        site.source.make_topic(topic, partitions=16, retention_ms="-1")
        for number in range(16):
            site.source.write(topic, [b"v"], partition=number)
    site.back_up("*")
    sick = [TopicPartition(topic="a-sick", partition=number) for number in range(16)]
    site.target.failing |= {(Api.PRODUCE, each): NOT_ENOUGH_REPLICAS for each in sick}
    with pytest.raises(OffsiteError, match="was not tried"):
        site.restore(offsets="translate", verify=False)
    assert all(site.target.values("b-well", number) for number in range(16))
