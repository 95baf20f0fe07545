"""An instance of a set as a process: decides, acts, and decides again.

The memory of the process never counts. The ledger is read on before every decision, and once more when the predecessor
of the next commit is known: a process without the right to write learns the fact from the ledger, or loses the commit
to the seal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from offsite.backup.outages import Outages
from offsite.generations.decision import (
    Announcement,
    AppendEntry,
    CompareGenerations,
    CopyGeneration,
    Effect,
    GenerationFacts,
    InstanceView,
    ReadTopic,
    RemoveGeneration,
    Rest,
    SealGeneration,
    Send,
    Stop,
    TakeBack,
    decide,
    may_write,
)
from offsite.generations.removals import RemovalAudit, doubt_of
from offsite.generations.target import GenerationEnds, GenerationTarget, RoleChangedError, RoundResult, lacking
from offsite.model.clock import Clock
from offsite.model.errors import (
    Bug,
    GenerationRefused,
    GenerationsDiffer,
    GenerationTakenOver,
    NotCompacted,
    OffsiteError,
)
from offsite.model.journal import decided, warned
from offsite.model.names import named
from offsite.repository.generation_sets.entry import Founding, GenerationEntry, GenerationEntryKind
from offsite.repository.generation_sets.generation_set import (
    GenerationPhase,
    GenerationSet,
)
from offsite.repository.generation_sets.layout import SetLayout
from offsite.repository.generation_sets.ledger import KeptGeneration, SetLedger, put_kept
from offsite.repository.removal import KEPT_MS
from offsite.stores.numbered_log import EntryRefusedError

_EFFECTS_MAX = 50
"""Effects between two rounds: a few are normal; more would be a loop."""

COMPARED_AGAIN_AFTER = 60
"""Rounds after which two generations, one lacking something, are read and compared again, key by key."""
_NAMED_MAX = 3


class Coordination(Protocol):
    """The coordination topic, as used by the instances of a set."""

    def announcements(self, state: GenerationSet) -> frozenset[Announcement]:
        """The complete announcements in the topic for the instances of the set."""

    def send(self, effect: Send, *, ends: GenerationEnds) -> None:
        """Write the messages, with the ends of the active generation; they are in the topic on return."""

    def take_back(self, effect: TakeBack) -> None:
        """Take back all messages for the instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedEffect:
    """A completed effect that may interest a person, and the state behind the effect."""

    effect: Effect
    state: GenerationSet


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceContext:
    """The parts that an instance works with. `length_ms`: how long a generation is active."""

    ledger: SetLedger
    target: GenerationTarget
    coordination: Coordination
    founding: Founding
    me: InstanceView
    by: str
    length_ms: int


