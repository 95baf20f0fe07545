"""What is told of a job, one object each. Pure values, and their byte form."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from offsite.model.errors import DamagedObject
from offsite.model.untrusted.bounds import MAX_COMMIT_TIME_MS
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object

SAID_MAX = 20_000
"""Characters of what a command said on stderr that are kept, the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedJob:
    """A job that was asked for at `at_ms` (store's clock, epoch ms) `by` somebody, for people. `arguments` are those of
    the command line that it is, without where the repository and the cluster are. They are shown, never carried out:
    whoever can write into the repository must not be able to start anything. `cluster`: the name of the one that it
    changes, as coordinators call it; empty for none, and of jobs of earlier versions. `seal`: what the secret of its
    process hashes to (see `seal_of`), empty where it has none: it is of an earlier version, or will never begin."""

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
    """That somebody wants it to end."""

    id: str
    at_ms: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """How a job ended: the `exit_code` of its command, the JSON that it printed as text (empty: none, or it is kept
    beside, see `JobRecords.result`), and the end of what it said on stderr."""

    id: str
    at_ms: int
    exit_code: int
    result: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job is, as its worker saw it last: `label` names the step, `elapsed_s` seconds since that began."""

    label: str
    moved_bytes: int
    records: int
    tasks_done: int
    tasks_total: int
    elapsed_s: float


def seal_of(secret: str) -> str:
    """What tells the process of a job: its coordinator gave the secret to it alone, and told this to all before."""
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
    """Raises `DamagedObject`, `FormatTooNew`, as all of these."""
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
    """That a job is to go on, or that it was `cancelled`."""
    by: Mapping[str, JsonValue] = {"at_ms": cancelled.at_ms, "by": cancelled.by} if cancelled else {}
    return _encoded(id=job, cancelled=cancelled is not None, **by)


def decode_wish(data: bytes, *, key: str) -> tuple[str, CancelledJob | None]:
    """The job, and who cancelled it."""
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
    """That a request, in its parts, has become `job`."""
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
