"""Runs work that may hang in separate threads, with a time limit for the waiting caller.

Late threads are left behind. They are daemon threads, and do not delay the end of the process.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from offsite.model.clock import Clock

T = TypeVar("T")
ItemT = TypeVar("ItemT")

THREADS_MAX = 16
"""Enough for the brokers of a large cluster within the time of a check, few enough for any machine."""


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
