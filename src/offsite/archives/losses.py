"""What a format has no place for, while records are written: refused by name, or counted when the user allows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from offsite.log.range import LogRange
from offsite.model.errors import NotRepresentable

__all__ = ["Losses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Of one range. `lossy`: count instead of refusing."""

    log_range: LogRange
    lossy: bool
    _counts: Counter[str] = field(default_factory=Counter, init=False)

    def note(self, offset: int, what: str) -> None:
        """The record at `offset` has `what`, which the format cannot hold. Raises `NotRepresentable` unless lossy."""
        if not self.lossy:
            raise NotRepresentable(
                f"{self.log_range.topic_partition} offset {offset}: {what}",
                hint="leave it out with --lossy, or choose a format that holds it, such as avro without --plain",
            )
        self._counts[what] += 1

    def counted(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self._counts.items()))
