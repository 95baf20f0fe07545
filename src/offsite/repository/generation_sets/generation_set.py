"""The state of a set: the sum of the ledger. Pure. Reader and writer both refuse a forbidden entry.

A single generation is active: the first from the beginning, a later generation from the switch, a single entry. Two are
therefore never active, whatever instances believe: a writer must have read all earlier entries (entry numbers are dense
and create-only), and a forbidden entry is void.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from offsite.repository.generation_sets.entry import (
    Founding,
    GenerationEntry,
    GenerationEntryKind,
    Instance,
)
from offsite.stores.numbered_log import EntryRefusedError, LedgerEntryInfo

_SPOKEN_BY_ANYBODY = frozenset({GenerationEntryKind.FOUNDED, GenerationEntryKind.JOINED, GenerationEntryKind.RELEASED})


class GenerationPhase(StrEnum):
    """The progress of a generation, in order. From `complete` on, the generation held all of the topics at some moment,
    and exists as a whole until `removing`."""

    FILLING = "filling"
    COMPLETE = "complete"
    RETIRED = "retired"
    SEALED = "sealed"
    REMOVING = "removing"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A generation, with the reading instance. Times: epoch ms by the store's clock, 0 for not yet.
    `switch_partitions`: the number of partition numbers to which the switch is announced. `released`: the entry that
    lets the generation go even with unique records."""

    number: int
    instance: Instance
    phase: GenerationPhase
    began_ms: int
    complete_ms: int = 0
    switch_partitions: int = 0
    retired_ms: int = 0
    removed_ms: int = 0
    released: LedgerEntryInfo | None = None

    @property
    def is_released(self) -> bool:
        """Whether the ledger has a release. A release in the ledger may be forged (see `local_memory`)."""
        return self.released is not None

    @property
    def is_whole(self) -> bool:
        """Whether a restore is possible: the generation was complete once, and nothing was removed."""
        return self.phase in {GenerationPhase.COMPLETE, GenerationPhase.RETIRED, GenerationPhase.SEALED}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSet:
    """The state of a set behind entry `seq`, whose hash is `head`. `holders`: instance → the word of its process, which
    named itself in `joined_by`. `active`: the number of the active generation, 0 before the first. `asked_ms`: since
    when the next generation is asked for (0: not asked for, or begun), with messages for `asked_partitions` partition
    numbers."""

    name: str
    seq: int = 0
    head: str = ""
    founding: Founding | None = None
    holders: Mapping[Instance, str] = field(default_factory=dict)
    joined_by: Mapping[Instance, str] = field(default_factory=dict)
    generations: tuple[Generation, ...] = ()
    active: int = 0
    asked_ms: int = 0
    asked_partitions: int = 0

    def generation(self, number: int) -> Generation | None:
        return self.generations[number - 1] if 1 <= number <= len(self.generations) else None

    @property
    def active_generation(self) -> Generation | None:
        return self.generation(self.active)

    @property
    def next_generation(self) -> Generation | None:
        """The generation being read to replace the active generation, if any."""
        return self.generation(self.active + 1) if self.active else None

    @property
    def predecessor(self) -> Generation | None:
        """The previously active generation, unless removed."""
        previous = self.generation(self.active - 1)
        return previous if previous is not None and previous.phase is not GenerationPhase.REMOVED else None

    @property
    def restorable(self) -> Generation | None:
        """The generation to restore from: the newest that is whole."""
        return next((generation for generation in reversed(self.generations) if generation.is_whole), None)


def apply_entry(state: GenerationSet, entry: GenerationEntry, head: str) -> GenerationSet:
    """The state behind an entry whose bytes have the hash `head`. Raises `EntryRefusedError`."""
    if (entry.seq, entry.previous) != (state.seq + 1, state.head):
        raise EntryRefusedError(f"entry {entry.seq} does not follow entry {state.seq}")
    if entry.kind not in _SPOKEN_BY_ANYBODY and state.holders.get(entry.instance) != entry.word:
        raise EntryRefusedError(f"entry {entry.seq} is by a process that does not run instance {entry.instance}")
    changed = _APPLIED[entry.kind](state, entry)
    if entry.kind is GenerationEntryKind.RELEASED and (generation := changed.generation(entry.generation)) is not None:
        word = LedgerEntryInfo(hash=head, by=entry.by, at_ms=entry.at_ms)
        changed = _with(changed, replace(generation, released=word))
    return replace(changed, seq=entry.seq, head=head)


def _need(condition: object, rule: str) -> None:
    if not condition:
        raise EntryRefusedError(rule)


def _founded(state: GenerationSet, entry: GenerationEntry) -> GenerationSet:
    _need(state.founding is None and entry.founding is not None, "a set is founded once")
    return replace(state, founding=entry.founding)


def _joined(state: GenerationSet, entry: GenerationEntry) -> GenerationSet:
    _need(state.founding is not None, "an instance joins only an existing set")
    return replace(
        state,
        holders={**state.holders, entry.instance: entry.word},
        joined_by={**state.joined_by, entry.instance: entry.by},
    )


