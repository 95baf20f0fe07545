"""The offsets of consumer groups that belong to a cut (C4), as a group coordinator would know them at its ends.

A commit counts when the cut keeps its record; a commit inside a transaction when the cut keeps the transaction. Of
several the last in the log of `__consumer_offsets` counts, wherever the marker is (KIP-98).

A plain group may have read beyond the cut: its offset is clamped to the cut's end, which forgets a read. It reads those
records again, and at least once is all it ever had. An exactly-once group is never clamped, for its outputs are kept:
by C2 a cut that keeps them keeps what they were made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from offsite.cut.cut import GroupOffset
from offsite.cut.effect import Effect
from offsite.cut.window import REMOVED, Ends, GroupCommit, PartitionKey, TransactionSpan, Window


def group_offsets(ends: Ends, window: Window, *, kept: Iterable[Effect]) -> tuple[GroupOffset, ...]:
    """The last offset of each group and partition that `ends` keep, by group, then partition. `kept`: the effects of
    `window` whose causes they keep."""
    last: dict[tuple[str, PartitionKey], GroupCommit] = {}
    for commit in _commits(ends, window, kept):
        key = commit.group, commit.partition
        if key not in last or last[key].position < commit.position:
            last[key] = commit
    return tuple(_of(last[key], ends) for key in sorted(last) if last[key].offset != REMOVED)


def _commits(ends: Ends, window: Window, kept: Iterable[Effect]) -> Iterator[GroupCommit]:
    for effect in kept:
        if isinstance(effect.source, TransactionSpan):
            yield from effect.source.reads
    yield from (commit for commit in window.commits if _is_below(commit, ends))


def _is_below(commit: GroupCommit, ends: Ends) -> bool:
    """A log that was not read is taken as it is, like every partition outside of the cut."""
    return commit.log not in ends or commit.position < ends[commit.log]


def _of(commit: GroupCommit, ends: Ends) -> GroupOffset:
    end = commit.offset if commit.exactly_once else ends.get(commit.partition, commit.offset)
    return GroupOffset(
        group=commit.group,
        partition=commit.partition,
        offset=min(commit.offset, end),
        committed=commit.offset,
    )
