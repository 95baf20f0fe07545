"""The offsets of consumer groups in a cut (C4), as a group coordinator would know them after a restore.

A commit counts if the cut keeps its record; a commit inside a transaction, if the cut keeps the transaction. Of several
commits the last in the log of `__consumer_offsets` counts, wherever the marker is (KIP-98). No commit counts behind a
left-out transactional commit of the same group and partition, because the later commit would cover reads of the
left-out commit.

A plain group may have read beyond the cut. The offset is clamped to the cut's end, and a read is forgotten: the group
reads the records again, and at-least-once is the only guarantee of a plain group anyway. An exactly-once group is never
clamped, because the outputs are kept: by C2, a cut that keeps outputs also keeps their sources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from offsite.cut.cut import GroupOffset
from offsite.cut.effect import Source
from offsite.cut.window import REMOVED, Ends, GroupCommit, TransactionSpan, Window
from offsite.log.range import PartitionId

GroupKey = tuple[str, PartitionId]
"""A group and a partition that the group reads."""

NEVER = 1 << 63
"""The position of an absent commit: behind all commits."""


def group_offsets(
    ends: Ends, window: Window, *, kept_sources: Iterable[Source], left_out: Iterable[TransactionSpan]
) -> tuple[GroupOffset, ...]:
    """The last offset of every group and partition that a cut at `ends` keeps, by group and partition. `kept_sources`
    and `left_out`: what the cut keeps and leaves out of `window`."""
    first_omitted, early = first_left_out(left_out), first_without_outputs(ends, window)
    last: dict[GroupKey, GroupCommit] = {}
    for commit in _commits(ends, window, kept_sources):
        key = commit.group, commit.partition
        is_later = key not in last or last[key].position < commit.position
        if is_later and commit.position < min(first_omitted.get(key, NEVER), early.get(key, NEVER)):
            last[key] = commit
    return tuple(_of(last[key], ends) for key in sorted(last) if last[key].offset != REMOVED)


def first_left_out(left_out: Iterable[TransactionSpan]) -> dict[GroupKey, int]:
    """The position of the first commit of every group and partition in left-out transactions."""
    positions: dict[GroupKey, int] = {}
    for span in left_out:
        for read in span.reads:
            key = read.group, read.partition
            positions[key] = min(positions.get(key, read.position), read.position)
    return positions


def first_without_outputs(ends: Ends, window: Window) -> dict[GroupKey, int]:
    """The position of the first plain commit of every group and partition whose outputs are not all below `ends`.

    A participant names earlier outputs in the metadata of a plain commit. Such a commit counts only if all outputs lie
    below the ends, otherwise inputs would count as read without their outputs. No later commit of the same group and
    partition counts either, because a later commit covers the same inputs.
    """
    positions: dict[GroupKey, int] = {}
    topics = {partition.topic for partition in ends}
    for commit in window.commits:
        if not _has_outputs(commit, ends, topics):
            key = commit.group, commit.partition
            positions[key] = min(positions.get(key, commit.position), commit.position)
    return positions


def _has_outputs(commit: GroupCommit, ends: Ends, topics: Collection[str]) -> bool:
    """Whether all outputs of the commit are kept. A topic that was not read is taken as it is. An unread partition of a
    read topic is new: its records are not kept."""
    return commit.outputs is not None and all(
        offset < ends.get(at, 0 if at.topic in topics else NEVER) for at, offset in commit.outputs
    )


def _commits(ends: Ends, window: Window, kept_sources: Iterable[Source]) -> Iterator[GroupCommit]:
    for source in kept_sources:
        if isinstance(source, TransactionSpan):
            yield from source.reads
    yield from (commit for commit in window.commits if is_below(commit, ends))


def is_below(commit: GroupCommit, ends: Ends) -> bool:
    """Whether `ends` keep a commit's record. An unread log is taken as it is, like every partition outside of the
    cut."""
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
