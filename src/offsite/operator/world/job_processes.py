"""Starts jobs for reconcilers: processes, and the environment for repository and cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from offsite.jobs.ask import JobRequest, request_job
from offsite.jobs.give_up import give_up_job
from offsite.jobs.workers import SECRET, Workers
from offsite.model.errors import JobNotBegun
from offsite.operator.decide.wanted import RepositoryPlace
from offsite.operator.world.look import Observer
from offsite.stores.store import Store

BY = "offsite operator"
"""The requester of jobs: the same for all operators, because the requester is a part of the idempotency key by which
operators find each other's jobs."""

EnvironmentOf = Callable[[RepositoryPlace, str], Mapping[str, str]]
"""Return the whole environment of a command: the repository of a place with its own credentials only, and the cluster
of that name; no cluster if the name is empty. Raises `BadResource` for an unknown name."""


class JobProcesses(Protocol):
    """Starts the processes of jobs. `services.jobs.workers.Workers` implements the port for this machine."""

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
