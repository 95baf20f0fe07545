"""One job of a coordinator: its keys, its records with one object each, and their bytes. Pure.

A request may carry an idempotency key, and one more record maps that key to the job.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.errors import BadName, DamagedObject
from offsite.model.untrusted.json_codec import Count, Form, Nullable, Spare, TimeMs, integer_within
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, StoredForm, encode_object, parse_json_object
from offsite.repository.lease import Lease
from offsite.stores.store import Store

JOBS_PREFIX = "jobs/"
KEYS_PREFIX = "job-keys/"
_JOB = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}", re.ASCII)

SAID_MAX = 20_000
"""Characters of a command's stderr that are kept, from the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLayout:
    """The keys of one job. Raises `BadName` for an invalid job id."""

    job: str

    def __post_init__(self) -> None:
        if not _JOB.fullmatch(self.job):
            raise BadName(f"{self.job[:60]!r} is not a job id", hint="see them with: offsite jobs list")

    @property
    def prefix(self) -> str:
        return f"{JOBS_PREFIX}{self.job}/"

    @property
    def asked_key(self) -> str:
        return f"{self.prefix}asked.json"

    @property
    def cancelled_key(self) -> str:
        return f"{self.prefix}cancelled.json"

    @property
    def ended_key(self) -> str:
        return f"{self.prefix}ended.json"

    @property
    def wish_key(self) -> str:
        """Whether the job is to continue. Written before the job exists, and overwritten: a process that may only
        create objects cannot end the job."""
        return f"{self.prefix}wish.json"

    @property
    def ends_prefix(self) -> str:
        return f"{self.prefix}ends/"

    def end_key(self, secret: str) -> str:
        """The key of the end written by the process of the job: no other process knows the name in advance. Without a
        secret: the key used by processes of earlier versions, and by processes that give a job up."""
        return f"{self.ends_prefix}{secret}.json" if secret else self.ended_key

    def secret_of(self, key: str) -> str:
        """Return the secret in the key of an end."""
        return key.removeprefix(self.ends_prefix).removesuffix(".json")

    def result_key(self, secret: str) -> str:
        """The key of the output of the command, if the output is too long for the end."""
        return f"{self.prefix}result-{secret}.json" if secret else f"{self.prefix}result.json"

    @property
    def progress_key(self) -> str:
        """Overwritten, never trusted."""
        return f"{self.prefix}progress.json"

    def lease(self, store: Store) -> Lease:
        """The lease of the process that works on the job."""
        return Lease(
            store=store,
            prefix=f"{self.prefix}worker/",
            resource=f"job {self.job}",
            hint=f"wait for its end, or end it with: offsite jobs cancel {self.job}",
        )


def job_of(key: str) -> str | None:
    """Return the id of the job that owns the object `key`, if any."""
    name = key.removeprefix(JOBS_PREFIX).partition("/")[0]
    return name if key.startswith(JOBS_PREFIX) and _JOB.fullmatch(name) else None


def repeat_key(kind: str, word: str) -> str:
    """The key of the record that maps an idempotency key to its job. `word`: the idempotency key, any text."""
    digest = hashlib.sha256(f"{kind}\n{word}".encode()).hexdigest()
    return f"{KEYS_PREFIX}{digest}.json"


_SAID = Form(JsonObject.text, lambda said: said[-SAID_MAX:])
_TENTHS = Form(JsonObject.number, lambda seconds: round(seconds, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJobRequest:
    """A requested job. `at_ms`: time of the request (store's clock, epoch ms). `by`: the requester, for people.
    `arguments`: the command line, without repository and cluster; shown, never executed, because a writer of the
    repository must not be able to start anything. `cluster`: name of the cluster that the job changes, as coordinators
    name the cluster; empty: none, or a job of an earlier version. `seal`: hash of the secret of the process (see
    `seal_of`); empty without a secret: a job of an earlier version, or a job that will never start."""

    id: str
    kind: str
    arguments: tuple[str, ...]
    backup: str
    at_ms: TimeMs
    by: str
    word: str = ""
    cluster: Nullable[str] = ""
    seal: Nullable[Spare[str]] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancellation:
    """A request to end a job."""

    id: str
    at_ms: TimeMs
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """The end of a job. `exit_code`: exit code of the command. `result`: the JSON output as text (empty: none, or
    stored separately, see `JobRecords.read_result`). `said`: the end of stderr."""

    id: str
    at_ms: TimeMs
    exit_code: Annotated[int, integer_within(0, 255)]
    result: str
    said: Annotated[str, _SAID]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTopic:
    """The progress of one topic: `done` of `total` offsets or records, `rate` more in a second of late."""

    topic: str
    done: Count
    total: Count
    rate: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The progress of a job, as last seen by its worker. `label`: the step. `elapsed_s`: seconds since the start of the
    step. `topics`: those under way, as many as fit; `topics_done` of `topics_total` are complete (0: not known)."""

    label: str
    moved_bytes: Count
    records: Count
    tasks_done: Count
    tasks_total: Count
    elapsed_s: Annotated[float, _TENTHS]
    topics: Spare[tuple[JobTopic, ...]] = ()
    topics_done: Spare[Count] = 0
    topics_total: Spare[Count] = 0


def seal_of(secret: str) -> str:
    """Return the public hash that identifies the process of a job: the coordinator gave the secret only to the process,
    and published the hash earlier."""
    return hashlib.sha256(f"offsite job {secret}".encode()).hexdigest()


JOB_REQUEST = StoredForm(StoredJobRequest)
JOB_CANCELLATION = StoredForm(JobCancellation)
JOB_END = StoredForm(JobEnd)
JOB_PROGRESS = StoredForm(JobProgress)


def encode_wish(job: str, cancellation: JobCancellation | None) -> bytes:
    """Encode that a job is to continue, or that the job was cancelled."""
    by: Mapping[str, JsonValue] = {"at_ms": cancellation.at_ms, "by": cancellation.by} if cancellation else {}
    return _encoded(id=job, cancelled=cancellation is not None, **by)


def decode_wish(data: bytes, *, key: str) -> tuple[str, JobCancellation | None]:
    """Return the job, and its cancellation, if any."""
    document = _parsed(data, key)
    job = document.text("id")
    return job, JobCancellation(id=job, at_ms=_time(document), by=document.text("by")) if document.flag(
        "cancelled"
    ) else None


def encode_repeat(job: str, content: Mapping[str, JsonValue]) -> bytes:
    """Encode that a request with this content became `job`."""
    return encode_object({"format": FORMAT, "id": job, "asked": content})


def decode_repeat(data: bytes, *, key: str) -> tuple[str, Mapping[str, JsonValue]]:
    document = _parsed(data, key)
    return document.text("id"), document.child("asked").fields


def _encoded(**fields: JsonValue) -> bytes:
    return encode_object({"format": FORMAT, **fields})


def _parsed(data: bytes, key: str) -> JsonObject:
    return parse_json_object(data, source=key, damaged=DamagedObject)


def _time(document: JsonObject) -> int:
    return document.integer("at_ms", least=0, most=MAX_COMMIT_TIME_MS)
