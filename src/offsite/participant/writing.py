"""The fate of a participant's outputs since its last commit. Pure; reports may come from another thread."""

from __future__ import annotations

from collections import deque

from offsite.participant.errors import NotDelivered
from offsite.participant.number import TopicPartition

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
