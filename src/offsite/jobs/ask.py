"""Requests a job once: the creator of the request record starts the job, and a repeated request finds the same job.

A request that is sent again after a lost answer carries the same idempotency key (HTTP: `Idempotency-Key`). A
create-only object binds the key to the id of the job; then a create-only object records the request. So exactly one of
any number of coordinators with the same request, in any order, starts the job, even if the first coordinator died
between the two objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offsite.model.errors import OffsiteError, RequestRepeated
from offsite.model.ids import dated_id, random_id
from offsite.model.untrusted.json_object import JsonValue
from offsite.repository.job import (
    JobCancellation,
    JobEnd,
    JobLayout,
    StoredJobRequest,
    decode_repeat,
    encode_repeat,
    repeat_key,
    seal_of,
)
from offsite.repository.job_records import JobRecords
from offsite.stores.store import Store

SEARCH = "search"
"""The kind of job whose arguments are parts of records, and whose result is records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The work to do. `arguments`: the command line, without repository and cluster. `backup`: the subject; empty:
    none. `by`: the requester, for people. `cluster`: name of the cluster that the job changes, if the cluster can vary:
    a repeated request must name the same cluster."""

    kind: str
    arguments: tuple[str, ...]
    backup: str
    by: str
    cluster: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTicket:
    """The id of a job. `is_new`: the call created the job, and the caller starts the job, with the `secret` for its
    process only (see `Workers.begin`)."""

    id: str
    is_new: bool
    secret: str = field(default="", repr=False)


def request_job(store: Store, request: JobRequest, *, word: str | None = None) -> JobTicket:
    """Record the request for a job. `word`: idempotency key, the same for every repetition of one request, by one
    requester and for one kind.

    Raises `RequestRepeated` if the key was used for another request, and the errors of the store.
    """
    job, secret = dated_id(store.now_ms()) if word is None else _known_or_new(store, request, word), random_id(32)
    stored_request = StoredJobRequest(
        id=job,
        kind=request.kind,
        arguments=request.arguments,
        backup=request.backup,
        at_ms=store.now_ms(),
        by=request.by,
        word=random_id(16),
        cluster=request.cluster,
        seal=seal_of(secret),
    )
    records = JobRecords(store=store, layout=JobLayout(job=job))
    if records.read_request() is not None:
        return JobTicket(id=job, is_new=False)
    records.put_wish(None)  # before other processes see the job
    is_new = records.put_request(stored_request)
    return JobTicket(id=job, is_new=is_new, secret=secret if is_new else "")


def find_repeated_job(store: Store, request: JobRequest, word: str) -> str | None:
    """Return the id of the job that this request already became; None: new request. Raises `RequestRepeated`."""
    key = repeat_key(request.kind, f"{request.by}\n{word}")
    if (data := store.get(key)) is None:
        return None
    job = _same_request(data, key, request)
    return job if JobRecords(store=store, layout=JobLayout(job=job)).read_request() is not None else None


def record_failed_start(store: Store, job: JobTicket, error: OffsiteError) -> None:
    """Record the end of a job without a start: a repeated request must not report a running job."""
    end = JobEnd(id=job.id, at_ms=store.now_ms(), exit_code=error.exit_code, result="", said=error.message)
    JobRecords(store=store, layout=JobLayout(job=job.id)).put_end(end, secret=job.secret)


def cancel_job(store: Store, job: str, *, by: str) -> None:
    """Cancel a job, unless the job ended: its process reads the wish within seconds, on any machine. Raises
    `StoreDenied` without the right to overwrite objects."""
    JobRecords(store=store, layout=JobLayout(job=job)).put_wish(JobCancellation(id=job, at_ms=store.now_ms(), by=by))


def _known_or_new(store: Store, request: JobRequest, word: str) -> str:
    key = repeat_key(request.kind, f"{request.by}\n{word}")
    store.put_if_absent(key, encode_repeat(dated_id(store.now_ms()), _content(request)))
    return _same_request(store.get(key), key, request)


def _same_request(data: bytes | None, key: str, request: JobRequest) -> str:
    job, before = ("", {}) if data is None else decode_repeat(data, key=key)
    if before != _content(request):
        raise RequestRepeated(
            "this idempotency key was used for another request",
            hint="use a new key for each request; use the same key only to repeat the same request",
        )
    return job


def _content(request: JobRequest) -> Mapping[str, JsonValue]:
    return {"arguments": list(request.arguments), "backup": request.backup, "cluster": request.cluster}
