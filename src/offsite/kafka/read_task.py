"""Input and output of a reader."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from offsite.log.chunk import Chunk, Gap, Hole
from offsite.log.range import LogRange

Item = Chunk | Hole | Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """A range to read. `topic_id`: the expected incarnation. `planned_epoch`: the leader epoch in which the range's end
    was told, -1 where unknown. `was_compacted`: the topic's settings once named compaction. `owns_start`: the range
    includes the batch in which the log starts, even a batch that begins before the range. `reach_back`: the range
    includes any batch that reaches into the range."""

    range: LogRange
    topic_id: UUID | None = None
    planned_epoch: int = -1
    was_compacted: bool = False
    owns_start: bool = True
    reach_back: bool = False
