"""Readings: the ends of all logs, read between two looks at the transaction coordinators; and which of them are clean.

In a clean reading every transaction of a producer has all of its markers below the ends, or none. A coordinator makes
*prepare* durable before it sends a marker to anybody, and *complete* only after every marker is below the high
watermark of its partition (KIP-98). While a transactional id prepares, some partitions may have the marker and some
not; at any other time no transaction is half done. A reading looks at the coordinators (`EndsReading.before`), at the
ends, and again at the coordinators (`EndsReading.after`). The reading is clean for a transactional id unless the id was
preparing at any moment in between:

- *Complete* below `before`: the markers existed before any end was read. All lie below the ends.
- *Prepare* at or behind `after`: no marker was sent before the last end was read. None lies below the ends.

The rule works by transactional id, not by producer id. A producer with exhausted epochs prepares with its old producer
id and completes with a new one (KIP-360, KIP-890), and no producer id ever serves two transactional ids. `changes` must
have no holes: if compaction has taken a *prepare*, nobody sees that markers were on their way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from offsite.cut.window import Ends, GroupCommit
from offsite.log.range import PartitionId
from offsite.log.transaction_state import ListedTransaction, TransactionChange, TransactionStatus
from offsite.log.transactions import PartitionTail

_ALWAYS = 1 << 63
"""Behind every position."""
_COMPLETE = frozenset({TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT})

# A listing shows a coordinator's memory, which changes after the record is durable. A listed *ongoing* may be a
# moment late, and its prepare lie just before `changes` begin: coordinators are therefore asked last, some requests
# behind the end where `changes` begin. A late empty or dead state does not matter: between it and a prepare lies an
# *ongoing* that the coordinator had to have in memory first.
_LISTED_QUIET = frozenset({TransactionStatus.EMPTY, TransactionStatus.ONGOING, TransactionStatus.DEAD}) | _COMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsReading:
    """A reading: the ends of the partitions of `__transaction_state` (by number) `before` and `after` reading the
    `ends` of all partitions of the backup and of `__consumer_offsets`. All are high watermarks."""

    before: Mapping[int, int]
    ends: Ends
    after: Mapping[int, int]


class LoggedCommit(NamedTuple):
    """A group commit as read from `__consumer_offsets`. `producer_id` is -1 outside of transactions."""

    commit: GroupCommit
    producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutEvidence:
    """All evidence for a cut.

    `readings`: in the order of reading; the backup ends at the ends of the last reading. `changes`: every record of
    `__transaction_state` from before the first reading to the end of the last, by log and position; None where
    unreadable. `listed`: transactional ids by producer id, as coordinators listed them after `changes` begin and before
    the first reading; empty where unsupported. `tails`: by partition, the markers from the end in the first reading on
    (of `__consumer_offsets` from before the first of `commits` on), and the transactions open at the last reading; a
    partition without a tail had no transaction. `commits`: the group commits read from `__consumer_offsets`, from
    before the snapshot of groups to the last reading, by log and position.
    """

    readings: tuple[EndsReading, ...]
    changes: tuple[TransactionChange, ...] | None
    listed: Mapping[int, ListedTransaction] = field(default_factory=dict)
    tails: Mapping[PartitionId, PartitionTail] = field(default_factory=dict)
    commits: tuple[LoggedCommit, ...] = ()


TransactionChanges = Sequence[TransactionChange]


def transactional_ids(changes: Iterable[TransactionChange], listed: Mapping[int, ListedTransaction]) -> dict[int, str]:
    """The transactional id of every named producer id. Older producer ids of a transactional id come first: a listed id
    without a change had its last change before all of `changes`."""
    changed = {change.producer_id: change.transactional_id for change in changes if change.producer_id >= 0}
    before = {number: transaction.transactional_id for number, transaction in listed.items() if number not in changed}
    return before | changed


def clean_readings(
    readings: Sequence[EndsReading], changes: TransactionChanges, listed: Mapping[int, ListedTransaction]
) -> dict[str, tuple[int, ...]]:
    """The indexes of the clean readings of every named transactional id, rising. An unknown reading is not clean."""
    usable = _usable(readings)
    logs = {log for reading in readings for log in (*reading.before, *reading.after)}
    logs |= {change.log for change in changes}
    # An id without any change has an unknown log, so a reading needs all logs.
    complete = tuple(number for number in usable if logs == readings[number].before.keys() & readings[number].after)
    clean = {
        transaction.transactional_id: complete for transaction in listed.values() if transaction.status in _LISTED_QUIET
    }
    clean |= {
        transaction.transactional_id: () for transaction in listed.values() if transaction.status not in _LISTED_QUIET
    }
    for name, id_changes in _by_name(changes).items():
        pending, log = _preparing(id_changes), id_changes[0].log
        clean[name] = tuple(number for number in usable if _is_clean(readings[number], log, pending))
    return clean


def find_unsettled(
    readings: Sequence[EndsReading], changes: TransactionChanges, listed: Mapping[int, ListedTransaction]
) -> frozenset[str]:
    """The transactional ids that justify more readings: ids without a clean reading, and ids whose last clean reading
    lies before the first of another id.

    Transactions before the first clean reading of a producer cannot be left out. Their producer has read nothing behind
    a later clean reading of another producer, but may have read behind an earlier one, and the cut would be refused.
    """
    clean = clean_readings(readings, changes, listed)
    latest_first = max((indexes[0] for indexes in clean.values() if indexes), default=0)
    return frozenset(name for name, indexes in clean.items() if not indexes or indexes[-1] < latest_first)


def _usable(readings: Sequence[EndsReading]) -> list[int]:
    """The usable readings. A reading without the end of a partition in the last reading says nothing about a marker in
    the partition."""
    return [number for number, reading in enumerate(readings) if readings[-1].ends.keys() <= reading.ends.keys()]


def _by_name(changes: TransactionChanges) -> dict[str, list[TransactionChange]]:
    """Group the changes by transactional id, in order of position: a transactional id has all records in a single
    log."""
    grouped: defaultdict[str, list[TransactionChange]] = defaultdict(list)
    for change in changes:
        grouped[change.transactional_id].append(change)
    return grouped


def _preparing(changes: list[TransactionChange]) -> list[tuple[int, int]]:
    """The spans of positions in which the transactional id was preparing; a span excludes its end.

    The state before the first record follows from that record: *complete* follows only on *prepare*, and only
    *complete* follows on *prepare*. A tombstone is written only for empty and completed ids.
    """
    spans: list[tuple[int, int]] = []
    since = -1 if changes[0].status in _COMPLETE else None
    for change in changes:
        is_preparing = change.status is not None and change.status.is_preparing
        if is_preparing and since is None:
            since = change.position
        elif not is_preparing and since is not None:
            spans.append((since, change.position))
            since = None
    return spans if since is None else [*spans, (since, _ALWAYS)]


def _is_clean(reading: EndsReading, log: int, pending: list[tuple[int, int]]) -> bool:
    before, after = reading.before.get(log), reading.after.get(log)
    if before is None or after is None:
        return False
    # Of all spans that began before `after`, the last began and ended last.
    begun_count = bisect_left(pending, (after, -1))
    return begun_count == 0 or pending[begun_count - 1][1] < before
