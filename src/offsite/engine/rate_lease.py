"""The worker's end of the rate limits: bytes are taken from the driver in portions, and spent here.

A worker never moves unpaid bytes: a worker without an answer from the driver fails, and Spark tries the task elsewhere.
One task runs at a time in a process, so a lease belongs to the process, as the meter does.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hmac import compare_digest

from blake3 import blake3

from offsite.engine import meter
from offsite.engine.rate_limits import Direction, RateAddress
from offsite.engine.rate_server import ANSWER, EXECUTOR_BYTES, QUESTION, TOKEN_BYTES
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import SparkFailed
from offsite.model.journal import decided

ANSWER_MAX_S = 30.0
"""The driver answers at once: a driver too busy for this time is as good as gone."""

_ATTEMPTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RateGrant:
    """An answer of the driver: the requested bytes are paid for in `wait_s` seconds. `portion_bytes`: bytes to take
    next time."""

    wait_s: float
    portion_bytes: int


class RateConnection:
    """The process's connection to the driver's `RateServer`, made when first needed."""

    def __init__(self, address: RateAddress, *, answer_max_s: float = ANSWER_MAX_S) -> None:
        self._address, self._answer_max_s = address, answer_max_s
        self._socket: socket.socket | None = None

    def ask(self, which: Direction, size_bytes: int) -> RateGrant:
        """Take `size_bytes`. Raises `SparkFailed` when nobody answers, or somebody other than the driver."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._asked(which, size_bytes)
            except OSError as error:
                self.close()
                reason = error
                decided("retry", attempt=attempt, why=f"the driver assigns no rate: {error}")
        raise SparkFailed(
            f"the driver does not provide the rate limits at {self._address.host}:{self._address.port}: {reason}",
            hint="check that workers can connect to the driver's machine on any port, and that the driver is running",
        ) from reason

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _asked(self, which: Direction, size_bytes: int) -> RateGrant:
        sock = self._socket or self._connected()
        sock.sendall(QUESTION.pack(which, size_bytes))
        wait_s, portion_bytes = ANSWER.unpack(_received(sock, ANSWER.size))
        return RateGrant(wait_s=wait_s, portion_bytes=portion_bytes)

    def _connected(self) -> socket.socket:
        address = self._address
        sock = self._socket = socket.create_connection((address.host, address.port), timeout=self._answer_max_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(address.token + executor_key())
        if not compare_digest(_received(sock, TOKEN_BYTES), address.welcome):
            raise ConnectionRefusedError("another service answers there")
        return sock


def executor_key() -> bytes:
    """Return a key equal in all workers of an executor, and different elsewhere: the workers have one parent on one
    machine."""
    return blake3(f"{socket.gethostname()} {os.getppid()}".encode()).digest(EXECUTOR_BYTES)


def _received(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise ConnectionResetError("the connection was closed")
        data += more
    return data


class RateLease:
    """The process's share of one limit: taken from the driver in portions by `ask`, spent by `pay`.

    A fetch is paid by its requested size, before it is sent, and settled with its answer: bytes that did not come are
    kept for the next fetch, and bytes beyond the request (a batch is sent whole, however large) are owed.
    """

    def __init__(
        self,
        ask: Callable[[int], RateGrant],
        *,
        bytes_per_s: int,
        clock: Clock | None = None,
        on_wait: Callable[[int], None] = meter.limit,
    ) -> None:
        """`bytes_per_s`: the limit, of all workers together. `on_wait` receives every pause in milliseconds, before the
        pause."""
        self.bytes_per_s = bytes_per_s
        self._ask, self._on_wait = ask, on_wait
        self._clock = clock or SystemClock()
        self._held_bytes = 0
        self._paid_bytes = 0  # for the fetch in flight
        self._largest_bytes = 0  # largest answer above the size of its fetch
        self._fetch_bytes = 0
        self.portion_bytes = ask(0).portion_bytes

    def pay(self, size_bytes: int) -> None:
        """Wait until `size_bytes` are paid for, out of a portion where the bytes are few. Raises `SparkFailed`."""
        if self._held_bytes < size_bytes:
            self._take(max(size_bytes - self._held_bytes, self.portion_bytes))
        self._held_bytes -= size_bytes

    def before_fetch(self, size_bytes: int) -> None:
        """Wait until a fetch is paid for: `size_bytes`, or the largest oversized answer so far, because it may come
        again. Raises `SparkFailed`."""
        self._fetch_bytes, self._paid_bytes = size_bytes, max(size_bytes, self._largest_bytes)
        if self._held_bytes < self._paid_bytes:
            self._take(self._paid_bytes - self._held_bytes)
        self._held_bytes -= self._paid_bytes

    def after_fetch(self, size_bytes: int) -> None:
        """Settle the fetch with the size of the answer."""
        if size_bytes > self._fetch_bytes:
            self._largest_bytes = max(self._largest_bytes, size_bytes)
        left_bytes = self._held_bytes + self._paid_bytes - size_bytes
        self._held_bytes, self._paid_bytes = min(left_bytes, max(self.portion_bytes, self._largest_bytes)), 0

    def _take(self, size_bytes: int) -> None:
        granted = self._ask(size_bytes)
        self.portion_bytes = granted.portion_bytes
        if granted.wait_s > 0:
            self._on_wait(round(granted.wait_s * 1000))
            self._clock.sleep(granted.wait_s)
        self._held_bytes += size_bytes


class RateLeases:
    """The process's leases of one driver: the next task spends bytes left by a task."""

    def __init__(self, address: RateAddress) -> None:
        self.address, self._process_id = address, os.getpid()
        self._connection = RateConnection(address)
        self._leases: dict[Direction, RateLease] = {}

    def is_for(self, address: RateAddress) -> bool:
        """Whether the leases are usable for `address`. Not in a forked child, whose parent uses the same connection."""
        return (self.address, self._process_id) == (address, os.getpid())

    def of(self, which: Direction) -> RateLease | None:
        """Return the lease of one limit; None without such a limit. Raises `SparkFailed`."""
        rate = self.address.limits.by_direction().get(which)
        if rate is None:
            return None
        if which not in self._leases:
            self._leases[which] = RateLease(partial(self._connection.ask, which), bytes_per_s=rate)
        return self._leases[which]

    def close(self) -> None:
        self._connection.close()


_of_process: list[RateLeases] = []


def start(address: RateAddress | None) -> None:
    """Begin a task under the limits of `address`; None: no limits."""
    if address is not None and _of_process and _of_process[0].is_for(address):
        return
    while _of_process:
        _of_process.pop().close()
    if address is not None:
        _of_process.append(RateLeases(address))


def read_lease() -> RateLease | None:
    """Return the running task's lease of bytes from brokers; None without a limit. Raises `SparkFailed`."""
    return _of_process[0].of(Direction.READ) if _of_process else None


def write_lease() -> RateLease | None:
    """Return the running task's lease of bytes into the store, or into brokers; None without a limit. Raises
    `SparkFailed`."""
    return _of_process[0].of(Direction.WRITE) if _of_process else None
