"""A backup beside its living source, as shown by the command line, pages and JSON alike: values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from offsite.model.units import format_time

UNKNOWN_MS = -1


class TopicState(StrEnum):
    """What is known of a topic at the source, the worst first. `GONE`, `RECREATED` and `SHRUNK` are losses at the
    source, of which the backup has the records."""

    GONE = "gone"
    RECREATED = "recreated"
    SHRUNK = "shrunk"
    HIDDEN = "hidden"
    UNCLEAR = "unclear"
    UNREAD = "unread"
    AT_RISK = "at risk"
    NEW = "new"
    BEHIND = "behind"
    CURRENT = "current"
    RESTORED = "restored"

    @property
    def is_loss(self) -> bool:
        return self in {TopicState.GONE, TopicState.RECREATED, TopicState.SHRUNK}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicComparison:
    """A topic of the backup beside the topic at the source. `alarm`: a loss at the source that was found within the
    last week. `detail`: the facts in words. `restorable_to_ms`: everything that the source held then is in a commit
    (epoch ms, -1 unknown). `lag_records`: offsets of the source outside of all commits, -1 unknown; `lag_s`: how much
    time would be lost. `headroom_s`: see `retention_headroom`. A loss happened after `seen_ms`, when the topic was last
    seen whole, and before `found_ms` (-1 unknown). `restore`: the options of a restore of what the source lost."""

    topic: str
    state: TopicState
    alarm: bool = False
    detail: str = ""
    restorable_to_ms: int = UNKNOWN_MS
    lag_records: int = -1
    lag_s: float | None = None
    headroom_s: float | None = None
    seen_ms: int = UNKNOWN_MS
    found_ms: int = UNKNOWN_MS
    restore: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceComparison:
    """A backup beside its living source. `topics`: all topics, the worst first; `counts`: their number by state.
    `looked_ms`: when the newest look with an answer began (epoch ms by the store's clock, -1: never), `age_s` seconds
    ago. `problem`: why nothing newer is known; empty without a problem. `absent`: why the backup has no living source;
    empty where it has one. `alarms`: topics with a loss at the source that
    was found within the last week."""

    looked_ms: int = UNKNOWN_MS
    age_s: float = 0.0
    problem: str = ""
    absent: str = ""
    alarms: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    topics: tuple[TopicComparison, ...] = ()

    @classmethod
    def of(cls, topics: tuple[TopicComparison, ...], looked_ms: int) -> SourceComparison:
        """`topics`: the worst first."""
        alarms = sum(topic.alarm for topic in topics)
        return cls(looked_ms=looked_ms, topics=topics, alarms=alarms, counts=_count_states(topics))

    @property
    def alarmed(self) -> tuple[TopicComparison, ...]:
        """The topics with an alarm, which come first."""
        return self.topics[: self.alarms]

    def part(self, most: int | None, skip: int = 0) -> SourceComparison:
        """The same with `most` topics behind the `skip` worst; None: all. `counts` and `alarms` count all topics."""
        return replace(self, topics=self.topics[skip : None if most is None else skip + most])


def _count_states(topics: Iterable[TopicComparison]) -> dict[str, int]:
    """The number of topics by state, the worst state first."""
    counts = dict.fromkeys((state.value for state in TopicState), 0)
    for topic in topics:
        counts[topic.state.value] += 1
    return {state: count for state, count in counts.items() if count}


def describe_interval(loss: TopicComparison) -> str:
    """When a loss happened, as far as it is known."""
    if loss.seen_ms > 0:
        return f"between {format_time(loss.seen_ms)} and {format_time(loss.found_ms)}"
    return f"at {format_time(loss.found_ms)} or before"