def _begun(state: GenerationSet, entry: GenerationEntry) -> GenerationSet:
    _need(entry.generation == len(state.generations) + 1, "generations are numbered in turn")
    _need(state.next_generation is None, "one generation at a time is read to follow the active one")
    active = state.active_generation
    if active is not None:
        _need(state.asked_ms, "the next generation begins after a request of the active generation")
        _need(active.instance is not entry.instance, "the other instance reads the next generation")
    own_generations = [generation for generation in state.generations if generation.instance is entry.instance]
    _need(
        all(generation.phase is GenerationPhase.REMOVED for generation in own_generations),
        "an instance removes its last generation first",
    )
    new = Generation(
        number=entry.generation, instance=entry.instance, phase=GenerationPhase.FILLING, began_ms=entry.at_ms
    )
    return replace(
        state,
        generations=(*state.generations, new),
        active=state.active or entry.generation,
        asked_ms=0,
        asked_partitions=0,
    )


def _completed(state: GenerationSet, entry: GenerationEntry) -> GenerationSet:
    generation = _of(state, entry, GenerationPhase.FILLING)
    _need(generation.number == state.active, "a later generation is complete by the switch to it")
    return _with(state, replace(generation, phase=GenerationPhase.COMPLETE, complete_ms=entry.at_ms))


def _asked(state: GenerationSet, entry: GenerationEntry) -> GenerationSet:
    generation = _of(state, entry, GenerationPhase.COMPLETE)
    _need(generation.number == state.active, "only the active generation requests the next generation")
    _need(not state.asked_ms and state.next_generation is None, "the next generation is requested once")
    _need(entry.at_ms > 0 and entry.partitions > 0, "a request has a time and partitions")
    return replace(state, asked_ms=entry.at_ms, asked_partitions=entry.partitions)


def _switched(state: GenerationSet, entry: GenerationEntry) -> GenerationSet:
    new, old = _of(state, entry, GenerationPhase.FILLING), state.active_generation
    if old is None or new.number != state.active + 1 or not entry.partitions:
        raise EntryRefusedError("a switch leads to the next generation, and is announced in some partitions")
    state = _with(state, replace(old, phase=GenerationPhase.RETIRED, retired_ms=entry.at_ms))
    new = replace(new, phase=GenerationPhase.COMPLETE, complete_ms=entry.at_ms, switch_partitions=entry.partitions)
    return replace(_with(state, new), active=new.number)


def _sealed(state: GenerationSet, entry: GenerationEntry) -> GenerationSet:
    old = _any(state, entry, GenerationPhase.RETIRED)
    active = state.active_generation
    _need(active is not None and active.instance is entry.instance, "the active instance seals the generation before")
    return _with(state, replace(old, phase=GenerationPhase.SEALED))


def _released(state: GenerationSet, entry: GenerationEntry) -> GenerationSet:
    generation = state.generation(entry.generation)
    is_followed = generation is not None and generation.number == state.active and state.next_generation is not None
    if generation is None or not (is_followed or generation.phase in {GenerationPhase.RETIRED, GenerationPhase.SEALED}):
        raise EntryRefusedError("only a generation that was replaced, or is being replaced, can be released")
    return state


def _removing(state: GenerationSet, entry: GenerationEntry) -> GenerationSet:
    return _with(state, replace(_of(state, entry, GenerationPhase.SEALED), phase=GenerationPhase.REMOVING))


def _removed(state: GenerationSet, entry: GenerationEntry) -> GenerationSet:
    generation = _of(state, entry, GenerationPhase.REMOVING)
    return _with(state, replace(generation, phase=GenerationPhase.REMOVED, removed_ms=entry.at_ms))


_APPLIED: Mapping[GenerationEntryKind, Callable[[GenerationSet, GenerationEntry], GenerationSet]] = {
    GenerationEntryKind.FOUNDED: _founded,
    GenerationEntryKind.JOINED: _joined,
    GenerationEntryKind.BEGUN: _begun,
    GenerationEntryKind.COMPLETED: _completed,
    GenerationEntryKind.ASKED: _asked,
    GenerationEntryKind.SWITCHED: _switched,
    GenerationEntryKind.SEALED: _sealed,
    GenerationEntryKind.RELEASED: _released,
    GenerationEntryKind.REMOVING: _removing,
    GenerationEntryKind.REMOVED: _removed,
}


def _of(state: GenerationSet, entry: GenerationEntry, phase: GenerationPhase) -> Generation:
    """The generation of the entry, which must belong to its instance."""
    generation = _any(state, entry, phase)
    _need(generation.instance is entry.instance, f"generation {entry.generation} is of the other instance")
    return generation


def _any(state: GenerationSet, entry: GenerationEntry, phase: GenerationPhase) -> Generation:
    generation = state.generation(entry.generation)
    if generation is None or generation.phase is not phase:
        raise EntryRefusedError(f"generation {entry.generation} is not {phase}")
    return generation


def _with(state: GenerationSet, changed: Generation) -> GenerationSet:
    numbers = (changed if generation.number == changed.number else generation for generation in state.generations)
    return replace(state, generations=tuple(numbers))
