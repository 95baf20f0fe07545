"""The objects that tell of jobs: created, listed, read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.ids import dated_id
from offsite.model.journal import warned
from offsite.model.size import KIB, MIB, format_size
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
    decode_wish,
    encode_asked,
    encode_ended,
    encode_progress,
    encode_wish,
    seal_of,
)
from offsite.repository.layout import own
from offsite.stores.store import PutResult, Store

T = TypeVar("T")

_DAY_MS = 24 * 3_600_000
RESULT_MAX_BYTES = 8 * MIB
"""Of a result that is kept."""
_BESIDE_BYTES = 64 * KIB
_ENDS_MAX = 1_000
"""Names of ends that are looked at: a job has one."""
_OBJECT_BYTES_MAX = 2 * RESULT_MAX_BYTES + MIB
"""Earlier versions kept the result in `ended.json`, where each of its quotes takes two bytes."""


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
        """Who wants it to end: somebody who may overwrite objects. Jobs of earlier versions have no wish."""
        wish = self._read(self.layout.wish_key, decode_wish)
        if wish is None:
            found = self._read(self.layout.cancelled_key, decode_cancelled)
            self._check_is(found.id if found else None, self.layout.cancelled_key)
            return found
        self._check_is(wish[0], self.layout.wish_key)
        return wish[1]

    def ended(self, asked: AskedJob | None) -> EndedJob | None:
        """How it ended, as its own process tells; of a job without a seal, as anybody does."""
        if asked is None or not asked.seal:
            return self.claimed()
        secret = self._secret(asked)
        return self._end(self.layout.end_key(secret)) if secret else None

    def claimed(self) -> EndedJob | None:
        """How it ended, as anybody says who may create objects."""
        return self._end(self.layout.ended_key)

    def _end(self, key: str) -> EndedJob | None:
        found = self._read(key, decode_ended)
        self._check_is(found.id if found else None, key)
        return found

    def _secret(self, asked: AskedJob) -> str:
        """That of its process, once it has told its end; empty before, and where it had none."""
        if not asked.seal:
            return ""
        keys = (info.key for info in islice(own(self.store.list(self.layout.ends_prefix)), _ENDS_MAX))
        secrets = map(self.layout.secret_of, keys)
        return next((secret for secret in secrets if seal_of(secret) == asked.seal), "")

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

    def put_wish(self, cancelled: CancelledJob | None) -> None:
        """Say that it is to go on, or that it was `cancelled`. Raises `StoreDenied` where this may not overwrite."""
        self.store.put_overwrite(self.layout.wish_key, encode_wish(self.layout.job, cancelled))

    def put_ended(self, ended: EndedJob, *, secret: str = "") -> None:
        """Tell how it ended; only the process of the job knows its `secret`. A long result lies beside: whoever lists
        jobs reads how they ended, and no results."""
        data = ended.result.encode()
        if len(data) > RESULT_MAX_BYTES:
            told = f"{ended.said}\nits result of {format_size(len(data))} is not kept: it is too long"
            ended = replace(ended, result="", said=told)
        elif len(data) > _BESIDE_BYTES:
            self.store.put_if_absent(self.layout.result_key(secret), data)
            ended = replace(ended, result="")
        self.store.put_if_absent(self.layout.end_key(secret), encode_ended(ended))

    def result(self, ended: EndedJob, asked: AskedJob) -> bytes:
        """What its command printed; empty where nothing is kept of it."""
        if ended.result:
            return ended.result.encode()
        return self._get(self.layout.result_key(self._secret(asked)), RESULT_MAX_BYTES) or b""

    def put_progress(self, progress: JobProgress) -> None:
        self.store.put_overwrite(self.layout.progress_key, encode_progress(progress))

    def is_cancelled(self) -> bool:
        return self.cancelled() is not None

    def _read(self, key: str, decode: Callable[..., T]) -> T | None:
        data = self._get(key, _OBJECT_BYTES_MAX)
        return None if data is None else decode(data, key=key)

    def _get(self, key: str, most_bytes: int) -> bytes | None:
        """All of it, and never more: anybody may have written it."""
        data = self.store.get_range(key, 0, most_bytes + 1)
        if data is not None and len(data) > most_bytes:
            raise DamagedObject(f"{key} is larger than what is told of a job: {format_size(most_bytes)} at most")
        return data

    def _check_is(self, job: str | None, key: str) -> None:
        if job is not None and job != self.layout.job:
            raise DamagedObject(f"{key} tells of job {job}")


def list_jobs(store: Store, *, most: int, now_ms: int) -> tuple[str, ...]:
    """The ids of the newest jobs, at most so many, newest first; those that are of no time yet come last, for they are
    nobody's. One listing of all that there are."""
    found = {job for info in own(store.list(JOBS_PREFIX)) if (job := job_of(info.key)) is not None}
    return tuple(sorted(found, key=lambda job: (not is_of_the_future(job, now_ms), job), reverse=True)[:most])


def is_of_the_future(job: str, now_ms: int) -> bool:
    """Whether an id says that the job is asked for in more than a day: no clock of ours is that wrong."""
    return job > dated_id(now_ms + _DAY_MS, "")
