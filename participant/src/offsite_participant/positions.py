"""The inputs and outputs of a participant: the partitions that it reads, with its positions, and the fate of its
outputs since its last commit. Pure; reports on outputs may come from another thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from offsite_participant.errors import NotDelivered
from offsite_participant.number import TopicPartition


class ReadPositions:
    """For every assigned partition: the next offset to handle, where known, and the offset to go back to."""

    def __init__(self) -> None:
        self._assigned: set[TopicPartition] = set()
        self._next: dict[TopicPartition, int] = {}
        self._safe: dict[TopicPartition, int] = {}
        self._asked: set[TopicPartition] = set()
        self._begun: set[TopicPartition] = set()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions. Earlier knowledge of them belongs to an earlier assignment."""
        fresh = tuple(partitions)
        self.revoke(fresh)
        self._assigned.update(fresh)

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._assigned.discard(partition)
            self._asked.discard(partition)
            self._begun.discard(partition)
            self._next.pop(partition, None)
            self._safe.pop(partition, None)

    def unknown(self) -> tuple[TopicPartition, ...]:
        """The partitions whose committed offset has not been asked for yet."""
        return tuple(sorted(self._assigned - self._asked))

    def asked(self, partitions: Iterable[TopicPartition]) -> None:
        self._asked.update(partitions)

    def begin_at(self, where: TopicPartition, offset: int) -> None:
        self._next[where] = self._safe[where] = offset

    def follows(self, where: TopicPartition, offset: int) -> bool:
        """Whether a record at `offset` directly follows the last handled record of this assignment. If not, another
        participant or nobody has read the records before: a number in between may have been missed."""
        return where in self._begun and self._next.get(where) == offset

    def at(self, where: TopicPartition, offset: int) -> None:
        """The record at `offset` is the next to handle."""
        self._next[where] = offset
        self._safe.setdefault(where, offset)

    def past(self, where: TopicPartition, offset: int) -> None:
        """The record at `offset` was given to the application, or is not for the application."""
        self._begun.add(where)
        self._next[where] = offset + 1

    def positions(self) -> dict[TopicPartition, int]:
        """The next offsets to handle; without partitions of unknown position."""
        return dict(self._next)

    def uncommitted(self) -> dict[TopicPartition, int]:
        """The positions that have moved since their commit."""
        return {partition: offset for partition, offset in self._next.items() if offset != self._safe[partition]}

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._safe.update(offsets)

    def back(self) -> dict[TopicPartition, int]:
        """Where to continue reading so that all uncommitted records are handled again."""
        return {partition: self._safe[partition] for partition in self.uncommitted()}

    def went_back(self, positions: Mapping[TopicPartition, int]) -> None:
        self._next.update(positions)


MAX_OUTPUTS = 1_000
"""More partitions than the metadata of a commit can name in any case."""


class SentOutputs:
    def __init__(self) -> None:
        self._reports: deque[tuple[TopicPartition, int] | str] = deque()
        self._outputs: dict[TopicPartition, int] = {}
        self._are_too_many = False

    def delivered(self, where: TopicPartition, offset: int) -> None:
        self._reports.append((where, offset))

    def given_up(self, reason: str) -> None:
        self._reports.append(reason)

    def settle(self) -> NotDelivered | None:
        """Take the reports so far; returns the failure, if any."""
        failure = None
        while self._reports:
            match self._reports.popleft():
                case str(reason):
                    failure = NotDelivered(f"an output did not reach its partition: {reason}")
                case where, offset:
                    self._note(where, offset)
        return failure

    def outputs(self) -> dict[TopicPartition, int] | None:
        """The highest offset in every partition since the last commit; None: too many to name."""
        return None if self._are_too_many else dict(self._outputs)

    def committed(self) -> None:
        self._outputs.clear()
        self._are_too_many = False

    def _note(self, where: TopicPartition, offset: int) -> None:
        self._outputs[where] = max(offset, self._outputs.get(where, -1))
        if len(self._outputs) > MAX_OUTPUTS:
            self._outputs.clear()
            self._are_too_many = True
