"""Episodes: observed transactions as spans to be kept or left out by a cut.

At a clean reading a transaction of a producer has all markers below the ends, or none (`readings`). Transactions with
markers between two clean readings of their producer are therefore complete together, and form a span. The assignment of
markers to single transactions is never guessed. The spans of a producer are

- before the first clean reading: a span that is not `is_whole`, because the transactions may have begun before the
  window;
- between two neighbouring clean readings: a span, if anything was committed;
- behind the last clean reading: an OPEN span with later commits and transactions without a marker.

A producer without a clean reading has only the undecided records, as an OPEN span: nobody knows which records belong
together. The topics written by the producer are `Window.unpaired`, and the group commits stand alone.

Aborted transactions belong to no span. A cut sees them no more than a restore does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from offsite.cut.readings import CutEvidence, LoggedCommit, clean_readings, transactional_ids
from offsite.cut.window import GroupCommit, SpanOutcome, TransactionSpan, Window, WrittenRange
from offsite.log.range import PartitionId
from offsite.log.transactions import PartitionTail
from offsite.model.errors import check

_TAIL_BEGINS_LATE = "a group commit was decided before the tail of its log begins"


def window_of(evidence: CutEvidence) -> Window:
    """Make the transactions, group commits and unpaired topics of a window; the caller adds the rest.

    The tails of `__consumer_offsets` must begin at the first of `commits` at the latest, because the marker behind a
    commit decides on the commit: raises `Bug` where a commit was decided before its tail begins. Markers at or behind
    the read end do not exist. A transaction of unknown beginning begins behind the last marker of its producer in the
    partition, or at 0. Takes about 3 us for a marker.
    """
    episodes = _Episodes(evidence)
    for partition, tail in evidence.tails.items():
        if partition in episodes.last_ends:
            episodes.add_tail(partition, tail)
    for commit in evidence.commits:
        episodes.add_commit(commit)
    return Window(
        transactions=episodes.spans(),
        commits=tuple(episodes.plain_commits),
        unpaired=frozenset(episodes.unpaired_topics),
    )


class _Decision(NamedTuple):
    """The marker at `offset` ended records that a producer wrote to a log from `first` on; `number`: index of its
    episode."""

    offset: int
    first: int
    committed: bool
    number: int


@dataclass(slots=True)
class _Episode:
    """`markers`: by partition, the first record followed by all commit markers. `undecided`: the first and the last
    record without a marker."""

    epoch: int = -1
    markers: dict[PartitionId, list[int]] = field(default_factory=dict)
    undecided: dict[PartitionId, tuple[int, int]] = field(default_factory=dict)
    reads: list[GroupCommit] = field(default_factory=list)

    def written(self) -> dict[PartitionId, WrittenRange]:
        ranges = {
            key: WrittenRange(markers[0], markers[-1] - 1, markers[-1], tuple(markers[1:]))
            for key, markers in self.markers.items()
        }
        for key, (first, last) in self.undecided.items():
            committed = ranges.get(key)
            ranges[key] = WrittenRange(first, last, None) if committed is None else committed._replace(last=last)
        return ranges


class _Episodes:
    """Evidence on every producer, by producer id and episode number: the number of its clean readings before the
    episode. `_clean`: the indexes of the clean readings; no entry for a producer without any."""

    def __init__(self, evidence: CutEvidence) -> None:
        changes, listed = evidence.changes or (), evidence.listed if evidence.changes is not None else {}
        self._names = transactional_ids(changes, listed)
        by_name = clean_readings(evidence.readings, changes, listed)
        self._clean = {producer: by_name[name] for producer, name in self._names.items() if by_name[name]}
        self._readings = evidence.readings
        self.last_ends = evidence.readings[-1].ends
        self._episodes: defaultdict[tuple[int, int], _Episode] = defaultdict(_Episode)
        self._logs = {logged.commit.log for logged in evidence.commits}
        self._decisions: defaultdict[tuple[PartitionId, int], list[_Decision]] = defaultdict(list)
        self.plain_commits: list[GroupCommit] = []
        self.unpaired_topics: set[str] = set()

    def add_tail(self, partition: PartitionId, tail: PartitionTail) -> None:
        # A high watermark may go back for a moment when the leader changes. Records below it still exist.
        heights = list(accumulate((reading.ends.get(partition, 0) for reading in self._readings), max))
        bounds: dict[tuple[int, ...], list[int]] = {}
        behind: dict[int, int] = {}
        # 1. Assign every marker to the episode of its producer: the number of clean readings before it.
        for offset, producer, epoch, committed, first_seen in tail.markers:
            first = first_seen if first_seen >= 0 else behind.get(producer, 0)
            behind[producer] = offset + 1
            if offset >= heights[-1]:
                self._add_undecided(partition, producer, first, heights[-1] - 1)
                continue
            clean = self._clean.get(producer)
            if clean is None:
                self.unpaired_topics.add(partition.topic)
                number = 0
            else:
                if (levels := bounds.get(clean)) is None:
                    levels = bounds[clean] = [heights[index] for index in clean]
                number = bisect_right(levels, offset)
                if committed:
                    self._add_marker(partition, (producer, number), (first, offset), epoch)
            if partition in self._logs:
                self._decisions[partition, producer].append(_Decision(offset, first, bool(committed), number))
        # 2. Transactions without a marker are undecided up to the read end.
        for transaction in tail.open:
            self._add_undecided(
                partition,
                transaction.producer_id,
                transaction.first_offset,
                min(transaction.last_offset, heights[-1] - 1),
            )

    def _add_marker(self, partition: PartitionId, key: tuple[int, int], place: tuple[int, int], epoch: int) -> None:
        episode = self._episodes[key]
        episode.epoch = epoch
        markers = episode.markers.get(partition)
        if markers is None:
            episode.markers[partition] = list(place)
        else:
            markers.append(place[1])

    def _add_undecided(self, partition: PartitionId, producer: int, first: int, last: int) -> None:
        if first > last:
            return
        if producer not in self._clean:
            self.unpaired_topics.add(partition.topic)
        self._open_of(producer).undecided.setdefault(partition, (first, last))

    def _open_of(self, producer: int) -> _Episode:
        return self._episodes[producer, len(self._clean.get(producer, ()))]

    def add_commit(self, logged: LoggedCommit) -> None:
        commit, producer = logged
        if commit.position >= self.last_ends.get(commit.log, 0):
            return
        if producer < 0:
            self.plain_commits.append(commit)
            return
        decisions = self._decisions[commit.log, producer]
        place = bisect_right(decisions, commit.position, key=_offset)
        if place == len(decisions):
            episode = self._open_of(producer)
            first = episode.undecided.get(commit.log, (0, 0))[0]
            check(commit.log in episode.undecided and first <= commit.position, _TAIL_BEGINS_LATE)
            episode.reads.append(commit)
            return
        decision = decisions[place]
        check(decision.first <= commit.position, _TAIL_BEGINS_LATE)
        if not decision.committed:
            return
        if producer in self._clean:
            self._episodes[producer, decision.number].reads.append(commit)
        else:
            self.plain_commits.append(commit)

    def spans(self) -> tuple[TransactionSpan, ...]:
        """The spans in the order of their producers: by episode, and by age of the producer ids of a transactional
        id."""
        ranks = {producer: rank for rank, producer in enumerate(self._names)}
        keys = sorted(self._episodes, key=lambda key: (key[1], ranks.get(key[0], -1), key[0]))
        return tuple(self._span(number, *key) for number, key in enumerate(keys))

    def _span(self, rank: int, producer: int, number: int) -> TransactionSpan:
        episode, clean = self._episodes[producer, number], len(self._clean.get(producer, ()))
        return TransactionSpan(
            producer_id=producer,
            epoch=episode.epoch,
            written=episode.written(),
            outcome=SpanOutcome.OPEN if number == clean else SpanOutcome.COMMIT,
            reads=tuple(episode.reads),
            name=self._names.get(producer, ""),
            number=rank,
            is_whole=number > 0 or clean == 0,
        )


def _offset(decision: _Decision) -> int:
    return decision.offset
