"""What a run that follows tells of itself: the view of it, made anew after each round from what the round saw.

Evidence only: a topic counts as caught up when a round that began then found every partition's end in a commit. A round
asks for ends before it copies, so what came meanwhile is newer than that time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from offsite.copy.plan import PartitionBounds
from offsite.kafka.protocol.configs import TopicConfigs
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.repository.backup import Backup
from offsite.repository.commit import PartitionId
from offsite.repository.state import BackupState
from offsite.services.follow.follower import Round
from offsite.services.monitor.headroom import Retention, Uncopied, retention_headroom
from offsite.services.monitor.repository_view import read_repository_view
from offsite.services.monitor.view import UNKNOWN_MS, FollowView, Outage, TopicView
from offsite.services.outages import Outage as FailedRounds
from offsite.spark.runner import RunProgress

CHECKS_EVERY_S = 600.0
"""Seconds between two looks at what the repository remembers of verify and drills."""
ALIVE_EVERY_S = 5.0
LAGGING_MAX = 200
"""Topics whose retention is asked for in a round: in a long first pass all of them are behind."""


class TopicSettings(Protocol):
    """The settings of topics, those that are the default included if wanted."""

    def readable_topic_configs(self, names: list[str], *, with_defaults: bool = False) -> TopicConfigs: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    """A partition at the end of a round."""

    bounds: PartitionBounds
    end: int
    newest_ms: int

    @property
    def lag(self) -> int:
        return max(0, self.bounds.end - self.end)


class FollowWatch:
    """Keeps the view of one run; `show` is given each new one."""

    def __init__(
        self,
        view: FollowView,
        *,
        backup: Callable[[], Backup],
        settings: TopicSettings,
        clock: Clock,
        show: Callable[[FollowView], None],
    ) -> None:
        self._view = view
        self._backup, self._settings, self._clock, self._show = backup, settings, clock, show
        self._newest_ms: dict[PartitionId, int] = {}
        self._caught_up_ms: dict[str, int] = {}
        self._checked_s = self._shown_s = clock.monotonic_s() - CHECKS_EVERY_S

    def round(self, ended: Round) -> None:
        """Take a round that has ended."""
        view, state, result = self._view, ended.state, ended.result
        failed = Counter(each.error for each in state.left_behind)
        view = replace(
            view,
            round_ended_ms=self._clock.now_ms(),
            rounds=view.rounds + 1,
            passes=view.passes + (not failed),
            pass_complete=not failed,
            head_commit=state.seq,
            last_commit_ms=state.committed_at_ms,
            holes=Counter(hole.reason for hole in state.holes),
            failed=failed,
            outage=None,
            round_durations=view.round_durations.with_one(ended.took_s),
            throttled_ms=view.throttled_ms + int(ended.throttled_s * 1000),
        )
        for commit_s in ended.commits_s:
            view = replace(view, commits=view.commits + 1, commit_durations=view.commit_durations.with_one(commit_s))
        if result is not None:
            view = replace(
                view,
                records=view.records + result.records,
                bytes_read=view.bytes_read + result.bytes,
                bytes_written=view.bytes_written + result.stored_bytes,
            )
        self._set(self._with_checks(replace(view, topics=tuple(self._topics(ended)))))

    def outage(self, outage: FailedRounds | None) -> None:
        """Take a round that failed, or the end of an outage: it copies again, and has not all that there is yet."""
        view = self._view
        if outage is None:
            if view.outage is not None:
                self._set(replace(view, outage=None, pass_complete=False))
            return
        error = outage.error
        view = replace(view, retries=Counter(view.retries) + Counter([error.id]))
        if outage.attempts == 1:
            view = replace(view, outages=Counter(view.outages) + Counter([error.id]))
        told = Outage(error_id=error.id, message=error.message, since_ms=outage.since_ms)
        self._set(replace(view, outage=told))

    def progress(self, _: RunProgress) -> None:
        """Take a sign of life of a round that is under way."""
        if self._clock.monotonic_s() - self._shown_s >= ALIVE_EVERY_S:
            self._set(self._view)

    def _set(self, view: FollowView) -> None:
        self._view, self._shown_s = view, self._clock.monotonic_s()
        self._show(view)

    def _with_checks(self, view: FollowView) -> FollowView:
        """With what the repository remembers; what cannot be read stays as it was."""
        if self._clock.monotonic_s() - self._checked_s < CHECKS_EVERY_S:
            return view
        self._checked_s = self._clock.monotonic_s()
        try:
            return replace(view, repository=read_repository_view(self._backup(), now_ms=self._clock.now_ms()))
        except OffsiteError as error:
            warned("checks_unread", error=error.id, why=error.message)
            return view

    def _topics(self, ended: Round) -> Iterator[TopicView]:
        state = ended.state
        self._note_newest(ended)
        of_topic: defaultdict[str, list[_Partition]] = defaultdict(list)
        for bounds in ended.plan.copy.bounds:
            position = state.positions.get(bounds.partition_id)
            end = bounds.log_start if position is None else position.end
            newest_ms = self._newest_ms.get(bounds.partition_id, UNKNOWN_MS)
            of_topic[bounds.topic].append(_Partition(bounds=bounds, end=end, newest_ms=newest_ms))
        first_ms = state.history[0].committed_at_ms if state.history else UNKNOWN_MS
        retention = self._retention([topic for topic, found in of_topic.items() if any(each.lag for each in found)])
        for shape in ended.plan.source.shapes:
            found = of_topic[shape.topic]
            is_seen = len(found) == shape.partitions
            lag = sum(each.lag for each in found)
            if is_seen and not lag:
                self._caught_up_ms[shape.topic] = ended.began_ms
            newest_ms = max((each.newest_ms for each in found), default=UNKNOWN_MS)
            yield TopicView(
                topic=shape.topic,
                restorable_from_ms=first_ms if newest_ms != UNKNOWN_MS else UNKNOWN_MS,
                newest_record_ms=newest_ms,
                caught_up_ms=self._caught_up_ms.get(shape.topic, UNKNOWN_MS),
                lag_records=lag if is_seen else -1,
                headroom_s=self._headroom(found, retention.get(shape.topic)),
            )

    def _note_newest(self, ended: Round) -> None:
        """The times of the newest records: of all partitions once, then of those that were copied."""
        copied = {task.partition_id for task in ended.plan.copy.tasks}
        moved = copied if self._newest_ms else set(ended.state.segments)
        for known in sorted(moved):
            if (newest_ms := _newest_ms(ended.state, known)) != UNKNOWN_MS:
                self._newest_ms[known] = max(newest_ms, self._newest_ms.get(known, UNKNOWN_MS))

    def _retention(self, lagging: list[str]) -> Mapping[str, Retention]:
        if not lagging:
            return {}
        try:
            found = self._settings.readable_topic_configs(sorted(lagging)[:LAGGING_MAX], with_defaults=True)
        except OffsiteError as error:
            warned("retention_unread", error=error.id, why=error.message)
            return {}
        return {topic: Retention.of(configs) for topic, configs in found.configs.items()}

    def _headroom(self, partitions: list[_Partition], retention: Retention | None) -> float | None:
        """The least of a topic's partitions."""
        if retention is None:
            return None
        now_ms = self._clock.now_ms()
        found = [
            retention_headroom(
                retention,
                Uncopied(records=each.lag, oldest_ms=each.newest_ms, log_bytes=each.bounds.size_bytes or -1),
                now_ms=now_ms,
            )
            for each in partitions
            if each.lag
        ]
        return min((each for each in found if each is not None), default=None)


def _newest_ms(state: BackupState, known: PartitionId) -> int:
    found = state.segments.get(known)
    last = found.last if found else None
    return UNKNOWN_MS if last is None else last.timestamp_max_ms
