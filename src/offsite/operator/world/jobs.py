"""Jobs of reconcilers: starts their processes with the environment for repository and cluster, and reads the progress,
end and error from the records of a job.

Namespaces share the room for jobs in turn: no waiting namespace gets room twice before the other waiting ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from offsite.jobs.ask import JobRequest, request_job
from offsite.jobs.end import give_up_job
from offsite.jobs.status import GIVEN_UP, JobReport
from offsite.jobs.workers import SECRET, Workers
from offsite.model.clock import Clock
from offsite.model.errors import JobNotBegun, TooManyJobs
from offsite.model.untrusted.bounded_json import BadJson, parse_json
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.decide.queue import WaitingList
from offsite.operator.decide.restore import ObservedJob
from offsite.operator.world.observe import Observer
from offsite.repository.declared.restore_log import Failure
from offsite.stores.store import Store

BY = "offsite operator"
"""The requester of jobs: the same for all operators, because the requester is a part of the idempotency key by which
operators find each other's jobs."""

EnvironmentOf = Callable[[RepositoryPlace, str], Mapping[str, str]]
"""Return the whole environment of a command: the repository of a place with its own credentials only, and the cluster
of that name; no cluster if the name is empty. Raises `BadResource` for an unknown name."""
_LINES_MAX = 50
"""Last lines of a command's output that are searched: only final messages may follow the error document."""


class JobProcesses(Protocol):
    """Starts the processes of jobs. `jobs.workers.Workers` implements the port for this machine."""

    def room(self) -> AbstractContextManager[None]:
        """Reserve room for one process in a block. Raises `TooManyJobs`."""

    def begin(self, job: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the process of a job. The process outlives the caller. Raises `JobNotBegun`."""

    def end(self, job: str) -> None:
        """End the process of a job that was shut out, if this object started the process."""


def local_processes(*, at_once: int) -> JobProcesses:
    """Processes of the local machine, at most `at_once`."""
    return Workers(environment={}, at_once=at_once, inherited={})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarter:
    """Starts jobs, and gives them up."""

    observer: Observer
    processes: JobProcesses
    environment_of: EnvironmentOf

    def begin(self, place: RepositoryPlace, request: JobRequest, *, word: str) -> str:
        """Return the id of the job with that idempotency key in the repository of `place`. Start its process here if
        the job is new. Give the job up if the process cannot start, so that the next operator continues. Raises
        `BadResource`, `TooManyJobs`, `JobNotBegun`, `RequestRepeated` if the key was used for another request, and the
        errors of the store."""
        store, environment = self.observer.open_store(place), self.environment_of(place, request.cluster)
        with self.processes.room():
            ticket = request_job(store, request, word=word)
            if ticket.is_new:
                try:
                    self.processes.begin(ticket.id, request.arguments, {**environment, SECRET: ticket.secret})
                except JobNotBegun:
                    give_up_job(store, ticket.id, identity=self.observer.identity)
                    raise
        return ticket.id

    def give_up(self, store: Store, job: str) -> None:
        """Shut out a job whose process is silent, and end the process. Raises the errors of `give_up_job`."""
        give_up_job(store, job, identity=self.observer.identity)
        self.processes.end(job)


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


def observe_job(report: JobReport) -> ObservedJob:
    """Reduce a job report to the fields of a restore."""
    result = report.result if isinstance(report.result, Mapping) else {}
    verified = result.get("verified")
    return ObservedJob(
        id=report.id,
        state=report.state,
        is_cancelled=bool(report.cancelled_by),
        is_shut_out=report.exit_code == GIVEN_UP,
        progress=report.progress,
        verified=verified if isinstance(verified, bool) else None,
        failure=parse_failure(report.said),
    )


def parse_failure(said: str) -> Failure | None:
    """Return the final error of a command, from its stderr `said`; None if the output has no error document."""
    for line in reversed(said.splitlines()[-_LINES_MAX:]):
        if line.startswith('{"error"') and (failure := _error(line)) is not None:
            return failure
    return None


def _error(line: str) -> Failure | None:
    try:
        document = parse_json(line.encode())
    except BadJson:
        return None
    error = document.get("error") if isinstance(document, Mapping) else None
    if not isinstance(error, Mapping):
        return None
    return Failure(id=str(error.get("id", "")), message=str(error.get("message", "")), hint=str(error.get("hint", "")))
