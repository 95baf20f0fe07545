"""Participants: systems that save a state of their own for a checkpoint of the same id, and declare how far the state
has read.

The order makes the result right. Every participant saves its state, and names its positions, *before the first* reading
of the ends (`offsite.backup.cut.readings`), and so before the last:

- A log only grows, so every position is at or below the end of every reading. A participant that can replay is never
  ahead of the cut, and reads the rest from the restored logs. Asked afterwards, it would be ahead of the ends nearly
  always.
- A participant that reads only committed records has read no transaction that the cut leaves out. Records that it read
  had their marker before the first reading. At any clean reading of their producer, possibly only the first, the whole
  transaction lies below the ends. A state saved between two readings could include records from behind the clean
  reading.

A participant that cannot replay must be exactly where the cut ends: it stops the writers to the partitions that it
reads, or the checkpoint fails. `Window.externals` judges both kinds (rule C5), after the copy, by the stored cut.

Nothing here resumes. A participant that fails, does not answer in time or contradicts fails the checkpoint, and the
next id asks again. States saved meanwhile stay until the checkpoint is deleted.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from offsite.checkpoint.status import CheckpointStatus
from offsite.log.range import TopicPartition
from offsite.model.bounds import MAX_OFFSET, MAX_PARTITIONS
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption, OffsiteError, ParticipantFailed
from offsite.model.journal import decided, warned
from offsite.model.names import is_topic_name
from offsite.repository.snapshots.commit_cut import CheckpointParticipant, DeclaredPosition

T = TypeVar("T")

TAKE_TIMEOUT_S = 60.0
"""Seconds for every participant to save its state: nothing is copied for the checkpoint meanwhile."""
COMPLETE_TIMEOUT_S = 600.0
"""Seconds, from the end of our own copy, for every participant to be complete."""
RELEASE_TIMEOUT_S = 20.0
"""Seconds for every participant to resume whatever it paused: a signal that ends a run allows 30."""
POLL_S = 0.5
"""Seconds between two questions to a participant that is not ready."""

_SETTLED_BADLY = frozenset({CheckpointStatus.FAILED, CheckpointStatus.DELETED, CheckpointStatus.DOES_NOT_EXIST})
_NEXT_HINT = "fix the participant, then take the next checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPositions:
    """How far a participant's saved state has read every partition, as exclusive ends at the source; empty for a
    participant that reads none. `can_replay`: after a restore the participant reads on from the positions."""

    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    can_replay: bool = False


class CheckpointingParticipant(Protocol):
    """A system that saves a state of its own for every checkpoint. `name` is unique among the participants of a
    checkpoint.

    All calls carry the checkpoint's id unchanged, and may be repeated, also by another process after a crash: the same
    id gives the same answer, and saves nothing twice. Calls raise `ParticipantFailed` if the id will certainly never be
    saved, and another `OffsiteError` if the question failed; both fail the checkpoint. Calls come from threads, for a
    single participant never two at once. A hanging call is given up, and its thread left behind.
    """

    @property
    def name(self) -> str: ...

    def take(self, checkpoint: int) -> DeclaredPositions | None:
        """Begin to save the state, unless begun before. Returns the positions of the state as soon as they are final,
        None until that moment. Storing may go on afterwards."""
        ...

    def status(self, checkpoint: int) -> CheckpointStatus:
        """Completed once the state is stored for good."""
        ...

    def delete(self, checkpoint: int) -> None:
        """Delete the state; do nothing where none exists."""
        ...

    def release(self) -> None:
        """Resume whatever was paused for checkpoints, by the process or by a killed process. Called when a process
        begins to take checkpoints, and after every checkpoint, whatever its result. Most participants pause nothing."""
        ...


class Participants:
    """The participants of a backup's checkpoints, asked all at once. Raises `BadOption` where two have the same
    name."""

    def __init__(
        self,
        participants: Sequence[CheckpointingParticipant] = (),
        *,
        take_timeout_s: float = TAKE_TIMEOUT_S,
        complete_timeout_s: float = COMPLETE_TIMEOUT_S,
        poll_s: float = POLL_S,
        clock: Clock | None = None,
    ) -> None:
        if len({participant.name for participant in participants}) < len(participants):
            raise BadOption("two participants have the same name", hint="give each participant its own name")
        self._participants, self._poll_s, self._clock = tuple(participants), poll_s, clock or SystemClock()
        self._take_timeout_s, self._complete_timeout_s = take_timeout_s, complete_timeout_s
        self._may_hold = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(participant.name for participant in self._participants))

    def __bool__(self) -> bool:
        return bool(self._participants)

    def take(self, checkpoint: int) -> tuple[CheckpointParticipant, ...]:
        """Ask every participant to save its state, and return the declarations by name; to be called before anything of
        the source is read. Raises `ParticipantFailed` for the first participant that failed or did not answer in time.
        `release` has to follow."""
        self._may_hold = True
        declared = self._ask_all(
            lambda participant: _declared(participant.name, participant.take(checkpoint)),
            self._take_timeout_s,
            "saved its state",
        )
        if declared:
            decided(
                "participants_taken",
                why="each participant declared its positions",
                id=checkpoint,
                participants=len(declared),
            )
        return tuple(sorted(declared, key=lambda participant: participant.name))

    def complete(self, checkpoint: int) -> None:
        """Return when every participant has completed its part. Raises `ParticipantFailed` otherwise."""
        self._ask_all(
            lambda participant: _completed(participant, checkpoint), self._complete_timeout_s, "completed its part"
        )

    def delete(self, checkpoint: int) -> None:
        """Ask every participant to delete its state. Raises `ParticipantFailed`; deleting again continues with the
        rest."""

        def delete(participant: CheckpointingParticipant) -> bool:
            participant.delete(checkpoint)
            return True

        self._ask_all(delete, self._take_timeout_s, "deleted its part")

    def begin(self) -> None:
        """Release all participants: an earlier process may have been killed amid a checkpoint. Raises no
        `OffsiteError`."""
        self._may_hold = True
        self.release()

    def release(self) -> None:
        """Release the participants that were asked to take since the last release. A failed release is a warning, and
        repeated at the next call. Raises no `OffsiteError`."""

        def release(participant: CheckpointingParticipant) -> bool:
            participant.release()
            return True

        if not self._may_hold:
            return
        try:
            self._ask_all(release, RELEASE_TIMEOUT_S, "resumed what it paused")
            self._may_hold = False
        except OffsiteError as error:
            warned("participants_held", error=error.id, why=error.message)

    def _ask_all(self, ask: Callable[[CheckpointingParticipant], T | None], timeout_s: float, action: str) -> list[T]:
        """Collect the answers of all participants. Every participant is asked in its own thread, because any may
        hang."""
        over, answers = threading.Event(), queue.SimpleQueue[tuple[str, T | OffsiteError]]()
        for participant in self._participants:
            asking = (participant, ask, answers, over)
            threading.Thread(
                target=self._ask, args=asking, name=f"offsite-participant-{participant.name}", daemon=True
            ).start()
        try:
            return list(self._answers(answers, timeout_s, action))
        finally:
            over.set()

    def _answers(
        self, answers: queue.SimpleQueue[tuple[str, T | OffsiteError]], timeout_s: float, action: str
    ) -> Iterator[T]:
        missing = {participant.name for participant in self._participants}
        deadline_s = self._clock.monotonic_s() + timeout_s
        while missing:
            try:
                name, answer = answers.get(timeout=max(0.0, deadline_s - self._clock.monotonic_s()))
            except queue.Empty:
                names = ", ".join(sorted(missing))
                raise ParticipantFailed(
                    f"participant {names} has not {action} within {timeout_s:g} s", hint=_NEXT_HINT
                ) from None
            if isinstance(answer, OffsiteError):
                raise ParticipantFailed(
                    f"participant {name}: {answer.message}", hint=answer.hint or _NEXT_HINT
                ) from answer
            missing.discard(name)
            yield answer

    def _ask(
        self,
        participant: CheckpointingParticipant,
        ask: Callable[[CheckpointingParticipant], T | None],
        answers: queue.SimpleQueue[tuple[str, T | OffsiteError]],
        over: threading.Event,
    ) -> None:
        try:
            while (answer := ask(participant)) is None:
                if over.wait(self._poll_s):
                    return
            answers.put((participant.name, answer))
        except OffsiteError as error:
            answers.put((participant.name, error))
        except Exception as error:  # noqa: BLE001  # a participant of others: its mistake must not look like a hang
            answers.put((participant.name, ParticipantFailed(f"it failed: {type(error).__name__}: {error}")))


def _declared(name: str, declared: DeclaredPositions | None) -> CheckpointParticipant | None:
    if declared is None:
        return None
    for at, end in declared.positions.items():
        if not (is_topic_name(at.topic) and 0 <= at.partition < MAX_PARTITIONS and 0 <= end <= MAX_OFFSET):
            raise ParticipantFailed(f"it declared {end} for {at}, which is not a valid position")
    positions = [
        DeclaredPosition(topic=at.topic, partition=at.partition, end=end)
        for at, end in sorted(declared.positions.items())
    ]
    return CheckpointParticipant(name=name, can_replay=declared.can_replay, positions=tuple(positions))


def _completed(participant: CheckpointingParticipant, checkpoint: int) -> bool | None:
    status = participant.status(checkpoint)
    if status in _SETTLED_BADLY:
        raise ParticipantFailed(f"its part is {status}")
    return True if status is CheckpointStatus.COMPLETED else None
