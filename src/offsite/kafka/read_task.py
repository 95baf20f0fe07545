"""What a reader is asked to read, and what it hands out."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from offsite.log.chunk import Chunk, Gap, Hole
from offsite.log.range import LogRange

Item = Chunk | Hole | Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """What to read. `topic_id`: the incarnation expected. `planned_epoch`: the leader epoch in which the range's end
    was told, -1 where it is not known. `was_compacted`: the topic's settings said so once. `owns_start`: the batch in
    which the log starts is this range's, also when it begins before; `reach_back`: any batch that reaches into it."""

    range: LogRange
    topic_id: UUID | None = None
    planned_epoch: int = -1
    was_compacted: bool = False
    owns_start: bool = True
    reach_back: bool = False
