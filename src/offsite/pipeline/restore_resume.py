"""What an earlier attempt left in a target partition without gaps, and whether it is what this one would write.

The target was empty and one chain at a time writes to it, so the number of records it holds is how far an earlier
attempt came. It is asked again when all of them have passed, right before the first batch goes out: whoever wakes in
between is seen then, or shut out by that batch, whose acknowledgement tells whether anything came before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from offsite.kafka.end_offset import settled_end_offset
from offsite.kafka.reader import PartitionReader
from offsite.kafka.routing import Router
from offsite.log.chunk import Chunk
from offsite.log.range import LogRange, TopicPartition
from offsite.log.record import Record
from offsite.log.records import iterate
from offsite.model.errors import OffsiteError
from offsite.model.journal import decided
from offsite.pipeline.restore_attempt import WriteAttempt

COMPARED_BATCHES = 8
"""The last ones: whatever else was written came at the end."""

Records = Callable[[], Sequence[Record]]


class AlreadyThere:
    """The records of `[start, end)` of the target, where `end` is wherever it ends."""

    def __init__(self, router: Router, target: TopicPartition, attempt: WriteAttempt, *, start: int) -> None:
        self._router = router
        self._target = target
        self._attempt = attempt
        self._at = self._start = start
        self.end = settled_end_offset(router, target, start=start)
        """Where the target ended when it was looked at last: the first batch goes there."""
        self._last: deque[tuple[int, Records]] = deque(maxlen=COMPARED_BATCHES)
        self._passed = False

    @property
    def records(self) -> int:
        return self.end - self._start

    def takes(self, count: int, records: Records) -> bool:
        """Whether the chain's next batch, of `count` records, is there. Once it is not, no later one is.

        Raises `TargetDisturbed` or `TargetNotEmpty` when the target holds anything else.
        """
        if self._passed:
            return False
        if self._at + count > self.end:
            self.end = settled_end_offset(self._router, self._target, start=self.end)
        if self._at + count <= self.end:
            self._last.append((self._at, records))
            self._at += count
            return True
        self.finish()
        return False

    def finish(self) -> None:
        """Nothing more is there than what has passed. Raises as `takes`."""
        if self._passed:
            return
        self._passed = True
        if self._at < self.end:
            raise self._attempt.unexpected(self._at, end=self.end)
        if self._last:
            self._compare()
            why = "the target holds what an earlier attempt wrote"
            decided("resume", why=why, topic=self._target.topic, partition=self._target.partition, start=self.end)

    def elsewhere(self, found: int, expected: int) -> OffsiteError:
        """What an acknowledgement means whose base offset is `found` and not `expected`."""
        return self._attempt.unexpected(min(found, expected), end=max(found, expected))

    def _compare(self) -> None:
        """Records that compaction took out meanwhile are no difference."""
        expected = dict(self._last)
        log_range = LogRange(
            topic=self._target.topic, partition=self._target.partition, start=self._last[0][0], end=self.end
        )
        for item in PartitionReader(self._router).read(log_range):
            if not isinstance(item, Chunk):
                continue
            for header in item.batches:
                records = expected.get(header.base_offset, list)()
                if not holds_only(records, iterate(header.view(item.data), header), start=header.base_offset):
                    raise self._attempt.unexpected(header.base_offset, end=self.end)


def holds_only(expected: Sequence[Record], found: Iterable[Record], *, start: int) -> bool:
    """Whether each of the records `found` at or after `start` is the one of `expected`, which begin there."""
    return all(
        record.offset - start < len(expected) and _content(expected[record.offset - start]) == _content(record)
        for record in found
    )


def _content(record: Record) -> tuple[object, ...]:
    return (record.timestamp_ms, record.key, record.value, record.headers)
