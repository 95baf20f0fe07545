"""Turns among namespaces with a shared scarce resource, and the queue of backups whose old data expires. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeVar

Item = TypeVar("Item")

WISH_S = 60.0
"""A namespace that has not asked for so long no longer waits: a waiting namespace asks in every round."""
LOOK_S = 0.01
"""Minimum time counted for every round: if no owner takes long, owners come one after the other."""
RETRY_S = 600.0
JOB_MAX_S = 3600.0


@dataclass(frozen=True, slots=True)
class Turns:
    """`owners`: owners that were served, the last one at the end.

    The namespace served longest ago comes first. Hence of two waiting namespaces neither is served twice before the
    other, at any number of requests.
    """

    owners: tuple[str, ...] = ()

    def after(self, owner: str) -> Turns:
        """Return the turns after `owner` was served."""
        return Turns((*(name for name in self.owners if name != owner), owner))

    def ordered(self, items: Iterable[Item], owner_of: Callable[[Item], str]) -> tuple[Item, ...]:
        """Interleave the items of owners. Items of an owner keep their order."""
        by_owner: dict[str, list[Item]] = {}
        for item in items:
            by_owner.setdefault(owner_of(item), []).append(item)
        places = [
            (number, self.rank(owner), item) for owner, mine in by_owner.items() for number, item in enumerate(mine)
        ]
        return tuple(item for _, _, item in sorted(places, key=lambda place: place[:2]))

    def rank(self, owner: str) -> int:
        """Lower is sooner. An owner that was never served comes before all served owners."""
        return self.owners.index(owner) if owner in self.owners else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingList:
    """Owners with single requests. `waiting`: owner, and time of the last refusal."""

    turns: Turns = Turns()
    waiting: tuple[tuple[str, float], ...] = ()

    def is_turn(self, owner: str, *, now_s: float) -> bool:
        """Whether no waiting owner was served longer ago."""
        mine = self.turns.rank(owner)
        return all(self.turns.rank(other) >= mine for other, at_s in self.waiting if now_s - at_s < WISH_S)

    def add(self, owner: str, *, now_s: float) -> WaitingList:
        """Return the list after `owner` asked and was refused."""
        return replace(self, waiting=(*self._others(owner, now_s), (owner, now_s)))

    def serve(self, owner: str, *, now_s: float) -> WaitingList:
        return WaitingList(turns=self.turns.after(owner), waiting=self._others(owner, now_s))

    def _others(self, owner: str, now_s: float) -> tuple[tuple[str, float], ...]:
        """Return the other owners that still wait."""
        return tuple((name, at_s) for name, at_s in self.waiting if name != owner and now_s - at_s < WISH_S)


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the time of a single worker: the owner with the least used time comes next. `used_s`: used time of
    every owner above the least one."""

    used_s: Mapping[str, float] = field(default_factory=dict)

    def among(self, owners: Collection[str]) -> Shares:
        """Return the shares among `owners`. A formerly lone owner owes nothing for the time alone, and an absent owner
        has saved nothing."""
        least_s = min((self._of(owner) for owner in owners), default=0.0)
        beyond_least_s = {owner: used_s - least_s for owner, used_s in self.used_s.items()}
        return Shares({owner: used_s for owner, used_s in beyond_least_s.items() if used_s > 0})

    def least(self, owners: Iterable[str]) -> str:
        return min(owners, key=self._of)

    def after(self, owner: str, took_s: float) -> Shares:
        return Shares({**self.used_s, owner: self._of(owner) + max(took_s, LOOK_S)})

    def _of(self, owner: str) -> float:
        return self.used_s.get(owner, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """`at_once`: jobs at once. `retry_s`: seconds between two rounds of the queue. `job_max_s`: seconds that a job may
    show no sign of progress."""

    at_once: int = 1
    retry_s: float = RETRY_S
    job_max_s: float = JOB_MAX_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """`since_s`: last sign of progress. `begun_s`: start, or first observation."""

    uid: str
    since_s: float
    begun_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryQueue:
    """`waiting`: uids, next first. `until_s`: no round before that time. `turns`: turns of namespaces.

    The queue has one entry per backup, runs a few jobs at a time, and no backup twice at once. While fewer jobs run
    than allowed, the first entry is taken, its job started, and the backup moved to the end. If all places are taken,
    or no job can start, the queue waits for the retry interval. A job without a sign of progress for an hour is killed,
    and counts no more. Deletions come before other entries, and wake the queue. In Kubernetes a job of more than an
    hour ends when another namespace waits: finished work stays finished, and the job continues in its next turn.
    """

    waiting: tuple[str, ...] = ()
    running: tuple[RunningJob, ...] = ()
    until_s: float = 0.0
    turns: Turns = field(default_factory=Turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStep:
    """The new queue, and the uids whose jobs to begin, to kill, and to end for another namespace."""

    queue: ExpiryQueue
    begin: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    end: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """The state at a moment. `uids`: all backups, including backups to be deleted. `alive`: backups whose job still
    runs. `now_s`: monotonic clock. `owners`: namespaces of uids, if any."""

    now_s: float
    uids: Sequence[str]
    deleting: Collection[str]
    alive: Collection[str]
    owners: Mapping[str, str] = field(default_factory=dict)

    def owner(self, uid: str) -> str:
        return self.owners.get(uid, "")


def step(queue: ExpiryQueue, rules: QueueRules, look: QueueSnapshot) -> QueueStep:
    """Run one round of the queue."""
    # 1. Running jobs: kill jobs without progress, and end one in favour of a waiting namespace.
    alive = tuple(job for job in queue.running if job.uid in look.alive)
    late = tuple(job.uid for job in alive if look.now_s - job.since_s > rules.job_max_s)
    waiting = _ordered(queue, look)
    is_due = look.now_s >= queue.until_s or bool(late)
    ready = [uid for uid in waiting if uid not in look.alive and (is_due or uid in look.deleting)]
    ending = _overdue([job for job in alive if job.uid not in late], ready, rules, look)
    running = tuple(job for job in alive if job.uid not in {*late, *ending})
    # 2. Start the first ready backups while there is room.
    starting = tuple(ready[: max(0, rules.at_once - len(running))])
    # a deletion comes out of turn and delays no other backup: a failing deletion starts again and again
    is_turn = any(uid not in look.deleting for uid in starting)
    busy = (*starting, *(job.uid for job in running))
    # 3. Rest until the retry interval ends, and move the started backups to the end of the queue.
    rests = is_due and (is_turn or not any(uid in look.deleting for uid in busy))
    return QueueStep(
        queue=ExpiryQueue(
            waiting=(*(uid for uid in waiting if uid not in starting), *starting),
            running=(*running, *(RunningJob(uid=uid, since_s=look.now_s, begun_s=look.now_s) for uid in starting)),
            until_s=look.now_s + rules.retry_s if rests else queue.until_s,
            turns=reduce(lambda turns, uid: turns.after(look.owner(uid)), starting, queue.turns),
        ),
        begin=starting,
        kill=late,
        end=ending,
    )


def _ordered(queue: ExpiryQueue, look: QueueSnapshot) -> tuple[str, ...]:
    """One entry per backup: namespaces take turns, and in a namespace deletions come first."""
    queued = [uid for uid in dict.fromkeys(queue.waiting) if uid in look.uids]
    whole = [*queued, *(uid for uid in look.uids if uid not in queued)]
    first = (*(uid for uid in whole if uid in look.deleting), *(uid for uid in whole if uid not in look.deleting))
    return queue.turns.ordered(first, look.owner)


def _overdue(
    running: Sequence[RunningJob], ready: Sequence[str], rules: QueueRules, look: QueueSnapshot
) -> tuple[str, ...]:
    """Return the job to end now, if any: all places are taken, and a namespace without a place waits."""
    have = {look.owner(job.uid) for job in running}
    if len(running) < rules.at_once or all(look.owner(uid) in have for uid in ready):
        return ()
    return tuple(job.uid for job in running if look.now_s - job.begun_s > rules.job_max_s)[:1]
