"""Places the commands of a backup in a new log: at their original offsets, if possible. Pure.

ksqlDB names a query by the offset of its command: `CSAS_ORDERS_12`. With other offsets a later query could take the
name, the state and the consumer group of an earlier query. ksqlDB writes each command in a transaction of its own,
whose marker takes the next offset; so the same log can be written again. Unused offsets are filled by transactions
without data, each with only a marker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from offsite.log.records.record import Record
from offsite.metastore.reading import UNKNOWN

FILLED_MAX = 1_000
"""Offsets without a command to fill at most, one after the other, a few milliseconds each. More would take minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Consecutive records, committed together; `records` may be empty. A marker follows."""

    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The transactions in order. `same_offsets`: each command gets its original offset, if known; else `why` not, and
    each command is in a transaction of its own. `filled`: the number of filled offsets."""

    transactions: tuple[Transaction, ...]
    same_offsets: bool
    filled: int
    why: str = ""


def plan_placement(records: Sequence[Record]) -> Placement:
    """How to write `records` into an empty log."""
    described = list(takewhile(lambda record: record.offset != UNKNOWN, records))
    undescribed = records[len(described) :]  # a crash may leave lines without entries
    if why := _why_not(described, undescribed):
        return Placement(transactions=_each_alone(records), same_offsets=False, filled=0, why=why)
    transactions: list[Transaction] = []
    end = 0
    for run in _runs(described):
        gap = run[0].offset - end
        transactions += [Transaction(records=())] * gap
        transactions.append(Transaction(records=tuple(run)))
        end = run[-1].offset + 2  # the marker takes the next offset
    filled = sum(not transaction.records for transaction in transactions)
    return Placement(transactions=(*transactions, *_each_alone(undescribed)), same_offsets=True, filled=filled)


def at_its_offset(record: Record, expected: Record) -> bool:
    """Whether a command is at its original offset, if known."""
    return expected.offset in {UNKNOWN, record.offset}


def _each_alone(records: Sequence[Record]) -> tuple[Transaction, ...]:
    return tuple(Transaction(records=(record,)) for record in records)


def _why_not(described: Sequence[Record], undescribed: Sequence[Record]) -> str:
    offsets = [record.offset for record in described]
    if not described or any(record.offset != UNKNOWN for record in undescribed):
        return "the file does not record the offsets"
    if any(after <= before for before, after in pairwise(offsets)):
        return "the offsets in the file are not in rising order"
    gaps = offsets[-1] + 2 - sum(len(run) + 1 for run in _runs(described))
    return f"{gaps} offsets without a command would have to be filled" if gaps > FILLED_MAX else ""


def _runs(records: Sequence[Record]) -> list[list[Record]]:
    """Runs of records at consecutive offsets, without a marker between them."""
    runs: list[list[Record]] = []
    for record in records:
        if runs and record.offset == runs[-1][-1].offset + 1:
            runs[-1].append(record)
        else:
            runs.append([record])
    return runs
