"""The keys of jobs, and of the idempotency keys of requests. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from offsite.model.errors import BadName
from offsite.repository.restores.layout import LeaseLayout

JOBS_PREFIX = "jobs/"
KEYS_PREFIX = "job-keys/"
_JOB = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}", re.ASCII)


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

    @property
    def lease(self) -> LeaseLayout:
        """The lease of the process that works on the job."""
        return LeaseLayout(prefix=f"{self.prefix}worker/", resource=f"job {self.job}")


def job_of(key: str) -> str | None:
    """Return the id of the job that owns the object `key`, if any."""
    name = key.removeprefix(JOBS_PREFIX).partition("/")[0]
    return name if key.startswith(JOBS_PREFIX) and _JOB.fullmatch(name) else None


def repeat_key(kind: str, word: str) -> str:
    """The key of the record that maps an idempotency key to its job. `word`: the idempotency key, any text."""
    digest = hashlib.sha256(f"{kind}\n{word}".encode()).hexdigest()
    return f"{KEYS_PREFIX}{digest}.json"
