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
    13    catch-up  is active, and goes on                         by the switch

The ledger decides, messages only inform. A lost message is sent again. A late, repeated or forged message meets a state
without need for the message. A message counts only for the announcement with the same time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from offsite.repository.generations.entry import Instance, Kind
from offsite.repository.generations.generation_set import Generation, GenerationSet, Phase
from offsite.services.generations.message import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """The asking process. `is_first`: its instance begins as the active one if no generation exists."""

    instance: Instance
    word: str
    is_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An announcement that is completely in the topic: the event, the addressed instance, and its time."""

    event: Event
    to: Instance
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
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
    told: Collection[Told] | None = None
    has_written: bool = False
    partitions: int = 0
    at_end: bool = False
    commit: int = 0
    may_go: bool | None = None
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Append an entry to the ledger, unless another process was first."""

    kind: Kind
    generation: int = 0
    partitions: int = 0
    commit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
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
class Look:
    """Read the topic: the next action depends on its contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """Compare a generation with its successor, and look for readers: the result decides whether it may go."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Read new records into a generation, as the only permitted writer. `why`: why nothing more happens, for people."""

    generation: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Remove all of a generation, and enter the removal."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Nothing to do until something changes. `why`: for people."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Stop: another process runs the instance now."""


Effect = Append | Seal | Send | TakeBack | Look | Compare | Copy | Remove | Rest | Stop


def decide(state: GenerationSet, me: Me, facts: Facts) -> Effect:
    """The next action for `me`. Asked again after every effect but `CopyGeneration` and `Rest`."""
    if not facts.has_joined:
        return Append(kind=Kind.JOINED)
    if state.holders.get(me.instance) != me.word:
        return Stop()
    active = state.active_generation
    if active is None:
        return Append(kind=Kind.BEGUN, generation=1) if me.is_first else Rest(why="the other instance begins")
    if active.instance is me.instance:
        return _active(state, me, facts, active)
    if (following := state.next_generation) is not None:
        return _catching_up(me, facts, following)
    return _passive(state, me, facts)


def may_write(state: GenerationSet, me: Me, generation: int) -> bool:
    """Whether the process may add to the generation: asked again right before it writes."""
    found = state.generation(generation)
    return (
        state.holders.get(me.instance) == me.word
        and found is not None
        and found.instance is me.instance
        and found.phase in {Phase.FILLING, Phase.COMPLETE}
    )


def _active(state: GenerationSet, me: Me, facts: Facts, active: Generation) -> Effect:
    old = state.predecessor
    if old is not None and old.phase is Phase.RETIRED:
        return Seal(generation=old.number)
    if old is not None and old.phase is Phase.SEALED:
        to_tell = Told(event=Event.PASSIVATE, to=me.instance.other, at_ms=active.complete_ms)
        if (effect := _tell(to_tell, active.switch_partitions, facts)) is not None:
            return effect
    if active.phase is Phase.FILLING and facts.at_end:
        return Append(kind=Kind.COMPLETED, generation=active.number, commit=facts.commit)
    is_due = active.phase is Phase.COMPLETE and facts.now_ms - active.complete_ms >= facts.length_ms
    if is_due and old is None and not state.asked_ms and state.next_generation is None and facts.partitions:
        return Append(kind=Kind.ASKED, generation=active.number, partitions=facts.partitions)
    if state.asked_ms:
        to_tell = Told(event=Event.ACTIVATE, to=me.instance.other, at_ms=state.asked_ms)
        if (effect := _tell(to_tell, state.asked_partitions, facts)) is not None:
            return effect
    return Copy(generation=active.number)


def _tell(to_tell: Told, partitions: int, facts: Facts) -> Effect | None:
    """The remaining action until the announcement is in the topic."""
    if facts.has_written:
        return None
    if facts.told is None:
        return Look()
    if to_tell in facts.told:
        return None
    return Send(event=to_tell.event, to=to_tell.to, at_ms=to_tell.at_ms, partitions=partitions)


def _catching_up(me: Me, facts: Facts, following: Generation) -> Effect:
    if facts.told is None and not facts.has_written:
        return Look()
    if any(each.to is me.instance for each in facts.told or ()):
        return TakeBack(to=me.instance)
    if facts.at_end and facts.partitions:
        return Append(kind=Kind.SWITCHED, generation=following.number, partitions=facts.partitions, commit=facts.commit)
    return Copy(generation=following.number, why=facts.why_not)


def _passive(state: GenerationSet, me: Me, facts: Facts) -> Effect:
    own = next((each for each in reversed(state.generations) if each.instance is me.instance), None)
    if own is not None and own.phase is not Phase.REMOVED:
        return _going(state, me, facts, own)
    if facts.told is None and not facts.has_written:
        return Look()
    told = facts.told or ()
    asked = Told(event=Event.ACTIVATE, to=me.instance, at_ms=state.asked_ms)
    if state.asked_ms and asked in told:
        return Append(kind=Kind.BEGUN, generation=len(state.generations) + 1)
    if any(each.to is me.instance and each.event is Event.PASSIVATE for each in told):
        return TakeBack(to=me.instance)
    return Rest(why="passive: the other instance backs up")


def _going(state: GenerationSet, me: Me, facts: Facts, own: Generation) -> Effect:
    """The next action for the generation that the instance was active with, after the switch."""
    if own.phase is Phase.REMOVING:
        return Remove(generation=own.number)
    if own.phase is not Phase.SEALED:
        return Rest(why=f"the other instance has yet to seal generation {own.number}")
    if facts.told is None:
        return Look()
    active = state.active_generation
    if active is None or Told(event=Event.PASSIVATE, to=me.instance, at_ms=active.complete_ms) not in facts.told:
        return Rest(why=f"generation {own.number} stays until the other instance says that it took over")
    return _judged(facts, own)


def _judged(facts: Facts, own: Generation) -> Effect:
    if facts.may_go is None:
        return Compare(generation=own.number)
    if not facts.may_go:
        return Rest(why=f"generation {own.number} stays: {facts.why_not}")
    return Append(kind=Kind.REMOVING, generation=own.number)
