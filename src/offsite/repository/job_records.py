"""The objects of jobs: created, listed, read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.ids import dated_id
from offsite.model.journal import warned
from offsite.model.units import KIB, MIB, format_size
from offsite.repository.job import (
    JOB_CANCELLATION,
    JOB_END,
    JOB_PROGRESS,
    JOB_REQUEST,
    JOBS_PREFIX,
    JobCancellation,
    JobEnd,
    JobLayout,
    JobProgress,
    StoredJobRequest,
    decode_wish,
    encode_wish,
    job_of,
    seal_of,
)
from offsite.repository.layout import own_objects
from offsite.stores.store import PutResult, Store

T = TypeVar("T")

_DAY_MS = 24 * 3_600_000
RESULT_MAX_BYTES = 8 * MIB
"""Limit of a stored result."""
_BESIDE_BYTES = 64 * KIB
_ENDS_MAX = 1_000
"""Ends that are inspected: a job has one."""
_OBJECT_BYTES_MAX = 2 * RESULT_MAX_BYTES + MIB
"""Earlier versions stored the result in `ended.json`, where every quote takes two bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecords:
    """The records of one job. Raises `DamagedObject`, `FormatTooNew` for unreadable records, and the errors of the
    store."""

    store: Store
    layout: JobLayout

    def read_request(self) -> StoredJobRequest | None:
        request = self._read(self.layout.asked_key, JOB_REQUEST.decode)
        self._check_is(request.id if request else None, self.layout.asked_key)
        return request

    def read_cancellation(self) -> JobCancellation | None:
        """Return the cancellation, written by a process that may overwrite objects. Jobs of earlier versions have no
        wish."""
        wish = self._read(self.layout.wish_key, decode_wish)
        if wish is None:
            cancellation = self._read(self.layout.cancelled_key, JOB_CANCELLATION.decode)
            self._check_is(cancellation.id if cancellation else None, self.layout.cancelled_key)
            return cancellation
        self._check_is(wish[0], self.layout.wish_key)
        return wish[1]

    def read_end(self, request: StoredJobRequest | None) -> JobEnd | None:
        """Return the end as written by the process of the job; for a job without a seal, as written by any process."""
        if request is None or not request.seal:
            return self.read_claimed_end()
        secret = self._secret(request)
        return self._end(self.layout.end_key(secret)) if secret else None

    def read_claimed_end(self) -> JobEnd | None:
        """Return an end that any process with the right to create objects may have written."""
        return self._end(self.layout.ended_key)

    def _end(self, key: str) -> JobEnd | None:
        end = self._read(key, JOB_END.decode)
        self._check_is(end.id if end else None, key)
        return end

    def _secret(self, request: StoredJobRequest) -> str:
        """Return the secret of the process after its end; empty before the end, and without a seal."""
        if not request.seal:
            return ""
        keys = (info.key for info in islice(own_objects(self.store.list(self.layout.ends_prefix)), _ENDS_MAX))
        secrets = map(self.layout.secret_of, keys)
        return next((secret for secret in secrets if seal_of(secret) == request.seal), "")

    def read_progress(self) -> JobProgress | None:
        """Return the progress, a hint: None if the record cannot be read."""
        try:
            return self._read(self.layout.progress_key, JOB_PROGRESS.decode)
        except OffsiteError as error:
            warned("hint", why=error.message, job=self.layout.job)
            return None

    def put_request(self, request: StoredJobRequest) -> bool:
        """Create the request; return whether this call created the object: the creator starts the job. Durable on
        return."""
        return self.store.put_if_absent(self.layout.asked_key, JOB_REQUEST.encode(request)) is PutResult.CREATED

    def put_wish(self, cancellation: JobCancellation | None) -> None:
        """Write that the job is to continue, or that the job is cancelled. Raises `StoreDenied` without the right to
        overwrite."""
        self.store.put_overwrite(self.layout.wish_key, encode_wish(self.layout.job, cancellation))

    def put_end(self, end: JobEnd, *, secret: str = "") -> None:
        """Write the end; only the process of the job knows its `secret`. A long result is stored separately: a listing
        of jobs reads ends, and no results."""
        data = end.result.encode()
        if len(data) > RESULT_MAX_BYTES:
            said = f"{end.said}\nits result of {format_size(len(data))} is not kept: it is too long"
            end = replace(end, result="", said=said)
        elif len(data) > _BESIDE_BYTES:
            self.store.put_if_absent(self.layout.result_key(secret), data)
            end = replace(end, result="")
        self.store.put_if_absent(self.layout.end_key(secret), JOB_END.encode(end))

    def read_result(self, end: JobEnd, request: StoredJobRequest) -> bytes:
        """Return the output of the command; empty if none is stored."""
        if end.result:
            return end.result.encode()
        return self._get(self.layout.result_key(self._secret(request)), RESULT_MAX_BYTES) or b""

    def put_progress(self, progress: JobProgress) -> None:
        self.store.put_overwrite(self.layout.progress_key, JOB_PROGRESS.encode(progress))

    def is_cancelled(self) -> bool:
        return self.read_cancellation() is not None

    def _read(self, key: str, decode: Callable[..., T]) -> T | None:
        data = self._get(key, _OBJECT_BYTES_MAX)
        return None if data is None else decode(data, key=key)

    def _get(self, key: str, most_bytes: int) -> bytes | None:
        """Read a whole object of bounded size: any process may have written the object."""
        data = self.store.get_range(key, 0, most_bytes + 1)
        if data is not None and len(data) > most_bytes:
            raise DamagedObject(f"{key} is larger than a record of a job may be: {format_size(most_bytes)} at most")
        return data

    def _check_is(self, job: str | None, key: str) -> None:
        if job is not None and job != self.layout.job:
            raise DamagedObject(f"{key} is about job {job}")


def list_jobs(store: Store, *, most: int, now_ms: int) -> tuple[str, ...]:
    """Return the ids of the newest jobs, at most `most`, newest first; forged ids of the future come last. One listing
    of all jobs."""
    jobs = {job for info in own_objects(store.list(JOBS_PREFIX)) if (job := job_of(info.key)) is not None}
    return tuple(sorted(jobs, key=lambda job: (not is_of_the_future(job, now_ms), job), reverse=True)[:most])


def is_of_the_future(job: str, now_ms: int) -> bool:
    """Whether the id is dated more than a day ahead: no clock is so wrong."""
    return job > dated_id(now_ms + _DAY_MS, "")
