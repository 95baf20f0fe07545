"""The topics of a run that follows, as its rounds saw them: what is restorable, and how long uncopied records remain at
the source.

Evidence only: a topic counts as caught up when a round found every partition's end in a commit. A round asks for ends
before it copies, so later records are newer than its beginning.

A topic that a round could not see stays in view and ages: a hidden topic must be noticed. For its partitions the last
seen bounds still tell the uncopied records. Topics known to be deleted at the source are not shown: nothing of them can
be lost any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from offsite.copy.plan import PartitionBounds
from offsite.kafka.protocol.configs import TopicConfigs
from offsite.model.cleanup_policy import Retention
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.repository.commit import PartitionId, TopicShape
from offsite.repository.state import BackupState
from offsite.services.follow.follower import Round
from offsite.services.monitor.headroom import Uncopied, retention_headroom
from offsite.services.monitor.view import UNKNOWN_MS, TopicView

LAGGING_MAX = 200
"""Topics whose retention a round asks for: in a long first pass all topics are behind."""


class TopicSettings(Protocol):
    """The settings of topics, defaults included on request."""

    def readable_topic_configs(self, names: list[str], *, with_defaults: bool = False) -> TopicConfigs: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    """A partition at the end of a round, by its last seen bounds, from the round or an earlier round."""

    bounds: PartitionBounds
    end: int
    newest_ms: int
    is_seen: bool

    @property
    def lag(self) -> int:
        return max(0, self.bounds.end - self.end)


class TopicViews:
    """Makes the views of all topics, round by round, and remembers earlier observations."""

    def __init__(self, settings: TopicSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._newest_ms: dict[PartitionId, int] = {}
        self._caught_up_ms: dict[str, int] = {}
        self._bounds: dict[PartitionId, PartitionBounds] = {}
        self._retention: dict[str, Retention] = {}

    def of(self, ended: Round) -> Iterator[TopicView]:
        """The topics after a round: observed topics, and unobserved topics that are not known to be deleted."""
        state = ended.state
        self._note_newest(ended)
        seen = {bounds.partition_id for bounds in ended.plan.copy.bounds}
        self._bounds |= {bounds.partition_id: bounds for bounds in ended.plan.source.bounds}
        shapes = list(_shown(ended))
        partitions = {shape.topic: self._partitions(shape, state, seen) for shape in shapes}
        there = {shape.topic for shape in ended.plan.source.shapes}
        self._ask_retention([t for t, found in partitions.items() if t in there and any(each.lag for each in found)])
        first_ms = state.history[0].committed_at_ms if state.history else UNKNOWN_MS
        for shape in shapes:
            found = partitions[shape.topic]
            is_seen = sum(each.is_seen for each in found) == shape.partitions
            lag = sum(each.lag for each in found)
            if is_seen and not lag:
                self._caught_up_ms[shape.topic] = ended.began_ms
            newest_ms = max((self._newest_ms.get(each, UNKNOWN_MS) for each in shape.partition_ids), default=UNKNOWN_MS)
            yield TopicView(
                topic=shape.topic,
                restorable_from_ms=first_ms if newest_ms != UNKNOWN_MS else UNKNOWN_MS,
                newest_record_ms=newest_ms,
                caught_up_ms=self._caught_up_ms.get(shape.topic, UNKNOWN_MS),
                lag_records=lag if is_seen else -1,
                headroom_s=self._headroom(found, self._retention.get(shape.topic)),
            )

    def _partitions(self, shape: TopicShape, state: BackupState, seen: set[PartitionId]) -> list[_Partition]:
        """The partitions whose bounds were ever seen."""
        return [
            _Partition(
                bounds=bounds,
                end=bounds.log_start if (position := state.positions.get(each)) is None else position.end,
                newest_ms=self._newest_ms.get(each, UNKNOWN_MS),
                is_seen=each in seen,
            )
            for each in shape.partition_ids
            if (bounds := self._bounds.get(each)) is not None
        ]

    def _note_newest(self, ended: Round) -> None:
        """Note the times of the newest records: of all partitions once, later of copied partitions."""
        copied = {task.partition_id for task in ended.plan.copy.tasks}
        moved = copied if self._newest_ms else set(ended.state.segments)
        for known in sorted(moved):
            if (newest_ms := _newest_ms(ended.state, known)) != UNKNOWN_MS:
                self._newest_ms[known] = max(newest_ms, self._newest_ms.get(known, UNKNOWN_MS))

    def _ask_retention(self, lagging: list[str]) -> None:
        """Read retention settings. Unreadable settings keep their last value."""
        if not lagging:
            return
        try:
            found = self._settings.readable_topic_configs(sorted(lagging)[:LAGGING_MAX], with_defaults=True)
        except OffsiteError as error:
            warned("retention_unread", error=error.id, why=error.message)
            return
        self._retention |= {topic: Retention.of(configs) for topic, configs in found.configs.items()}

    def _headroom(self, partitions: Iterable[_Partition], retention: Retention | None) -> float | None:
        """The least headroom of a topic's partitions."""
        if retention is None:
            return None
        now_ms = self._clock.now_ms()
        found = [_partition_headroom(each, retention, now_ms) for each in partitions if each.lag]
        return min((each for each in found if each is not None), default=None)


def _partition_headroom(partition: _Partition, retention: Retention, now_ms: int) -> float | None:
    uncopied = Uncopied(
        records=partition.lag, oldest_ms=partition.newest_ms, log_bytes=partition.bounds.size_bytes or -1
    )
    return retention_headroom(retention, uncopied, now_ms=now_ms)


def _shown(ended: Round) -> Iterator[TopicShape]:
    """The topics of the source, and hidden topics of the backup unless known to be gone."""
    seen = {shape.topic for shape in ended.plan.source.shapes}
    yield from ended.plan.source.shapes
    for topic, shape in ended.state.latest_shapes().items():
        if topic not in seen and not shape.is_deleted:
            yield shape


def _newest_ms(state: BackupState, known: PartitionId) -> int:
    found = state.segments.get(known)
    last = found.last if found else None
    return UNKNOWN_MS if last is None else last.timestamp_max_ms
