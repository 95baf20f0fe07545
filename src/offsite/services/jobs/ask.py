"""A job asked for, once: whoever writes down that it was asked for begins it, and a repeated request finds it again.

A request that was sent twice, because its answer was lost, says so by the same word (HTTP: `Idempotency-Key`). The word
is bound to the id of the job by an object that is created once; then the job is written down by an object that is
created once. So of any number of coordinators that get the request, in any order, exactly one begins it, also where
the first one died between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offsite.model.errors import OffsiteError, RequestRepeated
from offsite.model.ids import dated_id, random_id
from offsite.model.untrusted.json_object import JsonValue
from offsite.repository.jobs.layout import JobLayout, repeat_key
from offsite.repository.jobs.record import AskedJob, CancelledJob, EndedJob, decode_repeat, encode_repeat, seal_of
from offsite.repository.jobs.records import JobRecords
from offsite.stores.store import Store

SEARCH = "search"
"""The kind of job whose words are parts of records, and whose result is records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What is to be done: the `arguments` of its command line, without where the repository and the cluster are.
    `backup`: which one it is about, empty for none. `by`: who asks, for people. `cluster`: the name of the cluster that
    it changes, where that is not always the same: a repeated request has to name the same one."""

    kind: str
    arguments: tuple[str, ...]
    backup: str
    by: str
    cluster: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """The id of a job; `is_new`: it was asked for by this call, so whoever called begins it, with the `secret` that is
    for its process alone (see `Workers.begin`)."""

    id: str
    is_new: bool
    secret: str = field(default="", repr=False)


def ask_for_job(store: Store, request: JobRequest, *, word: str | None = None) -> AskedFor:
    """Write down that a job is asked for. `word`: the same for each repetition of one request, of one asker and kind.

    Raises `RequestRepeated` where the word was used for another request, and what the store raises.
    """
    job, secret = dated_id(store.now_ms()) if word is None else _known_or_new(store, request, word), random_id(32)
    asked = AskedJob(
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
    if records.asked() is not None:
        return AskedFor(id=job, is_new=False)
    records.put_wish(None)  # before anybody else hears of it
    is_new = records.put_asked(asked)
    return AskedFor(id=job, is_new=is_new, secret=secret if is_new else "")


def known_job(store: Store, request: JobRequest, word: str) -> str | None:
    """The id of the job that this very request has become already, None where it has not. Raises `RequestRepeated`."""
    key = repeat_key(request.kind, f"{request.by}\n{word}")
    if (data := store.get(key)) is None:
        return None
    job = _same_request(data, key, request)
    return job if JobRecords(store=store, layout=JobLayout(job=job)).asked() is not None else None


def tell_not_begun(store: Store, job: AskedFor, error: OffsiteError) -> None:
    """That a job ended before it began, so that whoever repeats its request is not told that it is under way."""
    ended = EndedJob(id=job.id, at_ms=store.now_ms(), exit_code=error.exit_code, result="", said=error.message)
    JobRecords(store=store, layout=JobLayout(job=job.id)).put_ended(ended, secret=job.secret)


def cancel_job(store: Store, job: str, *, by: str) -> None:
    """Let a job end, if it has not: its process sees it within seconds, wherever it runs. Raises `StoreDenied` for who
    may not overwrite objects."""
    JobRecords(store=store, layout=JobLayout(job=job)).put_wish(CancelledJob(id=job, at_ms=store.now_ms(), by=by))


def _known_or_new(store: Store, request: JobRequest, word: str) -> str:
    key = repeat_key(request.kind, f"{request.by}\n{word}")
    store.put_if_absent(key, encode_repeat(dated_id(store.now_ms()), _content(request)))
    return _same_request(store.get(key), key, request)


def _same_request(data: bytes | None, key: str, request: JobRequest) -> str:
    job, before = ("", {}) if data is None else decode_repeat(data, key=key)
    if before != _content(request):
        raise RequestRepeated(
            "this idempotency key was used for another request",
            hint="choose a new key for each request; the same one only to send the same request again",
        )
    return job


def _content(request: JobRequest) -> Mapping[str, JsonValue]:
    return {"arguments": list(request.arguments), "backup": request.backup, "cluster": request.cluster}
