"""What Spark workers run in tests: a task's function must be importable in another process."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offsite.engine import meter, rate_lease
from offsite.engine.runner import ShuffledTask
from offsite.model.errors import DamagedBatch, KafkaUnreachable
from offsite.model.journal import decided
from offsite.model.secret import Secret

PATIENCE_S = 60.0
PAID_BYTES = 400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """A task that writes one line per attempt into `log`, and goes wrong in the first `bad_attempts` of them."""

    log: Path
    bad_attempts: int = 0


def double(number: int) -> int:
    return number * 2


def length_of(number: int, *, secret: Secret, padding: bytes = b"") -> int:  # what it weighs
    return number + len(secret.reveal())


def interpreter(_: int) -> str:
    return sys.executable


def is_imported(module: str) -> bool:
    return module in sys.modules


def clock_s(_: int) -> float:
    """What this worker takes for the time, after a moment that keeps one worker from taking all tasks."""
    time.sleep(0.5)
    return time.time()


def tear_the_third(number: int) -> int:
    if number == 3:
        raise DamagedBatch("batch 3 is torn", hint="verify")
    return number


def divide_by_zero(number: int) -> float:
    return number / 0


def always_damaged(task: Attempted) -> None:
    attempt(task)
    raise DamagedBatch("torn", hint="")


def unreachable_at_first(task: Attempted) -> int:
    if (number := attempt(task)) <= task.bad_attempts:
        raise KafkaUnreachable(f"attempt {number}", hint="")
    return number


def decide_and_be_unreachable_at_first(task: Attempted) -> int:
    decided("hole", topic="orders", partition=3, why=f"attempt {attempt(task)}")
    if (number := len(task.log.read_text().splitlines())) <= task.bad_attempts:
        raise KafkaUnreachable(f"attempt {number}", hint="")
    return number


def killed_at_first(task: Attempted) -> int:
    if (number := attempt(task)) <= task.bad_attempts:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def count_and_wait_for(task: Attempted) -> int:
    """Count some bytes until the test has seen them and has put its file beside the log."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not task.log.with_suffix(".seen").exists() and time.monotonic() < deadline_s:
        meter.count(moved_bytes=1000, records=10)
        time.sleep(0.05)
    return meter.read().moved_bytes


def wait_for_ever(marker: Path) -> None:
    marker.touch()
    while True:
        time.sleep(PATIENCE_S)


def touch_slowly(path: Path) -> None:
    path.touch()


def go_on_when_told(task: object, *, function: Callable[[Any], Any], marker: Path) -> object:
    """Tell by `marker` that a worker has the task, and do it when there is another one that ends in `.go`."""
    marker.write_text(str(os.getpid()))
    while not marker.with_suffix(".go").exists():
        time.sleep(0.02)
    return function(task)


def pay_and_be_killed_at_first(task: Attempted) -> int:
    """Pay for `PAID_BYTES` under the read limit in each attempt; the bytes paid by the one that comes to its end."""
    lease = rate_lease.read_lease()
    assert lease is not None
    assert rate_lease.write_lease() is None
    lease.pay(PAID_BYTES)
    killed_at_first(task)
    return PAID_BYTES


def attempt(task: Attempted) -> int:
    """The number of this attempt, from 1."""
    with task.log.open("a") as log:
        log.write("attempt\n")
    return len(task.log.read_text().splitlines())


def find_numbers(task: int, *, folder: Path, broken: int, damaged: int) -> Iterator[tuple[int, Any]]:
    """The numbers of the task, a hundred, to buckets by what is left when they are divided by 7. Task `broken` fails
    once half-way, task `damaged` always."""
    for number in range(100 * task, 100 * task + 100):
        yield number % 7 % 3, (number % 7, number)
        if number % 100 == 50 and task == damaged:
            raise DamagedBatch("torn")
        if number % 100 == 50 and task == broken and not (folder / "failed").exists():
            (folder / "failed").touch()
            raise KafkaUnreachable("gone")


def die(task: int) -> Iterator[tuple[int, Any]]:
    """The worker ends in the middle of task 1, at every attempt."""
    yield 0, (task, task)
    if task == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def send_largest(found: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    largest: dict[int, int] = {}
    for key, value in found:
        if isinstance(value, DamagedBatch):
            yield key, value
        else:
            largest[key] = max(largest.get(key, -1), value)
    for value in largest.values():
        yield value // 100, value


def give_up(task: int, error: Exception) -> Iterator[tuple[int, Any]]:
    yield 0, (task, error)


def collect_sent(fed: ShuffledTask[int, Any]) -> tuple[int, list[int]]:
    sent = list(fed.received)
    for each in sent:
        if isinstance(each, Exception):
            raise each
    return fed.task, sorted(sent)
