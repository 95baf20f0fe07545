"""The offsets of consumer groups that belong to a cut (C4), as a group coordinator would know them after a restore.

A commit counts when the cut keeps its record; a commit inside a transaction when the cut keeps the transaction. Of
several the last in the log of `__consumer_offsets` counts, wherever the marker is (KIP-98). Nothing counts behind a
transactional commit of the same group and partition that is left out: it would cover what that one has read.

A plain group may have read beyond the cut: its offset is clamped to the cut's end, which forgets a read. It reads those
records again, and at least once is all it ever had. An exactly-once group is never clamped, for its outputs are kept:
by C2 a cut that keeps them keeps what they were made from.

A participant says in the metadata of a plain commit what it had written before. Such a commit counts only if all of
that lies below the ends, or else inputs would count as read whose outputs are not there; and none of the same group and
partition counts behind it, for it covers the same inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from offsite.cut.cut import GroupOffset
from offsite.cut.effect import Source
from offsite.cut.window import REMOVED, Ends, GroupCommit, PartitionKey, TransactionSpan, Window

GroupKey = tuple[str, PartitionKey]
"""A group and a partition that it reads."""

NEVER = 1 << 63
"""The position of a commit that is not there: behind all others."""


def group_offsets(
    ends: Ends, window: Window, *, kept: Iterable[Source], left_out: Iterable[TransactionSpan]
) -> tuple[GroupOffset, ...]:
    """The last offset of each group and partition that a cut at `ends` keeps, by group, then partition. `kept` and
    `left_out`: what it keeps and leaves out of `window`."""
    left, early = first_left_out(left_out), first_without_outputs(ends, window)
    last: dict[GroupKey, GroupCommit] = {}
    for commit in _commits(ends, window, kept):
        key = commit.group, commit.partition
        is_later = key not in last or last[key].position < commit.position
        if is_later and commit.position < min(left.get(key, NEVER), early.get(key, NEVER)):
            last[key] = commit
    return tuple(_of(last[key], ends) for key in sorted(last) if last[key].offset != REMOVED)


def first_left_out(left_out: Iterable[TransactionSpan]) -> dict[GroupKey, int]:
    """The position of the first commit of each group and partition among transactions that are left out."""
    found: dict[GroupKey, int] = {}
    for span in left_out:
        for read in span.reads:
            key = read.group, read.partition
            found[key] = min(found.get(key, read.position), read.position)
    return found


def first_without_outputs(ends: Ends, window: Window) -> dict[GroupKey, int]:
    """The position of the first plain commit of each group and partition whose outputs are not all below `ends`."""
    found: dict[GroupKey, int] = {}
    topics = {partition.topic for partition in ends}
    for commit in window.commits:
        if not _has_outputs(commit, ends, topics):
            key = commit.group, commit.partition
            found[key] = min(found.get(key, commit.position), commit.position)
    return found


def _has_outputs(commit: GroupCommit, ends: Ends, topics: Collection[str]) -> bool:
    """A topic that was not read is taken as it is. A partition that was not, of a topic that was, is new: what is in it
    is not kept."""
    return commit.outputs is not None and all(
        offset < ends.get(at, 0 if at.topic in topics else NEVER) for at, offset in commit.outputs
    )


def _commits(ends: Ends, window: Window, kept: Iterable[Source]) -> Iterator[GroupCommit]:
    for source in kept:
        if isinstance(source, TransactionSpan):
            yield from source.reads
    yield from (commit for commit in window.commits if is_below(commit, ends))


def is_below(commit: GroupCommit, ends: Ends) -> bool:
    """Whether `ends` keep a commit's record. A log that was not read is taken as it is, like every partition outside
    of the cut."""
    return commit.log not in ends or commit.position < ends[commit.log]


def _of(commit: GroupCommit, ends: Ends) -> GroupOffset:
    end = commit.offset if commit.exactly_once else ends.get(commit.partition, commit.offset)
    return GroupOffset(
        group=commit.group,
        partition=commit.partition,
        offset=min(commit.offset, end),
        committed=commit.offset,
        metadata=commit.metadata if commit.offset <= end else "",
    )
