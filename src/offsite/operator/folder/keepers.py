"""The keepers of all kinds of resources, and their means: the same in every home.

A home knows its resources, and stores their status. Only the keepers decide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from offsite.model.clock import Clock
from offsite.model.errors import Denied, NoRepository, OffsiteError, UserError
from offsite.model.journal import failed, safe_line, safe_trace
from offsite.operator.decide.restore import RestoreWanted
from offsite.operator.decide.wanted import Wanted
from offsite.operator.folder.backups import BackupKeeper
from offsite.operator.folder.expiry_jobs import Asked, ExpiryJobs
from offsite.operator.folder.keeper import Changes, Keeper, Kept, TendedAgents
from offsite.operator.folder.launches import Launches
from offsite.operator.folder.records import Record
from offsite.operator.folder.restores import RestoreKeeper
from offsite.operator.folder.schedules import ScheduleKeeper
from offsite.operator.folder.status import Told
from offsite.operator.world.act import Hands, seal
from offsite.operator.world.facts import RepositoryFacts
from offsite.operator.world.job_processes import JobProcesses, Jobs
from offsite.operator.world.job_turns import JobTurns
from offsite.operator.world.look import Eyes
from offsite.operator.world.restores import RestoreHands
from offsite.operator.world.schedules import ScheduleHands
from offsite.operator.world.slots import Slots
from offsite.operator.world.tags import Tags
from offsite.operator.world.telling import Telling
from offsite.repository.declared.entry import Kind
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.stores.store import Store

_BEGINS = frozenset({Kind.STARTED, Kind.JOINED, Kind.DECLARED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The agreements of all operators of a home, and their store. In Kubernetes, for one `namespace`."""

    store: Store
    slots: Slots
    tags: Tags
    namespace: str = ""

    @classmethod
    def of(cls, store: Store, *, initial_copies: int, namespace: str = "") -> Shared:
        slots = Slots(store, limit=initial_copies, namespace=namespace)
        return cls(store=store, slots=slots, tags=Tags(store), namespace=namespace)


class Keepers:
    """`processes`: processes of restores, checkpoints and drills."""

    def __init__(
        self, records: Changes, agents: TendedAgents, queue: ExpiryJobs, *, processes: JobProcesses, clock: Clock
    ) -> None:
        self._records, self._agents, self._facts = records, agents, RepositoryFacts()
        self._turns = JobTurns(processes=processes, clock=clock)
        telling = self._telling = Telling(clock=clock)
        self._backups = BackupKeeper(records=records, agents=agents, jobs=queue, telling=telling, clock=clock)
        self._restores = RestoreKeeper(records=records, telling=telling)
        self._schedules = ScheduleKeeper(records=records, telling=telling)
        self._of: Mapping[str, Keeper] = {
            "Backup": self._backups,
            "Restore": self._restores,
            "Schedule": self._schedules,
        }
        self._looked: Record | None = None

    @property
    def asked(self) -> dict[str, Asked]:
        """The entries for the expiry queue, by uid."""
        return self._backups.asked

    def open(self, launches: Launches, shared: Shared) -> None:
        """Use these accounts and stores from now on. Before the first call, reconciliations report that accounts cannot
        be read."""
        accounts = launches.accounts
        eyes = Eyes(
            open_store=accounts.open_store, facts=self._facts, agents=self._agents, identity=ProcessIdentity.mine()
        )
        self._backups.hands = Hands(eyes=eyes, slots=shared.slots, seal=seal, in_force=self._in_force)
        self._backups.launches, self._backups.namespace = launches, shared.namespace
        processes = self._turns.of(shared.namespace)
        jobs = Jobs(eyes=eyes, processes=processes, environment_of=launches.job)
        self._restores.hands = RestoreHands(
            jobs=jobs, tags=shared.tags, namespace=shared.namespace, in_force=self._may_begin
        )
        self._schedules.hands = ScheduleHands(jobs=jobs, home=shared.store)
        self._restores.accounts = self._schedules.accounts = accounts.known

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget deleted resources: their number has no bound."""
        self._backups.keep_only(uids)
        self._telling.keep_only(uids)

    def look(self, record: Record) -> Kept | None:
        """Take one step towards the spec of a resource, or towards its requested deletion. None: nothing is left, and
        the resource may be deleted. An error is reported on its resource only."""
        keeper, self._looked = self._of[record.kind], record
        try:
            return keeper.let_go(record) if record.is_deleted else keeper.keep(record)
        except OffsiteError as error:
            return Kept(told=[problem_of(record.kind, error)])
        except Exception as error:  # noqa: BLE001  # a bug in one resource must not stop the others
            failed("look", why=safe_line(error), trace=safe_trace(error), kind=record.kind, name=record.name)
            return Kept(told=[Told(type=f"Incorrect{record.kind}State", message=f"a bug: {safe_line(error)}")])

    def _in_force(self, wanted: Wanted, kind: Kind) -> bool:
        """Whether an entry may be written: no start for a resource that is being deleted, and no decision by an old
        spec. A deleted resource may only be stopped."""
        now = self._looked_now(wanted.uid)
        if now is None:
            return kind is Kind.STOPPED
        return now.generation == wanted.generation and not (now.is_deleted and kind in _BEGINS)

    def _may_begin(self, wanted: RestoreWanted) -> bool:
        """Whether a restore may start: not if the resource is being deleted, and not by an old spec."""
        looked, now = self._looked, self._looked_now(wanted.uid)
        is_there = looked is not None and now is not None and not now.is_deleted
        return is_there and now.generation == looked.generation  # type: ignore[union-attr]  # as was checked

    def _looked_now(self, uid: str) -> Record | None:
        """Return the current record of the resource at hand; None if the resource is deleted, or another resource has
        its name."""
        now = self._records.find(*self._looked.key) if self._looked is not None else None
        return now if now is not None and now.uid == uid else None


def problem_of(kind: str, error: OffsiteError) -> Told:
    """The condition of a resource that could not be observed."""
    is_setting = isinstance(error, UserError | NoRepository | Denied)
    hint = f"; {error.hint}" if error.hint else ""
    return Told(
        type=f"Misconfigured{kind}" if is_setting else f"Incorrect{kind}State",
        message=f"{error.id}: {error.message}{hint}",
    )
