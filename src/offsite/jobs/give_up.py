"""Gives up a job: its process does nothing any more, even after a late start. For operators with a successor of the
job.

A silent job counts as lost, but its process may have been stopped before its first step. Hence the successor takes the
lease of the job like a process of the job, writes the end, and releases the lease. A process with a late start finds
the end and does nothing. A merely silent process loses the lease at its next sign of life.
"""

from __future__ import annotations

from contextlib import suppress

from offsite.jobs.ask import cancel_job
from offsite.jobs.status import GIVEN_UP
from offsite.model.errors import OffsiteError
from offsite.model.ids import dated_id, random_id
from offsite.model.journal import decided
from offsite.repository.job import JobEnd, JobLayout, StoredJobRequest, decode_repeat, encode_repeat, repeat_key
from offsite.repository.job_records import JobRecords
from offsite.repository.restores.lease import LeaseTerms, ProcessIdentity
from offsite.stores.store import Store


def give_up_job(store: Store, job: str, *, identity: ProcessIdentity) -> None:
    """Shut out a job whose process is gone or silent. A job with an end keeps its end. Raises `RestoreRunning` if a
    process works on the job, and the errors of the store."""
    records = JobRecords(store=store, layout=JobLayout(job=job))
    terms = LeaseTerms(store=store, lease=records.layout.lease)
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
