"""What can refuse a cut once it is found: gaps in the backup (C6), the positions of others (C5), and commits that stand
in a log that was not read (C2).

None of them moves an end. A cut further back could satisfy them, but that is for the caller to choose: with the
declared positions as the ends to begin with, or with the range before the gap.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsite.cut.cut import Refusal
from offsite.cut.window import Ends, Window


def refusals(ends: Ends, window: Window) -> Iterator[Refusal]:
    """The refusals of C6, then those of C5, then those of C2."""
    yield from _uncovered(ends, window)
    yield from _contradicted(ends, window)
    yield from _ahead(ends, window)


def _uncovered(ends: Ends, window: Window) -> Iterator[Refusal]:
    for partition, end in ends.items():
        base = window.bases.get(partition, 0)
        if end < base:
            # Behind the window's beginning nobody knows which transactions there were.
            yield Refusal(rule="C6", partition=partition, offset=base, end=end)
        for low, high in window.gaps.get(partition, ()):
            if max(base, low) < min(end, high):
                yield Refusal(rule="C6", partition=partition, offset=low, end=end)


def _contradicted(ends: Ends, window: Window) -> Iterator[Refusal]:
    for external in window.externals:
        for partition, position in external.positions.items():
            end = ends.get(partition)
            agrees = end is not None and (position <= end if external.can_replay else position == end)
            if not agrees:
                yield Refusal(rule="C5", partition=partition, offset=position, end=end, participant=external.name)


def _ahead(ends: Ends, window: Window) -> Iterator[Refusal]:
    """An exactly-once group has read beyond the cut, and there is no end to step back to before its commit."""
    for commit in window.commits:
        end = ends.get(commit.partition)
        if commit.exactly_once and commit.log not in ends and end is not None and commit.offset > end:
            yield Refusal(
                rule="C2", partition=commit.partition, offset=commit.offset, end=end, participant=commit.group
            )
