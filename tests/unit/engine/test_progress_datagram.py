from __future__ import annotations

import socket
from dataclasses import replace

from offsite.engine.meter import (
    SEND_EVERY_S,
    Meter,
    MeterReading,
    ProgressAddress,
    ProgressDatagram,
    ProgressReceiver,
    ProgressSender,
)
from tests.processes import wait_until
from tests.virtual_time import VirtualClock

JOB = 3


def sent(address: ProgressAddress, *, job: int = JOB) -> None:
    clock = VirtualClock()
    sender = ProgressSender(address, job=job, index=1, clock=clock)
    clock.sleep(SEND_EVERY_S)
    sender(MeterReading(moved_bytes=10, records=2, limited_ms=4))
    sender(MeterReading(moved_bytes=11, records=3))  # too soon
    sender.close()


def taken(receiver: ProgressReceiver) -> list[ProgressDatagram]:
    datagrams: list[ProgressDatagram] = []

    def arrived() -> bool:
        datagrams.extend(receiver.take(JOB))
        return bool(datagrams)

    wait_until(arrived, "a datagram to arrive")
    return datagrams


def test_a_pulse_arrives_and_the_next_waits_its_time() -> None:
    receiver = ProgressReceiver("127.0.0.1")
    sent(receiver.address)
    assert taken(receiver) == [
        ProgressDatagram(index=1, reading=MeterReading(moved_bytes=10, records=2, limited_ms=4), host="127.0.0.1")
    ]
    assert list(receiver.take(JOB)) == []
    receiver.close()


def test_a_long_pause_is_told_at_once_since_nothing_follows_while_it_lasts() -> None:
    receiver = ProgressReceiver("127.0.0.1")
    sender = ProgressSender(receiver.address, job=JOB, index=1, clock=VirtualClock())
    for paused in (MeterReading(limited_ms=100), MeterReading(limited_ms=800), MeterReading(limited_ms=900)):
        sender(paused)
    sender(MeterReading(limited_ms=900, throttled_ms=1))
    sender.close()
    told = taken(receiver) + list(receiver.take(JOB))
    assert [datagram.reading.limited_ms for datagram in told] == [800, 900]
    receiver.close()


def test_strangers_and_earlier_jobs_are_not_heard() -> None:
    receiver = ProgressReceiver("127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"x" * 500, (receiver.address.host, receiver.address.port))
    sent(replace(receiver.address, token=b"?" * 16))
    sent(receiver.address, job=JOB - 1)
    sent(receiver.address)
    assert len(taken(receiver)) == 1
    receiver.close()


def test_a_driver_that_is_gone_fails_no_task() -> None:
    sent(ProgressAddress(host="127.0.0.1", port=1, token=b"0" * 16))


def test_a_meter_starts_each_task_from_zero() -> None:
    meter = Meter()
    meter.count(moved_bytes=5, records=1)
    meter.start()
    meter.count(moved_bytes=2, records=1)
    meter.count(moved_bytes=2, records=1)
    assert meter.read() == MeterReading(moved_bytes=4, records=2)
