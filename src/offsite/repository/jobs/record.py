"""The records of a job, one object each. Pure values, and their bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from offsite.model.errors import DamagedObject
from offsite.model.untrusted.bounds import MAX_COMMIT_TIME_MS
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object

SAID_MAX = 20_000
"""Characters of a command's stderr that are kept, from the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedJob:
    """A requested job. `at_ms`: time of the request (store's clock, epoch ms). `by`: the requester, for people.
    `arguments`: the command line, without repository and cluster; shown, never executed, because a writer of the
    repository must not be able to start anything. `cluster`: name of the cluster that the job changes, as coordinators
    name the cluster; empty: none, or a job of an earlier version. `seal`: hash of the secret of the process (see
    `seal_of`); empty without a secret: a job of an earlier version, or a job that will never start."""

    id: str
    kind: str
    arguments: tuple[str, ...]
    backup: str
    at_ms: int
    by: str
    word: str = ""
    cluster: str = ""
    seal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledJob:
    """A request to end a job."""

    id: str
    at_ms: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """The end of a job. `exit_code`: exit code of the command. `result`: the JSON output as text (empty: none, or
    stored separately, see `JobRecords.read_result`). `said`: the end of stderr."""

    id: str
    at_ms: int
    exit_code: int
    result: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The progress of a job, as last seen by its worker. `label`: the step. `elapsed_s`: seconds since the start of the
    step."""

    label: str
    moved_bytes: int
    records: int
    tasks_done: int
    tasks_total: int
    elapsed_s: float


def seal_of(secret: str) -> str:
    """Return the public hash that identifies the process of a job: the coordinator gave the secret only to the process,
    and published the hash earlier."""
    return hashlib.sha256(f"offsite job {secret}".encode()).hexdigest()


def encode_asked(asked: AskedJob) -> bytes:
    sealed: Mapping[str, JsonValue] = {"seal": asked.seal} if asked.seal else {}
    return _encoded(
        **sealed,
        id=asked.id,
        kind=asked.kind,
        arguments=list(asked.arguments),
        backup=asked.backup,
        at_ms=asked.at_ms,
        by=asked.by,
        word=asked.word,
        cluster=asked.cluster,
    )


def decode_asked(data: bytes, *, key: str) -> AskedJob:
    """Raises `DamagedObject`, `FormatTooNew`, like all decoders here."""
    item = _parsed(data, key)
    return AskedJob(
        id=item.text("id"),
        kind=item.text("kind"),
        arguments=item.texts("arguments"),
        backup=item.text("backup"),
        at_ms=_time(item),
        by=item.text("by"),
        word=item.text("word"),
        cluster=item.optional_text("cluster") or "",
        seal=item.optional_text("seal") or "",
    )


def encode_cancelled(cancelled: CancelledJob) -> bytes:
    return _encoded(id=cancelled.id, at_ms=cancelled.at_ms, by=cancelled.by)


def decode_cancelled(data: bytes, *, key: str) -> CancelledJob:
    item = _parsed(data, key)
    return CancelledJob(id=item.text("id"), at_ms=_time(item), by=item.text("by"))


def encode_wish(job: str, cancelled: CancelledJob | None) -> bytes:
    """Encode that a job is to continue, or that the job was cancelled."""
    by: Mapping[str, JsonValue] = {"at_ms": cancelled.at_ms, "by": cancelled.by} if cancelled else {}
    return _encoded(id=job, cancelled=cancelled is not None, **by)


def decode_wish(data: bytes, *, key: str) -> tuple[str, CancelledJob | None]:
    """Return the job, and its cancellation, if any."""
    item = _parsed(data, key)
    job = item.text("id")
    return job, CancelledJob(id=job, at_ms=_time(item), by=item.text("by")) if item.flag("cancelled") else None


def encode_ended(ended: EndedJob) -> bytes:
    return _encoded(
        id=ended.id, at_ms=ended.at_ms, exit_code=ended.exit_code, result=ended.result, said=ended.said[-SAID_MAX:]
    )


def decode_ended(data: bytes, *, key: str) -> EndedJob:
    item = _parsed(data, key)
    return EndedJob(
        id=item.text("id"),
        at_ms=_time(item),
        exit_code=item.integer("exit_code", least=0, most=255),
        result=item.text("result"),
        said=item.text("said"),
    )


def encode_progress(progress: JobProgress) -> bytes:
    return _encoded(
        label=progress.label,
        moved_bytes=progress.moved_bytes,
        records=progress.records,
        tasks_done=progress.tasks_done,
        tasks_total=progress.tasks_total,
        elapsed_s=round(progress.elapsed_s, 1),
    )


def decode_progress(data: bytes, *, key: str) -> JobProgress:
    item = _parsed(data, key)
    return JobProgress(
        label=item.text("label"),
        moved_bytes=item.count("moved_bytes"),
        records=item.count("records"),
        tasks_done=item.count("tasks_done"),
        tasks_total=item.count("tasks_total"),
        elapsed_s=item.number("elapsed_s"),
    )


def encode_repeat(job: str, asked: Mapping[str, JsonValue]) -> bytes:
    """Encode that a request with this content became `job`."""
    return encode_object({"format": FORMAT, "id": job, "asked": asked})


def decode_repeat(data: bytes, *, key: str) -> tuple[str, Mapping[str, JsonValue]]:
    item = _parsed(data, key)
    return item.text("id"), item.child("asked").fields


def _encoded(**fields: JsonValue) -> bytes:
    return encode_object({"format": FORMAT, **fields})


def _parsed(data: bytes, key: str) -> JsonObject:
    return parse_json_object(data, source=key, damaged=DamagedObject)


def _time(item: JsonObject) -> int:
    return item.integer("at_ms", least=0, most=MAX_COMMIT_TIME_MS)
