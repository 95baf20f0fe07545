"""One driver's limit, shared out to processes: the sum holds, is used, and no end of anybody holds the others up."""

from __future__ import annotations

import multiprocessing
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.engine import rate_lease
from offsite.engine.rate_lease import RateConnection, RateGrant, RateLease
from offsite.engine.rate_limits import Direction, RateAddress, RateLimits
from offsite.engine.rate_server import BURST_S, MAX_STRANGERS, RateServer
from offsite.model.errors import SparkFailed
from tests.processes import wait_until
from tests.virtual_time import VirtualClock

RATE = 4_000_000
MEASURED_S = 2.5
SPENT = struct.Struct(">dQ")


@pytest.fixture
def server() -> Iterator[RateServer]:
    opened = RateServer("127.0.0.1", RateLimits(read_bytes_per_s=RATE))
    yield opened
    opened.close()


def spend(address: RateAddress, spent: Path, size_bytes: int) -> None:
    """As much as goes, until it is killed: when, and how many bytes, in a file of its own."""
    rate_lease.start(address)
    lease = rate_lease.read_lease()
    assert lease is not None
    with spent.open("ab", buffering=0) as file:
        while True:
            lease.pay(size_bytes)
            file.write(SPENT.pack(time.monotonic(), size_bytes))


