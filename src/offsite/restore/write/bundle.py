"""Any partition of a restore, as one function for the workers: topics of both offset modes run together, several
partitions at a time in one task.

A broker takes about as long over a request as over one small batch. Partitions of one leader that are written together
share requests: a task has several partitions, and small partitions cost less than a task of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from offsite.engine.bundles import Bundle, deal_out
from offsite.engine.runner import Done, Failed
from offsite.engine.task_attempt import wrap_foreign
from offsite.kafka.lane import Lanes
from offsite.kafka.net.backoff import SilentLeaders
from offsite.kafka.net.routing import shared_router
from offsite.model.errors import OffsiteError, WriterFenced
from offsite.model.journal import safe_trace
from offsite.model.units import MIB
from offsite.restore.write.attempt import RestoreEnds, RestoreReceipt, RestoreSteps, WriteAttempt, paced_lanes
from offsite.restore.write.preserve import PreserveTask, preserve_partition
from offsite.restore.write.translate import RestoreTask, translate_partition

AnyRestoreTask: TypeAlias = RestoreTask | PreserveTask
WriteOutcome: TypeAlias = Done[RestoreReceipt] | Failed

TOGETHER_MAX = 4
"""Partitions that a worker writes in turns. More partitions gain little, and every partition needs memory."""
SMALL_BYTES = 4 * MIB
"""A partition with fewer bytes is small: its start takes about as long as its write."""
SMALL_MAX = 64
"""Small partitions of a bundle."""


def bundle_restores(tasks: Sequence[AnyRestoreTask], *, slots: int) -> list[Bundle[AnyRestoreTask]]:
    """All `tasks`, dealt out by size, the largest first, into bundles of similar size. `slots`: number of bundles that
    run at once."""
    ordered = sorted(range(len(tasks)), key=lambda number: -_size_bytes(tasks[number]))
    large = [number for number in ordered if _size_bytes(tasks[number]) >= SMALL_BYTES]
    small = ordered[len(large) :]
    rounds = -(-len(large) // (slots * TOGETHER_MAX))
    count = max(min(slots, len(small)), -(-len(small) // SMALL_MAX))
    hands = [*deal_out(large, min(rounds * slots, len(large))), *deal_out(small, count)]
    return [Bundle.of(tasks, hand) for hand in hands]


def write_bundle(bundle: Bundle[AnyRestoreTask], *, ends: RestoreEnds) -> tuple[WriteOutcome, ...]:
    """Write the partitions, and return the outcomes in order: a partition that cannot be written does not stop the
    rest. For a bundle of one partition, raises the errors of the partition."""
    if len(bundle.tasks) == 1:
        return (Done(value=restore_any_partition(bundle.tasks[0], ends=ends)),)
    outcomes = _Turns(bundle.tasks, ends).run()
    return tuple(outcomes[number] for number in range(len(bundle.tasks)))


def restore_any_partition(task: AnyRestoreTask, *, ends: RestoreEnds) -> RestoreReceipt:
    """Write one partition alone. Raises the errors of its mode."""
    attempt = _attempt(task, ends)
    attempt.check()
    steps = _steps(task, attempt, ends, paced_lanes(shared_router(ends.kafka)))
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            receipt: RestoreReceipt = ended.value
            return receipt


class _Turns:
    """Partitions written in turns.

    All attempts begin before the first write. If every attempt began at its turn, a worker that was stopped and
    replaced would wake up and begin newer attempts at its remaining partitions. A take-over of the first attempt ends
    all.
    """

    def __init__(self, tasks: Sequence[AnyRestoreTask], ends: RestoreEnds) -> None:
        self._tasks, self._ends = tasks, ends
        self._outcomes: dict[int, WriteOutcome] = {}
        self._waiting = deque[tuple[int, RestoreSteps]]()
        self._under_way = deque[tuple[int, RestoreSteps]]()
        self._silent = SilentLeaders(shared_router(ends.kafka))
        self._first: WriteAttempt | None = None

    def run(self) -> Mapping[int, WriteOutcome]:
        """The outcomes by index."""
        try:
            self._begin()
        except WriterFenced:
            self._stop()
        while self._waiting or self._under_way:
            self._fill()
            if not self._under_way:
                break
            number, steps = self._under_way.popleft()
            outcome = _step(steps)
            if outcome is None:
                self._under_way.append((number, steps))
            else:
                self._end(number, outcome)
        return self._outcomes

    def _begin(self) -> None:
        """Begin all attempts. Raises `WriterFenced` as soon as a newer attempt at the first partition has begun: the
        numbers of the remaining partitions belong to the successor."""
        lanes = paced_lanes(shared_router(self._ends.kafka))
        for number, task in enumerate(self._tasks):
            if self._first is not None:
                self._first.guard()
            if (attempt := self._begun(number)) is not None:
                self._first = self._first or attempt
                self._waiting.append((number, _steps(task, attempt, self._ends, lanes)))
        if self._first is not None:
            self._first.check()

    def _begun(self, number: int) -> WriteAttempt | None:
        if self._is_refused(number):
            return None
        try:
            return _attempt(self._tasks[number], self._ends)
        except OffsiteError as error:
            self._outcomes[number] = Failed(error=error, trace=safe_trace(error))
            self._silent.note_result(self._tasks[number].partition.target, error)
            return None

    def _fill(self) -> None:
        while self._waiting and len(self._under_way) < TOGETHER_MAX:
            number, steps = self._waiting.popleft()
            if not self._is_refused(number):
                self._under_way.append((number, steps))

    def _is_refused(self, number: int) -> bool:
        """Whether another try would only wait in vain once more; the refusal is the outcome."""
        refusal = self._silent.refusal(self._tasks[number].partition.target)
        if refusal is not None:
            self._outcomes[number] = Failed(error=refusal, trace="", tried=False)
        return refusal is not None

    def _end(self, number: int, outcome: WriteOutcome) -> None:
        self._outcomes[number] = outcome
        error = outcome.error if isinstance(outcome, Failed) else None
        self._silent.note_result(self._tasks[number].partition.target, error)
        if not isinstance(error, WriterFenced):
            return
        if self._is_overtaken():
            self._stop()
        else:  # another writer took a higher number, and has gone again: the partition may be tried once more
            self._outcomes[number] = Failed(error=error, trace="", tried=False)

    def _is_overtaken(self) -> bool:
        try:
            if self._first is not None:
                self._first.check()
        except OffsiteError:
            return True
        return False

    def _stop(self) -> None:
        for _, steps in (*self._under_way, *self._waiting):
            steps.close()
        self._under_way.clear()
        self._waiting.clear()
        for number in range(len(self._tasks)):
            self._outcomes.setdefault(number, self._left_alone(number))

    def _left_alone(self, number: int) -> Failed:
        error = WriterFenced(
            f"{self._tasks[number].partition.target} was not completed: another attempt writes the partitions of "
            "this task now, or the restore has ended",
            hint="the other attempt is not affected; if the restore did not end, run the same command again",
        )
        return Failed(error=error, trace="", tried=False)


def _attempt(task: AnyRestoreTask, ends: RestoreEnds) -> WriteAttempt:
    router, target = shared_router(ends.kafka), task.partition.target
    return WriteAttempt(router, ends.records, ends.layout, target, start=task.target_start)


def _steps(task: AnyRestoreTask, attempt: WriteAttempt, ends: RestoreEnds, lanes: Lanes) -> RestoreSteps:
    if isinstance(task, PreserveTask):
        return preserve_partition(task, attempt, ends=ends, lanes=lanes)
    return translate_partition(task, attempt, ends=ends, lanes=lanes)


def _step(steps: RestoreSteps) -> WriteOutcome | None:
    """One step; None: more steps follow."""
    try:
        next(steps)
    except StopIteration as ended:
        return Done(value=ended.value)
    except OffsiteError as error:
        return Failed(error=error, trace=safe_trace(error))
    except Exception as error:  # noqa: BLE001  # reported as the outcome, and stops no other partition
        return Failed(error=wrap_foreign(error), trace=safe_trace(error))
    return None


def _size_bytes(task: AnyRestoreTask) -> int:
    return task.partition.chain.raw_bytes
