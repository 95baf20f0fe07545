"""The leader of a partition for one term: it processes its log, and follows `offsite_participant.bcs` to the letter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from offsite_participant import bcs
from tests.simulation.clean_up import CleanUp
from tests.simulation.engine import Command, Done, State, answer_to, apply
from tests.simulation.slow_snapshot import SlowSnapshot
from tests.simulation.store import Snapshot
from tests.simulation.upload import RunningUpload

if TYPE_CHECKING:
    from tests.simulation.partition import Partition

PROCESS_S = 0.02
RESEND_S = 2.0
SNAPSHOT_S = 1.5
REMEMBERED = 8

Answered = Callable[[bcs.Answer], None]


class Leader:
    """It dies at any effect (`Partition.effect`): from then on it does nothing, and what it had in memory is gone. A
    deposed one goes on for a while: it sees the log as it was, and what it appends is lost."""

    def __init__(self, partition: Partition, term: int) -> None:
        self.partition, self.term = partition, term
        self.is_alive, self._is_busy, self.is_deposed = True, False, False
        self._asked: dict[int, list[Answered]] = {}
        self._end = 0
        self.slow: SlowSnapshot | None = None
        self.state = self._replayed()
        self._next = self.state.processed + 1
        CleanUp(self).begin()
        self._process_soon()
        self._every(RESEND_S, self._resend)
        self._every(SNAPSHOT_S, self._snapshot)

    def _replayed(self) -> State:
        base = self.partition.snapshots[-1]
        state, log = base.state, self.partition.log
        self.applied_end = base.end
        for position in range(base.end, log.end):
            record = log.at(position)
            if isinstance(record, bcs.Created):
                state = _with_checkpoint(state, bcs.on_replayed(state.progress, record), record)
            elif isinstance(record, Done):
                state = self._applied(state, record.source)
            if isinstance(record, Done | bcs.Created | bcs.Ignored):
                self.applied_end = position + 1
        return state

    def _applied(self, state: State, source: int) -> State:
        record = self.partition.log.at(source)
        if isinstance(record, Command):
            state = apply(state, record, here=self.partition.number, partitions=self.partition.partitions)
        return replace(state, processed=source)

    def depose(self) -> None:
        """Another one leads from now on. It is not told, and sees no more of the log."""
        self.is_deposed, self._end = True, self.partition.log.end

    def request(self, create: bcs.Create, answered: Answered) -> None:
        """A coordinator asks for a checkpoint."""
        if self.is_alive and self.partition.effect(self, "append create"):
            self._asked.setdefault(create.checkpoint, []).append(answered)
            self.partition.log.append(self.term, [create])

    def receive(self, command: Command, checkpoint: int) -> None:
        """A command of a client (0), or of another partition, which carries its checkpoint."""
        if self.is_alive and self.partition.effect(self, "append command"):
            forced = bcs.on_message(self.state.progress, checkpoint)
            if forced:
                self.partition.scheduler.tell("forced", f"{self.partition.name} {checkpoint}")
            self.partition.log.append(self.term, [*forced, command])

    def grown(self) -> None:
        """There is more in the log."""
        if self.is_alive and not self._is_busy:
            self._process_soon()

    def _process_soon(self) -> None:
        self._is_busy = True
        self.partition.scheduler.soon(PROCESS_S, self._process)

    def _process(self) -> None:
        """Go on up to the next `Create`, or process that one."""
        log, commands = self.partition.log, []
        self._is_busy = False
        end = self._end if self.is_deposed else log.end
        if self._next < log.start:
            return  # its own log would still have it; what it did would be lost anyway
        while self.is_alive and self._next < end:
            position, record = self._next, log.at(self._next)
            if isinstance(record, bcs.Create):
                break
            self._next += 1
            if isinstance(record, Command):
                commands.append((position, record))
        if commands:
            self._handle(commands)
        elif self.is_alive and self._next < end and isinstance(record, bcs.Create):
            self._next += 1
            self._take(record, position)

    def _handle(self, commands: list[tuple[int, Command]]) -> None:
        if not self.partition.effect(self, "append done"):
            return
        self._is_busy = True
        after = self.state
        for position, _ in commands:
            after = self._applied(after, position)
        done = [Done(position) for position, _ in commands]
        self.partition.log.append(self.term, done, lambda: self._handled([each for _, each in commands], after))

    def _handled(self, commands: list[Command], after: State) -> None:
        new, self.state = after.outbox - self.state.outbox, after
        self._idle()
        answers = [each for each in (answer_to(command, here=self.partition.number) for command in commands) if each]
        for to, each in sorted(new, key=str) + answers:
            self._send(to, each)

    def _take(self, create: bcs.Create, position: int) -> None:
        step = bcs.on_create(self.state.progress, create, position)
        if step.upload is not None:
            if not self.partition.effect(self, "pin"):
                return
            self.partition.pin(step.upload.checkpoint, self.term, before=step.pin_before)
        self._is_busy = True
        if step.upload is not None and self.partition.eager_s:
            RunningUpload(self, step.upload).begin()
            self.partition.scheduler.after(self.partition.eager_s, lambda: self._append(step, position))
        else:
            self._append(step, position)

    def _append(self, step: bcs.Step, position: int) -> None:
        if not self.partition.effect(self, "append created"):
            return
        self.partition.log.append(self.term, [step.appended, Done(position)], lambda: self._taken(step, position))

    def _taken(self, step: bcs.Step, position: int) -> None:
        state = replace(self.state, processed=position)
        if isinstance(step.appended, bcs.Created):
            self.partition.scheduler.tell("created", f"{self.partition.name} {step.appended.checkpoint} @{position}")
            state = _with_checkpoint(state, step.progress, step.appended)
        self.state = state
        self._idle()
        if self.partition.effect(self, "answer"):
            for answered in self._asked.pop(step.answer.asked, []):
                self.partition.network.send(lambda answered=answered: answered(step.answer))  # type: ignore[misc]
        is_begun = step.upload is None or self.partition.eager_s
        if not is_begun and step.upload is not None and self.partition.effect(self, "begin upload"):
            RunningUpload(self, step.upload).begin()

    def _idle(self) -> None:
        self.applied_end = self.partition.log.end_of_batch
        self._process_soon()

    def _resend(self) -> None:
        for to, command in sorted(self.state.outbox, key=str):
            self._send(to, command)

    def _send(self, to: int, command: Command) -> None:
        if self.is_alive:
            self.partition.send(to, command, self.state.progress.checkpoint)

    def _snapshot(self) -> None:
        """Of what is applied, also between a `Create` in the log and its processing."""
        if self.is_deposed or not self.partition.effect(self, "snapshot"):
            return
        if self.partition.beside_s:
            self._snapshot_beside()
        else:
            self.partition.add_snapshot(Snapshot.exact(self.applied_end, self.state))

    def _snapshot_beside(self) -> None:
        """One at a time: an older one never takes the place of a newer one."""
        if self.slow is None or self.slow.is_over:
            self.slow = SlowSnapshot(self)
            self.slow.begin()

    def _every(self, seconds: float, work: Callable[[], None]) -> None:
        def step() -> None:
            if self.is_alive:
                work()
                self._every(seconds, work)

        self.partition.scheduler.after(seconds * (0.5 + self.partition.scheduler.chance.random()), step)


def _with_checkpoint(state: State, progress: bcs.Progress, created: bcs.Created) -> State:
    return replace(state, progress=progress, created=(*state.created, created)[-REMEMBERED:])
