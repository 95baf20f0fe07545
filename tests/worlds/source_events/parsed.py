"""What was parsed once is not parsed again within a schedule: a state is asked for hundreds of times, and read from the
same few objects each time.

The key is always the whole of the bytes that the store gave, so that an object that is gone or changed is still seen;
and what is kept is immutable. An error is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from offsite.repository import catalog, commit_log, parquet
from offsite.repository.catalogs import partition_table, segment_table
from offsite.repository.catalogs.segment_table import CatalogPart
from offsite.repository.parquet import ParquetGroups


@contextmanager
def parsed_once() -> Iterator[None]:
    """Until the end of the block, each form of the same bytes is made once."""
    with ExitStack() as patches:
        for place, name in (
            (commit_log, "decode_commit"),
            (commit_log, "commit_hash"),
            (catalog, "decode_lines"),
            (catalog, "decode_seal"),
            (parquet, "read_parquet"),
            (partition_table, "parse_part"),
        ):
            patches.enter_context(mock.patch.object(place, name, once(getattr(place, name))))
        for place, name in ((partition_table, "state_from_json"), (segment_table, "whole_rows")):
            patches.enter_context(mock.patch.object(place, name, _once_for_the_same(getattr(place, name))))
        patches.enter_context(mock.patch.object(segment_table, "ParquetGroups", _groups_once()))
        patches.enter_context(mock.patch.object(CatalogPart, "segments", _segments_once()))
        yield


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, called once for the same arguments."""
    known: dict[Hashable, Any] = {}

    def kept(*values: Any, **named: Any) -> Any:
        arguments = (values, tuple(named.items()))
        if arguments not in known:
            known[arguments] = function(*values, **named)
        return known[arguments]

    return kept


def _once_for_the_same(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, called once for each object that is its first argument, itself kept by `parsed_once`."""
    known: dict[int, tuple[Any, Any]] = {}

    def kept(first: Any, *others: Any) -> Any:
        if id(first) not in known:
            known[id(first)] = first, function(first, *others)
        return known[id(first)][1]

    return kept


def _segments_once() -> Callable[..., Any]:
    """Those of a part, whose groups are kept by the bytes of it."""
    segments = CatalogPart.segments
    known: dict[tuple[ParquetGroups, int, int], Any] = {}

    def kept(self: CatalogPart, low: int, high: int) -> Any:
        self._open()
        if self._file is None:
            return segments(self, low, high)
        where = (self._file, low, high)
        if where not in known:
            known[where] = segments(self, low, high)
        return known[where]

    return kept


def _groups_once() -> Callable[..., Any]:
    known: dict[bytes, ParquetGroups] = {}

    def kept(data: bytes, *, damaged: Callable[[str], Exception]) -> ParquetGroups:
        if data not in known:
            made = ParquetGroups(data, damaged=damaged)
            made.read = once(made.read)  # type: ignore[method-assign]
            known[data] = made
        return known[data]

    return kept
