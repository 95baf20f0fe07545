"""Shares job room among namespaces in turn: no waiting namespace gets room twice before the other waiting ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from offsite.model.clock import Clock
from offsite.model.errors import TooManyJobs
from offsite.operator.decide.turns import WaitingList
from offsite.operator.world.job_processes import JobProcesses


@dataclass(slots=True, kw_only=True)
class JobTurns:
    """The turns, for the lifetime of the process: the process starts all jobs itself."""

    processes: JobProcesses
    clock: Clock
    wishes: WaitingList = field(default_factory=WaitingList)

    def of(self, namespace: str) -> JobProcesses:
        """Return the `JobProcesses` for one reconciliation of a resource of `namespace`."""
        return _Turn(turns=self, namespace=namespace)


@dataclass(slots=True, kw_only=True)
class _Turn:
    """Implements `JobProcesses` for one reconciliation. Room granted earlier in the reconciliation is not requested
    again: no other namespace comes between the decision and its job."""

    turns: JobTurns
    namespace: str
    _has_turn: bool = False

    @contextmanager
    def room(self) -> Iterator[None]:
        turns, now_s = self.turns, self.turns.clock.monotonic_s()
        is_turn = self._has_turn or turns.wishes.is_turn(self.namespace, now_s=now_s)
        before, turns.wishes = turns.wishes, turns.wishes.add(self.namespace, now_s=now_s)
        if not is_turn:
            raise TooManyJobs("another namespace has its turn", hint="wait for it")
        with turns.processes.room():
            self._has_turn, turns.wishes = True, before.serve(self.namespace, now_s=now_s)
            yield

    def begin(self, job: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.turns.processes.begin(job, arguments, environment)

    def end(self, job: str) -> None:
        self.turns.processes.end(job)
