"""A `Runner` that needs no Spark: one task after the other, in this process."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

from offsite.engine.runner import Done, Failed, FoundT, OnOutcome, OnProgress, Runner, SentT, Shuffle, ShuffledTask
from offsite.model.errors import OffsiteError
from offsite.model.secret import SecretHandling, handle_secrets

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")
ValueT = TypeVar("ValueT")


class InlineRunner(Runner):
    @property
    def slots(self) -> int:
        return 2

    def begin(self) -> None:
        pass

    def await_start(self) -> None:
        pass

    def run(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[ResultT]:
        return [function(task) for task in tasks]

    def run_all(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        work, crossed = self._crossed(function), self._crossed(list(tasks))
        return [self._crossed(_outcome(work, task)) for task in crossed]

    def run_each(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        on_outcome: OnOutcome[ResultT],
        *,
        on_progress: OnProgress | None = None,
        keep_going: bool = True,
    ) -> None:
        work = self._crossed(function)
        for index, task in enumerate(tasks):
            on_outcome(index, self._crossed(_outcome(work, self._crossed(task))))

    def run_shuffled(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[ShuffledTask[TaskT, SentT]], ResultT],
        shuffle: Shuffle[TaskT, FoundT, SentT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        buckets: list[list[FoundT]] = [[] for _ in range(shuffle.buckets)]
        for task in tasks:
            try:
                for bucket, found in shuffle.find(task):
                    buckets[bucket].append(found)
            except OffsiteError as error:
                for bucket, found in shuffle.give_up(task, error):
                    buckets[bucket].append(found)
        sent: list[list[SentT]] = [[] for _ in tasks]
        for bucket_of in buckets:
            for index, each in shuffle.send(iter(bucket_of)):
                sent[index].append(each)
        return [
            _outcome(function, ShuffledTask(task=task, received=each)) for task, each in zip(tasks, sent, strict=True)
        ]

    def halt(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def _crossed(self, value: ValueT) -> ValueT:
        """The value on the other side of where tasks run."""
        return value


class CrossingRunner(InlineRunner):
    """Functions, tasks and outcomes cross as bytes, as they do between a driver and Spark's workers."""

    def run(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[ResultT]:
        values = []
        for outcome in self.run_all(tasks, function):
            if isinstance(outcome, Failed):
                raise outcome.error
            values.append(outcome.value)
        return values

    def _crossed(self, value: ValueT) -> ValueT:
        with handle_secrets(SecretHandling.SENT):
            data = pickle.dumps(value)
        copy: ValueT = pickle.loads(data)
        return copy


class StoppedRunner(InlineRunner):
    """Whoever runs it is interrupted when half of the work is done."""

    def run_each(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        on_outcome: OnOutcome[ResultT],
        *,
        on_progress: OnProgress | None = None,
        keep_going: bool = True,
    ) -> None:
        super().run_each(tasks[: (len(tasks) + 1) // 2], function, on_outcome, on_progress=on_progress)
        raise KeyboardInterrupt


def _outcome(function: Callable[[TaskT], ResultT], task: TaskT) -> Done[ResultT] | Failed:
    try:
        return Done(value=function(task))
    except OffsiteError as error:
        return Failed(error=error, trace=traceback.format_exc())