class RunningInstance:
    """A process of an instance. `on_effect` is called with its effects."""

    def __init__(self, context: InstanceContext, *, on_effect: Callable[[CompletedEffect], None]) -> None:
        self._with, self._on_happened = context, on_effect
        self._audit = RemovalAudit(context.ledger)
        self._state: GenerationSet | None = None
        self._has_joined = self._has_looked = self._is_behind = False
        self._comparison = GenerationComparison()
        self._behind_before: Sequence[str] = ()
        self._kept: KeptGeneration | None = None
        self._why_not = ""

    def run(self, *, outages: Outages, clock: Clock, interval_s: float) -> None:
        """Run until an interrupt or a final error. Raises `GenerationTakenOver`, `GenerationsDiffer`, and errors that
        cannot be waited out."""
        while True:
            began_s = clock.monotonic_s()
            try:
                self.step()
            except GenerationTakenOver:
                raise  # a successor does not go away again
            except OffsiteError as error:
                self._state = None  # nobody knows the last entry
                outages.wait(error)
                continue
            outages.worked()
            left_s = (interval_s - (clock.monotonic_s() - began_s)) * self._share_to_wait()
            if left_s > 0:
                clock.sleep(left_s)

    def _share_to_wait(self) -> float:
        """The share of the interval to wait. A process that reached an end behind the moving active generation waits
        for a random share: otherwise two processes of the same rhythm might never meet."""
        return random.uniform(0, 1) if self._is_behind else 1.0  # noqa: S311  # jitter, not cryptography

    def step(self) -> Effect:
        """Do what is due, with at most a round of reading; returns the next effect. Raises the errors of ledger, target
        and topic."""
        self._ensure_founded()
        self._ensure_topic()
        facts, has_copied = self._facts(), False
        for _ in range(_EFFECTS_MAX):
            effect = decide(self._read(), self._with.me, facts)
            is_over = isinstance(effect, Rest) or (isinstance(effect, CopyGeneration) and has_copied)
            next_facts = None if is_over else self._done(effect, facts, has_copied=has_copied)
            self._on_happened(CompletedEffect(effect=effect, state=self._read()))
            if next_facts is None:
                return effect
            facts, has_copied = next_facts, has_copied or isinstance(effect, CopyGeneration)
        raise Bug("an instance of generations repeats its steps without progress")

    def _done(self, effect: Effect, facts: GenerationFacts, *, has_copied: bool) -> GenerationFacts | None:
        """Carry out as `_do`. An obstacle to the cycle, such as an unreadable topic or damage in a removed generation,
        is no obstacle to the backup: a round is read before the error is raised."""
        try:
            return self._do(effect, facts)
        except OffsiteError:
            if not has_copied and not isinstance(effect, CopyGeneration):
                self._copy_own(facts)
            raise

    def _copy_own(self, facts: GenerationFacts) -> None:
        """Do a round of the generation that the process may write, if any."""
        state, me = self._read(), self._with.me
        own_number = next(
            (generation.number for generation in state.generations if may_write(state, me, generation.number)), None
        )
        if own_number is not None:
            self._copy(own_number, facts)

    def _do(self, effect: Effect, facts: GenerationFacts) -> GenerationFacts | None:
        """The facts after the effect; None where the rest has to wait."""
        next_facts: GenerationFacts | None = facts
        match effect:
            case AppendEntry():
                self._append(effect)
                next_facts = replace(facts, has_joined=self._has_joined)
            case SealGeneration(generation=number):
                self._with.target.seal(number)
                self._append(AppendEntry(kind=GenerationEntryKind.SEALED, generation=number))
            case ReadTopic():
                next_facts = replace(facts, announcements=self._with.coordination.announcements(self._read()))
            case Send():
                self._with.coordination.send(effect, ends=self._with.target.ends(self._read().active))
                next_facts = replace(facts, announcements=None, has_written=True)
            case TakeBack():
                self._with.coordination.take_back(effect)
                next_facts = replace(facts, announcements=None, has_written=True)
            case CopyGeneration(generation=number):
                next_facts = self._copy(number, facts)
            case CompareGenerations(generation=number):
                next_facts = self._may_go(number, facts)
            case RemoveGeneration(generation=number):
                next_facts = facts if self._remove(number) else None
            case Stop():
                raise self._taken_over()
        return next_facts

    def _read(self) -> GenerationSet:
        self._state = self._with.ledger.read(self._state)
        return self._state

    def _facts(self) -> GenerationFacts:
        state, me = self._read(), self._with.me
        active = state.active_generation
        self._has_joined = self._has_joined or state.holders.get(me.instance) == me.word
        is_mine = active is not None and active.instance is me.instance
        return GenerationFacts(
            now_ms=self._with.ledger.store.now_ms() if is_mine else 0,  # on some stores it costs a put
            length_ms=self._with.length_ms,
            has_joined=self._has_joined,
            why_not=self._why_not,
        )

    def _ensure_founded(self) -> None:
        """Found the set, or check its founding. Raises `GenerationsDiffer`."""
        while (state := self._read()).founding is None:
            self._append(AppendEntry(kind=GenerationEntryKind.FOUNDED))
        if state.founding != self._with.founding:
            raise GenerationsDiffer(
                f"the generations {state.name} began with {described(state.founding)}, not with "
                f"{described(self._with.founding)}",
                hint="give both instances the same options, or choose another --name",
            )

    def _ensure_topic(self) -> None:
        """Check at the beginning that the topic exists and is readable, not only when it is needed after a week."""
        if not self._has_looked:
            self._with.coordination.announcements(self._read())
            self._has_looked = True

    def _check_compacted(self) -> None:
        """Check that all topics are compacted. A generation begins with the current contents of its topics: the history
        of an uncompacted topic would be lost with the old generation. Raises `NotCompacted`, and the errors of the
        cluster."""
        if uncompacted := self._with.target.uncompacted():
            raise NotCompacted(
                f"{named(uncompacted, most=_NAMED_MAX, of='topics')} {'is' if len(uncompacted) == 1 else 'are'} not "
                "compacted, or their settings are not readable: records that the topics no longer have would be "
                "deleted with the previous generation",
                hint="leave these topics out, and back them up with: offsite backup run --follow",
            )

    def _check_place(self, number: int) -> None:
        """Check that the place of the next generation is empty. Foreign contents would be continued, and removed some
        day. Raises `GenerationRefused`."""
        place = self._with.target.place_taken(number)
        if place and self._read().generation(number) is None:  # else another process has begun it meanwhile
            raise GenerationRefused(
                f"generation {number} of {self._read().name} cannot begin: {place} is not empty",
                hint="move the contents to another place, or choose another --name",
            )

    def _append(self, effect: AppendEntry) -> None:
        """Append an entry, unless another process was first: the next decision follows from the foreign entry in that
        case."""
        if effect.kind is GenerationEntryKind.BEGUN:
            self._check_compacted()
            self._check_place(effect.generation)
        state, me = self._read(), self._with.me
        entry = GenerationEntry(
            seq=state.seq + 1,
            previous=state.head,
            kind=effect.kind,
            instance=me.instance,
            word=me.word,
            at_ms=self._with.ledger.store.now_ms(),
            generation=effect.generation,
            partitions=effect.partitions,
            commit=effect.commit,
            by=self._with.by,
            founding=self._with.founding if effect.kind is GenerationEntryKind.FOUNDED else None,
        )
        try:
            new = self._with.ledger.append(entry, to=state)
        except EntryRefusedError as error:
            decided("too_late", why=str(error), set=state.name, kind=effect.kind)
            return
        if new is None:
            return
        self._state = new
        self._has_joined = self._has_joined or effect.kind is GenerationEntryKind.JOINED
        decided("generations", why=effect.kind, set=state.name, generation=effect.generation, instance=me.instance)

    def _copy(self, number: int, facts: GenerationFacts) -> GenerationFacts:
        try:
            copied = self._with.target.copy(number, lambda: self._guard(number))
        except RoleChangedError:
            decided("generations", why="another process writes now", set=self._read().name, generation=number)
            return facts
        behind = self._behind(number, copied) if copied.at_end else ()
        why_not = self._why_behind(number, behind)
        if copied.at_end and not why_not:
            why_not = self._lost_by_switch(number, copied)
        at_end = copied.at_end and not why_not
        self._why_not = why_not
        return replace(facts, partitions=copied.partitions, commit=copied.commit, at_end=at_end, why_not=why_not)

    def _guard(self, number: int) -> None:
        if not may_write(self._read(), self._with.me, number):
            raise RoleChangedError

    def _behind(self, number: int, copied: RoundResult) -> Sequence[str]:
        """The partitions in which the active generation reaches farther: a process stopped between both readings has
        seen an outdated end. Records gone from the source cannot be read again, and keep the old generation."""
        active = self._read().active
        ends = {} if active == number else self._with.target.ends(active)
        return lacking(
            copied.ends, {partition: end for partition, end in ends.items() if partition[:2] in copied.topics}
        )

    def _why_behind(self, number: int, behind: Sequence[str]) -> str:
        """Why a generation that is `behind` at the end of its topics does not take over. The active generation may have
        read on meanwhile. A difference that remains a round later can no longer be read: the difference is noted for
        people, and a person may have agreed to the loss."""
        state, is_lasting = self._read(), behind == self._behind_before
        self._is_behind, self._behind_before = bool(behind), behind
        if not behind or (is_lasting and self._is_let_go(state.active, number)):
            return ""
        if is_lasting:
            self._note_kept((state.active, number), lacks(number, behind))
        return lacks(number, behind)

    def _lost_by_switch(self, number: int, copied: RoundResult) -> str:
        """Why generation `number` must not take over although it reaches as far: an emptied source keeps its ends. A
        key once held stays held: later rounds need no further comparison."""
        state = self._read()
        active = state.active_generation
        if active is None or active.number == number or self._is_let_go(active.number, number):
            return ""
        pair = active.number, number
        return self._compared(pair, lambda: self._with.target.lost(*pair, copied.topics), again=False)

    def _why_it_stays(self, number: int) -> str:
        """Why generation `number` stays: records missing in the active generation, a pinned point, or a reader. Empty
        when the generation may go."""
        state, target = self._read(), self._with.target
        if target.is_pinned(number):
            return "one of its restore points is pinned"
        if target.is_read(number):
            return "a restore reads it"
        if self._is_let_go(number, state.active):
            return target.disputed_pin(number)
        if missing := lacking(target.ends(state.active), target.ends(number)):
            self._note_kept((number, state.active), lacks(state.active, missing))
            return lacks(state.active, missing)
        pair = number, state.active
        return self._compared(pair, lambda: target.lost(*pair), again=True) or target.disputed_pin(number)

    def _is_let_go(self, number: int, successor: int) -> bool:
        """Whether a person has agreed that a generation may go although its successor may lack something."""
        generation, ledger = self._read().generation(number), self._with.ledger
        if generation is None or generation.released is None or doubt_of(ledger, generation.released):
            return False
        self._note_kept((number, successor), "")
        return True

    def _compared(self, pair: tuple[int, int], lost: Callable[[], Sequence[str]], *, again: bool) -> str:
        """What the second generation of `pair` lacks of the first, in words; noted for people."""
        why = self._comparison.of(pair, lambda: lacks(pair[1], lost_keys) if (lost_keys := lost()) else "", again=again)
        if why or self._kept is not None:
            self._note_kept(pair, why)
        return why

    def _note_kept(self, pair: tuple[int, int], why: str) -> None:
        state, ledger = self._read(), self._with.ledger
        old = state.generation(pair[0])
        word = old.released if old is not None and why else None
        if word is not None:
            why = f"{why}; {doubt_of(ledger, word)}"
        kept_generation = KeptGeneration(
            generation=pair[0], successor=pair[1], why=why, release=word.hash if word else ""
        )
        if kept_generation != self._kept:
            put_kept(ledger.store, SetLayout(name=state.name), kept_generation)
            self._kept = kept_generation

    def _may_go(self, number: int, facts: GenerationFacts) -> GenerationFacts:
        why = self._why_it_stays(number)
        if why:
            decided("generation_kept", why=why, set=self._read().name, generation=number)
        return replace(facts, may_go=not why, why_not=why)

    def _remove(self, number: int) -> bool:
        """Remove the generation. Returns whether all of it is gone. The entry of the ledger alone allows no
        deletion: every party that can create objects can forge the entry, so a complete generation is compared
        again."""
        if self._with.target.is_there(number) and (why := self._why_it_stays(number)):
            decided("generation_kept", why=why, set=self._read().name, generation=number)
            return False
        if not self._with.target.remove(number, partial(self._audit.note_removal, self._read(), number)):
            return False
        self._sweep()
        self._append(AppendEntry(kind=GenerationEntryKind.REMOVED, generation=number))
        return True

    def _sweep(self) -> None:
        """Sweep objects that came back into generations recently removed by the instance."""
        state, now_ms = self._read(), self._with.ledger.store.now_ms()
        for generation in state.generations:
            is_own = generation.instance is self._with.me.instance and generation.phase is GenerationPhase.REMOVED
            if (
                is_own
                and now_ms - generation.removed_ms < 2 * KEPT_MS
                and not self._why_it_stays_there(generation.number)
            ):
                announce = partial(self._audit.note_return, state, generation.number)
                self._with.target.sweep(generation.number, announce, removed_ms=generation.removed_ms)

    def _why_it_stays_there(self, number: int) -> str:
        """Why a generation stays that exists as a whole although the ledger says otherwise: somebody brought the
        generation back, or the removal never happened."""
        why = self._why_it_stays(number) if self._with.target.is_there(number) else ""
        if why:
            warned("generation_kept", why=why, set=self._read().name, generation=number)
        return why

    def _taken_over(self) -> GenerationTakenOver:
        state, me = self._read(), self._with.me
        return GenerationTakenOver(
            f"instance {me.instance} of {state.name} is run by {state.joined_by.get(me.instance, 'another process')} "
            "by now: this process has stopped",
            hint="the other process is not affected; run each instance only once",
        )


@dataclass(slots=True)
class GenerationComparison:
    """The last comparison of two generations. A comparison with differences is repeated after some rounds, a comparison
    without differences only on request."""

    pair: tuple[int, int] = (0, 0)
    why: str = ""
    _rounds: int = 0

    def of(self, pair: tuple[int, int], why: Callable[[], str], *, again: bool) -> str:
        self._rounds += 1
        is_old = again if not self.why else self._rounds >= COMPARED_AGAIN_AFTER
        if pair != self.pair or is_old:
            self.why = why()
            self.pair, self._rounds = pair, 0
        return self.why


def lacks(generation: int, lost: Sequence[str]) -> str:
    return f"generation {generation} lacks {named(lost, most=_NAMED_MAX)}"


def described(founding: Founding) -> str:
    """The terms that both instances must agree on, in words."""
    topics = ",".join(founding.include) + (f" but {','.join(founding.exclude)}" if founding.exclude else "")
    into = f"{founding.target} archives at {founding.place}" if founding.place else "backups"
    return f"topics {topics} of cluster {founding.cluster_id} in {into}"
