"""Spark's filters into bounds: whatever only narrows the rows may be used, and Spark looks at every row again.

Owns nothing of Spark but its filter classes; a filter of another kind or on another column narrows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from offsite.table.row_filter import RowFilter

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US_PER_MS = 1000


def narrowed(rows: RowFilter, filters: Iterable[Filter]) -> RowFilter:
    """`rows` within what all of the filters allow."""
    for each in filters:
        rows = _narrowed(rows, each)
    return rows


def _narrowed(rows: RowFilter, each: Filter) -> RowFilter:  # noqa: PLR0911  # one for each kind of filter
    from pyspark.sql import datasource as spark

    match each:
        case spark.EqualTo(attribute=(column,), value=value) | spark.EqualNullSafe(attribute=(column,), value=value):
            return _among(rows, column, [value])
        case spark.In(attribute=(column,), value=values):
            return _among(rows, column, list(values))
        case spark.GreaterThan(attribute=(column,), value=value):
            return _at_least(rows, column, value, strict=True)
        case spark.GreaterThanOrEqual(attribute=(column,), value=value):
            return _at_least(rows, column, value, strict=False)
        case spark.LessThan(attribute=(column,), value=value):
            return _at_most(rows, column, value, strict=True)
        case spark.LessThanOrEqual(attribute=(column,), value=value):
            return _at_most(rows, column, value, strict=False)
    return rows


def _among(rows: RowFilter, column: str, values: list[object]) -> RowFilter:
    match column:
        case "topic":
            return rows.of_topics(frozenset(value for value in values if isinstance(value, str)))
        case "partition":
            return rows.of_partitions(frozenset(value for value in values if isinstance(value, int)))
        case "offset" | "timestamp":
            numbers = [number for number in map(_number, values) if number is not None]
            if not numbers or len(numbers) < len(values):
                return rows
            return _at_most(_at_least(rows, column, min(numbers), strict=False), column, max(numbers), strict=False)
    return rows


def _at_least(rows: RowFilter, column: str, value: object, *, strict: bool) -> RowFilter:
    number = _number(value)
    if number is None:
        return rows
    if column == "offset":
        return rows.from_offset(number + 1 if strict else number)
    if column == "timestamp":
        return rows.since(number // _US_PER_MS + 1 if strict else -(-number // _US_PER_MS))
    return rows


def _at_most(rows: RowFilter, column: str, value: object, *, strict: bool) -> RowFilter:
    number = _number(value)
    if number is None:
        return rows
    if column == "offset":
        return rows.below_offset(number if strict else number + 1)
    if column == "timestamp":
        return rows.until(-(-number // _US_PER_MS) - 1 if strict else number // _US_PER_MS)
    return rows


def _number(value: object) -> int | None:
    """An offset, or a time in microseconds. A time without a zone is not one that Spark compares with this column."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1) if value.tzinfo else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
