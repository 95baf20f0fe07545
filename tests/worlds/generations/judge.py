"""What must hold in every moment of a set's life, whoever died, slept or lied."""

from __future__ import annotations

import json

from offsite.repository.generation_sets.generation_set import GenerationPhase, GenerationSet
from offsite.repository.generation_sets.ledger import SetLayout, set_of_backup
from offsite.repository.snapshots.audit_record import AuditLine, read_audit
from tests.worlds.generations.world import SET, Process, World


class BrokenPromise(AssertionError):
    pass


class Judge:
    """Looks at the store after each operation. `best`: how far the set could be restored so far, `first`: from where
    on."""

    def __init__(self, world: World) -> None:
        self.world, self.best = world, [0, 0]
        self.first: list[int] | None = None
        self.switches = self.removals = 0
        world.judge = self.look

    def look(self, operation: str, key: str, process: Process | None) -> None:
        state = self.world.state
        if key.startswith("generations/"):
            self._entered(state)
        elif "/commits/" in key and operation == "put":
            self._committed(state, key)
        elif operation == "delete":
            number = int(key.split("/")[1])
            found = state.generation(number)
            need(
                found is not None and found.phase in {GenerationPhase.REMOVING, GenerationPhase.REMOVED},
                f"{key} deleted before it may go",
            )
            need(number in self._told(), f"{key} deleted before a line of the audit says so")
        self._complete(state)

    def _told(self) -> set[int]:
        """The generations that the audit names."""
        lines = read_audit(self.world.store, SetLayout(name=SET))
        names = [each.deletion.what for each in lines if isinstance(each, AuditLine)]
        return {number for name in names for _, number in [set_of_backup(name) or ("", 0)]}

    def _entered(self, state: GenerationSet) -> None:
        self.switches = max(0, state.active - 1)
        self.removals = sum(each.phase is GenerationPhase.REMOVED for each in state.generations)
        writing = [each for each in state.generations if each.phase is GenerationPhase.COMPLETE]
        need(len(writing) <= 1, "two generations are active")

    def _committed(self, state: GenerationSet, key: str) -> None:
        commit, number = json.loads(self.world.store.objects[key]), int(key.split("/")[1])
        found = state.generation(number)
        need(found is not None, "a commit into a generation that nobody has begun")
        assert found is not None
        if commit.get("seal"):
            return
        need(
            found.phase is not GenerationPhase.SEALED,
            "an instance wrote as the active one after another had taken over",
        )
        if found.phase not in {GenerationPhase.REMOVING, GenerationPhase.REMOVED}:
            need(not any(each.get("seal") for each in self.world.log(number)[:-1]), "a commit behind the seal")

    def _complete(self, state: GenerationSet) -> None:
        whole = [each for each in state.generations if each.is_whole]
        if not whole:
            need(not any(each.complete_ms for each in state.generations), "no complete generation is left")
            return
        held = [ends for each in whole if (ends := self.world.held(each.number)) is not None]
        need(held, "the ledger calls a generation complete that is not there")
        now = [max(ends[n] for ends in held) for n in range(len(self.best))]
        may_lose = any(each.is_released and each.phase is not GenerationPhase.REMOVED for each in state.generations)
        lost = any(a < b for a, b in zip(now, self.best, strict=True))
        need(may_lose or not lost, f"restorable to {self.best} before, now {now}")
        newest = state.restorable
        assert newest is not None
        need(self.world.held(newest.number) is not None, "the generation to restore from is not there as a whole")
        self.best = now
        begins = self.world.begins(newest.number)
        lost = any(a > b for a, b in zip(begins, self.first or begins, strict=True))
        need(may_lose or not lost, f"restorable from {self.first} on before, now from {begins} on")
        self.first = begins


def need(condition: object, what: str) -> None:
    if not condition:
        raise BrokenPromise(what)
