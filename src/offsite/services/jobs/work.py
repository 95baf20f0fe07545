"""The process that works on a job, as the others see it: a sign of life, how far it is, an ear for a cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError, RestoreTakenOver
from offsite.model.ids import random_id
from offsite.model.journal import noted, warned
from offsite.repository.jobs.layout import JobLayout
from offsite.repository.jobs.record import EndedJob, JobProgress
from offsite.repository.jobs.records import JobRecords
from offsite.repository.restores.lease import BEAT_S, TTL_S, LeaseClaim, LeaseTerms
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.services.jobs.status import GIVEN_UP
from offsite.spark.runner import RunProgress
from offsite.stores.store import Store

LOOK_S = 1.0
"""Seconds between two looks whether the job is to end, and between two notes of how far it is."""


class Work:
    """A job that this process works on. `cancel` is called once, from another thread, when it is to end."""

    def __init__(  # noqa: PLR0913  # all by keyword but what it works on
        self,
        records: JobRecords,
        terms: LeaseTerms,
        claim: LeaseClaim,
        *,
        cancel: Callable[[], None],
        clock: Clock,
        secret: str = "",
    ) -> None:
        self._records, self._terms, self._claim, self._secret = records, terms, claim, secret
        self._signs_ms = [self._terms.signed_ms(claim)]
        self._cancel, self._clock = cancel, clock
        self._newest: JobProgress | None = None
        self._noted: JobProgress | None = None
        self._is_cancelled = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="offsite-job", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether its end is told already, or it was given up as lost, or its records are deleted: then nothing may be
        done. Asked before anything is; raises what the store raises."""
        asked, claimed = self._records.asked(), self._records.claimed()
        is_given_up = claimed is not None and claimed.exit_code == GIVEN_UP
        return asked is None or is_given_up or self._records.ended(asked) is not None

    def progress(self, label: str, now: RunProgress) -> None:
        """How far the command is; told to others soon."""
        self._newest = JobProgress(
            label=label,
            moved_bytes=now.moved_bytes,
            records=now.records,
            tasks_done=now.tasks_done,
            tasks_total=now.tasks_total,
            elapsed_s=now.elapsed_s,
        )

    def ended(self, *, exit_code: int, result: str, said: str) -> None:
        """Tell how the command ended. Raises what the store raises: then nobody knows, and the job counts as lost."""
        job, at_ms = self._records.layout.job, self._records.store.now_ms()
        ended = EndedJob(id=job, at_ms=at_ms, exit_code=exit_code, result=result, said=said)
        self._records.put_ended(ended, secret=self._secret)
        noted("job_ended", job=job, exit_code=exit_code)

    def stop(self) -> None:
        """Listen no more, and let the lease go. Raises nothing of ours."""
        self._over.set()
        self._thread.join()
        with suppress(OffsiteError):  # then it runs out
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
                    self._signs_ms = [self._signs_ms[-1], self._terms.signed_ms(self._claim)]
                    if self._records.asked() is None:
                        self._cancel()
                        return
            except RestoreTakenOver as error:
                if self._was_silent():  # and given up: somebody else goes on
                    self._cancel()
                    return
                warned("job_claimed", error=error.id, why=error.message, job=self._records.layout.job)
            except OffsiteError as error:  # the next one may get through
                warned("job_look", error=error.id, why=error.message, job=self._records.layout.job)

    def _was_silent(self) -> bool:
        """Whether the claim behind ours came after a silence, by the times of the store: who gave signs of life in time
        was not given up, whatever a stranger put there."""
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
def working(store: Store, job: str, *, cancel: Callable[[], None], clock: Clock, secret: str = "") -> Iterator[Work]:
    """A block in which this process works on a job, whose `secret` it was given. Raises `RestoreRunning` where another
    one does."""
    records = JobRecords(store=store, layout=JobLayout(job=job))
    terms = LeaseTerms(store=store, lease=records.layout.lease)
    claim = terms.claim(ProcessIdentity.mine(), random_id(), take_over=False)
    work = Work(records, terms, claim, cancel=cancel, clock=clock, secret=secret)
    try:
        yield work
    finally:
        work.stop()
