"""The topics of a run that follows, as its rounds saw them: what is restorable, and how long uncopied records remain
at the source.

Evidence only: a topic counts as caught up when a round found every partition's end in a commit. A round asks for
ends before it copies, so later records are newer than its beginning. A topic that a round could not see stays in
view and ages: a hidden topic must be noticed. For its partitions the last seen bounds still tell the uncopied
records. Topics known to be deleted at the source are not shown: nothing of them can be lost any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from offsite.backup.copy_plan import PartitionBounds
from offsite.follow.follower import Round
from offsite.kafka.admin import ClusterAdmin
from offsite.log.range import PartitionId
from offsite.model.cleanup_policy import Retention, Uncopied, retention_headroom
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.monitor.view import UNKNOWN_MS, TopicView
from offsite.repository.commit import TopicShape
from offsite.repository.state import BackupState

LAGGING_MAX = 200
"""Topics whose retention a round asks for: in a long first pass all topics are behind."""


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

    def __init__(self, settings: ClusterAdmin, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._newest_ms: dict[PartitionId, int] = {}
        self._caught_up_ms: dict[str, int] = {}
        self._bounds: dict[PartitionId, PartitionBounds] = {}
        self._retention: dict[str, Retention] = {}

    def of(self, last_round: Round) -> Iterator[TopicView]:
        """The topics after a round: observed topics, and unobserved topics that are not known to be deleted."""
        state = last_round.state
        self._note_newest(last_round)
        observed = {bounds.partition_id for bounds in last_round.plan.copy.bounds}
        self._bounds |= {bounds.partition_id: bounds for bounds in last_round.plan.source.bounds}
        shapes = list(_shown(last_round))
        partitions = {shape.topic: self._partitions(shape, state, observed) for shape in shapes}
        source_topics = {shape.topic for shape in last_round.plan.source.shapes}
        self._ask_retention(
            [
                t
                for t, topic_partitions in partitions.items()
                if t in source_topics and any(partition.lag for partition in topic_partitions)
            ]
        )
        first_ms = state.history[0].committed_at_ms if state.history else UNKNOWN_MS
        for shape in shapes:
            topic_partitions = partitions[shape.topic]
            is_seen = sum(partition.is_seen for partition in topic_partitions) == shape.partitions
            lag = sum(partition.lag for partition in topic_partitions)
            if is_seen and not lag:
                self._caught_up_ms[shape.topic] = last_round.began_ms
            newest_ms = max(
                (self._newest_ms.get(partition_id, UNKNOWN_MS) for partition_id in shape.partition_ids),
                default=UNKNOWN_MS,
            )
            yield TopicView(
                topic=shape.topic,
                restorable_from_ms=first_ms if newest_ms != UNKNOWN_MS else UNKNOWN_MS,
                newest_record_ms=newest_ms,
                caught_up_ms=self._caught_up_ms.get(shape.topic, UNKNOWN_MS),
                lag_records=lag if is_seen else -1,
                headroom_s=self._headroom(topic_partitions, self._retention.get(shape.topic)),
            )

    def _partitions(self, shape: TopicShape, state: BackupState, observed: set[PartitionId]) -> list[_Partition]:
        """The partitions whose bounds were ever seen."""
        return [
            _Partition(
                bounds=bounds,
                end=bounds.log_start if (position := state.positions.get(partition_id)) is None else position.end,
                newest_ms=self._newest_ms.get(partition_id, UNKNOWN_MS),
                is_seen=partition_id in observed,
            )
            for partition_id in shape.partition_ids
            if (bounds := self._bounds.get(partition_id)) is not None
        ]

    def _note_newest(self, last_round: Round) -> None:
        """Note the times of the newest records: of all partitions once, later of copied partitions."""
        copied = {task.partition_id for task in last_round.plan.copy.tasks}
        moved = copied if self._newest_ms else set(last_round.state.segments)
        for partition_id in sorted(moved):
            if (newest_ms := _newest_ms(last_round.state, partition_id)) != UNKNOWN_MS:
                self._newest_ms[partition_id] = max(newest_ms, self._newest_ms.get(partition_id, UNKNOWN_MS))

    def _ask_retention(self, lagging: list[str]) -> None:
        """Read retention settings. Unreadable settings keep their last value."""
        if not lagging:
            return
        try:
            answer = self._settings.readable_topic_configs(sorted(lagging)[:LAGGING_MAX], with_defaults=True)
        except OffsiteError as error:
            warned("retention_unread", error=error.id, why=error.message)
            return
        self._retention |= {topic: Retention.of(configs) for topic, configs in answer.configs.items()}

    def _headroom(self, partitions: Iterable[_Partition], retention: Retention | None) -> float | None:
        """The least headroom of a topic's partitions."""
        if retention is None:
            return None
        now_ms = self._clock.now_ms()
        headrooms = [_partition_headroom(partition, retention, now_ms) for partition in partitions if partition.lag]
        return min((headroom_s for headroom_s in headrooms if headroom_s is not None), default=None)


def _partition_headroom(partition: _Partition, retention: Retention, now_ms: int) -> float | None:
    uncopied = Uncopied(
        records=partition.lag, oldest_ms=partition.newest_ms, log_bytes=partition.bounds.size_bytes or -1
    )
    return retention_headroom(retention, uncopied, now_ms=now_ms)


def _shown(last_round: Round) -> Iterator[TopicShape]:
    """The topics of the source, and hidden topics of the backup unless known to be gone."""
    source_topics = {shape.topic for shape in last_round.plan.source.shapes}
    yield from last_round.plan.source.shapes
    for topic, shape in last_round.state.latest_shapes().items():
        if topic not in source_topics and not shape.is_deleted:
            yield shape


def _newest_ms(state: BackupState, partition_id: PartitionId) -> int:
    segments = state.segments.get(partition_id)
    return segments.last_timestamp_ms if segments else UNKNOWN_MS
