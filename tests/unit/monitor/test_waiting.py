"""What a run waits for is told while it waits: by name, and before anything has failed."""

from __future__ import annotations

import math
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from offsite.backup.run import LastProgress
from offsite.engine.runner import RunProgress
from offsite.kafka.net.backoff import Backoff
from offsite.model.clock import SystemClock, Wait, longest_wait
from offsite.model.errors import KafkaUnreachable, OffsiteError
from offsite.monitor import waiting as module
from offsite.monitor.waiting import TOLD_AFTER_S, Waiting, WaitReporter, waiting_now
from offsite.stores.object_store import CloudStore
from offsite.stores.plain_files import PlainFiles
from offsite.stores.posix_store import open_folder
from tests.fake_cluster.site import Site
from tests.inline_runner import InlineRunner
from tests.processes import wait_until


class Moved(SystemClock):
    """The machine's clock, and what the test adds to it."""

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.ahead_s = ahead_s

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s

    def sleep(self, duration_s: float) -> None:
        self.ahead_s += duration_s


LATER = Moved(TOLD_AFTER_S)


def told(clock: Moved = LATER) -> str:
    found = waiting_now(clock)
    return "" if found is None else found.subject


def wait_for_ever(backoff: Backoff, error: KafkaUnreachable) -> None:
    while True:
        backoff.wait(error)


def suppressed(ask: Callable[[], object]) -> None:
    with suppress(OffsiteError):
        ask()


def progress(**figures: float) -> RunProgress:
    start: dict[str, Any] = {"tasks_done": 0, "tasks_failed": 0, "moved_bytes": 0, "records": 0, "elapsed_s": 0}
    return RunProgress(tasks_total=9, worker_peak_rss_bytes=0, **{**start, **figures})


@pytest.fixture
def orders(site: Site) -> Site:
    site.source.make_topic("orders", partitions=4)
    for partition in range(4):
        site.source.write("orders", [b"v"], partition=partition)
    return site


def test_a_broker_that_takes_a_question_and_answers_none_is_named(site: Site) -> None:
    site.source.admin.cluster()
    site.source.answering.clear()
    asking = threading.Thread(target=site.source.admin.cluster, daemon=True)
    asking.start()
    wait_until(lambda: told() != "", "the wait")
    assert told() == f"{site.source.address} has not answered"
    assert waiting_now(SystemClock()) is None, "too short to be told"
    site.source.answering.set()
    asking.join(10)
    assert longest_wait() is None


def test_what_is_tried_again_is_told_with_its_error_and_since_it_failed_first() -> None:
    found: list[Waiting | None] = []

    class Looking(Moved):
        def sleep(self, duration_s: float) -> None:
            found.append(waiting_now(self))
            super().sleep(duration_s)

    backoff, error = Backoff(Looking(), limit_s=30), KafkaUnreachable("no broker answers", hint="")
    with pytest.raises(KafkaUnreachable):
        wait_for_ever(backoff, error)
    assert found[0] is None
    last = found[-1]
    assert last is not None
    assert (last.subject, last.waited_s > 25) == ("[OFF-1501] no broker answers", True)
    assert longest_wait() is None


def test_a_store_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = {"aws_endpoint": endpoint, "aws_access_key_id": "a", "aws_secret_access_key": "b"}
        store = CloudStore(url="s3://bucket", options=tuple(options.items()), max_retries=0, retry_timeout_s=1)
        asking = threading.Thread(target=lambda: suppressed(lambda: store.get("key")))
        asking.start()
        wait_until(lambda: told() != "", "the wait")
        assert told() == "the store has not answered: read s3://bucket/key"
        silent.accept()[0].close()
    asking.join(60)
    assert longest_wait() is None


def test_the_partitions_are_named_of_which_nothing_comes(orders: Site) -> None:
    clock, found = Moved(), list[str]()

    class Slow(InlineRunner):
        def run_each(self, *arguments: Any, on_progress: Any = None, **options: Any) -> Any:
            on_progress(progress())
            clock.ahead_s += 60
            found.append(told(clock))  # Spark starts
            on_progress(progress())
            clock.ahead_s += TOLD_AFTER_S
            found.append(told(clock))
            return super().run_each(*arguments, **options)

    orders.carry_out(orders.plan_backup("*"), runner=Slow(), clock=clock)
    assert found == ["", "no progress in orders/0, orders/1, orders/2 and 1 more partition"]
    assert longest_wait() is None


def test_where_all_is_copied_spark_is_what_is_waited_for() -> None:
    clock = Moved()
    last = LastProgress(None, clock=clock, open_partitions=list)
    with last.wait:
        last(progress())
        last(progress())
        clock.ahead_s += TOLD_AFTER_S
        assert told(clock) == "all partitions are copied, but the Spark job has not ended"


@pytest.mark.parametrize("figure", ["moved_bytes", "tasks_done", "tasks_failed", "throttled_s", "limited_s"])
def test_whatever_comes_of_a_copy_ends_its_silence(figure: str) -> None:
    clock = Moved()
    last = LastProgress(None, clock=clock, open_partitions=lambda: ["orders-0"])
    assert last.wait.since_s == math.inf
    for figures in ({}, {}, {figure: 1}, {figure: 1}):
        clock.ahead_s += 10
        last(progress(**figures))
    with last.wait:
        waited_s = clock.monotonic_s() - last.wait.since_s
    assert 10 <= waited_s < 15


def test_a_wait_is_told_as_long_as_it_lasts_from_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.001)
    heard: list[Waiting] = []
    with WaitReporter(heard.append, clock=SystemClock()):
        with Wait(lambda: "the door is shut", since_s=SystemClock().monotonic_s() - 60):
            wait_until(lambda: len(heard) > 2, "three words")
        assert {each.subject for each in heard} == {"the door is shut"}
        assert heard[-1].waited_s >= 60
    assert threading.active_count() == len([each for each in threading.enumerate() if each.name != "waiting"])


def test_the_longest_of_several_waits_is_told() -> None:
    with Wait(lambda: "short", since_s=100), Wait(lambda: "long", since_s=50), Wait(lambda: "shorter", since_s=200):
        found = longest_wait()
    assert found is not None
    assert found.description == "long"


def test_a_listing_that_nobody_reads_on_is_no_wait_for_the_store() -> None:
    """A collection pauses between two commits while rounds of the backup go on."""
    store = CloudStore(url="memory:///listed")
    for number in range(3):
        store.put_if_absent(f"commits/{number}", b"x")
    listed = store.list("commits/")
    assert next(listed).key == "commits/0"
    assert told() == ""
    assert [each.key for each in listed] == ["commits/1", "commits/2"]


def test_a_network_folder_that_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, seen = open_folder(tmp_path), list[str]()

    def hang(call: Any) -> Any:
        return lambda *given: (seen.append(told()), call(*given))[1]

    store.prepare()
    monkeypatch.setattr(os, "fsync", hang(os.fsync))
    for name in ("status", "opened"):
        monkeypatch.setattr(PlainFiles, name, hang(getattr(PlainFiles, name)))
    store.put_if_absent("a/b", b"x")
    assert f"the store has not answered: write {tmp_path}/a/b" in seen
    for what, ask in {"look at": store.head, "read": store.get}.items():
        seen.clear()
        ask("a/b")
        assert seen == [f"the store has not answered: {what} {tmp_path}/a/b"]
    seen.clear()
    monkeypatch.setattr(os, "fstat", hang(os.fstat))
    store.now_ms()
    assert seen[-1].startswith("the store has not answered: write ")
    assert longest_wait() is None
