"""How far each topic of a running restore is, by the ends of the logs in the target: what an earlier attempt wrote
counts, and no worker has to tell.

A topic that keeps its offsets is measured in offsets of the source, any other in records. Aborted records count
although they may not be written: an end may stay below its total. For people only; a look that fails is left out.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.kafka.net.routing import shared_router
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import OffsiteError
from offsite.model.journal import failed, safe_line, safe_trace
from offsite.repository.restores.record import get_targets
from offsite.restore.offsets import OffsetsVerdict
from offsite.restore.plan import PlannedRestore
from offsite.restore.write.pieces import log_start
from offsite.restore.write.plan import TopicRestore

LOOK_S = 3.0
"""Seconds between two looks: one request to each broker."""
_PATIENCE_S = 5.0
_RATE_LOOKS = 10
"""Looks over which a rate is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProgress:
    """A target topic: `done` of `total` offsets or records are there, `rate` more in a second of late."""

    topic: str
    done: int
    total: int
    rate: int = 0

    @property
    def is_done(self) -> bool:
        return self.done >= self.total

    @property
    def remaining_s(self) -> float | None:
        """Seconds until all are there, at the present rate; None: nothing came of late."""
        return (self.total - self.done) / self.rate if self.rate else None


OnTopics = Callable[[tuple[TopicProgress, ...]], None]


class TopicWatch:
    """Looks at the targets of one restore."""

    def __init__(self, prepared: PlannedRestore, admin: ClusterAdmin, clock: Clock) -> None:
        self._prepared, self._admin, self._clock = prepared, admin, clock
        self._looks: deque[tuple[float, Mapping[str, int]]] = deque(maxlen=_RATE_LOOKS)

    def look(self) -> tuple[TopicProgress, ...]:
        """All topics as they are now, none before the restore has made them. Raises the errors of store and cluster."""
        prepared = self._prepared
        targets = get_targets(prepared.backup.record_store, prepared.layout)
        if targets is None:
            return ()
        starts = dict(targets.starts)
        ends = {key: bounds.end for key, bounds in self._admin.bounds(starts, patience_s=_PATIENCE_S).bounds.items()}
        kept = {verdict.target: verdict for verdict in prepared.offsets if verdict.preserve}
        topics = tuple(_progress(topic, kept.get(topic.target), starts, ends) for topic in prepared.plan.topics)
        self._looks.append((self._clock.monotonic_s(), {topic.topic: topic.done for topic in topics}))
        return tuple(replace(topic, rate=self._rate(topic.topic)) for topic in topics)

    def _rate(self, topic: str) -> int:
        (first_s, first), (last_s, last) = self._looks[0], self._looks[-1]
        grown = last[topic] - first.get(topic, 0)
        return max(0, round(grown / (last_s - first_s))) if last_s > first_s else 0


def _progress(
    topic: TopicRestore,
    verdict: OffsetsVerdict | None,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> TopicProgress:
    """The progress of a topic whose partitions began at `starts`. `verdict`: if the topic keeps its offsets."""
    if verdict is None:
        done = sum(max(0, ends.get(key, start) - start) for key, start in starts.items() if key.topic == topic.target)
        return TopicProgress(topic=topic.target, done=min(done, topic.records), total=topic.records)
    chains = [(kept.partition.target, kept.partition.chain) for kept in verdict.partitions]
    spans = [(key, log_start(chain), chain.end) for key, chain in chains]
    done = sum(min(max(0, ends.get(key, 0) - start), end - start) for key, start, end in spans)
    return TopicProgress(topic=topic.target, done=done, total=sum(end - start for _, start, end in spans))


@contextmanager
def watching_topics(
    prepared: PlannedRestore, cluster: Cluster, on_topics: OnTopics | None, clock: Clock | None = None
) -> Iterator[None]:
    """A block in which a thread looks again and again, and tells `on_topics`; None: nobody looks."""
    if on_topics is None:
        yield
        return
    most_ms = min(cluster.config.request_timeout_ms, int(1000 * _PATIENCE_S))
    admin = ClusterAdmin(shared_router(replace(cluster.config, request_timeout_ms=most_ms)))
    watch, over = TopicWatch(prepared, admin, clock or SystemClock()), threading.Event()
    thread = threading.Thread(target=_look_until, args=(over, watch, on_topics), name="offsite-topics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(LOOK_S)


def _look_until(over: threading.Event, watch: TopicWatch, on_topics: OnTopics) -> None:
    while not over.wait(LOOK_S):
        try:
            on_topics(watch.look())
        except OffsiteError:  # the next look may succeed
            continue
        except Exception as error:  # noqa: BLE001  # a display must not end a restore
            failed("topic_progress", why=safe_line(error), trace=safe_trace(error))
            return
