"""Large changes in parts that a controller takes: KRaft answers a request that makes more than 10,000 metadata records
with an error (`MAX_RECORDS_PER_USER_OP`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

RECORDS_MAX = 5_000
"""Half of what is allowed, because the count is ours: one record for each topic, partition, setting and rule."""


def split_requests(items: Iterable[T], records: Callable[[T], int], *, most: int = RECORDS_MAX) -> Iterator[list[T]]:
    """The `items` in order, in lists of at most `most` records each; an item that alone has more is alone."""
    portion: list[T] = []
    left = most
    for item in items:
        if portion and records(item) > left:
            yield portion
            portion, left = [], most
        portion.append(item)
        left -= records(item)
    if portion:
        yield portion
