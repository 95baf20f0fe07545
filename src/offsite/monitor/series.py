"""A series of metrics: its name, type, help and labels, declared once together with the reading of its values from a
view.

Scrapes and the reference page both come from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from offsite.monitor.view import Durations, FollowView, TopicView

BACKUP = "backup"
TOPIC = "topic"


class MetricType(StrEnum):
    """The type of a single-valued series, in Prometheus' terms."""

    COUNTER = "counter"
    GAUGE = "gauge"


Values = Mapping[str, float] | Mapping[tuple[str, ...], float] | float | None
"""The values of a series: by the value of its label, by the values of its labels, a single value, or None where
unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A series of the whole backup. `labels`: labels beside the backup's name, if any. `read` takes a view and a time
    (epoch ms)."""

    name: str
    kind: MetricType
    help: str
    read: Callable[[FollowView, int], Values]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeries:
    """A gauge of a topic. `merge` combines the values of topics without a series of their own: the sum of amounts, the
    worst of times."""

    name: str
    help: str
    read: Callable[[FollowView, TopicView, int], float | None]
    merge: Callable[[Iterable[float]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationSeries:
    """A histogram of durations, by the values of its `labels`; `()` without labels."""

    name: str
    help: str
    read: Callable[[FollowView], Mapping[tuple[str, ...], Durations]]
    labels: tuple[str, ...] = ()


def seconds(time_ms: int) -> float | None:
    """A time as Prometheus expects; None for an unknown time."""
    return None if time_ms < 0 else time_ms / 1000


def flag(*, value: bool) -> float:
    return 1.0 if value else 0.0
