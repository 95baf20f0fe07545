"""The keys of jobs, and of the words by which a repeated request is known. Pure."""

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
    """The keys of one job. Raises `BadName` for what is no id of a job."""

    job: str

    def __post_init__(self) -> None:
        if not _JOB.fullmatch(self.job):
            raise BadName(f"{self.job[:60]!r} is no id of a job", hint="see them with: offsite jobs list")

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
        """Whether it is to go on. It is there before the job is, and overwritten: who may only create cannot end it."""
        return f"{self.prefix}wish.json"

    @property
    def ends_prefix(self) -> str:
        return f"{self.prefix}ends/"

    def end_key(self, secret: str) -> str:
        """Where its process tells how it ended: nobody else knows the name before. Without a secret, as processes of
        earlier versions and whoever gives a job up do."""
        return f"{self.ends_prefix}{secret}.json" if secret else self.ended_key

    def secret_of(self, key: str) -> str:
        """The secret in the name of such an end."""
        return key.removeprefix(self.ends_prefix).removesuffix(".json")

    def result_key(self, secret: str) -> str:
        """What its command printed, where that is too long for its end."""
        return f"{self.prefix}result-{secret}.json" if secret else f"{self.prefix}result.json"

    @property
    def progress_key(self) -> str:
        """Overwritten, never trusted."""
        return f"{self.prefix}progress.json"

    @property
    def lease(self) -> LeaseLayout:
        """Where it is told which process works on it."""
        return LeaseLayout(prefix=f"{self.prefix}worker/", what=f"job {self.job}")


def job_of(key: str) -> str | None:
    """The id of the job that the object at `key` is of, if it is of one."""
    name = key.removeprefix(JOBS_PREFIX).partition("/")[0]
    return name if key.startswith(JOBS_PREFIX) and _JOB.fullmatch(name) else None


def repeat_key(kind: str, word: str) -> str:
    """Where it is told which job a request with that idempotency `word` has become. `word` is anybody's text."""
    digest = hashlib.sha256(f"{kind}\n{word}".encode()).hexdigest()
    return f"{KEYS_PREFIX}{digest}.json"
