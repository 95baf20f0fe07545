"""Split large changes into parts that a controller accepts: KRaft refuses a request that makes more than 10,000
metadata records (`MAX_RECORDS_PER_USER_OP`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

RECORDS_MAX = 5_000
"""Half of the limit, because the count is offsite's own: one record per topic, partition, setting and rule."""


def split_requests(items: Iterable[T], records: Callable[[T], int], *, most: int = RECORDS_MAX) -> Iterator[list[T]]:
    """Yield `items` in order, in lists of at most `most` records. An item with more records forms a list alone."""
    portion: list[T] = []
    room = most
    for item in items:
        if portion and records(item) > room:
            yield portion
            portion, room = [], most
        portion.append(item)
        room -= records(item)
    if portion:
        yield portion
