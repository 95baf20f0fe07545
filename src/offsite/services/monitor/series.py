"""One series of metrics: its name, type, help and labels, declared once with how its values are read from a view.

What is scraped and the reference page both come from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from offsite.services.monitor.view import Durations, FollowView, TopicView

BACKUP = "backup"
TOPIC = "topic"


class Kind(StrEnum):
    """The type of a series that has one value at a time, as Prometheus calls it."""

    COUNTER = "counter"
    GAUGE = "gauge"


Values = Mapping[str, float] | Mapping[tuple[str, ...], float] | float | None
"""The values of a series: one for each value of its own label, or of its labels together, one alone, or none where it
is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A series of the backup as a whole. `labels`: those it has beside the backup's name, if any. `read` gives what
    there is in a view at a time (epoch ms)."""

    name: str
    kind: Kind
    help: str
    read: Callable[[FollowView, int], Values]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeries:
    """A gauge of one topic. `rest` makes one value of those of the topics that have no series of their own: the sum of
    amounts, the worst of times."""

    name: str
    help: str
    read: Callable[[FollowView, TopicView, int], float | None]
    rest: Callable[[Iterable[float]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationSeries:
    """A histogram of durations, one for all values of its `labels`; `()` where it has none."""

    name: str
    help: str
    read: Callable[[FollowView], Mapping[tuple[str, ...], Durations]]
    labels: tuple[str, ...] = ()


def seconds(time_ms: int) -> float | None:
    """A time as Prometheus wants it; None for one that is not known."""
    return None if time_ms < 0 else time_ms / 1000


def flag(*, value: bool) -> float:
    return 1.0 if value else 0.0
