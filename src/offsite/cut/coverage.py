"""Finds reasons to refuse a finished cut: gaps in the backup and transactions of unknown beginning (C6), positions of
external participants (C5), and exactly-once commits older than the window (C2).

No refusal moves an end or leaves anything out. A cut further back could satisfy them, but the caller has to choose:
with the declared positions as first ends, or with the range before the gap.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsite.cut.cut import Cut, CutRefusal
from offsite.cut.group_offsets import NEVER, first_left_out, is_below
from offsite.cut.window import Ends, Window


def refusals(cut: Cut, window: Window) -> Iterator[CutRefusal]:
    """The refusals of C6, followed by C5 and C2."""
    readable = {**cut.ends, **cut.floors()}
    yield from _uncovered(cut.ends, window)
    yield from _not_whole(cut)
    yield from _contradicted(cut.ends, readable, window)
    yield from _ahead(cut, readable, window)


def _uncovered(ends: Ends, window: Window) -> Iterator[CutRefusal]:
    for partition, end in ends.items():
        base = window.bases.get(partition, 0)
        if end < base:
            # Before the window's beginning nobody knows the transactions.
            yield CutRefusal(rule="C6", partition=partition, offset=base, end=end)
        for low, high in window.gaps.get(partition, ()):
            if max(base, low) < min(end, high):
                yield CutRefusal(rule="C6", partition=partition, offset=low, end=end)


def _not_whole(cut: Cut) -> Iterator[CutRefusal]:
    """Transactions that have to be left out, and may have begun before the window."""
    for span in (left_out.span for left_out in cut.left_out if not left_out.span.is_whole):
        for partition, written in span.written.items():
            yield CutRefusal(
                rule="C6",
                partition=partition,
                offset=written.first,
                end=cut.ends.get(partition),
                participant=str(span.producer),
            )


def _contradicted(ends: Ends, readable: Ends, window: Window) -> Iterator[CutRefusal]:
    for external in window.externals:
        for partition, position in external.positions.items():
            end = ends.get(partition)
            is_there = end is not None and position <= readable[partition]
            if not is_there or not (external.can_replay or position == end):
                end = readable.get(partition)
                yield CutRefusal(rule="C5", partition=partition, offset=position, end=end, participant=external.name)


def _ahead(cut: Cut, readable: Ends, window: Window) -> Iterator[CutRefusal]:
    """Exactly-once groups that have read records outside of the cut, or committed behind a commit that is left out.
    Their transaction is older than the window and cannot be left out too."""
    limits = first_left_out(left_out.span for left_out in cut.left_out)
    for commit in window.commits:
        if not commit.exactly_once or not is_below(commit, cut.ends):
            continue
        end = readable.get(commit.partition)
        is_behind = commit.position > limits.get((commit.group, commit.partition), NEVER)
        if is_behind or (end is not None and commit.offset > end):
            yield CutRefusal(
                rule="C2", partition=commit.partition, offset=commit.offset, end=end, participant=commit.group
            )
