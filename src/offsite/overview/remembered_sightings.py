"""What looks at the source of a backup saw, on this machine: a coordinator that starts again knows since when a topic
is lost. Old sightings stay true: a topic that was there was there. Only since when a loss is known can be out of date,
where nobody looked for long, and is forgotten then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsite.log.range import TopicIncarnation
from offsite.model.untrusted.json_codec import Count, JsonCodec
from offsite.overview.comparison import TopicState
from offsite.overview.source_evidence import Sightings
from offsite.repository.local_memory import RememberedFacts

KEPT_EVERY_MS = 300_000
"""Between two writes, unless a loss was found or is over: a sighting may be so much older after a restart."""
FORGOTTEN_AFTER_MS = 86_400_000
"""A loss that was found before is found anew, if nobody looked for longer."""
_FACT = "sightings"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTopic:
    """The newest looks that saw a topic, and that saw it without a loss (epoch ms)."""

    topic: str
    topic_id: str
    there_ms: Count
    whole_ms: Count | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLoss:
    topic: str
    topic_id: str
    state: TopicState
    found_ms: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    looked_ms: Count
    seen: tuple[SeenTopic, ...] = ()
    losses: tuple[FoundLoss, ...] = ()


_CODEC = JsonCodec(_Stored)


class SightingsMemory:
    """The memory of one backup. `place`: its repository."""

    def __init__(self, place: str, backup: str) -> None:
        self._facts = RememberedFacts(kind="sources", place=place, name=backup)
        self._kept_ms = -KEPT_EVERY_MS
        self._losses: Mapping[tuple[TopicIncarnation, TopicState], int] = {}

    def recall(self, now_ms: int) -> Sightings:
        """Return what earlier processes saw. `now_ms`: by the clock of the looks."""
        stored = self._facts.recall(_FACT, _CODEC.read)
        if stored is None or stored.looked_ms > now_ms:  # the clock was set back, and the order of events is unknown
            return Sightings()
        is_fresh = now_ms - stored.looked_ms < FORGOTTEN_AFTER_MS
        self._losses = {
            (TopicIncarnation(loss.topic, loss.topic_id), loss.state): loss.found_ms
            for loss in (stored.losses if is_fresh else ())
        }
        topics = {TopicIncarnation(seen.topic, seen.topic_id): seen for seen in stored.seen}
        return Sightings(
            there_ms={incarnation: seen.there_ms for incarnation, seen in topics.items()},
            whole_ms={incarnation: seen.whole_ms for incarnation, seen in topics.items() if seen.whole_ms is not None},
            found_ms=dict(self._losses),
        )

    def keep(self, sightings: Sightings, looked_ms: int) -> None:
        """Keep what a look has seen, where it is worth a write."""
        if looked_ms - self._kept_ms < KEPT_EVERY_MS and sightings.found_ms == self._losses:
            return
        self._kept_ms, self._losses = looked_ms, dict(sightings.found_ms)
        seen = (
            SeenTopic(
                topic=incarnation.topic,
                topic_id=incarnation.topic_id,
                there_ms=there_ms,
                whole_ms=sightings.whole_ms.get(incarnation),
            )
            for incarnation, there_ms in sightings.there_ms.items()
        )
        losses = (
            FoundLoss(topic=incarnation.topic, topic_id=incarnation.topic_id, state=state, found_ms=found_ms)
            for (incarnation, state), found_ms in sightings.found_ms.items()
        )
        self._facts.put(_FACT, _CODEC.write(_Stored(looked_ms=looked_ms, seen=tuple(seen), losses=tuple(losses))))
