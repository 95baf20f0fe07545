"""The keepers of all kinds of resources, and their means: the same in every home.

A home knows its resources, and stores their status. Only the keepers decide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from offsite.model.clock import Clock
from offsite.model.errors import Denied, NoRepository, OffsiteError, UserError
from offsite.model.journal import failed, safe_line, safe_trace
from offsite.operator.core.backup_keeper import BackupKeeper
from offsite.operator.core.expiry_jobs import ExpiryJobs, QueuedExpiry
from offsite.operator.core.job_keepers import RestoreKeeper, ScheduleKeeper
from offsite.operator.core.keeper import Keeper, NoteWriter, Reconciled, TendedAgents
from offsite.operator.core.processes import Launches
from offsite.operator.core.records import RecordStore, ResourceRecord
from offsite.operator.core.status import Condition
from offsite.operator.decide.desired import DesiredBackup
from offsite.operator.decide.desired_restore import DesiredRestore
from offsite.operator.world.backups import BackupExecutor, seal
from offsite.operator.world.claims import Slots, Tags
from offsite.operator.world.jobs import JobProcesses, JobStarter, JobTurns
from offsite.operator.world.observe import Observer, RepositoryFacts
from offsite.operator.world.restores import RestoreExecutor
from offsite.operator.world.schedules import ScheduleExecutor
from offsite.repository.declared.entry import DeclaredEntryKind
from offsite.repository.lease import ProcessIdentity
from offsite.stores.store import Store

_BEGINS = frozenset({DeclaredEntryKind.STARTED, DeclaredEntryKind.JOINED, DeclaredEntryKind.DECLARED})


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedState:
    """The agreements of all operators of a home, and their store. In Kubernetes, for one `namespace`."""

    store: Store
    slots: Slots
    tags: Tags
    namespace: str = ""

    @classmethod
    def of(cls, store: Store, *, initial_copies: int, namespace: str = "") -> SharedState:
        slots = Slots(store, limit=initial_copies, namespace=namespace)
        return cls(store=store, slots=slots, tags=Tags(store), namespace=namespace)


class Keepers:
    """`processes`: processes of restores, checkpoints and drills."""

    def __init__(
        self, records: RecordStore, agents: TendedAgents, queue: ExpiryJobs, *, processes: JobProcesses, clock: Clock
    ) -> None:
        self._records, self._agents, self._facts = records, agents, RepositoryFacts()
        self._turns = JobTurns(processes=processes, clock=clock)
        telling = self._notes = NoteWriter(clock=clock)
        self._backups = BackupKeeper(records=records, agents=agents, jobs=queue, notes=telling, clock=clock)
        self._restores = RestoreKeeper(records=records, notes=telling)
        self._schedules = ScheduleKeeper(records=records, notes=telling)
        self._of: Mapping[str, Keeper] = {
            "Backup": self._backups,
            "Restore": self._restores,
            "Schedule": self._schedules,
        }
        self._looked: ResourceRecord | None = None

    @property
    def expiry_requests(self) -> dict[str, QueuedExpiry]:
        """The entries for the expiry queue, by uid."""
        return self._backups.expiry_requests

    def open(self, launches: Launches, shared: SharedState) -> None:
        """Use these accounts and stores from now on. Before the first call, reconciliations report that accounts cannot
        be read."""
        accounts = launches.accounts
        observer = Observer(
            open_store=accounts.open_store, facts=self._facts, agents=self._agents, identity=ProcessIdentity.current()
        )
        self._backups.executor = BackupExecutor(
            observer=observer, slots=shared.slots, seal=seal, in_force=self._in_force
        )
        self._backups.launches, self._backups.namespace = launches, shared.namespace
        processes = self._turns.of(shared.namespace)
        jobs = JobStarter(observer=observer, processes=processes, environment_of=launches.job)
        self._restores.executor = RestoreExecutor(
            jobs=jobs, tags=shared.tags, namespace=shared.namespace, in_force=self._may_begin
        )
        self._schedules.executor = ScheduleExecutor(jobs=jobs, home=shared.store)
        self._restores.accounts = self._schedules.accounts = accounts.listed

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget deleted resources: their number has no bound."""
        self._backups.keep_only(uids)
        self._notes.keep_only(uids)

    def look(self, record: ResourceRecord) -> Reconciled | None:
        """Take one step towards the spec of a resource, or towards its requested deletion. None: nothing is left, and
        the resource may be deleted. An error is reported on its resource only."""
        keeper, self._looked = self._of[record.kind], record
        try:
            return keeper.let_go(record) if record.is_deleted else keeper.keep(record)
        except OffsiteError as error:
            return Reconciled(conditions=[describe_problem(record.kind, error)])
        except Exception as error:  # noqa: BLE001  # a bug in one resource must not stop the others
            failed("look", why=safe_line(error), trace=safe_trace(error), kind=record.kind, name=record.name)
            return Reconciled(
                conditions=[Condition(type=f"Incorrect{record.kind}State", message=f"a bug: {safe_line(error)}")]
            )

    def _in_force(self, desired: DesiredBackup, kind: DeclaredEntryKind) -> bool:
        """Whether an entry may be written: no start for a resource that is being deleted, and no decision by an old
        spec. A deleted resource may only be stopped."""
        now = self._looked_now(desired.uid)
        if now is None:
            return kind is DeclaredEntryKind.STOPPED
        return now.generation == desired.generation and not (now.is_deleted and kind in _BEGINS)

    def _may_begin(self, desired: DesiredRestore) -> bool:
        """Whether a restore may start: not if the resource is being deleted, and not by an old spec."""
        looked, now = self._looked, self._looked_now(desired.uid)
        is_there = looked is not None and now is not None and not now.is_deleted
        return is_there and now.generation == looked.generation  # type: ignore[union-attr]  # as was checked

    def _looked_now(self, uid: str) -> ResourceRecord | None:
        """Return the current record of the resource at hand; None if the resource is deleted, or another resource has
        its name."""
        now = self._records.find(*self._looked.key) if self._looked is not None else None
        return now if now is not None and now.uid == uid else None


def describe_problem(kind: str, error: OffsiteError) -> Condition:
    """The condition of a resource that could not be observed."""
    is_setting = isinstance(error, UserError | NoRepository | Denied)
    hint = f"; {error.hint}" if error.hint else ""
    return Condition(
        type=f"Misconfigured{kind}" if is_setting else f"Incorrect{kind}State",
        message=f"{error.id}: {error.message}{hint}",
    )
