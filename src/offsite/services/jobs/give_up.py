"""A job given up: no process of it does anything any more, also one that begins late. For those who begin another one.

A job counts as lost when its process is silent; it may have been stopped in front of its first step. So whoever goes on
in its place takes the job in hand as its process would, tells its end, and lets it go: a process that comes then finds
the end told and does nothing, and one that was only silent hears at its next sign of life that it lost its job.
"""

from __future__ import annotations

from contextlib import suppress

from offsite.model.errors import OffsiteError
from offsite.model.ids import dated_id, random_id
from offsite.model.journal import decided
from offsite.repository.jobs.layout import JobLayout, repeat_key
from offsite.repository.jobs.record import AskedJob, EndedJob, decode_repeat, encode_repeat
from offsite.repository.jobs.records import JobRecords
from offsite.repository.restores.lease import LeaseTerms
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.services.jobs.ask import cancel_job
from offsite.services.jobs.status import GIVEN_UP
from offsite.stores.store import Store


def give_up_job(store: Store, job: str, *, identity: ProcessIdentity) -> None:
    """Shut a job out whose process is gone or silent. One that told its end keeps it. Raises `RestoreRunning` where a
    process works on it, and what the store raises."""
    records = JobRecords(store=store, layout=JobLayout(job=job))
    terms = LeaseTerms(store=store, lease=records.layout.lease)
    claim = terms.claim(identity, random_id(), take_over=False)
    try:
        said = "its process was gone or silent: it was given up"
        records.put_ended(EndedJob(id=job, at_ms=store.now_ms(), exit_code=GIVEN_UP, result="", said=said))
        decided("give_up_job", why="its process is gone or silent", job=job)
    finally:
        with suppress(OffsiteError):  # then it runs out
            terms.end(claim)


def job_of_word(store: Store, *, kind: str, by: str, word: str) -> str | None:
    """The id that a request with that idempotency word has, whatever it asked for; the job itself may not be asked for
    yet. None: nobody used the word. Raises `DamagedObject`, and what the store raises."""
    key = repeat_key(kind, f"{by}\n{word}")
    return None if (data := store.get(key)) is None else decode_repeat(data, key=key)[0]


def withdraw_job(store: Store, *, kind: str, by: str, word: str, identity: ProcessIdentity) -> None:
    """Let no job of that word ever begin: it is asked for here, and ended as cancelled. Where somebody has begun it,
    that one is told to end. Raises as `give_up_job`."""
    key = repeat_key(kind, f"{by}\n{word}")
    store.put_if_absent(key, encode_repeat(dated_id(store.now_ms()), {}))
    job = job_of_word(store, kind=kind, by=by, word=word)
    if job is None:
        return
    asked = AskedJob(
        id=job, kind=kind, arguments=(), backup="", at_ms=store.now_ms(), by=by, word=random_id(16), cluster=""
    )
    JobRecords(store=store, layout=JobLayout(job=job)).put_asked(asked)
    cancel_job(store, job, by=by)
    give_up_job(store, job, identity=identity)
