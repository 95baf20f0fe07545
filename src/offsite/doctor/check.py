"""A check and its result, and the time limit of work that may hang.

`ok` states an observed success, never a mere lack of failures. A check without an observation is `skipped`, with the
reason. Work that may hang runs in threads of its own. Late threads are left behind: they are daemon threads, and do not
delay the end of the process.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from offsite.model.clock import Clock
from offsite.model.errors import Denied, KafkaUnavailable, NoRepository, OffsiteError, StoreUnavailable, UserError
from offsite.model.untrusted.text import printable

PartsT_contra = TypeVar("PartsT_contra", contravariant=True)

SAID_MAX = 600
"""Characters of a sentence: brokers and stores contribute parts, and may send anything."""
NAMED_MAX = 5
"""Brokers, topics or groups named in one sentence."""
GENERAL, CONFIGURATION = OffsiteError.exit_code, UserError.exit_code
KAFKA, STORE, RIGHTS = KafkaUnavailable.exit_code, StoreUnavailable.exit_code, Denied.exit_code
"""Exit codes of failed checks without an error of their own."""
_OWN_CODES = (UserError, NoRepository, KafkaUnavailable, StoreUnavailable, Denied)

T = TypeVar("T")
THREADS_MAX = 16
"""Enough for the brokers of a large cluster within the time of a check, few enough for any machine."""


class CheckVerdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Need(StrEnum):
    """A prerequisite of a check."""

    CLUSTER = "a cluster"
    REPOSITORY = "a repository"
    SPARK = "Spark"
    WRITES = "writes into the store"
    METASTORE = "the folder of a metastore"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check: a verdict, the observation, and the cure (empty if nothing is to be done). `exit_code`:
    of a failure, None for the check's own."""

    verdict: CheckVerdict
    said: str
    cure: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class DoctorCheck(Generic[PartsT_contra]):
    """One check. `after`: ids of checks that must succeed first, because the check would fail for the same reason.
    `limit_s`: seconds until the check has failed. `exit_code`: of a failure without an error of another kind."""

    id: str
    title: str
    run: Callable[[PartsT_contra], CheckResult]
    exit_code: int = GENERAL
    needs: frozenset[Need] = frozenset()
    after: tuple[str, ...] = ()
    limit_s: float = 30.0


class NotMeasurable(Exception):  # an outcome, not an error
    """Raised by a check without an observation."""

    def __init__(self, said: str, *, cure: str = "") -> None:
        super().__init__(said)
        self.said, self.cure = said, cure


def ok(said: str) -> CheckResult:
    return CheckResult(verdict=CheckVerdict.OK, said=said)


def warning(said: str, *, cure: str) -> CheckResult:
    return CheckResult(verdict=CheckVerdict.WARNING, said=said, cure=cure)


def failed(said: str, *, cure: str, exit_code: int | None = None) -> CheckResult:
    return CheckResult(verdict=CheckVerdict.FAILED, said=said, cure=cure, exit_code=exit_code)


def skipped(said: str, *, cure: str = "") -> CheckResult:
    return CheckResult(verdict=CheckVerdict.SKIPPED, said=said, cure=cure)


def from_error(error: OffsiteError) -> CheckResult:
    """The failure for an error of offsite, with the error's id and exit code."""
    code = error.exit_code if isinstance(error, _OWN_CODES) else None
    return failed(f"{error.id}: {error.message}", cure=error.hint, exit_code=code)


def bounded(text: str) -> str:
    """The `text` in one printable line, cut if too long."""
    line = printable(text)
    return line if len(line) <= SAID_MAX else f"{line[:SAID_MAX]}…"


ItemT = TypeVar("ItemT")


class TooLateError(Exception):
    """A function did not return within its time."""


def within(function: Callable[[], T], *, limit_s: float, name: str) -> T:
    """The result of `function`, called in a thread of its own. Raises the function's error, and `TooLateError` after
    `limit_s` seconds."""
    ends: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()
    threading.Thread(target=_put_end, args=(function, ends), name=f"offsite-doctor-{name}", daemon=True).start()
    try:
        result, error = ends.get(timeout=limit_s)
    except queue.Empty:
        raise TooLateError(name) from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # set if there is no error


def map_within(
    function: Callable[[ItemT], T], items: Iterable[ItemT], *, limit_s: float, clock: Clock
) -> Mapping[ItemT, T]:
    """Item → result of `function`, called for several items at a time. Late items are absent. `function` must not
    raise."""
    waiting: queue.SimpleQueue[ItemT] = queue.SimpleQueue()
    results: queue.SimpleQueue[tuple[ItemT, T]] = queue.SimpleQueue()
    distinct = list(dict.fromkeys(items))
    for item in distinct:
        waiting.put(item)
    for _ in range(min(THREADS_MAX, len(distinct))):
        threading.Thread(
            target=_work_off, args=(function, waiting, results), name="offsite-doctor", daemon=True
        ).start()
    result_by_item: dict[ItemT, T] = {}
    deadline_s = clock.monotonic_s() + limit_s
    while len(result_by_item) < len(distinct) and (left_s := deadline_s - clock.monotonic_s()) > 0:
        try:
            item, result = results.get(timeout=left_s)
        except queue.Empty:
            break
        result_by_item[item] = result
    return result_by_item


def _put_end(function: Callable[[], T], ends: queue.SimpleQueue[tuple[T | None, BaseException | None]]) -> None:
    try:
        ends.put((function(), None))
    except BaseException as error:  # noqa: BLE001  # raised in the waiting thread
        ends.put((None, error))


def _work_off(
    function: Callable[[ItemT], T], waiting: queue.SimpleQueue[ItemT], results: queue.SimpleQueue[tuple[ItemT, T]]
) -> None:
    while True:
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            return
        results.put((item, function(item)))
