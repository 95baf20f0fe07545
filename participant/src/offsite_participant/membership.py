"""Membership of a participant of form B: joins, beats, acknowledges and leaves, a session at a time, with the time
until which it may produce.

A participant produces for a fraction of the promised lease only, counted from its own knowledge. A taker of a
checkpoint waits for a silent participant for the whole lease, from when the taker *read* the last beat. The participant
counts from when the beat was *sent*, which was earlier, and stops after half of the lease. A record handed to the
client at the last moment has a quarter to arrive. The last quarter covers clocks of different speeds.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from offsite_participant.control import AckRecord, Session, Sign, SignRecord, format_record
from offsite_participant.errors import LeaseLost
from offsite_participant.ports import Clock, ControlLog

DEFAULT_LEASE_MS = 10_000


def delivery_timeout_ms(lease_ms: int) -> int:
    """After this time the producer's client gives a record up."""
    return lease_ms // 4


def beat_every_ms(lease_ms: int) -> int:
    return lease_ms // 3


def read_every_ms(lease_ms: int) -> int:
    """How often to look for an opened checkpoint."""
    return lease_ms // 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`confirmed_ms`: when the newest acknowledged sign of life was sent, by a clock that never goes back."""

    lease_ms: int
    confirmed_ms: int

    def holds(self, now_ms: int) -> bool:
        """Whether a record may be produced at `now_ms`."""
        return now_ms - self.confirmed_ms <= self.lease_ms // 2

    def is_due(self, now_ms: int) -> bool:
        """Whether to beat at `now_ms`."""
        return now_ms - self.confirmed_ms >= beat_every_ms(self.lease_ms)

    def confirmed(self, sent_ms: int) -> Lease:
        """The lease after a sign of life sent at `sent_ms` was acknowledged."""
        return replace(self, confirmed_ms=max(self.confirmed_ms, sent_ms))


def random_session() -> str:
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SessionLease:
    session: Session
    lease: Lease


class Membership:
    """Raises `ControlUnavailable` wherever it writes.

    `beat` is called from a thread of its own, so that an application may handle a record longer than a lease.
    """

    def __init__(
        self,
        *,
        control: ControlLog,
        clock: Clock,
        name: str,
        lease_ms: int,
        new_session: Callable[[], str] = random_session,
    ) -> None:
        self._control = control
        self._clock = clock
        self._name = name
        self._lease_ms = lease_ms
        self.read_every_ms = read_every_ms(lease_ms)
        self._new_session = new_session
        self._session_lease: _SessionLease | None = None
        self._lock = threading.Lock()

    def join(self, catch_up: Callable[[], None]) -> None:
        """Begin a new session, which may produce only after `catch_up` has read the control topic: an opener before the
        join is heard, and an opener after the join waits. The last session is not ended: the old lease gives earlier
        records time to arrive."""
        self._hold(None)
        session = Session(self._name, self._new_session())
        sent_ms = self._clock.now_ms()
        self._say(Sign.JOIN, session)
        catch_up()
        self._hold(_SessionLease(session=session, lease=Lease(lease_ms=self._lease_ms, confirmed_ms=sent_ms)))

    def beat(self) -> None:
        """Beat, if due. A session with a lost lease is over: it does not beat again."""
        session_lease, sent_ms = self._session_lease, self._clock.now_ms()
        if session_lease is None or not session_lease.lease.holds(sent_ms) or not session_lease.lease.is_due(sent_ms):
            return
        self._say(Sign.BEAT, session_lease.session)
        with self._lock:
            if self._session_lease is not None and self._session_lease.session == session_lease.session:
                self._session_lease = replace(session_lease, lease=session_lease.lease.confirmed(sent_ms))

    @property
    def holds(self) -> bool:
        session_lease = self._session_lease
        return session_lease is not None and session_lease.lease.holds(self._clock.now_ms())

    def check(self) -> None:
        """Raise `LeaseLost` unless a record may be produced now."""
        if not self.holds:
            raise LeaseLost(f"{self._name!r} could not announce itself in time, and must not produce")

    def ack(self, checkpoint: int) -> None:
        if self._session_lease is not None:
            acked = AckRecord(session=self._session_lease.session, id=checkpoint, lease_ms=self._lease_ms)
            self._control.append(format_record(acked))

    def leave(self) -> None:
        """Leave. All records have arrived: nobody need wait for the session."""
        session_lease = self._session_lease
        self._hold(None)
        if session_lease is not None:
            self._say(Sign.LEAVE, session_lease.session)

    def _say(self, sign: Sign, session: Session) -> None:
        self._control.append(format_record(SignRecord(sign=sign, session=session, lease_ms=self._lease_ms)))

    def _hold(self, session_lease: _SessionLease | None) -> None:
        with self._lock:
            self._session_lease = session_lease
