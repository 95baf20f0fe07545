"""Decides the next action of an instance: the thirteen steps of Active and Passive. Pure: the state of the set and
facts in, an effect out.

    step  actor     action                                         by
    1, 2  both      an active and a passive instance               `AppendEntry(BEGUN)` of generation 1
    3     active    reads from the beginning                       `CopyGeneration`
    4     active    the time has passed                            `AppendEntry(ASKED)`
    5     active    announces the time: ACTIVATE                   `Send`
    6     passive   hears it, and catches up                       `AppendEntry(BEGUN)` of the next generation
    7     passive   has an empty place                             the last one is removed, the next has a new name
    8     catch-up  reads from the beginning                       `CopyGeneration`
    9     catch-up  is at the end, and announces it: PASSIVATE     `AppendEntry(SWITCHED)`, `SealGeneration`, `Send`
    10    active    hears it                                       no right to write since the switch
    11    active    removes its generation                         `AppendEntry(REMOVING)`, `RemoveGeneration`
    12    active    is passive                                     `AppendEntry(REMOVED)`
    13    catch-up  is active, and continues                       by the switch

The ledger decides, messages only inform. A lost message is sent again. A late, repeated or forged message meets a state
without need for the message. A message counts only for the announcement with the same time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from offsite.generations.message import Event
from offsite.repository.generation_sets.entry import GenerationEntryKind, Instance
from offsite.repository.generation_sets.generation_set import Generation, GenerationPhase, GenerationSet


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """The asking process. `is_first`: its instance begins as the active one if no generation exists."""

    instance: Instance
    word: str
    is_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """An announcement that is completely in the topic: the event, the addressed instance, and its time."""

    event: Event
    to: Instance
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationFacts:
    """The facts beside the ledger. `length_ms`: how long a generation is active. `has_joined`: the process has entered
    itself. `announcements`: the messages in the topic; None before a look. `has_written`: the process has just written
    to the topic, and looks again another time. `partitions`: the highest number of partitions of a topic, 0 while
    unknown.

    `at_end`: the generation read by the instance has reached the ends told by leaders after its beginning, and holds
    everything in the active generation, key by key (`commit`: as of which commit of the generation). `may_go`: the
    generation with which the instance was active holds nothing more than the active generation, nobody reads it, and
    none of its points is pinned; None: not examined yet. `why_not`: why the generation is not `at_end` at the end of
    its topics, or may not go.
    """

    now_ms: int
    length_ms: int
    has_joined: bool
    announcements: Collection[Announcement] | None = None
    has_written: bool = False
    partitions: int = 0
    at_end: bool = False
    commit: int = 0
    may_go: bool | None = None
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendEntry:
    """Append an entry to the ledger, unless another process was first."""

    kind: GenerationEntryKind
    generation: int = 0
    partitions: int = 0
    commit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SealGeneration:
    """Seal a generation so that nothing can be added any more, and enter the seal."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send the announcement to the other instance, with a message for every partition number below `partitions`."""

    event: Event
    to: Instance
    at_ms: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """Take back the obsolete messages for an instance."""

    to: Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTopic:
    """Read the topic: the next action depends on its contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareGenerations:
    """Compare a generation with its successor, and look for readers: the result decides whether it may go."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyGeneration:
    """Read new records into a generation, as the only permitted writer. `why`: why nothing more happens, for people."""

    generation: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveGeneration:
    """Remove all of a generation, and enter the removal."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Nothing to do until something changes. `why`: for people."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Stop: another process runs the instance now."""


