"""The home of resources in Kubernetes: the keepers, queue and slots of all homes, over what its API has.

Whatever calls it (an event, a timer, an operator that begins anew) asks for one look, which may be repeated, and be the
last one of its process: all that counts lies in repositories, in the resource and in its Deployment. One look is made
at a time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.model.clock import Clock
from offsite.model.errors import BadResource, KubernetesDenied, OffsiteError
from offsite.model.journal import decided, warned
from offsite.operator.decide.restore import is_final
from offsite.operator.folder.backups import EXPIRY_FAILING
from offsite.operator.folder.expiry_jobs import ExpiryJobs
from offsite.operator.folder.keeper import Kept
from offsite.operator.folder.keepers import Keepers, problem_of
from offsite.operator.folder.layout import FolderLayout
from offsite.operator.folder.records import Record
from offsite.operator.kubernetes.agents import PodAgents
from offsite.operator.kubernetes.cluster import Body, Cluster, Named, resources_path
from offsite.operator.kubernetes.pod import HomeRules, Pod
from offsite.operator.kubernetes.record import ClusterRecords, Uids, record_of
from offsite.operator.kubernetes.status import status_patch, status_told
from offsite.operator.resources.backup import FINALIZER
from offsite.operator.resources.parse import KINDS
from offsite.operator.world.job_processes import JobProcesses, local_processes
from offsite.operator.world.slots import Slots

SELDOM_MS = 30_000
"""Between two looks at a resource that is as declared, or done for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The last round: when it ended by the monotonic clock, resources by their kind, how many of them were not as
    declared, and of how many expiry jobs fail again and again."""

    ended_s: float
    resources: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    failing: Mapping[str, int] = field(default_factory=dict)


class KubernetesHome:
    """`processes`: of jobs, by default those of this pod. `rounds` may be read by other threads."""

    def __init__(
        self, cluster: Cluster, rules: HomeRules, *, clock: Clock, processes: JobProcesses | None = None
    ) -> None:
        self._cluster, self._rules, self._clock = cluster, rules, clock
        self._lock = threading.RLock()
        self._pod = Pod(rules)
        self._agents = PodAgents(cluster=cluster, image=rules.image)
        self._queue = ExpiryJobs(FolderLayout(root=rules.folder), rules.queue, clock=clock)
        self._records = ClusterRecords(cluster=cluster)
        self._keepers = Keepers(
            self._records,
            self._agents,
            self._queue,
            processes=processes or local_processes(at_once=rules.jobs_at_once),
            clock=clock,
        )
        self._rests_until_ms: dict[str, int] = {}
        self.rounds = Rounds(ended_s=clock.monotonic_s())

    def keep(self, body: Body) -> bool:
        """One look at a resource; whether it is as declared, or goes, or is gone. Raises what the API does."""
        with self._lock:
            now = self._now(body)
            if now is None or now["metadata"].get("deletionTimestamp"):
                return True
            if wants_finalizer(now) and FINALIZER not in (now["metadata"].get("finalizers") or ()):
                return False  # nothing begins that a deletion could leave behind
            kept = self._kept(now)
            is_kept = kept is not None and kept.is_as_declared
            rests = is_kept or (kept is not None and kept.fields is not None and is_final(kept.fields.get("phase")))
            self._rests_until_ms[Named.of(now).uid] = self._clock.now_ms() + SELDOM_MS if rests else 0
            return is_kept

    def let_go(self, body: Body) -> bool:
        """One step towards the deletion of a resource; whether nothing is left, and its finalizer may be cleared.
        Raises what the API does."""
        with self._lock:
            now = self._now(body)
            return now is None or self._kept(now) is None

    def gone(self, body: Body) -> None:
        """Stop what runs of a resource that went without its finalizer. Nothing is lost where that fails: agents go
        with their Deployment, which goes with the resource."""
        record = record_of(body)
        if FINALIZER not in record.finalizers:
            with self._lock:
                self._look(Named.of(body), replace(record, deletion_ms=1))

    def round(self) -> None:
        """One look at all resources that are not as declared, and seldom at the others; then at the queue. Raises what
        the API does where it does not tell what there is."""
        held = {each: each.held() for each in self._slots()}
        bodies = self._list()
        for body in bodies:
            if self._clock.now_ms() >= self._rests_until_ms.get(Named.of(body).uid, 0):
                try:
                    self.keep(body)
                except OffsiteError as error:  # it is looked at again in the next round
                    warned("look", error=error.id, why=error.message, kind=body["kind"], name=Named.of(body).name)
        with self._lock:
            uids = {Named.of(body).uid for body in bodies}
            if self._records.known is not None and self._records.known.is_whole:
                self._tidy(uids, held)
            self._queue.step({uid: each for uid, each in self._keepers.asked.items() if uid in uids})
        self.rounds = Rounds(
            ended_s=self._clock.monotonic_s(),
            resources=Counter(body["kind"] for body in bodies),
            waiting=Counter(body["kind"] for body in bodies if not _is_as_declared(body)),
            failing=Counter(body["kind"] for body in bodies if _is_told(body, EXPIRY_FAILING)),
        )

    def _list(self) -> Sequence[Body]:
        """All resources, of all kinds and namespaces. A namespace that is closed, or gone with its roles, stops no
        other: what it has is not known then, and nothing is taken for gone. Raises what the API does where all are."""
        found, closed = list[Body](), list[KubernetesDenied]()
        places = [(kind, namespace) for kind in KINDS for namespace in self._rules.namespaces or [""]]
        for kind, namespace in places:
            try:
                found += [{**each, "kind": kind} for each in self._cluster.list(resources_path(kind, namespace))]
            except KubernetesDenied as error:
                closed.append(error)
                warned("namespace", error=error.id, why=f"{error.message}; {error.hint}", namespace=namespace)
        if len(closed) == len(places):
            raise closed[0]
        uids = (Named.of(each).uid for each in found)
        self._records.known = Uids(uids, is_whole=not closed)
        return found

    def _now(self, body: Body) -> Body | None:
        """The resource as it is now; None where it is gone, and also where another one has its name."""
        named = Named.of(body)
        now = self._cluster.get(named.path)
        return now if now is not None and Named.of(now) == named else None

    def _kept(self, body: Body) -> Kept | None:
        """What a look found, told in the status; None where nothing is left."""
        named = Named.of(body)
        try:
            kept = self._look(named, record_of(body))
        except BadResource as error:
            kept = Kept(told=[problem_of(named.kind, error)])
        if kept is None:
            decided("resource_gone", why="deleted", kind=named.kind, name=named.name, uid=named.uid)
            return None
        if patch := status_patch(body, status_told(body, kept, self._clock.now_ms())):
            self._cluster.patch(f"{named.path}/status", patch)
        return kept

    def _look(self, named: Named, record: Record) -> Kept | None:
        if self._records.known is None:
            self._list()
        self._agents.named[named.uid] = self._records.named = named
        try:
            launches, shared = self._pod.open(named.namespace)
        except OffsiteError as error:
            return Kept(told=[problem_of(record.kind, error)])
        self._keepers.open(launches, shared)
        return self._keepers.look(record)

    def _slots(self) -> list[Slots]:
        return [each.slots for each in list(self._pod.shared.values())]

    def _tidy(self, uids: Collection[str], held: Mapping[Slots, Collection[str]]) -> None:
        """An end to what is kept of resources that are gone. `held`: who holds slots, from before it was asked which
        resources there are."""
        for known in (self._keepers.asked, self._agents.named, self._rests_until_ms):
            for uid in known.keys() - uids:
                del known[uid]
        self._queue.forget_others(uids)
        for slots, holders in held.items():
            for uid in set(holders) - set(uids):
                slots.give(uid)


def wants_finalizer(body: Body) -> bool:
    """Whether something is to be done before a resource is gone: the backups of a Backup are deleted, a Restore that
    is not over is stopped."""
    match body["kind"]:
        case "Backup":
            return bool(((body.get("spec") or {}).get("expiry") or {}).get("deletionFinalizer", True))
        case "Restore":
            return not is_final((body.get("status") or {}).get("phase"))
        case _:
            return False


def _is_told(body: Body, condition: str) -> bool:
    """Whether its status has a condition of that type."""
    return any(each.get("type") == condition for each in (body.get("status") or {}).get("conditions") or ())


def _is_as_declared(body: Body) -> bool:
    """As its status tells."""
    status = body.get("status") or {}
    return status.get("reconciled") is True and status.get("observedGeneration") == body["metadata"]["generation"]
