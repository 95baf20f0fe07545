"""The judge: whether ends, left-out transactions and group offsets are consistent, checked rule by rule as written.

The judge shares no code with the search, and takes any ends: the ends of a cut, raw high watermarks, or the contents of
a restored cluster. It can therefore find the search wrong, and find raw ends wrong in the same run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from offsite.cut.cut import GroupOffset
from offsite.cut.window import Ends, GroupCommit, SpanOutcome, TransactionSpan, Window
from offsite.log.range import PartitionId

UNLIMITED = 1 << 63
"""The end of a partition outside of the ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken rule: `subject` is kept, but the kept part of `partition` reaches `end`, against the rule. C2' names the
    partition that a group read, or None for the order of a producer."""

    rule: Literal["C1", "C2", "C2'", "C3", "C4", "C7"]
    subject: str
    partition: PartitionId | None
    end: int


def violations(ends: Ends, left_out: Iterable[TransactionSpan], window: Window) -> Iterator[Violation]:
    """Everything that is kept without its cause: rules C1, C2, C2', C3 and C7, for partitions in `ends`.

    `left_out`: committed transactions of `window` that are left out. Undecided transactions always are.
    """
    kept_spans, lost = _parted(left_out, window)
    readable = _readable(ends, lost)
    for transaction in kept_spans:
        yield from _unended(transaction, ends)
        for read in transaction.reads:
            yield from _unread(_name(transaction), read, readable)
    yield from _disordered(kept_spans, lost)
    for commit in window.commits:
        if commit.exactly_once and commit.position < ends.get(commit.log, 0):
            yield from _unread(f"group {commit.group}", commit, readable)
    yield from _broken_promises(window, ends, readable)


def group_violations(
    ends: Ends, left_out: Iterable[TransactionSpan], groups: Iterable[GroupOffset], window: Window
) -> Iterator[Violation]:
    """Rule C4: every group offset that differs from a coordinator's knowledge after reading the kept log, and every
    offset beyond the end of its partition."""
    replayed = _replay(ends, left_out, window)
    stated = {(group_offset.group, group_offset.partition): group_offset.offset for group_offset in groups}
    for group, partition in sorted(replayed.keys() | stated.keys()):
        commit, offset = replayed.get((group, partition)), stated.get((group, partition))
        end = ends.get(partition, UNLIMITED)
        right = None if commit is None else commit.offset if commit.exactly_once else min(commit.offset, end)
        if offset != right or (offset is not None and offset > end):
            subject = f"group {group} at {offset}, not {right}"
            yield Violation(rule="C4", subject=subject, partition=partition, end=end)


def _parted(left_out: Iterable[TransactionSpan], window: Window) -> tuple[list[TransactionSpan], list[TransactionSpan]]:
    """The kept and the left-out transactions of a window; aborted transactions are in neither list."""
    named = {(span.producer, span.number) for span in left_out}
    kept_spans, lost = [], []
    for span in window.transactions:
        if span.outcome is SpanOutcome.OPEN or (
            span.outcome is SpanOutcome.COMMIT and (span.producer, span.number) in named
        ):
            lost.append(span)
        elif span.outcome is SpanOutcome.COMMIT:
            kept_spans.append(span)
    return kept_spans, lost


def _readable(ends: Ends, lost: Collection[TransactionSpan]) -> Ends:
    """How far every partition may have been read: below its first record that is not kept."""
    readable = dict(ends)
    for span in lost:
        for partition, written in span.written.items():
            if partition in readable:
                readable[partition] = min(readable[partition], written.first)
    return readable


def _name(transaction: TransactionSpan) -> str:
    return f"transaction {transaction.number} of {transaction.producer}"


def _unended(transaction: TransactionSpan, ends: Ends) -> Iterator[Violation]:
    for partition, written in transaction.written.items():
        end = ends.get(partition)
        if end is not None and (written.marker is None or written.marker >= end):
            yield Violation(rule="C1", subject=_name(transaction), partition=partition, end=end)


def _unread(subject: str, commit: GroupCommit, readable: Ends) -> Iterator[Violation]:
    end = readable.get(commit.partition)
    if end is not None and commit.offset > end:
        yield Violation(rule="C2", subject=subject, partition=commit.partition, end=end)


def _disordered(kept_spans: Collection[TransactionSpan], lost: Collection[TransactionSpan]) -> Iterator[Violation]:
    """Rule C2': transactions that are kept although an earlier transaction of their producer, or of their group's
    offset, is left out."""
    numbers: dict[str | int, int] = {}
    positions: dict[tuple[str, PartitionId], int] = {}
    for span in lost:
        numbers[span.producer] = min(span.number, numbers.get(span.producer, UNLIMITED))
        for read in span.reads:
            key = read.group, read.partition
            positions[key] = min(read.position, positions.get(key, UNLIMITED))
    for span in kept_spans:
        if span.number > numbers.get(span.producer, UNLIMITED):
            yield Violation(rule="C2'", subject=_name(span), partition=None, end=numbers[span.producer])
        for read in span.reads:
            first = positions.get((read.group, read.partition), UNLIMITED)
            if read.position > first:
                yield Violation(rule="C2'", subject=_name(span), partition=read.partition, end=first)


def _broken_promises(window: Window, ends: Ends, readable: Ends) -> Iterator[Violation]:
    for record in window.records:
        if record.offset < ends.get(record.partition, 0):
            for partition, end in record.deps.items():
                if partition in ends and readable[partition] < end:
                    subject = f"{record.partition} at {record.offset}"
                    yield Violation(rule="C3", subject=subject, partition=partition, end=readable[partition])
    for stamped in window.stamped:
        if stamped.offset < ends.get(stamped.partition, 0):
            subject = f"{stamped.partition} at {stamped.offset}, stamped {stamped.stamp}"
            yield Violation(rule="C3", subject=subject, partition=stamped.partition, end=ends[stamped.partition])
    for lost in window.superseded:
        if lost.offset < ends.get(lost.partition, 0) <= lost.successor:
            subject = f"{lost.partition} at {lost.offset}"
            yield Violation(rule="C7", subject=subject, partition=lost.partition, end=ends[lost.partition])


def _replay(
    ends: Ends, left_out: Iterable[TransactionSpan], window: Window
) -> dict[tuple[str, PartitionId], GroupCommit]:
    """What coordinators know after reading their logs up to `ends` without the left-out transactions: the last commit
    of every group and partition, up to the first commit that is not kept."""
    kept_spans, lost = _parted(left_out, window)
    below = [commit for commit in window.commits if commit.position < ends.get(commit.log, UNLIMITED)]
    events = [(read, False) for span in lost for read in span.reads]
    events += [(commit, _is_backed(commit, ends)) for commit in below]
    events += [(read, True) for span in kept_spans for read in span.reads]
    stopped: set[tuple[str, PartitionId]] = set()
    last: dict[tuple[str, PartitionId], GroupCommit] = {}
    for commit, is_kept in sorted(events, key=lambda event: (event[0].log, event[0].position)):
        key = commit.group, commit.partition
        if not is_kept:
            stopped.add(key)
        elif key not in stopped:
            last[key] = commit
    return {key: commit for key, commit in last.items() if commit.offset >= 0}


def _is_backed(commit: GroupCommit, ends: Ends) -> bool:
    """Whether everything that a participant wrote before its commit is kept; a participant with unknown outputs has
    lost them."""
    if commit.outputs is None:
        return False
    lost = [at for at, offset in commit.outputs if at in ends and ends[at] <= offset]
    read = {partition.topic for partition in ends}
    made_since = [at for at, _ in commit.outputs if at not in ends and at.topic in read]
    return not lost and not made_since
