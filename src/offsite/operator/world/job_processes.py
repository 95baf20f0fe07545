"""What a reconciler begins jobs with: processes, and where their repository and cluster are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from offsite.model.errors import JobNotBegun
from offsite.operator.decide.wanted import Place
from offsite.operator.world.look import Eyes
from offsite.services.jobs.ask import JobRequest, ask_for_job
from offsite.services.jobs.give_up import give_up_job
from offsite.services.jobs.workers import SECRET, Workers
from offsite.stores.store import Store

BY = "offsite operator"
"""Who asks for jobs: the same for all operators, for it is a part of the word by which they find each other's jobs."""

EnvironmentOf = Callable[[Place, str], Mapping[str, str]]
"""The whole environment of a command line: the repository of a place with its credentials, and no other's, and the
cluster of that name; no cluster where the name is empty. Raises `BadResource` for a name that is not known."""


class JobProcesses(Protocol):
    """Begins the processes of jobs. `services.jobs.workers.Workers` is one, for this machine."""

    def room(self) -> AbstractContextManager[None]:
        """A block in which one may be begun. Raises `TooManyJobs`."""

    def begin(self, job: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Begin the process of a job, which outlives this one. Raises `JobNotBegun`."""

    def end(self, job: str) -> None:
        """End the process of a job that was shut out, if it is one of these."""


def local_processes(*, at_once: int) -> JobProcesses:
    """Processes of this machine, at most so many at once."""
    return Workers(environment={}, at_once=at_once, inherited={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """What jobs are begun with."""

    eyes: Eyes
    processes: JobProcesses
    environment_of: EnvironmentOf

    def begin(self, place: Place, request: JobRequest, *, word: str) -> str:
        """The id of the job of that word, in the repository of `place`. Its process is begun here if nobody asked for
        it before. One that cannot be begun is given up, so that whoever looks next goes on. Raises `BadResource`,
        `TooManyJobs`, `JobNotBegun`, `RequestRepeated` where the word was used for something else, and what the store
        raises."""
        store, environment = self.eyes.open_store(place), self.environment_of(place, request.cluster)
        with self.processes.room():
            asked = ask_for_job(store, request, word=word)
            if asked.is_new:
                try:
                    self.processes.begin(asked.id, request.arguments, {**environment, SECRET: asked.secret})
                except JobNotBegun:
                    give_up_job(store, asked.id, identity=self.eyes.identity)
                    raise
        return asked.id

    def give_up(self, store: Store, job: str) -> None:
        """Shut out a job whose process is silent, and end that. Raises as `give_up_job`."""
        give_up_job(store, job, identity=self.eyes.identity)
        self.processes.end(job)
