"""The schema registry of a backup: which one, and its readings beside the commits.

A registry is read after the records and before their commit, so a reading explains each id in them. Records are worth
more than their schemas: a registry that cannot be read costs the commit nothing, and the run says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsite.model.clock import Clock
from offsite.model.errors import BadOption, DamagedObject, FormatTooNew, OffsiteError
from offsite.model.ids import random_id
from offsite.model.journal import warned
from offsite.model.schema_registry import RegistrySnapshot
from offsite.model.uninterrupted import uninterrupted
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, SnapshotRef
from offsite.repository.descriptor import BackupDescriptor
from offsite.repository.layout import BackupLayout
from offsite.repository.snapshots.registry_snapshot import get_registry_snapshot, put_registry_snapshot
from offsite.repository.state import BackupState
from offsite.schemas.read_registry import READ_LIMIT_S, read_registry
from offsite.schemas.registry_client import LIMITS, RegistryAddress, RegistryClient
from offsite.schemas.registry_settings import registry_at
from offsite.stores.store import Store

READ_EVERY_S = 300.0
"""Seconds between two readings of a run that follows. A reading may cost a registry thousands of requests."""
HASTE_LIMIT_S = 10.0
"""Seconds of the last reading of a run that is asked to end: it has to be gone after 30."""
_HASTY = replace(LIMITS, connect_timeout_s=3.0, read_timeout_s=5.0)
_OPTION = "registry"


def recorded_registry(descriptor: BackupDescriptor | None) -> str:
    """The address in the options of the backup; empty without one."""
    return "" if descriptor is None else dict(descriptor.options).get(_OPTION, "")


def registry_options(url: str) -> tuple[tuple[str, str], ...]:
    """The options recorded in the backup's descriptor: an address, never a login."""
    return ((_OPTION, url),) if url else ()


def decide_registry(requested: str | None, access: RegistryAddress | None, recorded: str) -> RegistryAddress | None:
    """The registry of a run. `requested` None: the recorded one; an empty one: none. Raises as `registry_at`, and
    `BadOption` for a login without a registry that a person named: whoever may write to a repository must not choose
    where logins go."""
    url = recorded if requested is None else requested
    if not url and access is not None:
        raise BadOption("--registry-config works only with a registry", hint="add --registry URL")
    if requested is None and access is not None and access.login is not None:
        raise BadOption(
            f"the login would go to the registry {url}, which only the repository names",
            hint="if it is the right one, name it with --registry",
        )
    return registry_at(url, access or RegistryAddress(url="")) if url else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryReport:
    """What the backup holds of the registry at `registry` after a reading. `gone`: schemas that the registry lacks by
    now. `unread`: what it lists and does not show, in sentences. `problem`: why it could not be read; then the backup
    keeps what it had, and the counts are of that."""

    registry: str
    subjects: int = 0
    versions: int = 0
    schemas: int = 0
    gone: int = 0
    unread: tuple[str, ...] = ()
    problem: str = ""
    error: str = ""
    hint: str = ""

    @classmethod
    def of(cls, registry: str, snapshot: RegistrySnapshot) -> RegistryReport:
        return cls(
            registry=registry,
            subjects=len({version.subject for version in snapshot.versions}),
            versions=len(snapshot.versions),
            schemas=len(snapshot.schemas),
            gone=sum(schema.is_gone for schema in snapshot.schemas),
            unread=snapshot.unread,
        )


class RegistryReadings:
    """The readings of a run. The newest snapshot stays in memory from round to round. `report`: on the newest reading;
    None before the first. `is_behind`: records were committed since."""

    def __init__(self) -> None:
        self.report: RegistryReport | None = None
        self.is_behind = False
        self._ref: SnapshotRef | None = None
        self._snapshot = RegistrySnapshot()
        self._read_s: float | None = None

    def is_due(self, clock: Clock) -> bool:
        return self._read_s is None or clock.monotonic_s() - self._read_s >= READ_EVERY_S

    def read(
        self, address: RegistryAddress, *, store: Store, base: BackupState, clock: Clock, in_haste: bool = False
    ) -> SnapshotRef | None:
        """Read the registry, and store what it holds for the commit after `base`, unless `base` names the same. None if
        the registry could not be read. `in_haste`: try for seconds only. Raises the errors of the store."""
        client = RegistryClient(address, clock=clock)
        if in_haste:
            client = RegistryClient(address, clock=clock, limits=_HASTY, outage_max_s=0.0)
        earlier = self._earlier(store, base.registry)
        try:
            limit_s = HASTE_LIMIT_S if in_haste else READ_LIMIT_S
            snapshot = read_registry(client, earlier=earlier, clock=clock, limit_s=limit_s)
        except OffsiteError as error:  # the copied records count, whatever is wrong with the registry
            warned("registry_not_read", error=error.id, why=error.message)
            held = RegistryReport.of(client.place, earlier or RegistrySnapshot())
            self.report = replace(held, problem=error.message, error=error.id, hint=error.hint)
            return None
        finally:
            self._read_s = clock.monotonic_s()
        layout, recorded = BackupLayout(backup=base.backup), None if earlier is None else base.registry
        ref = put_registry_snapshot(store, layout, base.seq + 1, snapshot, recorded=recorded)
        self._ref, self._snapshot, self.is_behind = ref, snapshot, False
        self.report = RegistryReport.of(client.place, snapshot)
        return ref

    def _earlier(self, store: Store, ref: SnapshotRef | None) -> RegistrySnapshot | None:
        """What `ref` names; None where nothing readable is."""
        if ref is None:
            return None
        if ref != self._ref:
            try:
                self._snapshot, self._ref = get_registry_snapshot(store, ref), ref
            except (DamagedObject, FormatTooNew) as error:
                warned("registry_snapshot_unreadable", error=error.id, why=error.message)
                return None
        return self._snapshot


def commit_last_reading(backup: Backup, address: RegistryAddress, readings: RegistryReadings, clock: Clock) -> None:
    """Read the registry for records that a run has committed since its newest reading, and commit what is new. An error
    is logged: the next run reads again."""
    if not readings.is_behind:
        return
    try:
        state = backup.state()
        ref = readings.read(address, store=backup.store, base=state, clock=clock, in_haste=True)
        if ref is not None and ref != state.registry:
            changes = state.carry_over(CommitChanges(registry=ref))
            with uninterrupted():
                backup.commit(changes, base=state, writer=random_id(16))
    except OffsiteError as error:
        warned("registry_not_committed", error=error.id, why=error.message)
