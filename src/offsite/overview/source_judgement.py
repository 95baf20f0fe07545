"""Judges the topics of a backup beside its living source: lag, headroom, and losses at the source. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from offsite.log.range import PartitionId, TopicIncarnation, TopicPartition
from offsite.model.cleanup_policy import UNLIMITED, Uncopied, retention_headroom
from offsite.model.units import format_time
from offsite.monitor.view import recovery_point_ms
from offsite.overview.comparison import UNKNOWN_MS, TopicComparison, TopicState, describe_interval
from offsite.overview.source_evidence import (
    MadeAnew,
    Sightings,
    SourceLook,
    count_lag,
    cut_ends,
    deleted_segments,
    early_deletions,
    find_presence,
    lag_of,
    partitions_of,
)
from offsite.repository.commit import TopicShape
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState

ALARM_MS = 7 * 24 * 3_600_000
"""How long a loss at the source is an alarm after it was found: a person may not have heard of it for a week."""
_RANKS = {state: rank for rank, state in enumerate(TopicState)}
LOW_HEADROOM_S = 6 * 3600
"""As the alert `OffsiteRetentionHeadroomLow`."""


def compare_topics(state: BackupState, look: SourceLook, sightings: Sightings) -> tuple[TopicComparison, ...]:
    """Compare all topics, the worst first. `sightings`: with this look."""
    earlier = _deleted_earlier(state)
    left_behind = frozenset(left.partition_id.topic for left in state.left_behind)
    topics = (
        _Topic(state=state, shape=shape, look=look, sightings=sightings, is_left_behind=topic in left_behind)
        for topic, shape in state.latest_shapes().items()
    )
    compared = [topic.compare(earlier.get(topic.shape.topic)) for topic in topics]
    return tuple(sorted((*compared, *_new(look)), key=_badness))


def _badness(topic: TopicComparison) -> tuple[bool, int, bool, float, float, str]:
    headroom_s = float("inf") if topic.headroom_s is None else topic.headroom_s
    return not topic.alarm, _RANKS[topic.state], not topic.detail, headroom_s, -(topic.lag_s or 0.0), topic.topic


def _new(look: SourceLook) -> Iterator[TopicComparison]:
    for topic in look.new:
        held = [bounds for key, bounds in look.bounds.items() if key.topic == topic]
        yield TopicComparison(
            topic=topic,
            state=TopicState.NEW,
            detail="the backup selects it, and no commit has it yet",
            lag_records=sum(bounds.end - bounds.start for bounds in held) if held else -1,
        )


def _deleted_earlier(state: BackupState) -> dict[str, TopicShape]:
    """By topic, the earlier incarnation that a run found deleted last."""
    latest = {shape.incarnation for shape in state.latest_shapes().values()}
    return {
        shape.topic: shape for shape in state.topics.values() if shape.is_deleted and shape.incarnation not in latest
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Topic:
    """The latest incarnation of a topic, in the backup and in a look. `sightings`: with this look. `is_left_behind`:
    the newest pass could not read all of it."""

    state: BackupState
    shape: TopicShape
    look: SourceLook
    sightings: Sightings
    is_left_behind: bool

    def compare(self, earlier: TopicShape | None) -> TopicComparison:
        """`earlier`: the incarnation before, if a run found it deleted."""
        presence = find_presence(self.state, self.shape, self.look)
        if presence is TopicState.GONE:
            return self._gone()
        if presence is TopicState.RECREATED:
            return self._recreated()
        return self._told(presence) if presence is not None else self._of_log(earlier)

    def _told(self, presence: TopicState) -> TopicComparison:
        made = self._made()
        details = {
            TopicState.HIDDEN: "the login may not describe it: whether it exists is not known",
            TopicState.RESTORED: f"restored by {made.restore if made else ''}: the next run backs it up as a new topic",
        }
        detail = details.get(presence, "the brokers do not agree whether it exists")
        return TopicComparison(
            topic=self.shape.topic, state=presence, detail=detail, restorable_to_ms=self._restorable_to_ms()
        )

    def _made(self) -> MadeAnew | None:
        """By which restore of this installation the listed topic was made, if by any."""
        listed_id = self.look.listed.get(self.shape.topic, "")
        return self.look.restored.get(TopicIncarnation(topic=self.shape.topic, topic_id=listed_id))

    def _gone(self) -> TopicComparison:
        loss = self._lost(TopicState.GONE)
        detail = f"deleted at the source {describe_interval(loss)}; the backup keeps it"
        return replace(loss, detail=detail, restore=self._restore(self.shape.deleted_ms, is_free=True))

    def _recreated(self) -> TopicComparison:
        loss = self._lost(TopicState.RECREATED)
        if (made := self._made()) is not None:
            how = f"restore {made.restore} made it anew, and {made.problem}"
            return replace(loss, detail=f"deleted at the source {describe_interval(loss)}; {how}")
        detail = (
            f"deleted at the source {describe_interval(loss)}, and created anew under the same name; the backup keeps "
            "the deleted topic"
        )
        return replace(loss, detail=detail, restore=self._restore(self.shape.deleted_ms, is_free=False))

    def _lost(self, kind: TopicState, *, seen_by_run_ms: int | None = None) -> TopicComparison:
        incarnation, found_by_run_ms = self.shape.incarnation, self.shape.deleted_ms
        seen = self.sightings.whole_ms if kind is TopicState.SHRUNK else self.sightings.there_ms
        found_ms = self.sightings.found_ms.get((incarnation, kind), self.look.looked_ms)
        found_ms = min(found_ms, found_by_run_ms) if found_by_run_ms > 0 else found_ms
        seen_ms = max(
            seen.get(incarnation, UNKNOWN_MS), self._read_by_run_ms() if seen_by_run_ms is None else seen_by_run_ms
        )
        return TopicComparison(
            topic=self.shape.topic,
            state=kind,
            alarm=self.look.looked_ms - found_ms < ALARM_MS,
            restorable_to_ms=self._restorable_to_ms(),
            seen_ms=seen_ms if seen_ms < found_ms else UNKNOWN_MS,
            found_ms=found_ms,
        )

    def _read_by_run_ms(self) -> int:
        """When a run last read the ends of all partitions, and so saw the topic."""
        told_ms = self.shape.read_ms or (0 if self.shape.is_deleted else self.state.read_ms)
        return told_ms or UNKNOWN_MS

    def _restore(self, before_ms: int, *, is_free: bool, before_commit: int | None = None) -> dict[str, str]:
        """The options of a restore from the newest restore point before a run found the loss, else from the newest.
        `before_commit`: a commit that has the loss for sure, whatever clocks say. `is_free`: the name is free at the
        source."""
        history = self.state.history if before_commit is None else self.state.history.upto(before_commit - 1)
        point = history.latest_at(before_ms - 1) if before_ms > 0 else None
        if point is None:
            point = history[-1] if history else None
        return self._restore_of(point.seq if point else 0, is_free=is_free)

    def _restore_of(self, commit: int, *, is_free: bool) -> dict[str, str]:
        topic = self.shape.topic
        more = {"groups": "all"} if is_free else {"rename": f"{topic}={topic}-restored"}
        return {"topics": topic, "commit": str(commit), **more} if commit else {}

    def _of_log(self, earlier: TopicShape | None) -> TopicComparison:
        lag = count_lag(self.state, self.shape, self.look)
        headroom_s = self._headroom_s() if lag > 0 else None
        restorable_to_ms = self._restorable_to_ms()
        is_dated = restorable_to_ms >= 0 and lag >= 0
        facts = TopicComparison(
            topic=self.shape.topic,
            state=self._lag_state(lag, headroom_s),
            detail=self._first_failure() or self._requested_deletion(),
            restorable_to_ms=restorable_to_ms,
            lag_records=lag,
            lag_s=max(0.0, (self.look.looked_ms - restorable_to_ms) / 1000) if is_dated else None,
            headroom_s=headroom_s,
        )
        loss = self._loss_at_source(earlier)
        if loss is None:
            return facts
        return replace(
            loss,
            restorable_to_ms=restorable_to_ms,
            lag_records=lag,
            lag_s=facts.lag_s,
            headroom_s=headroom_s,
        )

    def _lag_state(self, lag: int, headroom_s: float | None) -> TopicState:
        if lag < 0:
            return TopicState.UNREAD
        if headroom_s is not None and headroom_s < LOW_HEADROOM_S:
            return TopicState.AT_RISK
        return TopicState.BEHIND if lag else TopicState.CURRENT

    def _loss_at_source(self, earlier: TopicShape | None) -> TopicComparison | None:
        if ends := list(cut_ends(self.shape, self.look)):
            loss = self._lost(TopicState.SHRUNK)
            return replace(loss, detail=self._cut_detail(ends, loss), restore=self._restore(UNKNOWN_MS, is_free=False))
        if deletions := list(early_deletions(self.state, self.shape, self.look)):
            loss = self._lost(TopicState.SHRUNK, seen_by_run_ms=UNKNOWN_MS)  # runs look at ends
            detail = self._deletion_detail(deletions, loss)
            return replace(loss, detail=detail, restore=self._restore(UNKNOWN_MS, is_free=False))
        return self._closed_branch() or self._replaced(earlier)

    def _cut_detail(self, ends: list[tuple[PartitionId, int]], loss: TopicComparison) -> str:
        partition_id, end = ends[0]
        position = self.state.positions.get(partition_id)
        reached = 0 if position is None else position.end
        now = f"ends at offset {end:,} now" if end >= 0 else "has other records now"
        return (
            f"partition {partition_id.partition} {now}, and the backup holds it up to offset {reached:,}"
            f"{_more(len(ends) - 1)}; it was cut back {describe_interval(loss)}"
        )

    def _deletion_detail(self, deletions: list[tuple[PartitionId, Segment]], loss: TopicComparison) -> str:
        partition_id, segment = deletions[0]
        start = self.look.bounds[partition_id.topic_partition].start
        return (
            f"partition {partition_id.partition} begins at offset {start:,} now: records up to "
            f"{format_time(segment.timestamp_max_ms)} are deleted, which its retention would keep"
            f"{_more(len(deletions) - 1)}; deleted {describe_interval(loss)}"
        )

    def _closed_branch(self) -> TopicComparison | None:
        """The newest old history of a log that a run found cut back, within the last week."""
        branches = [
            branch for branch in self.state.branches if branch.partition_id.incarnation == self.shape.incarnation
        ]
        newest = max(branches, key=lambda branch: branch.commit, default=None)
        commit = None if newest is None else self.state.history.find(newest.commit)
        if newest is None or commit is None or self.look.looked_ms - commit.committed_at_ms >= ALARM_MS:
            return None
        return TopicComparison(
            topic=self.shape.topic,
            state=TopicState.SHRUNK,
            alarm=True,
            detail=(
                f"partition {newest.partition_id.partition} was cut back from offset {newest.end:,} to {newest.at:,} "
                f"at {format_time(commit.committed_at_ms)} or before{_more(len(branches) - 1)}; the backup keeps the "
                "old history"
            ),
            found_ms=commit.committed_at_ms,
            restore=self._restore(UNKNOWN_MS, is_free=False, before_commit=newest.commit),
        )

    def _replaced(self, earlier: TopicShape | None) -> TopicComparison | None:
        """An earlier incarnation that a run found deleted within the last week, unless a restore made this one."""
        made = self._made()
        is_restored = made is not None and not made.problem
        if earlier is None or is_restored or self.look.looked_ms - earlier.deleted_ms >= ALARM_MS:
            return None
        return TopicComparison(
            topic=self.shape.topic,
            state=TopicState.RECREATED,
            alarm=True,
            detail=(
                f"deleted at the source at {format_time(earlier.deleted_ms)} or before, and created anew under the "
                "same name; the backup keeps the deleted topic"
            ),
            seen_ms=earlier.read_ms or UNKNOWN_MS,
            found_ms=earlier.deleted_ms,
            restore=self._restore(
                earlier.deleted_ms,
                is_free=False,
                before_commit=self.state.configs_since.get(self.shape.incarnation, self.state.seq),
            ),
        )

    def _keys(self) -> list[TopicPartition]:
        return partitions_of(self.shape, self.look)

    def _id(self, key: TopicPartition) -> PartitionId:
        return PartitionId(topic=key.topic, topic_id=self.shape.topic_id, partition=key.partition)

    def _newest_ms(self, key: TopicPartition) -> int:
        segments = self.state.segments.get(self._id(key))
        return segments.last_timestamp_ms if segments else UNKNOWN_MS

    def _restorable_to_ms(self) -> int:
        """As of the newest look or pass with all of the topic in commits, or of its newest record. The pass as in
        `BackupStatus.restorable_to_ms`: where no commit says when its ends were read, its end counts."""
        is_in_pass = not self.shape.is_deleted and not self.is_left_behind
        read_ms = self._read_by_run_ms() if self._read_by_run_ms() > 0 else self.state.completed_at_ms
        pass_ms = read_ms if is_in_pass and self.state.completed_at_ms else UNKNOWN_MS
        return recovery_point_ms(
            newest_record_ms=max(map(self._newest_ms, self._keys()), default=UNKNOWN_MS),
            last_commit_ms=self.state.committed_at_ms,
            caught_up_ms=max(pass_ms, self.sightings.caught_up_ms.get(self.shape.incarnation, UNKNOWN_MS)),
        )

    def _headroom_s(self) -> float | None:
        rule = self.look.retention.get(self.shape.topic)
        if rule is None:
            return None
        uncopied = (
            Uncopied(
                records=lag_of(self.state, self.shape, self.look, key),
                oldest_ms=self._newest_ms(key),
                log_bytes=self.look.sizes_bytes.get(key) or -1,
            )
            for key in self._keys()
        )
        rooms_s = (retention_headroom(rule, part, now_ms=self.look.looked_ms) for part in uncopied)
        return min((room_s for room_s in rooms_s if room_s is not None), default=None)

    def _requested_deletion(self) -> str:
        """Where the settings delete nothing, only requests do: an application's, which had read the records, or a
        person's. Nothing tells which, so this is no loss."""
        rule = self.look.retention.get(self.shape.topic)
        if rule is None or not rule.deletes or {rule.retention_ms, rule.retention_bytes} != {UNLIMITED}:
            return ""
        deleted = next(deleted_segments(self.state, self.shape, self.look.bounds), None)
        if deleted is None:
            return ""
        start = self.look.bounds[deleted[0].topic_partition].start
        return (
            f"partition {deleted[0].partition} begins at offset {start:,}: a request deleted what was before, of an "
            "application or a person; the settings delete nothing"
        )

    def _first_failure(self) -> str:
        return next((reason for key in self._keys() if (reason := self.look.failed.get(key))), "")


def _more(count: int) -> str:
    return f" (and {count:,} more of its partitions)" if count else ""
