"""The home of resources in Kubernetes: the keeper, queue and slots of all homes, over what its API has.

Whatever calls it (an event, a timer, an operator that begins anew) asks for one look, which may be repeated, and be the
last one of its process: all that counts lies in repositories, in the resource and in its Deployment. One look is made
at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from offsite.model.clock import Clock
from offsite.model.errors import BadResource, OffsiteError
from offsite.model.journal import decided, failed, safe_line, safe_trace, warned
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.backup import ConditionType
from offsite.operator.decide.expiry_queue import QueueRules
from offsite.operator.folder.accounts import Accounts, read_accounts, variables_of
from offsite.operator.folder.backups import BackupKeeper, problem_of
from offsite.operator.folder.expiry_jobs import ExpiryJobs
from offsite.operator.folder.keeper import Kept
from offsite.operator.folder.launches import OFFSITE, Launches
from offsite.operator.folder.layout import FolderLayout
from offsite.operator.folder.records import Edit, Record
from offsite.operator.folder.status import Told
from offsite.operator.kubernetes.agents import PodAgents
from offsite.operator.kubernetes.cluster import Body, Cluster, Named, backups_path
from offsite.operator.kubernetes.record import KeptRecord, record_of
from offsite.operator.kubernetes.status import status_of, status_patch
from offsite.operator.resources.backup import FINALIZER
from offsite.operator.world.act import Hands, seal
from offsite.operator.world.facts import RepositoryFacts
from offsite.operator.world.look import Eyes
from offsite.operator.world.slots import Slots
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.stores.open_store import open_store

NOTHING_NEWER: Mapping[str, JsonValue] = {}
SELDOM_MS = 30_000
"""Between two looks at a backup that is as declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeRules:
    """What the operator is told. `namespaces`: of the resources, none for all; `accounts`: a file; `folder`: of this
    process, for its expiry jobs; `state`: the store that all operators of these resources share, empty for the folder;
    `image`: of agents."""

    accounts: Path
    folder: Path
    image: str
    namespaces: Sequence[str] = ()
    state: str = ""
    initial_copies: int = 1
    queue: QueueRules = field(default_factory=QueueRules)
    command: Sequence[str] = OFFSITE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The last round: when it ended by the monotonic clock, resources, and how many of them were not as declared."""

    ended_s: float
    resources: int = 0
    waiting: int = 0


class KubernetesHome:
    """`rounds` may be read by other threads."""

    def __init__(self, cluster: Cluster, rules: HomeRules, *, clock: Clock) -> None:
        self._cluster, self._rules, self._clock = cluster, rules, clock
        self._lock = threading.RLock()
        self._agents = PodAgents(cluster=cluster, image=rules.image)
        self._jobs = ExpiryJobs(FolderLayout(root=rules.folder), rules.queue, clock=clock)
        self._keeper = BackupKeeper(records=_NoRecords(), agents=self._agents, jobs=self._jobs, clock=clock)
        self._facts = RepositoryFacts()
        self._slots: Slots | None = None
        self._opened: Accounts | None = None
        self._rests_until_ms: dict[str, int] = {}
        self.rounds = Rounds(ended_s=clock.monotonic_s())

    def keep(self, body: Body) -> bool:
        """One look at a resource; whether it is as declared, or goes, or is gone. Raises what the API does."""
        with self._lock:
            now = self._now(body)
            if now is None or record_of(now).is_deleted:
                return True
            if wants_finalizer(now) and FINALIZER not in record_of(now).finalizers:
                return False  # nothing begins that a deletion could leave behind
            kept = self._kept(now, self._keeper.keep)
            is_kept = kept is not None and not kept.told
            self._rests_until_ms[Named.of(now).uid] = self._clock.now_ms() + SELDOM_MS if is_kept else 0
            return is_kept

    def let_go(self, body: Body) -> bool:
        """One step towards the deletion of a resource; whether nothing is left, and its finalizer may be cleared.
        Raises what the API does."""
        with self._lock:
            now = self._now(body)
            return now is None or self._kept(now, self._keeper.let_go) is None

    def gone(self, body: Body) -> None:
        """Stop what runs of a resource that went without its finalizer. Nothing is lost where that fails: agents go
        with their Deployment, which goes with the resource."""
        record = record_of(body)
        if FINALIZER not in record.finalizers:
            with self._lock:
                self._open(Named.of(body))
                self._keeper.let_go(record)

    def round(self) -> None:
        """One look at all resources that are not as declared, and seldom at the others; then at the queue. Raises what
        the API does where it does not tell what there is."""
        held = self._slots.held() if self._slots is not None else ()
        bodies = [body for place in self._rules.namespaces or [""] for body in self._cluster.list(backups_path(place))]
        for body in bodies:
            if self._clock.now_ms() >= self._rests_until_ms.get(Named.of(body).uid, 0):
                try:
                    self.keep(body)
                except OffsiteError as error:  # it is looked at again in the next round
                    warned("look", error=error.id, why=error.message, name=Named.of(body).name)
        with self._lock:
            self._tidy({Named.of(body).uid for body in bodies}, held)
        waiting = sum(not _is_as_declared(body) for body in bodies)
        self.rounds = Rounds(ended_s=self._clock.monotonic_s(), resources=len(bodies), waiting=waiting)

    def _is_due(self, body: Body) -> bool:
        rests_until_ms = self._rests_until_ms.get(Named.of(body).uid, 0)
        return not _is_as_declared(body) or self._clock.now_ms() >= rests_until_ms

    def _now(self, body: Body) -> Body | None:
        """The resource as it is now; None where it is gone, and also where another one has its name."""
        named = Named.of(body)
        now = self._cluster.get(named.path)
        return now if now is not None and Named.of(now) == named else None

    def _kept(self, body: Body, step: Callable[[Record], Kept | None]) -> Kept | None:
        """What a look found, told in the status; None where nothing is left. An error in one resource stops no
        other."""
        named = Named.of(body)
        try:
            self._open(named)
            kept = step(record_of(body))
        except OffsiteError as error:
            kept = Kept(told=[problem_of(error)], fields=NOTHING_NEWER)
        except Exception as error:  # noqa: BLE001  # a bug in one must not stop the others
            failed("look", why=safe_line(error), trace=safe_trace(error), name=named.name, uid=named.uid)
            told = Told(type=ConditionType.INCORRECT_BACKUP_STATE.value, message=f"a bug: {safe_line(error)}")
            kept = Kept(told=[told], fields=NOTHING_NEWER)
        if kept is None:
            decided("resource_gone", why="deleted", name=named.name, uid=named.uid)
            return None
        patch = status_patch(body, status_of(body, kept.told, kept.fields, self._clock.now_ms()))
        if patch:
            self._cluster.patch(f"{named.path}/status", patch)
        return kept

    def _open(self, named: Named) -> None:
        """What this look is made with. Raises `BadResource` where the accounts cannot be read: what they open is never
        taken for moved."""
        accounts = self._opened = self._accounts()
        if self._slots is None:
            self._slots = _slots(self._rules, accounts)
        self._agents.named[named.uid] = named
        eyes = Eyes(
            open_store=accounts.open_store, facts=self._facts, agents=self._agents, identity=ProcessIdentity.mine()
        )
        layout = FolderLayout(root=self._rules.folder)
        self._keeper.records = KeptRecord(cluster=self._cluster, named=named)
        self._keeper.hands = Hands(eyes=eyes, slots=self._slots, seal=seal)
        self._keeper.launches = PodLaunches(layout=layout, accounts=accounts, command=self._rules.command)

    def _accounts(self) -> Accounts:
        layout = AccountsLayout(root=self._rules.accounts.parent, file=self._rules.accounts)
        if not layout.accounts.exists():
            raise BadResource(
                f"there is no {layout.accounts.name}",
                hint="put it into the Secret offsite-configuration of the operator",
            )
        opened = self._opened.opened if self._opened is not None else {}
        return Accounts(known=read_accounts(layout), opened=opened)

    def _tidy(self, uids: Collection[str], held: Collection[str]) -> None:
        """One look at the queue, and an end to what is kept of resources that are gone. `held`: the slots, from before
        it was asked which resources there are."""
        asked = self._keeper.asked
        for known in (asked, self._agents.named, self._rests_until_ms):
            for uid in known.keys() - uids:
                del known[uid]
        self._jobs.step(asked)
        self._jobs.forget_others(uids)
        for uid in set(held) - set(uids):
            if self._slots is not None:
                self._slots.give(uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountsLayout(FolderLayout):
    """A folder whose accounts are in a file of any name."""

    file: Path

    @property
    def accounts(self) -> Path:
        return self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLaunches(Launches):
    """Agents find their cluster in a Secret that the operator does not read: Kubernetes tells where there is none."""

    def properties(self, cluster: str) -> bytes:  # noqa: ARG002  # as the base class has it
        return b""


class _NoRecords:
    """Until something is looked at."""

    def change(self, kind: str, name: str, edit: Edit) -> Record | None:  # noqa: ARG002  # as the port has it
        return None


def wants_finalizer(body: Body) -> bool:
    """Whether the backups of a resource are to be deleted before it is gone."""
    return bool(((body.get("spec") or {}).get("expiry") or {}).get("deletionFinalizer", True))


def _is_as_declared(body: Body) -> bool:
    """As its status tells."""
    status = body.get("status") or {}
    return status.get("reconciled") is True and status.get("observedGeneration") == body["metadata"]["generation"]


def _slots(rules: HomeRules, accounts: Accounts) -> Slots:
    """Raises `BadRepositoryUrl`, and what the store raises."""
    first = accounts.known[0] if accounts.known else None
    state = rules.state or str(rules.folder / "state")
    store = open_store(state, environment=variables_of(first, os.environ))
    store.prepare()
    return Slots(store, limit=rules.initial_copies)
