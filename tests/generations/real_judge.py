"""Looks at a set from outside, while its instances live and die: what could be restored now, and was it ever more?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offsite.log.records.batch_records import decode
from offsite.model.errors import OffsiteError
from offsite.repository.backup import Backup
from offsite.repository.commit import PartitionId
from offsite.repository.generations.generation_set import Generation, GenerationSet, Phase
from offsite.repository.generations.layout import SetLayout
from offsite.repository.generations.ledger import Ledger
from offsite.repository.repository import Repository
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.state import BackupState
from tests.generations.judge import need
from tests.generations.process import SET

State = Mapping[bytes, bytes | None]


@dataclass
class Truth:
    """What was written: by partition, in the order of offsets, each with key and value."""

    written: dict[int, list[tuple[int, bytes, bytes]]] = field(default_factory=dict)

    def take(self, partition: int, offset: int, key: bytes, value: bytes) -> None:
        self.written.setdefault(partition, []).append((offset, key, value))

    def state(self, partition: int, end: int) -> State:
        return {key: value for offset, key, value in sorted(self.written.get(partition, [])) if offset < end}


@dataclass
class RealJudge:
    repository: Repository
    truth: Truth
    best: dict[int, int] = field(default_factory=dict)
    sealed: dict[int, str] = field(default_factory=dict)
    looks: int = 0
    contents: int = 0

    @property
    def state(self) -> GenerationSet:
        return Ledger(store=self.repository.store, layout=SetLayout(name=SET)).read()

    def look(self, *, deeply: bool = False) -> GenerationSet:
        """Raises `BrokenPromise`. What goes away while it is read is looked at once more."""
        while True:
            before = self.state
            found = {each.number: self._state_of(each) for each in before.generations if each.is_whole}
            after = self.state
            if [each.phase for each in before.generations] == [each.phase for each in after.generations]:
                break
        self.looks += 1
        need(sum(each.phase is Phase.COMPLETE for each in before.generations) <= 1, "two generations are active")
        for number, state in found.items():
            need(not isinstance(state, OffsiteError), f"generation {number} is called complete: {state}")
        self._judge_held(before, {number: each for number, each in found.items() if isinstance(each, BackupState)})
        if deeply and (newest := before.restorable) is not None:
            self._judge_content(newest)
        return before

    def _judge_held(self, state: GenerationSet, found: Mapping[int, BackupState]) -> None:
        need(found or not any(each.complete_ms for each in state.generations), "no complete generation is left")
        now: dict[int, int] = {}
        for number, each in found.items():
            for known, end in each.reached().items():
                now[known.partition] = max(now.get(known.partition, 0), end)
            generation = state.generation(number)
            if generation is not None and generation.phase is Phase.SEALED:
                head = self.sealed.setdefault(number, each.head_hash)
                need(head == each.head_hash, f"generation {number} was written to behind its seal")
        need(all(now.get(n, 0) >= end for n, end in self.best.items()), f"restorable to {self.best}, now to {now}")
        self.best = now

    def _judge_content(self, newest: Generation) -> None:
        backup = self._backup(newest.number)
        try:
            state = backup.state()
            held = {known: content(backup, state, known) for known in state.positions}
        except OffsiteError:
            need(self.state.generation(newest.number) != newest, f"generation {newest.number} cannot be read")
            return
        if self.state.restorable != newest:
            return  # it began to go while it was read
        self.contents += 1
        for known, found in held.items():
            truth = self.truth.state(known.partition, state.positions[known].end)
            need(found == truth, f"generation {newest.number} holds another state of {known}")

    def _state_of(self, generation: Generation) -> BackupState | OffsiteError:
        try:
            return self._backup(generation.number).state()
        except OffsiteError as error:
            return error

    def _backup(self, number: int) -> Backup:
        return self.repository.backup(SetLayout(name=SET).backup_name(number))


def content(backup: Backup, state: BackupState, known: PartitionId) -> State:
    """The newest value of each key in a partition of a backup."""
    found: dict[bytes, bytes | None] = {}
    for segment in state.segments.get(known, ()):
        for chunk in SegmentReader(store=backup.store, segment=segment).chunks(end=state.positions[known].end):
            for header in chunk.batches:
                found.update({record.key or b"": record.value for record in decode(header.view(chunk.data), header)})
    return found
