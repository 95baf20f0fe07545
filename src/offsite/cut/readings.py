"""Readings: the ends of all logs, read between two looks at the transaction coordinators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from offsite.cut.window import Ends, GroupCommit, PartitionKey
from offsite.log.transaction_state import ListedTransaction, TransactionChange
from offsite.log.transactions import PartitionTail


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
    tails: Mapping[PartitionKey, PartitionTail] = field(default_factory=dict)
    commits: tuple[LoggedCommit, ...] = ()
