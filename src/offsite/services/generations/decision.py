"""What an instance does next: the thirteen steps of Active and Passive. Pure: the state of the set and facts in, one
effect out.

    step  who       what                                           by
    1, 2  both      one is active, the other one passive           `Append(BEGUN)` of generation 1
    3     active    reads from the beginning                       `Copy`
    4     active    the time has passed                            `Append(ASKED)`
    5     active    tells it: ACTIVATE                             `Send`
    6     passive   hears it, and catches up                       `Append(BEGUN)` of the next generation
    7     passive   has an empty place                             its last one is removed, the next has a new name
    8     catch-up  reads from the beginning                       `Copy`
    9     catch-up  is at the end, and tells it: PASSIVATE         `Append(SWITCHED)`, `Seal`, `Send`
    10    active    hears it                                       it may write nothing since the switch
    11    active    removes its generation                         `Append(REMOVING)`, `Remove`
    12    active    is passive                                     `Append(REMOVED)`
    13    catch-up  is active, and goes on                         the switch said so

The ledger decides, messages only tell: one that is lost is sent again, one that comes late or twice, or that a stranger
wrote, finds a state that does not ask for it. A message counts for the one thing that it tells of: it carries its time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from offsite.repository.generations.entry import Instance, Kind
from offsite.repository.generations.generation_set import Generation, GenerationSet, Phase
from offsite.services.generations.message import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """The process that asks. `is_first`: its instance begins as the active one, where no generation is there."""

    instance: Instance
    word: str
    is_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Messages that are in the topic for everyone whom they mean: what, to which instance, of which time."""

    event: Event
    to: Instance
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known besides the ledger. `length_ms`: how long a generation is the active one. `has_joined`: this
    process has entered itself. `told`: the messages in the topic; None while nobody has looked. `has_written`: this
    process has just written there, and looks again another time. `partitions`: the highest number of partitions of a
    topic, 0 while that is not known.

    `at_end`: the generation that this instance reads was seen to reach the ends that leaders told after it had begun,
    and holds all that the active one holds, key by key (`commit`: as of which commit of its own). `may_go`: the
    generation that this instance was active with holds nothing that the active one lacks, nobody reads it, and no point
    of it is pinned; None: nobody has looked. `why_not`: why it is not `at_end` at the end of its topics, or may not go.
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
    """Enter it into the ledger, if nobody else was first."""

    kind: Kind
    generation: int = 0
    partitions: int = 0
    commit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Make sure that nothing can be added to a generation any more, then enter that."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Tell the other instance, with one message for each number of a partition below `partitions`."""

    event: Event
    to: Instance
    at_ms: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """Take back the messages for an instance that are of no more use."""

    to: Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Look at the topic: what comes next depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """Compare a generation with the one behind it, and look who reads it: whether it may go depends on it."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Read what is new into a generation, as the only one who may. `why`: why that is all, for people."""

    generation: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Remove all of a generation, then enter that."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Nothing is to be done until something changes. `why`, for people."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Another process runs this instance by now."""


Effect = Append | Seal | Send | TakeBack | Look | Compare | Copy | Remove | Rest | Stop


def decide(state: GenerationSet, me: Me, facts: Facts) -> Effect:
    """The next thing to do for `me`. After each effect but `Copy` and `Rest` it is asked again."""
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
    """Whether the process may add to that generation: asked again right before it does."""
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
    """What is left to do for it to be in the topic."""
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
    """The way of the generation that this instance was active with, after the switch."""
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
