"""The process that works on a job, as seen by other processes: signs of life, progress, and a check for
cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from offsite.engine.runner import RunProgress
from offsite.jobs.status import GIVEN_UP
from offsite.model.clock import Clock
from offsite.model.errors import LeaseTakenOver, OffsiteError
from offsite.model.ids import random_id
from offsite.model.journal import noted, warned
from offsite.repository.job import JobEnd, JobLayout, JobProgress, JobTopic
from offsite.repository.job_records import JobRecords
from offsite.repository.lease import BEAT_S, TTL_S, Lease, LeaseClaim, ProcessIdentity
from offsite.restore.topic_progress import TopicProgress
from offsite.stores.store import Store

LOOK_S = 1.0
"""Seconds between two checks for cancellation, and between two records of progress."""


TOPICS_MAX = 20
"""Topics of a restore that its progress names: those under way first."""
_NOTHING = JobProgress(label="", moved_bytes=0, records=0, tasks_done=0, tasks_total=0, elapsed_s=0.0)


def _is_waiting(topic: TopicProgress) -> tuple[bool, int, str]:
    return topic.done == 0, topic.done - topic.total, topic.topic


class JobWork:
    """A job of this process. `cancel` is called once, from another thread, when the job is to end."""

    def __init__(  # noqa: PLR0913  # keyword arguments, except the job itself
        self,
        records: JobRecords,
        terms: Lease,
        claim: LeaseClaim,
        *,
        cancel: Callable[[], None],
        clock: Clock,
        secret: str = "",
    ) -> None:
        self._records, self._terms, self._claim, self._secret = records, terms, claim, secret
        self._signs_ms = [self._terms.last_sign_ms(claim)]
        self._cancel, self._clock = cancel, clock
        self._newest: JobProgress | None = None
        self._topics = _NOTHING
        self._noted: JobProgress | None = None
        self._is_cancelled = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="offsite-job", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the job already has an end, was given up as lost, or lost its records: then nothing may be done.
        Asked before any work; raises the errors of the store."""
        request, claimed_end = self._records.read_request(), self._records.read_claimed_end()
        is_given_up = claimed_end is not None and claimed_end.exit_code == GIVEN_UP
        return request is None or is_given_up or self._records.read_end(request) is not None

    def report_progress(self, label: str, now: RunProgress) -> None:
        """Set the progress of the command; written soon."""
        self._newest = replace(
            self._topics,
            label=label,
            moved_bytes=now.moved_bytes,
            records=now.records,
            tasks_done=now.tasks_done,
            tasks_total=now.tasks_total,
            elapsed_s=now.elapsed_s,
        )

    def report_topics(self, topics: Sequence[TopicProgress]) -> None:
        """Set the progress of the topics of a restore; written with the progress of the command."""
        under_way = sorted((topic for topic in topics if not topic.is_done), key=_is_waiting)[:TOPICS_MAX]
        self._topics = replace(
            self._topics,
            topics=tuple(
                JobTopic(topic=topic.topic, done=topic.done, total=topic.total, rate=topic.rate) for topic in under_way
            ),
            topics_done=sum(topic.is_done for topic in topics),
            topics_total=len(topics),
        )

    def record_end(self, *, exit_code: int, result: str, said: str) -> None:
        """Write the end of the command. Raises the errors of the store: then the job counts as lost."""
        job, at_ms = self._records.layout.job, self._records.store.now_ms()
        end = JobEnd(id=job, at_ms=at_ms, exit_code=exit_code, result=result, said=said)
        self._records.put_end(end, secret=self._secret)
        noted("job_ended", job=job, exit_code=exit_code)

    def stop(self) -> None:
        """Stop the thread, and release the lease. Raises no `OffsiteError`."""
        self._over.set()
        self._thread.join()
        with suppress(OffsiteError):  # then the lease expires
            self._terms.end(self._claim)

    def _look(self) -> None:
        beaten_s = self._clock.monotonic_s()
        while not self._over.wait(LOOK_S):
            try:
                self._note()
                self._listen()
                if self._clock.monotonic_s() - beaten_s >= BEAT_S:
                    beaten_s = self._clock.monotonic_s()
                    self._terms.beat(self._claim)
                    self._signs_ms = [self._signs_ms[-1], self._terms.last_sign_ms(self._claim)]
                    if self._records.read_request() is None:
                        self._cancel()
                        return
            except LeaseTakenOver as error:
                if self._was_silent():  # and given up: a successor continues
                    self._cancel()
                    return
                warned("job_claimed", error=error.id, why=error.message, job=self._records.layout.job)
            except OffsiteError as error:  # the next request may succeed
                warned("job_look", error=error.id, why=error.message, job=self._records.layout.job)

    def _was_silent(self) -> bool:
        """Whether the claim after this lease came after a silence, by the times of the store: a process with timely
        signs of life was not given up, whatever a stranger wrote."""
        taken_ms = self._terms.claimed_ms(self._claim.term + 1)
        before_ms = max((sign for sign in self._signs_ms if sign <= taken_ms), default=self._signs_ms[0])
        return taken_ms - before_ms > TTL_S * 1000

    def _note(self) -> None:
        if (newest := self._newest) is not self._noted and newest is not None:
            self._records.put_progress(newest)
            self._noted = newest

    def _listen(self) -> None:
        if not self._is_cancelled and self._records.is_cancelled():
            self._is_cancelled = True
            self._cancel()


@contextmanager
def work_on(store: Store, job: str, *, cancel: Callable[[], None], clock: Clock, secret: str = "") -> Iterator[JobWork]:
    """Work on a job with its `secret` in a block. Raises `LeaseHeld` if another process works on the job."""
    records = JobRecords(store=store, layout=JobLayout(job=job))
    terms = records.layout.lease(store)
    claim = terms.claim(ProcessIdentity.current(), random_id(), take_over=False)
    work = JobWork(records, terms, claim, cancel=cancel, clock=clock, secret=secret)
    try:
        yield work
    finally:
        work.stop()
