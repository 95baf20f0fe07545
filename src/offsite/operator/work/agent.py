"""An agent waits until its backup is decided to run and no other agent copies. The agent then copies until the decision
changes.

Several agents of a backup read its ledger. One agent holds the backup, by a lease in the repository. The other agents
stand by without a Spark, and one of them takes a silent lease. Before every commit the agent reads the log, and then
checks the ledger and its lease (`Follow.guard`). Hence a stopped agent commits nothing after a seal, and of two agents
with a believed lease only one wins a commit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from offsite.backup.outages import Outages
from offsite.follow.follower import Follower
from offsite.model.clock import Clock
from offsite.model.errors import LeaseHeld, OffsiteError, OtherCluster
from offsite.model.journal import noted
from offsite.model.uninterrupted import let_interrupt
from offsite.operator.work.signs import Heartbeat
from offsite.repository.declared.history import BackupPhase, DeclaredHistory, LowLevelBackup
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import declared_ledger
from offsite.repository.lease import LeaseRenewal, ProcessIdentity
from offsite.stores.store import Store

LOOK_S = 1.0
"""Seconds between two checks whether the backup is still to run."""
STAND_BY_S = 3.0
"""Seconds between two checks of an agent on stand-by."""

Guard = Callable[[], None]
OpenFollower = Callable[[LowLevelBackup, Guard, Heartbeat], AbstractContextManager[Follower]]
"""Open a follower of a low-level backup, with its Spark, for a block. The follower reports finished rounds, and the
progress of later work, to the heartbeat."""


class StopCopying(Exception):  # no error: it ends the work on a backup
    """The agent may no longer copy the backup, or not with these settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext:
    """The context of an agent. `interval_of`: seconds from one round to the next, for a low-level backup.
    `check_source`: raises `OtherCluster` for a low-level backup of another cluster than the agent's."""

    store: Store
    uid: str
    open_follower: OpenFollower
    interval_of: Callable[[LowLevelBackup], float]
    check_source: Callable[[LowLevelBackup], None]
    outages: Outages
    clock: Clock
    identity: ProcessIdentity


class Agent:
    """Runs until interrupted (`KeyboardInterrupt`), or until an error that ends the agent."""

    def __init__(self, parts: AgentContext) -> None:
        self._parts = parts
        self._layout = DeclaredLayout(uid=parts.uid)
        self._ledger = declared_ledger(parts.store, self._layout.uid)
        self._terms = self._layout.agent(parts.store)
        self._heartbeat = Heartbeat(parts.store, self._layout, parts.clock)
        self._history: DeclaredHistory | None = None
        self._checked = 0

    def run(self) -> None:
        """Raises an error that cannot be waited out, or that lasted too long."""
        self._parts.outages.on_worked = self._heartbeat.report_success
        while True:
            let_interrupt()
            try:
                self.step()
                self._heartbeat.rest()
                self._parts.outages.worked()
            except OffsiteError as error:
                self._history = None
                self._wait(error)

    def _wait(self, error: OffsiteError) -> None:
        self._heartbeat.report_failure(error)
        self._parts.outages.wait(error)

    def step(self) -> None:
        """Check once: copy for as long as the agent holds the backup, or else wait a moment."""
        low = self._newest()
        if low is None or low.phase is not BackupPhase.RUNNING:
            self._heartbeat.rest()
            self._parts.clock.sleep(LOOK_S)
            return
        with ExitStack() as stack:
            try:
                lease = stack.enter_context(self._terms.renewed(self._parts.identity))
            except LeaseHeld:
                self._heartbeat.rest()
                self._check_source(low)
                self._parts.clock.sleep(STAND_BY_S)
                return
            try:
                self._copy(low, lease)
            except StopCopying as told:
                self._heartbeat.rest()
                noted("agent_rests", why=str(told), uid=self._parts.uid, backup=low.beginning.backup)

    def _check_source(self, low: LowLevelBackup) -> None:
        """Check that this agent can copy the backup. An agent on standby that could never take over is no help, and
        ends with `OtherCluster`: on another machine the same cluster name may lead to another cluster. A cluster
        without an answer is asked again later."""
        if self._checked == low.number:
            return
        try:
            self._parts.check_source(low)
        except OtherCluster:
            raise
        except OffsiteError as error:
            noted("source_not_checked", error=error.id, why=error.message, uid=self._parts.uid)
        else:
            self._checked = low.number

    def _copy(self, low: LowLevelBackup, lease: LeaseRenewal) -> None:
        self._heartbeat.take(low.number, lease.claim.term)
        noted("agent_copies", uid=self._parts.uid, backup=low.beginning.backup, term=lease.claim.term)

        def guard() -> None:
            if lease.is_lost:
                raise StopCopying("another agent works on it")
            if (now := self._newest()) != low:
                raise StopCopying(f"it is {now.phase if now else 'gone'}, or its settings change")

        with self._parts.open_follower(low, guard, self._heartbeat) as follower:
            self._go_round(follower, guard, self._parts.interval_of(low))

    def _go_round(self, follower: Follower, guard: Guard, interval_s: float) -> None:
        parts = self._parts
        while True:
            began_s = parts.clock.monotonic_s()
            self._heartbeat.begin_round()
            try:
                guard()
                follower.work()
            except OffsiteError as error:
                follower.forget()
                self._wait(error)
                continue
            parts.outages.worked()
            while (left_s := interval_s - (parts.clock.monotonic_s() - began_s)) > 0:
                guard()
                parts.clock.sleep(min(left_s, LOOK_S))

    def _newest(self) -> LowLevelBackup | None:
        self._history = self._ledger.read(self._history)
        return self._history.backups[-1] if self._history.backups else None
