"""An instance of a set as a process: decides, acts, and decides again.

The memory of the process never counts. The ledger is read on before every decision, and once more when the predecessor
of the next commit is known: a process without the right to write learns the fact from the ledger, or loses the commit
to the seal.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from offsite.backup.outages import Outages
from offsite.generations.archive_target import ArchiveTarget
from offsite.generations.backup_target import BackupTarget
from offsite.generations.comparison import Comparisons
from offsite.generations.coordination import Addresses, CoordinationTopic
from offsite.generations.decision import (
    Announcement,
    AppendEntry,
    CompareGenerations,
    CompletedEffect,
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
from offsite.generations.removals import RemovalAudit
from offsite.generations.request import GenerationsRequest, selection_of
from offsite.generations.target import (
    GenerationEnds,
    GenerationTarget,
    RoleChangedError,
    Workshop,
)
from offsite.model.clock import Clock
from offsite.model.errors import (
    Bug,
    GenerationRefused,
    GenerationsDiffer,
    GenerationTakenOver,
    NotCompacted,
    OffsiteError,
)
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.model.names import named
from offsite.repository.generation_sets.entry import Founding, GenerationEntry, GenerationEntryKind
from offsite.repository.generation_sets.generation_set import (
    GenerationPhase,
    GenerationSet,
)
from offsite.repository.generation_sets.ledger import SetLedger, set_ledger
from offsite.repository.lease import ProcessIdentity
from offsite.repository.removal import KEPT_MS
from offsite.stores.numbered_log import EntryRefusedError

_EFFECTS_MAX = 50
"""Effects between two rounds: a few are normal; more would be a loop."""

_NAMED_MAX = 3
_GOING = (GenerationPhase.REMOVING, GenerationPhase.REMOVED)


class Coordination(Protocol):
    """The coordination topic, as used by the instances of a set."""

    def announcements(self, state: GenerationSet) -> frozenset[Announcement]:
        """The complete announcements in the topic for the instances of the set."""

    def send(self, effect: Send, *, ends: GenerationEnds) -> None:
        """Write the messages, with the ends of the active generation; they are in the topic on return."""

    def take_back(self, effect: TakeBack) -> None:
        """Take back all messages for the instance."""


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
        self._has_joined = self._has_looked = False
        self._comparisons = Comparisons(context.ledger, context.target, read=self._read)
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
        return random.uniform(0, 1) if self._comparisons.is_behind else 1.0  # noqa: S311  # jitter, not cryptography

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
        why_not = self._comparisons.why_no_switch(number, copied)
        at_end = copied.at_end and not why_not
        self._why_not = why_not
        return replace(facts, partitions=copied.partitions, commit=copied.commit, at_end=at_end, why_not=why_not)

    def _guard(self, number: int) -> None:
        if not may_write(self._read(), self._with.me, number):
            raise RoleChangedError

    def _may_go(self, number: int, facts: GenerationFacts) -> GenerationFacts:
        try:
            why = self._comparisons.why_it_stays(number)
        except OffsiteError:
            if (generation := self._read().generation(number)) is None or generation.phase not in _GOING:
                raise
            return facts  # an earlier process of the instance removes the generation: next decision by the ledger
        if why:
            decided("generation_kept", why=why, set=self._read().name, generation=number)
        return replace(facts, may_go=not why, why_not=why)

    def _remove(self, number: int) -> bool:
        """Remove the generation. Returns whether all of it is gone. The entry of the ledger alone allows no
        deletion: every party that can create objects can forge the entry, so a complete generation is compared
        again."""
        if why := self._why_it_stays_there(number):
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
                and not self._why_it_came_back(generation.number)
            ):
                announce = partial(self._audit.note_return, state, generation.number)
                self._with.target.sweep(generation.number, announce, removed_ms=generation.removed_ms)

    def _why_it_stays_there(self, number: int) -> str:
        """Why a generation stays that the ledger lets go and that exists as a whole; empty when it may go, or is no
        longer there as a whole. An earlier process of the instance that was stopped and woke up may remove the
        generation amid the comparison."""
        target = self._with.target
        try:
            return self._comparisons.why_it_stays(number) if target.is_there(number) else ""
        except OffsiteError:
            if target.is_there(number):
                raise
            return ""

    def _why_it_came_back(self, number: int) -> str:
        """Why a removed generation stays that exists as a whole: somebody brought the generation back, or the removal
        never happened."""
        if why := self._why_it_stays_there(number):
            warned("generation_kept", why=why, set=self._read().name, generation=number)
        return why

    def _taken_over(self) -> GenerationTakenOver:
        state, me = self._read(), self._with.me
        return GenerationTakenOver(
            f"instance {me.instance} of {state.name} is run by {state.joined_by.get(me.instance, 'another process')} "
            "by now: this process has stopped",
            hint="the other process is not affected; run each instance only once",
        )


def described(founding: Founding) -> str:
    """The terms that both instances must agree on, in words."""
    topics = ",".join(founding.include) + (f" but {','.join(founding.exclude)}" if founding.exclude else "")
    into = f"{founding.target} archives at {founding.place}" if founding.place else "backups"
    return f"topics {topics} of cluster {founding.cluster_id} in {into}"


def open_instance(request: GenerationsRequest, workshop: Workshop) -> RunningInstance:
    """Open the instance, which has done nothing yet. Raises `BadOption`, `DamagedObject`, and the errors of both
    ends."""
    ledger = set_ledger(workshop.repository.store, request.name)
    founding = request.founding(workshop.cluster.admin.cluster().cluster_id, ledger.read().founding)
    request = replace(request, backup=replace(request.backup, selection=selection_of(founding)))
    generations = InstanceContext(
        ledger=ledger,
        target=ArchiveTarget(request, founding, workshop) if request.place else BackupTarget(request, workshop),
        coordination=CoordinationTopic(
            workshop.cluster,
            Addresses(name=request.name, fallback=founding.include[0]),
            clock=workshop.clock,
        ),
        founding=founding,
        me=InstanceView(instance=request.instance, word=random_id(16), is_first=request.is_first),
        by=ProcessIdentity.current().text,
        length_ms=request.length_ms,
    )
    return RunningInstance(generations, on_effect=workshop.on_effect)
