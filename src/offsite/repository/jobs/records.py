"""The objects that tell of jobs: created, listed, read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.journal import warned
from offsite.repository.jobs.layout import JOBS_PREFIX, JobLayout, job_of
from offsite.repository.jobs.record import (
    AskedJob,
    CancelledJob,
    EndedJob,
    JobProgress,
    decode_asked,
    decode_cancelled,
    decode_ended,
    decode_progress,
    encode_asked,
    encode_cancelled,
    encode_ended,
    encode_progress,
)
from offsite.stores.store import PutResult, Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecords:
    """What is told of one job. Raises `DamagedObject`, `FormatTooNew` for what cannot be read, and what the store
    raises."""

    store: Store
    layout: JobLayout

    def asked(self) -> AskedJob | None:
        found = self._read(self.layout.asked_key, decode_asked)
        self._check_is(found.id if found else None, self.layout.asked_key)
        return found

    def cancelled(self) -> CancelledJob | None:
        found = self._read(self.layout.cancelled_key, decode_cancelled)
        self._check_is(found.id if found else None, self.layout.cancelled_key)
        return found

    def ended(self) -> EndedJob | None:
        found = self._read(self.layout.ended_key, decode_ended)
        self._check_is(found.id if found else None, self.layout.ended_key)
        return found

    def progress(self) -> JobProgress | None:
        """A hint: what cannot be read is none."""
        try:
            return self._read(self.layout.progress_key, decode_progress)
        except OffsiteError as error:
            warned("hint", why=error.message, job=self.layout.job)
            return None

    def put_asked(self, asked: AskedJob) -> bool:
        """Whether it is ours: whoever makes this object begins the job. Durable when this returns."""
        return self.store.put_if_absent(self.layout.asked_key, encode_asked(asked)) is PutResult.CREATED

    def put_cancelled(self, cancelled: CancelledJob) -> None:
        self.store.put_if_absent(self.layout.cancelled_key, encode_cancelled(cancelled))

    def put_ended(self, ended: EndedJob) -> None:
        self.store.put_if_absent(self.layout.ended_key, encode_ended(ended))

    def put_progress(self, progress: JobProgress) -> None:
        self.store.put_overwrite(self.layout.progress_key, encode_progress(progress))

    def is_cancelled(self) -> bool:
        return self.store.head(self.layout.cancelled_key) is not None

    def _read(self, key: str, decode: Callable[..., T]) -> T | None:
        data = self.store.get(key)
        return None if data is None else decode(data, key=key)

    def _check_is(self, job: str | None, key: str) -> None:
        if job is not None and job != self.layout.job:
            raise DamagedObject(f"{key} tells of job {job}")


def list_jobs(store: Store, *, most: int) -> tuple[str, ...]:
    """The ids of the newest jobs, at most so many, newest first. One listing of all that there are."""
    found = {job for info in store.list(JOBS_PREFIX) if (job := job_of(info.key)) is not None}
    return tuple(islice(_newest(found), most))


def _newest(jobs: set[str]) -> Iterator[str]:
    yield from sorted(jobs, reverse=True)
