"""The operator of a folder: observes all resources repeatedly, and brings every resource one step nearer to its spec.
The operator keeps no important state: the operator may be killed at any point, and further operators may run in
parallel.

An error in one resource is reported in its status, and never stops other resources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from offsite.model.clock import Clock
from offsite.model.errors import BadResource, OffsiteError
from offsite.model.journal import decided, safe_line, warned
from offsite.operator.core.accounts import Accounts, read_accounts
from offsite.operator.core.all_keepers import Keepers, SharedState
from offsite.operator.core.backup_keeper import EXPIRY_FAILING
from offsite.operator.core.expiry_jobs import ExpiryJobs
from offsite.operator.core.files import ACCOUNTS, FolderLayout
from offsite.operator.core.keeper import Reconciled
from offsite.operator.core.monitor import RoundSummary
from offsite.operator.core.processes import OFFSITE, Launches
from offsite.operator.core.records import ResourceRecord
from offsite.operator.core.status import Condition, build_status
from offsite.operator.decide.queue import QueueRules
from offsite.operator.folder.agents import LocalAgents
from offsite.operator.folder.declarations import (
    ABSENT_AFTER_S,
    LOOKS_MIN,
    SETTLE_S,
    Admissions,
    StabilizationWindow,
    read_declared,
)
from offsite.operator.folder.edits import is_whole
from offsite.operator.folder.moves import bind, check_own
from offsite.operator.folder.resources import LAST_LOOK, ResourceRecords, Statuses
from offsite.operator.resources.model import ResourceKey
from offsite.operator.world.jobs import local_processes
from offsite.stores.plain_files import make_private_root, wrap_errors
from offsite.stores.posix_store import PosixStore
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRules:
    """The settings of an operator. `initial_copies`: backups in their initial copy at a time. `queue`: rules of the
    expiry queue. `jobs_at_once`: restores, checkpoints and drills on the local machine at a time (each has a Spark of
    its own). `absent_after_s`: seconds without a declaration before a resource is deleted. `settle_s`: seconds that a
    file must be stable. `command`: the command `offsite` on the local machine."""

    initial_copies: int = 1
    queue: QueueRules = field(default_factory=QueueRules)
    jobs_at_once: int = 2
    absent_after_s: float = ABSENT_AFTER_S
    settle_s: float = SETTLE_S
    command: Sequence[str] = OFFSITE


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingResource:
    """A resource with differences from its spec, or an unreadable file (kind `file`), and the reason."""

    kind: str
    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LookResult:
    """The result of one round."""

    resources: int
    waiting: tuple[PendingResource, ...] = ()


class FolderOperator:
    """The constructor raises `FolderCopied` if the folder is a copy. Other threads may read `rounds`."""

    def __init__(self, layout: FolderLayout, rules: OperatorRules, *, clock: Clock) -> None:
        self._layout, self._rules, self._clock = layout, rules, clock
        self.records, self.statuses = ResourceRecords(layout=layout), Statuses(layout)
        self.agents = LocalAgents(layout, clock=clock)
        self.jobs = ExpiryJobs(layout, rules.queue, clock=clock)
        self._keepers = Keepers(
            self.records, self.agents, self.jobs, processes=local_processes(at_once=rules.jobs_at_once), clock=clock
        )
        self._accounts: Accounts | None = None
        self._shared = SharedState.of(_home(layout), initial_copies=rules.initial_copies)
        self._unclear: Mapping[str, str] = {}
        self._admissions = Admissions(
            records=self.records,
            is_whole=partial(is_whole, layout),
            clock=clock,
            absent_after_s=rules.absent_after_s,
            settle_s=rules.settle_s,
        )
        self._accounts_seen = StabilizationWindow(enough_s=rules.settle_s)
        self._failing: set[ResourceKey] = set()
        self.rounds = RoundSummary(ended_s=clock.monotonic_s())

    def settle(self) -> None:
        """Observe files only, until the files are stable. Used by a command with a single round."""
        for _ in range(LOOKS_MIN):
            if not self._admissions.settles(read_declared(self._layout.root)):
                return
            self._clock.sleep(self._rules.settle_s / LOOKS_MIN)

    def look(self) -> LookResult:
        """Run one round over all resources. Raises `BadOption` if the folder no longer exists, and `FolderCopied` if a
        copy took its place."""
        check_own(self._layout)
        declared = read_declared(self._layout.root)
        unclear = {**self._open_hands(), **declared.unclear}
        self._tell_unclear(unclear)
        problems = self._admissions.admit_all(declared)
        self._failing = set()
        waiting = {record.key: self._look_after(record, problems) for record in self.records.all()}
        for key, problem in problems.items():
            if key not in waiting:
                waiting[key] = self._refuse(key, problem)
        with suppress(OffsiteError):  # `_tell` has reported the error
            self.statuses.keep_only([*problems, *(record.key for record in self.records.all())])
        self.agents.tend(self.records.uids)
        self._step_queue()
        self.rounds = RoundSummary(
            ended_s=self._clock.monotonic_s(),
            resources=Counter(kind for kind, _ in waiting),
            waiting=Counter(kind for (kind, _), why in waiting.items() if why),
            failing=Counter(kind for kind, _ in self._failing),
        )
        resources = [
            PendingResource(kind=kind, name=name, why=why) for (kind, name), why in sorted(waiting.items()) if why
        ]
        files = [PendingResource(kind="file", name=name, why=why) for name, why in sorted(unclear.items())]
        return LookResult(resources=len(waiting), waiting=(*resources, *files))

    def _open_hands(self) -> Mapping[str, str]:
        """Use the current accounts; if they cannot be read, use the former ones, and return why. Nothing is reconciled
        before accounts were read once: a backup with an unknown account would look like a backup declared elsewhere."""
        problem: Mapping[str, str] = {}
        try:
            self._accounts = self._read_accounts()
        except OffsiteError as error:
            problem = {self._layout.accounts.name: f"{error.message}{'; ' if error.hint else ''}{error.hint}"}
        if self._accounts is None:
            return problem
        launches = Launches(layout=self._layout, accounts=self._accounts, command=self._rules.command)
        self.agents.launches = launches
        self._keepers.open(launches, self._shared)
        return problem

    def _read_accounts(self) -> Accounts:
        accounts = read_accounts(self._layout)
        if not accounts and any(place.account for record in self.records.all() for place in record.places):
            raise BadResource("it is missing, but there are backups of its accounts", hint="put it back")
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        lasting = self._accounts_seen.look(ACCOUNTS, accounts, now_s=now_s, now_ms=now_ms)
        if self._accounts is None or accounts == self._accounts.listed or lasting.is_stable:
            return Accounts(listed=accounts, opened=self._accounts.opened if self._accounts is not None else {})
        raise BadResource("it was changed", hint="the change is used when the file has been stable for a moment")

    def _look_after(self, record: ResourceRecord, problems: Mapping[ResourceKey, Sequence[Condition]]) -> str:
        """Return why a resource differs from its spec; empty: it does not."""
        reconciled, problem = self._keepers.look(record), problems.get(record.key, ())
        return self._tell(record.key, record, reconciled, problem) if reconciled is not None else self._remove(record)

    def _remove(self, record: ResourceRecord) -> str:
        """Clear the finalizers and delete the record: exactly one operator does. Return why the deletion failed; empty:
        deleted."""
        mine = [False]

        def edit(now: ResourceRecord | None) -> ResourceRecord | None:
            mine[0] = now is not None and now.uid == record.uid
            return None if mine[0] else now

        try:
            self.records.change(*record.key, edit)
        except OffsiteError as error:
            return f"{error.id}: {error.message}"
        if mine[0]:
            finalizers = ",".join(record.finalizers) or None
            decided("resource_gone", why="deleted", kind=record.kind, name=record.name, uid=record.uid, of=finalizers)
        return ""

    def _refuse(self, key: ResourceKey, problem: Sequence[Condition]) -> str:
        """Report a resource that was never valid."""
        return self._tell(key, None, Reconciled(), problem)

    def _tell(
        self, key: ResourceKey, record: ResourceRecord | None, reconciled: Reconciled, problem: Sequence[Condition]
    ) -> str:
        """Write the status. `problem`: conditions of the declaration; they say more than the conditions of a
        reconciliation."""
        types = {condition.type for condition in problem}
        conditions, fields = (
            [*problem, *(condition for condition in reconciled.conditions if condition.type not in types)],
            reconciled.status,
        )
        if any(condition.type == EXPIRY_FAILING for condition in conditions):
            self._failing.add(key)
        before = self.statuses.read(*key).get("status")
        before = {n: v for n, v in before.items() if n != LAST_LOOK} if isinstance(before, Mapping) else {}
        if key[0] == "Restore" and f"Misconfigured{key[0]}" in types:
            fields = {**(before if fields is None else fields), "phase": "FailedValidation"}
        generation = record.generation if record is not None else 0
        status = build_status(key[0], generation, conditions, fields, before=before, now_ms=self._clock.now_ms())
        try:
            self.statuses.write(key, record, status, now_ms=self._clock.now_ms())
        except OffsiteError as error:  # the next round writes the status
            warned("status", error=error.id, why=error.message, kind=key[0], name=key[1])
        refused = next((condition.message for condition in problem if condition.type == f"Misconfigured{key[0]}"), "")
        return refused or "; ".join(
            f"{condition.type}: {condition.message}" for condition in conditions if not condition.is_note
        )

    def _step_queue(self) -> None:
        try:
            uids = self.records.uids()
            self._shared.slots.keep_only(uids)
            self._keepers.keep_only(uids)
            self.jobs.step(self._keepers.expiry_requests)
            self.jobs.forget_others(uids)
        except OffsiteError as error:
            warned("expiry_queue", error=error.id, why=error.message)

    def _tell_unclear(self, unclear: Mapping[str, str]) -> None:
        """Warn once for every problem."""
        for name, why in unclear.items():
            if self._unclear.get(name) != why:
                warned("file_not_read", why=why, file=name)
        self._unclear = dict(unclear)


def run(operator: FolderOperator, *, every_s: float, clock: Clock, on_look: Callable[[LookResult], None]) -> None:
    """Run rounds until `KeyboardInterrupt`. Agents continue afterwards. Raises the errors of the first round; later
    errors may go away."""
    on_look(operator.look())
    clock.sleep(every_s)
    while True:
        began_s = clock.monotonic_s()
        try:
            on_look(operator.look())
        except (OffsiteError, OSError) as error:
            warned("look", why=safe_line(error))
        clock.sleep(max(0.0, every_s - (clock.monotonic_s() - began_s)))


def _home(layout: FolderLayout) -> Store:
    """The store that all operators of the folder share."""
    store = PosixStore(root=layout.store.absolute())
    with wrap_errors("make the folder", str(layout.own)):
        make_private_root(layout.own)
    bind(layout)
    store.prepare()
    return store
