"""What a check is, and what it finds. Pure.

`ok` is said of what was seen to work, never of what was not seen to fail: where nothing can be seen, a check is
`skipped`, and says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from offsite.model.errors import Denied, KafkaUnavailable, NoRepository, OffsiteError, StoreUnavailable, UserError
from offsite.model.untrusted.printable import printable

PartsT_contra = TypeVar("PartsT_contra", contravariant=True)

SAID_MAX = 600
"""Characters of one sentence of ours: brokers and stores tell parts of it, and may tell anything."""
NAMED_MAX = 5
"""Brokers, topics or groups named in one sentence."""
GENERAL, CONFIGURATION = OffsiteError.exit_code, UserError.exit_code
KAFKA, STORE, RIGHTS = KafkaUnavailable.exit_code, StoreUnavailable.exit_code, Denied.exit_code
"""Exit codes of a check that failed without an error that has one of its own."""
_OWN_CODES = (UserError, NoRepository, KafkaUnavailable, StoreUnavailable, Denied)


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Need(StrEnum):
    """What has to be given for a check."""

    CLUSTER = "a cluster"
    REPOSITORY = "a repository"
    SPARK = "Spark"
    WRITES = "writes into the store"
    METASTORE = "the folder of a metastore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found: a verdict, what was seen, and what to do about it (empty where nothing is to be done).
    `exit_code`: of a failure, None for that of the check."""

    verdict: Verdict
    said: str
    cure: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[PartsT_contra]):
    """`after`: ids of checks without whose success this one could only fail for the same reason. `limit_s`: seconds
    after which it has failed. `exit_code`: of a failure that is no error of another kind."""

    id: str
    title: str
    run: Callable[[PartsT_contra], Finding]
    needs: frozenset[Need] = frozenset()
    after: tuple[str, ...] = ()
    limit_s: float = 30.0
    exit_code: int = GENERAL


class NotMeasurable(Exception):  # an outcome, not an error
    """Raised by a check that cannot see what it is about."""

    def __init__(self, said: str, *, cure: str = "") -> None:
        super().__init__(said)
        self.said, self.cure = said, cure


def ok(said: str) -> Finding:
    return Finding(verdict=Verdict.OK, said=said)


def warning(said: str, *, cure: str) -> Finding:
    return Finding(verdict=Verdict.WARNING, said=said, cure=cure)


def failed(said: str, *, cure: str, exit_code: int | None = None) -> Finding:
    return Finding(verdict=Verdict.FAILED, said=said, cure=cure, exit_code=exit_code)


def skipped(said: str, *, cure: str = "") -> Finding:
    return Finding(verdict=Verdict.SKIPPED, said=said, cure=cure)


def of_error(error: OffsiteError) -> Finding:
    """The failure that an error of ours is, with its id and the exit code of its kind."""
    code = error.exit_code if isinstance(error, _OWN_CODES) else None
    return failed(f"{error.id}: {error.message}", cure=error.hint, exit_code=code)


def bounded(text: str) -> str:
    """The `text` in one line that may be shown anywhere, cut where it is too long."""
    line = printable(text)
    return line if len(line) <= SAID_MAX else f"{line[:SAID_MAX]}…"
