"""The queue of those whose old data goes: one entry for each backup, few at a time, none twice at once. Pure.

As the seed has it: while fewer run than may, the first entry is taken, its job begun, and the backup put to the end;
where as many run as may, or nothing can begin, one waits for the retry interval. A job that shows no sign of getting on
for an hour is killed, and counts no more. Who is to be deleted comes before the others, and wakes the queue.

In Kubernetes namespaces come in turn. A job that takes longer than an hour ends when one of another namespace waits:
what it has done is done, and it goes on in its turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from offsite.operator.decide.turns import Turns

RETRY_S = 600.0
JOB_MAX_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """Jobs at once, seconds from one look to the next, and seconds for which a job may show no sign of getting on."""

    at_once: int = 1
    retry_s: float = RETRY_S
    job_max_s: float = JOB_MAX_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """`since_s`: when it showed last that it gets on; `begun_s`: when it was begun, or first seen."""

    uid: str
    since_s: float
    begun_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryQueue:
    """`waiting`: uids, the next one first. `until_s`: no look before that moment. `turns`: of namespaces."""

    waiting: tuple[str, ...] = ()
    running: tuple[RunningJob, ...] = ()
    until_s: float = 0.0
    turns: Turns = field(default_factory=Turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStep:
    """The queue as it is then, whose jobs to begin, whose to kill, and whose to end for the sake of others."""

    queue: ExpiryQueue
    begin: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    end: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLook:
    """What there is at a moment. `known`: the uids of all backups, those to be deleted too; `alive`: of those whose job
    still runs. `now_s`: of a monotonic clock. `owners`: the namespaces of uids, where there are any."""

    now_s: float
    known: Sequence[str]
    deleting: Collection[str]
    alive: Collection[str]
    owners: Mapping[str, str] = field(default_factory=dict)

    def owner(self, uid: str) -> str:
        return self.owners.get(uid, "")


def step(queue: ExpiryQueue, rules: QueueRules, look: QueueLook) -> QueueStep:
    """One look at the queue."""
    alive = tuple(each for each in queue.running if each.uid in look.alive)
    late = tuple(each.uid for each in alive if look.now_s - each.since_s > rules.job_max_s)
    waiting = _ordered(queue, look)
    is_due = look.now_s >= queue.until_s or bool(late)
    ready = [uid for uid in waiting if uid not in look.alive and (is_due or uid in look.deleting)]
    ended = _overdue([each for each in alive if each.uid not in late], ready, rules, look)
    running = tuple(each for each in alive if each.uid not in {*late, *ended})
    begun = tuple(ready[: max(0, rules.at_once - len(running))])
    # a deletion comes out of turn, and puts off nobody else's: one that fails is begun again and again
    is_turn = any(uid not in look.deleting for uid in begun)
    busy = (*begun, *(each.uid for each in running))
    rests = is_due and (is_turn or not any(uid in look.deleting for uid in busy))
    return QueueStep(
        queue=ExpiryQueue(
            waiting=(*(uid for uid in waiting if uid not in begun), *begun),
            running=(*running, *(RunningJob(uid=uid, since_s=look.now_s, begun_s=look.now_s) for uid in begun)),
            until_s=look.now_s + rules.retry_s if rests else queue.until_s,
            turns=reduce(lambda turns, uid: turns.after(look.owner(uid)), begun, queue.turns),
        ),
        begin=begun,
        kill=late,
        end=ended,
    )


def _ordered(queue: ExpiryQueue, look: QueueLook) -> tuple[str, ...]:
    """One entry for each backup that there is: those of namespaces in turn, of each those to be deleted first."""
    kept = [uid for uid in dict.fromkeys(queue.waiting) if uid in look.known]
    whole = [*kept, *(uid for uid in look.known if uid not in kept)]
    first = (*(uid for uid in whole if uid in look.deleting), *(uid for uid in whole if uid not in look.deleting))
    return queue.turns.ordered(first, look.owner)


def _overdue(
    running: Sequence[RunningJob], ready: Sequence[str], rules: QueueRules, look: QueueLook
) -> tuple[str, ...]:
    """Which job ends now, if any: all places are taken, and a namespace that has none waits."""
    have = {look.owner(each.uid) for each in running}
    if len(running) < rules.at_once or all(look.owner(uid) in have for uid in ready):
        return ()
    return tuple(each.uid for each in running if look.now_s - each.begun_s > rules.job_max_s)[:1]
