"""What a generation is read into: the port, and what is compared of two generations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from offsite.repository.generations.removal import Announce

Held = Mapping[tuple[str, str, int], int]
"""(topic, topic id, partition) → the offset behind the last one that a generation holds, above 0."""


class RoleChangedError(Exception):
    """Somebody has decided since that this process may not write there."""


Guard = Callable[[], None]
"""Called when it is known behind what the next bytes will count, and before they can. Raises `RoleChangedError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a round has shown. `at_end`: it reached the end of each partition that its leader told in this round, and
    none was left out; `held` by then, as of commit `commit` (0 where there are no commits). `topics`: name and id of
    all that are selected and there. `partitions`: the highest number of partitions of one of them."""

    at_end: bool
    held: Held
    topics: frozenset[tuple[str, str]]
    commit: int
    partitions: int


class GenerationTarget(Protocol):
    """Where generations lie, each in a place of its own that no other one ever has: numbers are not used again."""

    def uncompacted(self) -> Sequence[str]:
        """The topics that are to be read of which nobody can say that they are compacted."""

    def place_taken(self, generation: int) -> str:
        """Where something lies in the place of a generation that has not begun; empty where nothing does."""

    def copy(self, generation: int, guard: Guard) -> Copied:
        """One round: read what is new since the last one, from offset 0 on where there was none."""

    def held(self, generation: int) -> Held:
        """What a generation holds, as it can be read from its place; changes nothing there."""

    def lost(self, old: int, new: int, topics: Collection[tuple[str, str]] | None = None) -> tuple[str, ...]:
        """What generation `old` holds and `new` lacks, read key by key: a sentence each. Of `topics`, by name and id,
        only (None: of all). It may take as long as to read both."""

    def seal(self, generation: int) -> None:
        """See to it that whoever was about to add to the generation finds that it cannot. Can be repeated."""

    def is_read(self, generation: int) -> bool:
        """Whether somebody is known to read the generation now."""

    def is_pinned(self, generation: int) -> bool:
        """Whether a person has said that a restore point of the generation stays."""

    def disputed_pin(self, generation: int) -> str:
        """Why a pin that is not there any more holds: whoever took it off is not believed. Asked right before the
        generation goes; empty where there is none."""

    def is_there(self, generation: int) -> bool:
        """Whether what goes first when it is removed is still there, so that nothing is gone yet."""

    def remove(self, generation: int, announce: Announce) -> bool:
        """Remove all of it, what says that it is there first; False where somebody still reads it, and the rest has to
        wait. Can be repeated, and begun anew after a crash."""

    def sweep(self, generation: int, announce: Announce, *, removed_ms: int) -> None:
        """Remove what came back of a generation that was removed at `removed_ms`: a process may have been stopped for
        long in front of its last put."""


def lacking(new: Held, old: Held) -> tuple[str, ...]:
    """What `old` holds and `new` does not, in words, a few of them."""
    found = (
        f"{topic}/{partition} up to offset {end}"
        + ("" if (topic, topic_id, partition) in new else " (another topic of that name, or deleted)")
        for (topic, topic_id, partition), end in sorted(old.items())
        if new.get((topic, topic_id, partition), 0) < end
    )
    return tuple(found)
