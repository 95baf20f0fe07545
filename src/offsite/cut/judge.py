"""The judge: whether ends and group offsets are consistent, by the rules as they are written, one after the other.

It shares no code with the search for the cut, and takes any ends: those of a cut, raw high watermarks, or what a
restored cluster holds. So it can find the search wrong, and find raw ends wrong in the same run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from offsite.cut.cut import GroupOffset
from offsite.cut.window import Ends, GroupCommit, Outcome, PartitionKey, TransactionSpan, Window

UNLIMITED = 1 << 63
"""The end of a partition that the ends say nothing about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken rule: `what` is kept, and `partition` ends at `end`, which is not where the rule wants it."""

    rule: Literal["C1", "C2", "C3", "C4", "C7"]
    what: str
    partition: PartitionKey
    end: int


def violations(ends: Ends, window: Window) -> Iterator[Violation]:
    """Everything that `ends` keep without its cause: rules C1, C2, C3 and C7, as far as partitions are among `ends`."""
    for transaction in window.transactions:
        yield from _halves(transaction, ends)
        if _is_visible(transaction, ends):
            for read in transaction.reads:
                yield from _unread(_name(transaction), read, ends)
    for commit in window.commits:
        if commit.exactly_once and commit.position < ends.get(commit.log, 0):
            yield from _unread(f"group {commit.group}", commit, ends)
    yield from _broken_promises(window, ends)


def group_violations(ends: Ends, groups: Iterable[GroupOffset], window: Window) -> Iterator[Violation]:
    """Rule C4: every group offset that is not what a coordinator would know after reading its log up to `ends`, and
    every one beyond the end of what it was read from."""
    known = _replay(ends, window)
    told = {(each.group, each.partition): each.offset for each in groups}
    for group, partition in sorted(known.keys() | told.keys()):
        commit, offset = known.get((group, partition)), told.get((group, partition))
        end = ends.get(partition, UNLIMITED)
        right = None if commit is None else commit.offset if commit.exactly_once else min(commit.offset, end)
        if offset != right or (offset is not None and offset > end):
            what = f"group {group} at {offset}, not {right}"
            yield Violation(rule="C4", what=what, partition=partition, end=end)


def _name(transaction: TransactionSpan) -> str:
    return f"transaction {transaction.name or transaction.producer_id}"


def _halves(transaction: TransactionSpan, ends: Ends) -> Iterator[Violation]:
    if transaction.outcome is Outcome.ABORT:
        return
    inside = {partition: written for partition, written in transaction.written.items() if partition in ends}
    if all(ends[partition] <= written.first for partition, written in inside.items()):
        return
    for partition, written in inside.items():
        is_ended = transaction.outcome is Outcome.COMMIT and written.marker is not None
        if not is_ended or ends[partition] <= (written.marker or 0):
            yield Violation(rule="C1", what=_name(transaction), partition=partition, end=ends[partition])


def _is_visible(transaction: TransactionSpan, ends: Ends) -> bool:
    """Whether a consumer of committed data sees any of it below `ends`."""
    return transaction.outcome is Outcome.COMMIT and any(
        written.marker is not None and written.marker < ends.get(partition, 0)
        for partition, written in transaction.written.items()
    )


def _unread(what: str, commit: GroupCommit, ends: Ends) -> Iterator[Violation]:
    end = ends.get(commit.partition)
    if end is not None and commit.offset > end:
        yield Violation(rule="C2", what=what, partition=commit.partition, end=end)


def _broken_promises(window: Window, ends: Ends) -> Iterator[Violation]:
    for record in window.records:
        if record.offset < ends.get(record.partition, 0):
            for partition, end in record.deps.items():
                if partition in ends and ends[partition] < end:
                    what = f"{record.partition} at {record.offset}"
                    yield Violation(rule="C3", what=what, partition=partition, end=ends[partition])
    for lost in window.superseded:
        if lost.offset < ends.get(lost.partition, 0) <= lost.successor:
            what = f"{lost.partition} at {lost.offset}"
            yield Violation(rule="C7", what=what, partition=lost.partition, end=ends[lost.partition])


def _replay(ends: Ends, window: Window) -> dict[tuple[str, PartitionKey], GroupCommit]:
    """What coordinators know after reading their logs up to `ends`: the last commit of each group and partition."""
    found = [commit for commit in window.commits if commit.position < ends.get(commit.log, UNLIMITED)]
    for transaction in window.transactions:
        if transaction.outcome is Outcome.COMMIT:
            found += [read for read in transaction.reads if _has_ended(transaction, read.log, ends)]
    in_order = sorted(found, key=lambda commit: (commit.log, commit.position))
    last = {(commit.group, commit.partition): commit for commit in in_order}
    return {key: commit for key, commit in last.items() if commit.offset >= 0}


def _has_ended(transaction: TransactionSpan, log: PartitionKey, ends: Ends) -> bool:
    written = transaction.written.get(log)
    return written is not None and written.marker is not None and written.marker < ends.get(log, UNLIMITED)
