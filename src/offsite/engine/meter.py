"""Figures of a running task: counted by the task's code, read by the runner of the task, and sent to the driver now and
then before the end.

One task runs at a time in a process, so the meter belongs to the process. Counting outside a run is harmless. Progress
travels in datagrams, because a worker must not wait for the driver, nor fail for it. Lost datagrams do no harm: a
task's envelope brings the final figures. A datagram must never carry anything but counts.
"""

from __future__ import annotations

import secrets
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from offsite.log.range import Chunk, Gap, Hole
from offsite.model.clock import Clock, SystemClock

ItemT = TypeVar("ItemT", bound=Chunk | Hole | Gap)

SEND_EVERY_S = 0.25
"""A person sees no more; a datagram costs some 20 µs."""
MAX_DATAGRAMS_AT_ONCE = 1000
"""Datagrams that the driver takes between two envelopes; the rest waits in the socket or is dropped by the kernel."""
_DATAGRAM = struct.Struct(">16sQQQQQQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterReading:
    """Figures of a task. `moved_bytes`, `records`: moved by the task. `throttled_ms`: pauses asked for by cluster
    quotas. `limited_ms`: pauses for offsite's own limits."""

    moved_bytes: int = 0
    records: int = 0
    throttled_ms: int = 0
    limited_ms: int = 0

    def __add__(self, other: MeterReading) -> MeterReading:
        return MeterReading(
            moved_bytes=self.moved_bytes + other.moved_bytes,
            records=self.records + other.records,
            throttled_ms=self.throttled_ms + other.throttled_ms,
            limited_ms=self.limited_ms + other.limited_ms,
        )


OnReading = Callable[[MeterReading], None]


class Meter:
    def __init__(self) -> None:
        self._reading = MeterReading()
        self._listener: OnReading | None = None

    def start(self, listener: OnReading | None = None) -> None:
        """Begin a task: start from zero, and pass every new reading to `listener`."""
        self._reading, self._listener = MeterReading(), listener

    def count(self, *, moved_bytes: int, records: int) -> None:
        """Add to the figures of the running task. Cheap enough for every chunk, too costly for every record."""
        self._add(MeterReading(moved_bytes=moved_bytes, records=records))

    def count_items(self, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """Yield the items unchanged. A chunk counts as moved when the caller asks for the next item: the chunk's bytes,
        and the records of all batches, whatever became of them."""
        for item in items:
            yield item
            if isinstance(item, Chunk):
                self.count(moved_bytes=len(item.data), records=sum(h.record_count for h in item.batches))

    def throttle(self, pause_ms: int) -> None:
        """Add a pause of `pause_ms` asked for by a quota, before the pause."""
        self._add(MeterReading(throttled_ms=pause_ms))

    def limit(self, pause_ms: int) -> None:
        """Add a pause of `pause_ms` for offsite's own limit, before the pause."""
        self._add(MeterReading(limited_ms=pause_ms))

    def _add(self, more: MeterReading) -> None:
        self._reading += more
        if self._listener is not None:
            self._listener(self._reading)

    def read(self) -> MeterReading:
        """Return the figures since `start`."""
        return self._reading


_process_meter = Meter()
start, count, count_items, read, throttle, limit = (
    _process_meter.start,
    _process_meter.count,
    _process_meter.count_items,
    _process_meter.read,
    _process_meter.throttle,
    _process_meter.limit,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressDatagram:
    """The figures of the running attempt at task `index` of a job, and the host of the attempt."""

    index: int
    reading: MeterReading
    host: str = ""

    @property
    def begins(self) -> bool:
        """Whether the datagram is the first of the attempt: nothing was moved so far."""
        return self.reading == MeterReading()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressAddress:
    """The driver's address for datagrams. `token` keeps strangers' datagrams out of the display, and protects nothing
    else."""

    host: str
    port: int
    token: bytes


class ProgressReceiver:
    """The driver's side of the datagrams: a socket that workers reach at `host`, bound to `bind` where `bind` is
    another address of this machine."""

    def __init__(self, host: str, *, bind: str = "") -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((bind or host, 0))
        self._socket.setblocking(False)
        self.address = ProgressAddress(host=host, port=self._socket.getsockname()[1], token=secrets.token_bytes(16))

    def take(self, job: int) -> Iterator[ProgressDatagram]:
        """Yield the datagrams of `job` received so far; does not wait."""
        for _ in range(MAX_DATAGRAMS_AT_ONCE):
            try:
                datagram, (host, _) = self._socket.recvfrom(_DATAGRAM.size + 1)
            except BlockingIOError:
                return
            if len(datagram) != _DATAGRAM.size:
                continue
            token, of_job, index, *figures = _DATAGRAM.unpack(datagram)
            if token == self.address.token and of_job == job:
                yield ProgressDatagram(index=index, reading=_reading(*figures), host=host)

    def close(self) -> None:
        self._socket.close()


class ProgressSender:
    """The worker's side of the datagrams: a meter's listener. A call never raises."""

    def __init__(self, address: ProgressAddress, *, job: int, index: int, clock: Clock | None = None) -> None:
        self._address, self._job, self._index = address, job, index
        self._clock = clock or SystemClock()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sent_s = self._clock.monotonic_s()
        self._sent = MeterReading()

    def __call__(self, reading: MeterReading) -> None:
        if reading == MeterReading():
            return  # only `send_begin` sends an empty reading
        now_s = self._clock.monotonic_s()
        if self._is_held_back(reading) or now_s - self._sent_s >= SEND_EVERY_S:
            self._sent_s, self._sent = now_s, reading
            self._send(reading)

    def send_begin(self) -> None:
        """Report that the task runs here."""
        self._send(MeterReading())

    def close(self) -> None:
        self._socket.close()

    def _is_held_back(self, reading: MeterReading) -> bool:
        """Whether a pause must be reported at once, because nothing follows while the pause lasts. Pauses of offsite's
        own limits are frequent, and mostly short."""
        limited_ms = reading.limited_ms - self._sent.limited_ms
        return reading.throttled_ms != self._sent.throttled_ms or limited_ms >= SEND_EVERY_S * 1000

    def _send(self, reading: MeterReading) -> None:
        figures = (reading.moved_bytes, reading.records, reading.throttled_ms, reading.limited_ms)
        datagram = _DATAGRAM.pack(self._address.token, self._job, self._index, *figures)
        try:
            self._socket.sendto(datagram, (self._address.host, self._address.port))
        except OSError:
            return  # the final display is right without the datagram; a copy must not fail for it


def _reading(moved_bytes: int, records: int, throttled_ms: int, limited_ms: int) -> MeterReading:
    return MeterReading(moved_bytes=moved_bytes, records=records, throttled_ms=throttled_ms, limited_ms=limited_ms)