@pytest.mark.slow
def test_the_sum_over_processes_is_the_rate_even_when_one_is_killed(server: RateServer, tmp_path: Path) -> None:
    spawning = multiprocessing.get_context("spawn")
    files = {tmp_path / str(size): size for size in (2_000, 70_000, 300_000)}
    workers = [spawning.Process(target=spend, args=(server.address, *each), daemon=True) for each in files.items()]
    for worker in workers:
        worker.start()
    wait_until(lambda: all(file.exists() and file.stat().st_size for file in files), "all of them to spend")
    began_s = time.monotonic()
    time.sleep(MEASURED_S / 2)
    workers[1].kill()
    time.sleep(MEASURED_S / 2)
    took_s = time.monotonic() - began_s
    for worker in workers:
        worker.kill()
        worker.join()
    whole = [file.read_bytes() for file in files]
    spent = [each for data in whole for each in SPENT.iter_unpack(data[: len(data) // SPENT.size * SPENT.size])]
    moved = sum(size for when_s, size in spent if began_s <= when_s <= began_s + took_s)
    slack = 800_000  # each of the three may have taken a portion, or more, before it began or without an end
    assert moved <= RATE * (took_s + BURST_S) + slack
    assert moved >= 0.9 * RATE * took_s - slack


def test_what_is_not_limited_has_no_lease(server: RateServer) -> None:
    rate_lease.start(server.address)
    assert rate_lease.write_lease() is None
    assert rate_lease.read_lease() is rate_lease.read_lease()
    rate_lease.start(None)
    assert rate_lease.read_lease() is None


def test_a_stranger_is_sent_away_and_those_who_say_nothing_make_room(server: RateServer) -> None:
    place = (server.address.host, server.address.port)
    with socket.create_connection(place, timeout=60) as liar:
        liar.sendall(b"?" * 16)
        assert liar.recv(1) == b""
    silent = [socket.create_connection(place, timeout=60) for _ in range(MAX_STRANGERS + 10)]
    assert [each.recv(1) for each in silent[:10]] == [b""] * 10
    connection = RateConnection(server.address)
    assert connection.ask(Direction.READ, 0).portion_bytes > 0
    connection.close()
    for each in silent:
        each.close()


def test_asking_for_what_is_not_shared_out_ends_the_connection(server: RateServer) -> None:
    connection = RateConnection(server.address)
    with pytest.raises(SparkFailed):
        connection.ask(Direction.WRITE, 1)


def test_whoever_has_got_the_port_of_another_driver_is_not_believed(server: RateServer) -> None:
    connection = RateConnection(replace(server.address, welcome=b"!" * 16))
    with pytest.raises(SparkFailed, match="another service"):
        connection.ask(Direction.READ, 1)


def test_a_driver_that_says_nothing_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = RateAddress(
            host="127.0.0.1",
            port=mute.getsockname()[1],
            token=b"t" * 16,
            welcome=b"w" * 16,
            limits=RateLimits(read_bytes_per_s=1),
        )
        with pytest.raises(SparkFailed, match="timed out"):
            RateConnection(address, answer_max_s=0.1).ask(Direction.READ, 1)


def test_a_driver_that_has_ended_fails_who_asks(server: RateServer) -> None:
    connection = RateConnection(server.address)
    connection.ask(Direction.READ, 1)
    server.close()
    with pytest.raises(SparkFailed, match=str(server.address.port)):
        connection.ask(Direction.READ, 1)


def test_a_connection_that_was_lost_is_made_again(server: RateServer) -> None:
    connection = RateConnection(server.address)
    connection.ask(Direction.READ, 1)
    assert connection._socket is not None
    connection._socket.shutdown(socket.SHUT_RDWR)
    assert connection.ask(Direction.READ, 1).portion_bytes > 0
    connection.close()


def test_a_server_that_is_closed_leaves_no_thread() -> None:
    server = RateServer("127.0.0.1", RateLimits(write_bytes_per_s=RATE))
    server.close()
    server.close()
    wait_until(lambda: "offsite-rate-limits" not in {each.name for each in threading.enumerate()}, "its thread to end")


class Driver:
    """Grants everything after a second for each 100 bytes."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.clock = VirtualClock()
        self.paused_ms: list[int] = []
        self.lease = RateLease(self.ask, bytes_per_s=100, clock=self.clock, on_wait=self.paused_ms.append)
        self.taken.clear()

    def ask(self, size_bytes: int) -> RateGrant:
        self.taken.append(size_bytes)
        return RateGrant(wait_s=size_bytes / 100, portion_bytes=50)


def test_small_payments_are_made_out_of_a_portion() -> None:
    driver = Driver()
    for _ in range(10):
        driver.lease.pay(10)
    driver.lease.pay(170)
    assert driver.taken == [50, 50, 170]
    assert (driver.clock.now_s, driver.paused_ms) == (2.7, [500, 500, 1700])


def test_what_a_fetch_did_not_bring_is_kept_for_the_next_one() -> None:
    driver = Driver()
    for _ in range(5):
        driver.lease.before_fetch(50)
        driver.lease.after_fetch(10)
    assert driver.taken == [50, 10, 10, 10, 10]


def test_what_came_beyond_a_fetch_is_owed_and_then_paid_ahead() -> None:
    driver = Driver()
    driver.lease.before_fetch(50)
    driver.lease.after_fetch(400)
    driver.lease.before_fetch(50)
    assert driver.taken == [50, 750], "the debt, and as much again"
    for size in (400, 30, 30, 400):
        driver.lease.after_fetch(size)
        driver.lease.before_fetch(50)
    assert sum(driver.taken) == 400 + (400 + 30 + 30 + 400) + 400, "no byte is lost"


def test_each_executor_has_a_limit_of_its_own_and_all_have_one_together(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = RateLimits(read_bytes_per_s=3 * RATE, executor_read_bytes_per_s=RATE)
    server = RateServer("127.0.0.1", limits, clock=VirtualClock())
    waits: list[list[float]] = []
    for number in range(4):
        monkeypatch.setattr(rate_lease, "executor_key", lambda number=number: bytes([number]) * 16)
        connection = RateConnection(server.address)
        waits.append([connection.ask(Direction.READ, RATE).wait_s for _ in range(2)])
        connection.close()
    server.close()
    alone = [1, 2]
    assert waits[0] == pytest.approx(alone)
    assert waits[1] == pytest.approx(alone)
    assert waits[3][1] == pytest.approx(8 / 3), "all together have taken 8 times what one may take in a second"


def test_what_is_limited_for_executors_only_is_limited() -> None:
    limits = RateLimits(executor_write_bytes_per_s=RATE)
    server = RateServer("127.0.0.1", limits, clock=VirtualClock())
    connection = RateConnection(server.address)
    assert connection.ask(Direction.WRITE, RATE).wait_s == pytest.approx(1)
    with pytest.raises(SparkFailed):
        connection.ask(Direction.READ, RATE)
    assert limits.by_direction() == {Direction.WRITE: RATE}
    assert RateLimits(write_bytes_per_s=5, executor_write_bytes_per_s=7).by_direction() == {Direction.WRITE: 5}
    connection.close()
    server.close()
