"""Tells events to receivers, one after the other, in a thread beside the work. Telling never waits and never raises;
only `settle` waits, and not for longer than it is told to.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from offsite.model.clock import Clock
from offsite.model.journal import decided, safe_trace, warned
from offsite.notify.event import Event

_WAITING_MAX = 100
"""Events that wait for a receiver that hangs. Further ones but the end of the command are left out, and counted."""
_KEPT_MAX = 100
"""Outcomes kept for the result: a run that follows may go on for months."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of one event at one receiver. `to`: the receiver, as a person may see it. `problem`: empty where it
    worked."""

    to: str
    event: str
    took_s: float
    problem: str = ""

    @property
    def worked(self) -> bool:
        return not self.problem


@dataclass(slots=True, kw_only=True)
class Limit:
    """The time that one delivery may take. Seconds of the clock's `monotonic_s`; `leave_by_s` may come nearer
    meanwhile, because the process has to end."""

    clock: Clock
    until_s: float
    leaving: _Leaving

    def left_s(self) -> float:
        return min(self.until_s, self.leaving.by_s) - self.clock.monotonic_s()


@dataclass(slots=True)
class _Leaving:
    by_s: float = float("inf")


class Receiver(Protocol):
    """Somebody who wants to know. `deliver` returns within the limit, give or take a few seconds: what became of the
    event at each address, or nothing where nothing was to be told."""

    @property
    def timeout_s(self) -> float: ...

    def wants(self, event: Event) -> bool: ...

    def deliver(self, event: Event, limit: Limit) -> list[Delivery]: ...


@dataclass(slots=True)
class Tally:
    """Deliveries so far: how many worked, how many failed, and the last failures."""

    worked: int = 0
    failed: int = 0
    left_out: int = 0
    deliveries: list[Delivery] = field(default_factory=list)


def deliver(receiver: Receiver, event: Event, *, clock: Clock, leaving: _Leaving | None = None) -> list[Delivery]:
    """Deliver `event` in this thread, with lines in the log. Never raises."""
    began_s = clock.monotonic_s()
    limit = Limit(clock=clock, until_s=began_s + receiver.timeout_s, leaving=leaving or _Leaving())
    try:
        deliveries = receiver.deliver(event, limit)
    except Exception as error:  # noqa: BLE001  # a mistake of ours here must not end the run that it tells of
        decided("tell_failed", why=type(error).__name__, trace=safe_trace(error))
        took_s, problem = clock.monotonic_s() - began_s, type(error).__name__
        deliveries = [Delivery(to=type(receiver).__name__.lower(), event=event.kind, took_s=took_s, problem=problem)]
    for delivery in deliveries:
        if delivery.worked:
            decided("told", to=delivery.to, what=delivery.event, took_s=delivery.took_s, why="it happened")
        else:
            warned("not_told", to=delivery.to, what=delivery.event, took_s=delivery.took_s, why=delivery.problem)
    return deliveries


class Teller:
    """One thread that tells `receivers`, in order. With nobody who wants to know it starts no thread. `ends_first`: the
    end of the command is told before all that waits, because little time may be left."""

    def __init__(self, receivers: Sequence[Receiver], *, clock: Clock, name: str, ends_first: bool = False) -> None:
        self._receivers, self._clock, self._name, self._ends_first = receivers, clock, name, ends_first
        self._events: queue.PriorityQueue[tuple[int, int, Event]] = queue.PriorityQueue()
        self._numbers = count()
        self._leaving = _Leaving()
        self._thread: threading.Thread | None = None
        self.tally = Tally()

    def tell(self, event: Event) -> None:
        """Hand `event` over. Never waits."""
        if not any(receiver.wants(event) for receiver in self._receivers):
            return
        if self._events.qsize() >= _WAITING_MAX and not event.kind.is_end:
            self.tally.left_out += 1
            warned("not_told", what=event.kind, to=self._name, why="earlier events still wait to be told")
            return
        rank = 0 if self._ends_first and event.kind.is_end else 1
        self._events.put((rank, next(self._numbers), event))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def settle(self, *, within_s: float) -> bool:
        """Wait until all events are told, at most `within_s` seconds. Returns whether they are."""
        with self._events.all_tasks_done:
            return self._events.all_tasks_done.wait_for(
                lambda: not self._events.unfinished_tasks, timeout=max(within_s, 0.0)
            )

    def leave_within(self, seconds: float) -> None:
        """From now on, all deliveries together have `seconds`, that under way included. A later call may shorten this,
        never lengthen. Safe in a signal handler: takes no lock."""
        self._leaving.by_s = min(self._leaving.by_s, self._clock.monotonic_s() + seconds)

    def _work(self) -> None:
        while True:
            *_, event = self._events.get()
            try:
                for receiver in self._receivers:
                    if receiver.wants(event):
                        for delivery in deliver(receiver, event, clock=self._clock, leaving=self._leaving):
                            self._keep(delivery)
            finally:
                self._events.task_done()

    def _keep(self, delivery: Delivery) -> None:
        if delivery.worked:
            self.tally.worked += 1
        else:
            self.tally.failed += 1
        self.tally.deliveries = [*self.tally.deliveries, delivery][-_KEPT_MAX:]