Effect = (
    AppendEntry
    | SealGeneration
    | Send
    | TakeBack
    | ReadTopic
    | CompareGenerations
    | CopyGeneration
    | RemoveGeneration
    | Rest
    | Stop
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedEffect:
    """A completed effect that may interest a person, and the state behind the effect."""

    effect: Effect
    state: GenerationSet


def decide(state: GenerationSet, me: InstanceView, facts: GenerationFacts) -> Effect:
    """The next action for `me`. Asked again after every effect but `CopyGeneration` and `Rest`."""
    if not facts.has_joined:
        return AppendEntry(kind=GenerationEntryKind.JOINED)
    if state.holders.get(me.instance) != me.word:
        return Stop()
    active = state.active_generation
    if active is None:
        return (
            AppendEntry(kind=GenerationEntryKind.BEGUN, generation=1)
            if me.is_first
            else Rest(why="the other instance begins")
        )
    if active.instance is me.instance:
        return _active(state, me, facts, active)
    if (following := state.next_generation) is not None:
        return _catching_up(me, facts, following)
    return _passive(state, me, facts)


def may_write(state: GenerationSet, me: InstanceView, generation: int) -> bool:
    """Whether the process may add to the generation: asked again right before it writes."""
    current = state.generation(generation)
    return (
        state.holders.get(me.instance) == me.word
        and current is not None
        and current.instance is me.instance
        and current.phase in {GenerationPhase.FILLING, GenerationPhase.COMPLETE}
    )


def _active(state: GenerationSet, me: InstanceView, facts: GenerationFacts, active: Generation) -> Effect:
    old = state.predecessor
    if old is not None and old.phase is GenerationPhase.RETIRED:
        return SealGeneration(generation=old.number)
    if old is not None and old.phase is GenerationPhase.SEALED:
        to_tell = Announcement(event=Event.PASSIVATE, to=me.instance.other, at_ms=active.complete_ms)
        if (effect := _tell(to_tell, active.switch_partitions, facts)) is not None:
            return effect
    if active.phase is GenerationPhase.FILLING and facts.at_end:
        return AppendEntry(kind=GenerationEntryKind.COMPLETED, generation=active.number, commit=facts.commit)
    is_due = active.phase is GenerationPhase.COMPLETE and facts.now_ms - active.complete_ms >= facts.length_ms
    if is_due and old is None and not state.asked_ms and state.next_generation is None and facts.partitions:
        return AppendEntry(kind=GenerationEntryKind.ASKED, generation=active.number, partitions=facts.partitions)
    if state.asked_ms:
        to_tell = Announcement(event=Event.ACTIVATE, to=me.instance.other, at_ms=state.asked_ms)
        if (effect := _tell(to_tell, state.asked_partitions, facts)) is not None:
            return effect
    return CopyGeneration(generation=active.number)


def _tell(to_tell: Announcement, partitions: int, facts: GenerationFacts) -> Effect | None:
    """The remaining action until the announcement is in the topic."""
    if facts.has_written:
        return None
    if facts.announcements is None:
        return ReadTopic()
    if to_tell in facts.announcements:
        return None
    return Send(event=to_tell.event, to=to_tell.to, at_ms=to_tell.at_ms, partitions=partitions)


def _catching_up(me: InstanceView, facts: GenerationFacts, following: Generation) -> Effect:
    if facts.announcements is None and not facts.has_written:
        return ReadTopic()
    if any(announcement.to is me.instance for announcement in facts.announcements or ()):
        return TakeBack(to=me.instance)
    if facts.at_end and facts.partitions:
        return AppendEntry(
            kind=GenerationEntryKind.SWITCHED,
            generation=following.number,
            partitions=facts.partitions,
            commit=facts.commit,
        )
    return CopyGeneration(generation=following.number, why=facts.why_not)


def _passive(state: GenerationSet, me: InstanceView, facts: GenerationFacts) -> Effect:
    own_generation = next(
        (generation for generation in reversed(state.generations) if generation.instance is me.instance), None
    )
    if own_generation is not None and own_generation.phase is not GenerationPhase.REMOVED:
        return _going(state, me, facts, own_generation)
    if facts.announcements is None and not facts.has_written:
        return ReadTopic()
    announcements = facts.announcements or ()
    activation = Announcement(event=Event.ACTIVATE, to=me.instance, at_ms=state.asked_ms)
    if state.asked_ms and activation in announcements:
        return AppendEntry(kind=GenerationEntryKind.BEGUN, generation=len(state.generations) + 1)
    if any(announcement.to is me.instance and announcement.event is Event.PASSIVATE for announcement in announcements):
        return TakeBack(to=me.instance)
    return Rest(why="passive: the other instance backs up")


def _going(state: GenerationSet, me: InstanceView, facts: GenerationFacts, own_generation: Generation) -> Effect:
    """The next action for the generation that the instance was active with, after the switch."""
    if own_generation.phase is GenerationPhase.REMOVING:
        return RemoveGeneration(generation=own_generation.number)
    if own_generation.phase is not GenerationPhase.SEALED:
        return Rest(why=f"the other instance has yet to seal generation {own_generation.number}")
    if facts.announcements is None:
        return ReadTopic()
    active = state.active_generation
    if (
        active is None
        or Announcement(event=Event.PASSIVATE, to=me.instance, at_ms=active.complete_ms) not in facts.announcements
    ):
        return Rest(why=f"generation {own_generation.number} stays until the other instance reports that it took over")
    return _judged(facts, own_generation)


def _judged(facts: GenerationFacts, own_generation: Generation) -> Effect:
    if facts.may_go is None:
        return CompareGenerations(generation=own_generation.number)
    if not facts.may_go:
        return Rest(why=f"generation {own_generation.number} stays: {facts.why_not}")
    return AppendEntry(kind=GenerationEntryKind.REMOVING, generation=own_generation.number)
