"""The end of jobs: gives up a job of an operator, and deletes the records of old jobs. The effect of a job stays.

A job that is given up does nothing any more, even after a late start. A silent job counts as lost, but its process
may have been stopped before its first step. Hence the successor takes the lease of the job like a process of the
job, writes the end, and releases the lease. A process with a late start finds the end and does nothing. A merely
silent process loses the lease at its next sign of life.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from offsite.jobs.ask import SEARCH, cancel_job
from offsite.jobs.status import GIVEN_UP, read_job
from offsite.model.errors import BadOption, OffsiteError
from offsite.model.ids import dated_id, random_id
from offsite.model.journal import decided, warned
from offsite.repository.job import (
    KEYS_PREFIX,
    JobEnd,
    JobLayout,
    StoredJobRequest,
    decode_repeat,
    encode_repeat,
    repeat_key,
)
from offsite.repository.job_records import JobRecords, is_of_the_future, list_jobs
from offsite.repository.layout import own_objects
from offsite.repository.lease import ProcessIdentity
from offsite.stores.store import Store

LEAST_S = 24 * 3600.0
"""Seconds that a job is kept at least: a request may be repeated by its idempotency key for so long."""
SEARCH_KEPT_S = 7 * LEAST_S
"""Seconds that the result of a search is kept."""
_ALL = 1 << 62
_READERS = 8


def give_up_job(store: Store, job: str, *, identity: ProcessIdentity) -> None:
    """Shut out a job whose process is gone or silent. A job with an end keeps its end. Raises `LeaseHeld` if a
    process works on the job, and the errors of the store."""
    records = JobRecords(store=store, layout=JobLayout(job=job))
    terms = records.layout.lease(store)
    claim = terms.claim(identity, random_id(), take_over=False)
    try:
        said = "its process ended or was silent: the job was given up"
        records.put_end(JobEnd(id=job, at_ms=store.now_ms(), exit_code=GIVEN_UP, result="", said=said))
        decided("give_up_job", why="its process ended or is silent", job=job)
    finally:
        with suppress(OffsiteError):  # then the lease expires
            terms.end(claim)


def find_job_of_word(store: Store, *, kind: str, by: str, word: str) -> str | None:
    """Return the job id of an idempotency key, for any request; the job itself may not be requested yet. None: unused
    key. Raises `DamagedObject`, and the errors of the store."""
    key = repeat_key(kind, f"{by}\n{word}")
    return None if (data := store.get(key)) is None else decode_repeat(data, key=key)[0]


def withdraw_job(store: Store, *, kind: str, by: str, word: str, identity: ProcessIdentity) -> None:
    """Prevent the job of that idempotency key from ever starting: request the job here, and end the job as cancelled. A
    job that already started is asked to end. Raises the errors of `give_up_job`."""
    key = repeat_key(kind, f"{by}\n{word}")
    store.put_if_absent(key, encode_repeat(dated_id(store.now_ms()), {}))
    job = find_job_of_word(store, kind=kind, by=by, word=word)
    if job is None:
        return
    request = StoredJobRequest(
        id=job, kind=kind, arguments=(), backup="", at_ms=store.now_ms(), by=by, word=random_id(16), cluster=""
    )
    JobRecords(store=store, layout=JobLayout(job=job)).put_request(request)
    cancel_job(store, job, by=by)
    give_up_job(store, job, identity=identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetResult:
    """`jobs`: ids of the jobs whose records were deleted, ascending, including forged ids of the future. `kept`: number
    of jobs of the same age that still run or cannot be read."""

    jobs: tuple[str, ...]
    kept: int


def forget_jobs(store: Store, *, older_than_s: float) -> ForgetResult:
    """Delete the records of finished jobs that were requested more than `older_than_s` seconds ago, by the store's
    clock. Raises `BadOption` for less than a day, and the errors of the store."""
    if older_than_s < LEAST_S:
        raise BadOption("jobs are kept for at least a day", hint="give --older-than 24h or more")
    now_ms = store.now_ms()
    first_kept = dated_id(now_ms - int(older_than_s * 1000), "")
    listed = list_jobs(store, most=_ALL, now_ms=now_ms)
    old = sorted(job for job in listed if job < first_kept or is_of_the_future(job, now_ms))
    return _forgotten(store, old, why=f"older than {first_kept}")


def forget_searches(store: Store) -> ForgetResult:
    """Delete searches older than `SEARCH_KEPT_S`, with their results: copies of records, and search words, out of reach
    of any retention of a backup. Runs beside other work, with errors in the log only: the next run deletes the rest."""
    try:
        return _searches_forgotten(store)
    except OffsiteError as error:
        warned("forget_jobs", error=error.id, why=error.message)
        return ForgetResult(jobs=(), kept=0)


def _searches_forgotten(store: Store) -> ForgetResult:
    now_ms = store.now_ms()
    first_kept = dated_id(now_ms - int(SEARCH_KEPT_S * 1000), "")
    old = [job for job in list_jobs(store, most=_ALL, now_ms=now_ms) if job < first_kept]
    with ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="forget-searches") as pool:
        is_search = list(pool.map(partial(_is_search, store), old))
    return _forgotten(
        store, [job for job, is_match in zip(old, is_search, strict=True) if is_match], why="records found"
    )


def _is_search(store: Store, job: str) -> bool:
    try:
        request = JobRecords(store=store, layout=JobLayout(job=job)).read_request()
    except OffsiteError as error:
        warned("forget_jobs", why=error.message, job=job)
        return False
    return request is not None and request.kind == SEARCH


def _forgotten(store: Store, old: Sequence[str], *, why: str) -> ForgetResult:
    gone = [job for job in old if _is_over(store, job)]
    for key in _words_of(store, set(gone)) if gone else ():
        store.delete(key)  # first: otherwise a known key would name a deleted job
    for job in gone:
        _delete(store, job)
    if gone:
        decided("forget_jobs", why=why, jobs=len(gone))
    return ForgetResult(jobs=tuple(gone), kept=len(old) - len(gone))


def _is_over(store: Store, job: str) -> bool:
    try:
        return read_job(store, job).state.is_final
    except OffsiteError as error:
        warned("forget_jobs", why=error.message, job=job)
        return False


def _words_of(store: Store, jobs: set[str]) -> Iterator[str]:
    for info in own_objects(store.list(KEYS_PREFIX)):
        data = store.get(info.key)
        try:
            if data is not None and decode_repeat(data, key=info.key)[0] in jobs:
                yield info.key
        except OffsiteError as error:
            warned("forget_jobs", why=error.message, key=info.key)


def _delete(store: Store, job: str) -> None:
    """Delete the request last: an interrupted deletion leaves a job that the next run finds."""
    layout = JobLayout(job=job)
    for info in list(own_objects(store.list(layout.prefix))):
        if info.key != layout.asked_key:
            store.delete(info.key)
    store.delete(layout.asked_key)
