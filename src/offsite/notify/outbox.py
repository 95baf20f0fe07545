"""Events on their way to receivers that may not be reachable now: what is told once must not be lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from offsite.model.clock import Clock
from offsite.model.journal import warned
from offsite.notify.event import Event, EventKind
from offsite.notify.teller import Receiver, deliver

AGAIN_AFTER_S = 300.0
WAITING_MAX = 100
"""Events that wait for a receiver. The oldest is left out for one more, with a line in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    event: Event
    due_s: float


class Outbox:
    """For one thread at a time. An event is sent to a receiver until it has reached one address there."""

    def __init__(self, receivers: Sequence[Receiver], *, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[Receiver, deque[_Waiting]]] = [(receiver, deque()) for receiver in receivers]

    def put(self, event: Event) -> None:
        """Take an event for all receivers that want it."""
        for receiver, events in self._waiting:
            if receiver.wants(event):
                events.append(_Waiting(event=event, due_s=self._clock.monotonic_s()))
                if len(events) > WAITING_MAX:
                    warned("not_told", what=events.popleft().event.kind, why=f"{WAITING_MAX} events wait to be told")

    def send(self) -> None:
        """Send what is due, in order. One that fails holds up those behind it at the same receiver."""
        for receiver, events in self._waiting:
            while events and events[0].due_s <= self._clock.monotonic_s():
                event = events.popleft().event
                deliveries = deliver(receiver, event, clock=self._clock)
                is_lost = bool(deliveries) and not any(delivery.worked for delivery in deliveries)
                if is_lost and event.kind is not EventKind.ROUND:  # the next round says it again
                    events.appendleft(_Waiting(event=event, due_s=self._clock.monotonic_s() + AGAIN_AFTER_S))
