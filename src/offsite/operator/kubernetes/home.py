"""The home of resources in Kubernetes: the keepers, queue and slots of all homes, over the API of Kubernetes.

Every call (from an event, a timer, or a restarted operator) reconciles once; the call may be repeated, and may be the
last of its process: all state is in repositories, in the resource and in its Deployment. Reconciliations run one at a
time.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from offsite.model.clock import Clock
from offsite.model.errors import BadResource, KubernetesDenied, OffsiteError
from offsite.model.journal import decided, failed, safe_line, safe_trace, warned
from offsite.operator.core.all_keepers import Keepers, describe_problem
from offsite.operator.core.backup_keeper import EXPIRY_FAILING
from offsite.operator.core.expiry_jobs import ExpiryJobs
from offsite.operator.core.files import FolderLayout
from offsite.operator.core.keeper import Reconciled
from offsite.operator.core.monitor import RoundSummary
from offsite.operator.core.records import ResourceRecord
from offsite.operator.decide.queue import Shares
from offsite.operator.decide.restore import is_final
from offsite.operator.kubernetes.agents import PodAgents
from offsite.operator.kubernetes.api import Body, KubernetesApi, ResourceReference, resources_path
from offsite.operator.kubernetes.pod import HomeRules, Pod
from offsite.operator.kubernetes.record import (
    KubernetesRecords,
    ListedUids,
    build_kubernetes_status,
    read_record,
    status_patch,
)
from offsite.operator.resources.backup import FINALIZER
from offsite.operator.resources.parse import KINDS
from offsite.operator.world.claims import Slots
from offsite.operator.world.jobs import JobProcesses, local_processes

ROUND_MAX_S = 120.0
"""Time limit of the reconciliations in one round: then the queue runs, and the next round continues with the resources
that waited longest."""
DELETED_MAX = 100
"""Resources deleted without their finalizer since the last round that are remembered."""
RECHECK_MS = 30_000
"""Time between two reconciliations of a resource that is as declared, or finished."""
_METADATA = ("name", "namespace", "uid", "generation", "deletionTimestamp", "finalizers")


class KubernetesHome:
    """`processes`: processes of jobs, by default of this pod. Other threads may read `rounds`."""

    def __init__(
        self, cluster: KubernetesApi, rules: HomeRules, *, clock: Clock, processes: JobProcesses | None = None
    ) -> None:
        self._cluster, self._rules, self._clock = cluster, rules, clock
        self._lock = threading.RLock()
        self._pod = Pod(rules, clock=clock)
        self._agents = PodAgents(cluster=cluster, image=rules.image)
        self._queue = ExpiryJobs(FolderLayout(root=rules.folder), rules.queue, clock=clock)
        self._records = KubernetesRecords(cluster=cluster)
        self._keepers = Keepers(
            self._records,
            self._agents,
            self._queue,
            processes=processes or local_processes(at_once=rules.jobs_at_once),
            clock=clock,
        )
        self._rests_until_ms: dict[str, int] = {}
        self._shares = Shares()
        self._looked_s: dict[str, float] = {}
        self._left: set[str] = set()
        self._went: dict[str, Body] = {}
        self.rounds = RoundSummary(ended_s=clock.monotonic_s())

    def keep(self, body: Body) -> bool:
        """Reconcile a resource; return whether the resource is as declared, is being deleted, or is gone. Raises the
        errors of the API."""
        with self._counted(body):
            now = self._now(body)
            if now is None or now["metadata"].get("deletionTimestamp"):
                return True
            if wants_finalizer(now) and FINALIZER not in (now["metadata"].get("finalizers") or ()):
                return False  # nothing starts that a deletion could leave behind
            reconciled = self._reconcile(now)
            is_kept = reconciled is not None and reconciled.is_as_declared
            rests = is_kept or (
                reconciled is not None and reconciled.status is not None and is_final(reconciled.status.get("phase"))
            )
            self._rests_until_ms[ResourceReference.of(now).uid] = self._clock.now_ms() + RECHECK_MS if rests else 0
            return is_kept

    def note_change(self, body: Body) -> None:
        """Note an event of a resource: the next round reconciles the resource. Many events bring no additional
        reconciliations."""
        self._rests_until_ms.pop(ResourceReference.of(body).uid, None)

    def note_deletion(self, body: Body) -> None:
        """Note a deleted resource: the next round cleans up after the resource, unless too many are deleted at once."""
        if len(self._went) < DELETED_MAX:
            self._went[ResourceReference.of(body).uid] = body

    def may_go(self, body: Body) -> bool:
        """Whether earlier rounds found that nothing is left of a resource that is being deleted."""
        return ResourceReference.of(body).uid in self._left

    def let_go(self, body: Body) -> bool:
        """Take one step towards the deletion of a resource; return whether nothing is left, and the finalizer may be
        cleared. Raises the errors of the API."""
        with self._counted(body):
            now = self._now(body)
            return now is None or self._reconcile(now) is None

    def stop_deleted(self, body: Body) -> None:
        """Stop the processes of a resource that was deleted without its finalizer. A failure loses nothing: agents are
        deleted with their Deployment, and the Deployment is deleted with the resource."""
        record = read_record(body)
        with self._counted(body):
            if FINALIZER not in record.finalizers:
                self._look(ResourceReference.of(body), replace(record, deletion_ms=1))

    def round(self) -> None:
        """Reconcile all resources with differences from their spec, and seldom the rest, within the time limit of a
        round; afterwards run the queue. Raises the errors of the API if resources cannot be listed."""
        slot_holders = {slots: slots.holders() for slots in self._slots()}
        bodies = self._list()
        for body in self._in_shares([*bodies, *list(self._went.values())]):
            try:
                self._step(body)
            except OffsiteError as error:  # the next round tries again
                warned(
                    "look", error=error.id, why=error.message, kind=body["kind"], name=ResourceReference.of(body).name
                )
            except Exception as error:  # noqa: BLE001  # a bug in one resource must not stop the others
                failed(
                    "look",
                    why=safe_line(error),
                    trace=safe_trace(error),
                    kind=body["kind"],
                    name=ResourceReference.of(body).name,
                )
        with self._lock:
            uids = {ResourceReference.of(body).uid for body in bodies}
            if self._records.listed is not None and self._records.listed.is_whole:
                self._tidy(uids, slot_holders)
            self._queue.step({uid: request for uid, request in self._keepers.expiry_requests.items() if uid in uids})
        self.rounds = RoundSummary(
            ended_s=self._clock.monotonic_s(),
            resources=Counter(body["kind"] for body in bodies),
            waiting=Counter(body["kind"] for body in bodies if not _is_as_declared(body)),
            failing=Counter(body["kind"] for body in bodies if _has_condition(body, EXPIRY_FAILING)),
        )

    def _step(self, body: Body) -> None:
        uid = ResourceReference.of(body).uid
        if self._went.pop(uid, None) is not None:
            self.stop_deleted(body)
        elif not body["metadata"].get("deletionTimestamp"):
            self.keep(body)
        elif FINALIZER in (body["metadata"].get("finalizers") or ()) and self.let_go(body):
            self._left.add(uid)

    def _in_shares(self, bodies: Sequence[Body]) -> Iterator[Body]:
        """Yield the resources to reconcile, for as long as a round may last. The namespace with the least used time
        comes next, and within the namespace the resource that waited longest."""
        ends_s, now_ms = self._clock.monotonic_s() + ROUND_MAX_S, self._clock.now_ms()
        due: dict[str, deque[Body]] = {}
        for body in sorted(bodies, key=lambda body: self._looked_s.get(ResourceReference.of(body).uid, 0.0)):
            if self._is_due(body, now_ms):
                due.setdefault(ResourceReference.of(body).namespace, deque()).append(body)
        self._shares = self._shares.among(due)
        while due and self._clock.monotonic_s() < ends_s:
            namespace = self._shares.least(due)
            yield due[namespace].popleft()
            if not due[namespace]:
                del due[namespace]

    def _is_due(self, body: Body, now_ms: int) -> bool:
        uid = ResourceReference.of(body).uid
        is_going = uid in self._went or bool(body["metadata"].get("deletionTimestamp"))
        return uid not in self._left and (is_going or now_ms >= self._rests_until_ms.get(uid, 0))

    @contextmanager
    def _counted(self, body: Body) -> Iterator[None]:
        """Hold the lock of reconciliations in a block. Its time counts for the namespace."""
        with self._lock:
            named, began_s = ResourceReference.of(body), self._clock.monotonic_s()
            try:
                yield
            finally:
                now_s = self._clock.monotonic_s()
                self._looked_s[named.uid] = now_s
                self._shares = self._shares.after(named.namespace, now_s - began_s)

    def _list(self) -> Sequence[Body]:
        """List all resources, of all kinds and namespaces. A closed or deleted namespace stops no other namespace: its
        resources are unknown, and no resource counts as deleted. Raises the errors of the API if all namespaces are
        closed."""
        bodies, closed = list[Body](), list[KubernetesDenied]()
        places = [(kind, namespace) for kind in KINDS for namespace in self._rules.namespaces or [""]]
        for kind, namespace in places:
            try:
                bodies += [_in_short(body, kind) for body in self._cluster.list(resources_path(kind, namespace))]
            except KubernetesDenied as error:
                closed.append(error)
                warned("namespace", error=error.id, why=f"{error.message}; {error.hint}", namespace=namespace)
        if len(closed) == len(places):
            raise closed[0]
        uids = (ResourceReference.of(body).uid for body in bodies)
        self._records.listed = ListedUids(uids, is_whole=not closed)
        return bodies

    def _now(self, body: Body) -> Body | None:
        """Return the current resource; None if the resource is deleted, or another resource has its name."""
        named = ResourceReference.of(body)
        now = self._cluster.get(named.path)
        return now if now is not None and ResourceReference.of(now) == named else None

    def _reconcile(self, body: Body) -> Reconciled | None:
        """Reconcile, and write the status; None if nothing is left."""
        named = ResourceReference.of(body)
        try:
            reconciled = self._look(named, read_record(body))
        except BadResource as error:
            reconciled = Reconciled(conditions=[describe_problem(named.kind, error)])
        if reconciled is None:
            decided("resource_gone", why="deleted", kind=named.kind, name=named.name, uid=named.uid)
            return None
        if patch := status_patch(body, build_kubernetes_status(body, reconciled, self._clock.now_ms())):
            self._cluster.patch(f"{named.path}/status", patch)
        return reconciled

    def _look(self, named: ResourceReference, record: ResourceRecord) -> Reconciled | None:
        if self._records.listed is None:
            self._list()
        self._agents.named[named.uid] = self._records.named = named
        try:
            launches, shared = self._pod.open(named.namespace)
        except OffsiteError as error:
            return Reconciled(conditions=[describe_problem(record.kind, error)])
        self._keepers.open(launches, shared)
        return self._keepers.look(record)

    def _slots(self) -> list[Slots]:
        return [shared.slots for shared in list(self._pod.shared.values())]

    def _tidy(self, uids: Collection[str], slot_holders: Mapping[Slots, Collection[str]]) -> None:
        """Forget deleted resources. `slot_holders`: holders of slots, read before the resources were listed."""
        for remembered in (self._agents.named, self._rests_until_ms, self._looked_s):
            for uid in remembered.keys() - uids:
                remembered.pop(uid, None)  # `note_change` may be faster
        self._left &= set(uids)
        self._queue.forget_others(uids)
        self._keepers.keep_only(uids)
        for slots, holders in slot_holders.items():
            for uid in set(holders) - set(uids):
                slots.give(uid)


def wants_finalizer(body: Body) -> bool:
    """Whether there is work before the deletion of a resource: the backups of a Backup are deleted, an unfinished
    Restore is stopped."""
    match body["kind"]:
        case "Backup":
            return bool(((body.get("spec") or {}).get("expiry") or {}).get("deletionFinalizer", True))
        case "Restore":
            return not is_final((body.get("status") or {}).get("phase"))
        case _:
            return False


def _in_short(body: Body, kind: str) -> Body:
    """Return the fields of a resource that a round needs: all complete resources may exceed the memory of the pod."""
    metadata, status = body["metadata"], body.get("status") or {}
    summary = {name: status.get(name) for name in ("reconciled", "observedGeneration")}
    return {
        "kind": kind,
        "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
        "status": {
            **summary,
            "conditions": [{"type": condition.get("type")} for condition in status.get("conditions") or ()],
        },
    }


def _has_condition(body: Body, condition: str) -> bool:
    """Whether the status has a condition of that type."""
    return any(row.get("type") == condition for row in (body.get("status") or {}).get("conditions") or ())


def _is_as_declared(body: Body) -> bool:
    """Whether the status says `reconciled`, for the present generation."""
    status = body.get("status") or {}
    return status.get("reconciled") is True and status.get("observedGeneration") == body["metadata"]["generation"]
