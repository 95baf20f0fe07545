"""A participant as an application uses it, whatever its client: `poll`, `produce`, `commit`, `close`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from offsite_participant.control import CONTROL_TOPIC
from offsite_participant.core import Hooks, ParticipantCore
from offsite_participant.membership import DEFAULT_LEASE_MS, Membership, beat_every_ms
from offsite_participant.number import Form, Header, TopicPartition
from offsite_participant.ports import Client, Clock, ControlLog, Outgoing, Record

_SLICE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`form`: how the participant hears of checkpoints; the same for all participants of a backup. Form B (`ACKS`)
    needs a `name` known to people, and a lease: the longest time that a dead participant may hold up a checkpoint."""

    form: Form = Form.MARKERS
    name: str = ""
    lease_ms: int = DEFAULT_LEASE_MS
    control_topic: str = CONTROL_TOPIC
    hooks: Hooks = field(default_factory=Hooks)

    def __post_init__(self) -> None:
        if self.form is Form.ACKS and not self.name:
            raise ValueError("a participant of form B needs a name")


class SystemClock:
    """A clock that continues while the machine sleeps, if the system has such a clock."""

    _clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def now_ms(self) -> int:
        return time.clock_gettime_ns(self._clock) // 1_000_000


class Assignment:
    """Where a client reports to. Made before the core, which needs the client."""

    def __init__(self) -> None:
        self.core: ParticipantCore | None = None

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        if self.core:
            self.core.assigned(partitions)

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        if self.core:
            self.core.revoked(partitions)

    def delivered(self, where: TopicPartition, offset: int) -> None:
        if self.core:
            self.core.delivered(where, offset)

    def given_up(self, reason: str) -> None:
        if self.core:
            self.core.given_up(reason)


class Participant:
    """For a single thread, like the clients. A context manager; leaving it closes the participant, and commits nothing.

    Made by `offsite_participant.confluent.participant` and `offsite_participant.kafka_python.participant`.
    """

    def __init__(
        self,
        *,
        client: Client,
        control: ControlLog,
        reports: Assignment,
        settings: Settings,
        clock: Clock = SystemClock(),
    ) -> None:
        self._client = client
        self._control = control
        self._pending: Record | None = None
        self._reports = reports
        membership = None
        if settings.form is Form.ACKS:
            membership = Membership(control=control, clock=clock, name=settings.name, lease_ms=settings.lease_ms)
        self._core = ParticipantCore(
            control=control, group=client, clock=clock, membership=membership, hooks=_dropping(self, settings.hooks)
        )
        reports.core = self._core
        self._core.start()
        self._beats = _Beats(self._core.beat, every_s=beat_every_ms(settings.lease_ms) / 4_000) if membership else None

    @property
    def number(self) -> int:
        """The number of its newest checkpoint; 0 for none."""
        return self._core.number

    def poll(self, timeout_s: float = 1.0) -> Record | None:
        """The next record to handle; None without a record within `timeout_s`. Asking for the next record means that
        the last one is handled. Call `poll` at least every few seconds, with 0 if need be: here checkpoints are taken,
        and losses repaired. Raises `ControlUnavailable`, and the final errors `Unreadable` and `UnknownVersion`."""
        end_s = time.monotonic() + timeout_s
        while True:
            self._core.tick()
            left_s = end_s - time.monotonic()
            if self._pending is None:
                self._pending = self._client.take(max(0.0, min(left_s, _SLICE_S)))
            if self._pending is not None:
                record, is_data = self._pending, self._core.received(self._pending)
                self._pending = None
                if is_data:
                    return record
            elif left_s <= 0:
                return None

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Iterable[Header] = (),
    ) -> None:
        """Hand a record to the producer, with the stamp. Raises `LeaseLost` or `NotDelivered`: give up the record being
        handled, and go on with `poll()`."""
        own_headers = tuple(headers)
        while True:
            self._client.prepare(topic)
            stamped = self._core.outgoing(own_headers, topic)
            if self._client.send(Outgoing(topic=topic, value=value, key=key, partition=partition, headers=stamped)):
                return

    def commit(self) -> None:
        """Wait until all outputs are delivered, and commit all records that `poll` returned, the last one included.
        Raises `NotDelivered`, `LeaseLost` or `NotCommitted`: go on with `poll()`."""
        self._core.commit()

    def close(self) -> None:
        """Wait until all outputs are delivered or given up, and leave. Uncommitted records will be handled again."""
        if self._beats:
            self._beats.stop()
        with contextlib.ExitStack() as closing:
            closing.callback(self._control.close)
            closing.callback(self._client.close)
            self._core.stop()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop a taken but unhandled record of the partitions; the record comes again."""
        if self._pending is not None and self._pending.where in set(partitions):
            self._pending = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _dropping(participant: Participant, hooks: Hooks) -> Hooks:
    def on_lost(partitions: Iterable[TopicPartition]) -> None:
        gone = tuple(partitions)
        participant.forget(gone)
        hooks.on_lost(gone)

    return Hooks(on_checkpoint=hooks.on_checkpoint, on_lost=on_lost)


class _Beats(threading.Thread):
    """Beats for ever. An error does not end the thread, whatever the client raises: the lease runs out by itself, and
    nothing is produced afterwards. If the thread ended, every later session would lose its lease as well."""

    def __init__(self, beat: Callable[[], None], *, every_s: float) -> None:
        super().__init__(name="offsite-beats", daemon=True)
        self._beat = beat
        self._every_s = every_s
        self._is_over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._is_over.wait(self._every_s):
            with contextlib.suppress(Exception):
                self._beat()

    def stop(self) -> None:
        self._is_over.set()
        self.join()
