"""A Zeebe cluster that takes a backup of its own for every checkpoint, under the checkpoint's id.

The participant declares no positions: Zeebe's state says nothing about Kafka offsets, not even with an exporter or a
connector between the two. Both parts are consistent in themselves, and a single fact is known between them: Zeebe's
backup began before the ends of Kafka's partitions were read, while Zeebe could not delete exported records. Records
exported again after a restore of both are therefore repetitions and no gap, unless the cut leaves out an exported
record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from offsite.checkpoint.participants import DeclaredPositions
from offsite.checkpoint.status import CheckpointStatus
from offsite.checkpoint.zeebe.client import ZeebeBackup, ZeebeBackupState, ZeebeOutcomeUnknown
from offsite.checkpoint.zeebe.management import Exporting, Management
from offsite.model.bounds import MAX_OFFSET
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import OffsiteError, ParticipantFailed, ParticipantUnreachable
from offsite.model.journal import decided, warned
from offsite.model.names import named

_NEVER_WHOLE = frozenset({ZeebeBackupState.DOES_NOT_EXIST, ZeebeBackupState.INCOMPLETE, ZeebeBackupState.DELETED})
"""States in which a refused id can no longer become complete."""
CLOCKS_APART_MS = 300_000
"""Allowed difference in milliseconds between Zeebe's clock and our store's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeebeTimes:
    """Limits in seconds. `take_s`: for repeating a request until its outcome is clear; below the common limit of all
    participants, so that the reason is reported. `unseen_s`: for a begun backup unknown to Zeebe, or known to only some
    partitions. `silent_s`: without an available status. `paused_s`: until exporting is resumed although the backup is
    not settled, because a full disk is worse than repeated exports. `under_way_s`: for waiting for a request under way
    before exporting is resumed."""

    take_s: float = 35.0
    unseen_s: float = 30.0
    silent_s: float = 120.0
    paused_s: float = 900.0
    watch_s: float = 1.0
    under_way_s: float = 12.0
    release_tries: int = 3
    release_s: float = 1.0


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """The work of the process for a checkpoint. `is_paused`: exporting was paused on all partitions. `must_resume`:
    exporting may still be paused on some. Times: monotonic seconds, None where not the case. `over`: exporting was
    resumed for good."""

    checkpoint: int
    began_s: float
    is_new: bool = False
    is_paused: bool = False
    must_resume: bool = False
    taken_s: float | None = None
    refused_s: float | None = None
    silent_since_s: float | None = None
    partial_since_s: float | None = None
    over: threading.Event = field(default_factory=threading.Event)


class ZeebeParticipant:
    """The cluster behind `management`, as participant `name`. `asked_at_ms`: when a checkpoint was requested (store's
    clock, epoch ms), None where unknown: an older backup belongs to somebody else.

    Exporting is paused softly before the backup is requested, and resumed as soon as the backup is settled, however
    long our own copy takes: during the pause, Zeebe's log only grows. Whatever happens, `release` resumes exporting. A
    killed process cannot: the next process that takes checkpoints with the participant resumes before anything else.
    """

    def __init__(
        self,
        name: str,
        management: Management,
        *,
        asked_at_ms: Callable[[int], int | None] = lambda _: None,
        times: ZeebeTimes | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._name, self._zeebe, self._asked_at_ms = name, management, asked_at_ms
        self._times, self._clock = times or ZeebeTimes(), clock or SystemClock()
        self._lock = threading.Lock()
        self._attempt: _Attempt | None = None

    @property
    def name(self) -> str:
        return self._name

    def take(self, checkpoint: int) -> DeclaredPositions | None:
        """Begin the backup. Returns the (empty) positions once every partition of Zeebe has begun."""
        with self._lock:
            attempt = self._attempt_of(checkpoint)
            try:
                return DeclaredPositions() if self._is_taken(attempt) else None
            except ZeebeOutcomeUnknown as error:
                if self._clock.monotonic_s() - attempt.began_s < self._times.take_s:
                    return None
                raise ParticipantUnreachable(
                    f"it could not be reached for {self._times.take_s:g} s: {error}"
                ) from error

    def status(self, checkpoint: int) -> CheckpointStatus:
        """Completed only when exporting is also resumed, if the process paused it."""
        with self._lock:
            attempt = self._attempt_of(checkpoint)
            try:
                status = self._status(attempt, self._zeebe.find(checkpoint))
                if status is CheckpointStatus.COMPLETED and attempt.must_resume:
                    self._resume(attempt, "its backup is complete")
            except ZeebeOutcomeUnknown as error:
                return self._silent(attempt, error)
            attempt.silent_since_s = None
            return status

    def delete(self, checkpoint: int) -> None:
        """Delete the backup. A backup under way fails first. Raises `ParticipantUnreachable`."""
        self._insistently(lambda: self._zeebe.delete(checkpoint))

    def release(self) -> None:
        """Resume exporting, no matter who paused it. Raises `ParticipantUnreachable` with the steps for a person."""
        if (attempt := self._attempt) is not None:
            attempt.over.set()  # nobody pauses it from now on
        has_lock = self._lock.acquire(timeout=self._times.under_way_s)
        try:
            self._insistently(lambda: self._zeebe.exporting(Exporting.RESUME))
            if attempt is not None:
                attempt.must_resume = False
        except ParticipantUnreachable as error:
            cure = f"curl -X POST {self._zeebe.where}/actuator/exporting/resume"
            raise ParticipantUnreachable(
                f"exporting may still be paused, and the log of Zeebe grows until exporting is resumed: {cure} "
                f"({error.message})"
            ) from error
        finally:
            if has_lock:
                self._lock.release()

    def _attempt_of(self, checkpoint: int) -> _Attempt:
        if self._attempt is None or self._attempt.checkpoint != checkpoint or self._attempt.over.is_set():
            if self._attempt is not None:
                self._attempt.over.set()
            self._attempt = _Attempt(checkpoint=checkpoint, began_s=self._clock.monotonic_s())
        return self._attempt

    def _is_taken(self, attempt: _Attempt) -> bool:
        """Take a further step, in the order of the module's docstring."""
        if attempt.taken_s is not None:
            return True
        if not attempt.is_new:
            self._check_is_ours(attempt.checkpoint)
            attempt.is_new = True
        if attempt.over.is_set():
            return False
        if not attempt.is_paused:
            attempt.must_resume = True  # some partitions may be paused, whatever the answer
            self._zeebe.exporting(Exporting.SOFT_PAUSE)
            attempt.is_paused = True
            decided("zeebe_paused", why="a backup begins", participant=self._name, id=attempt.checkpoint)
        if self._zeebe.begin(attempt.checkpoint) or self._was_taken(attempt):
            attempt.taken_s = self._clock.monotonic_s()
            decided("zeebe_taken", why="every partition has begun", participant=self._name, id=attempt.checkpoint)
            threading.Thread(target=self._watch, args=(attempt,), name=f"offsite-{self._name}", daemon=True).start()
        return attempt.taken_s is not None

    def _check_is_ours(self, checkpoint: int) -> None:
        """Check that Zeebe has no backup of the id from before the checkpoint was requested."""
        backup, asked_at_ms = self._zeebe.find(checkpoint), self._asked_at_ms(checkpoint)
        if backup is None or asked_at_ms is None or backup.created_ms < 0:
            return
        if backup.created_ms < asked_at_ms - CLOCKS_APART_MS:
            hint = self._higher_hint(checkpoint)
            raise ParticipantFailed(
                f"Zeebe has a backup {checkpoint} already, from before the request for this checkpoint: {hint}",
                hint=hint,
            )

    def _was_taken(self, attempt: _Attempt) -> bool:
        """Whether a refusal means that an earlier request of ours was accepted: Zeebe's knowledge of the id decides."""
        backup, now_s = self._zeebe.find(attempt.checkpoint), self._clock.monotonic_s()
        attempt.refused_s = now_s if attempt.refused_s is None else attempt.refused_s
        if backup is not None and backup.state not in _NEVER_WHOLE:
            return self._status(attempt, backup) in {CheckpointStatus.ONGOING, CheckpointStatus.COMPLETED}
        if now_s - attempt.refused_s < min(self._times.unseen_s, self._times.take_s / 2):
            return False
        hint = self._higher_hint(attempt.checkpoint)
        raise ParticipantFailed(
            f"Zeebe does not take backup {attempt.checkpoint}, because it had a higher id, or is being scaled: {hint}",
            hint=hint,
        )

    def _higher_hint(self, checkpoint: int) -> str:
        try:
            highest = max(self._zeebe.highest(checkpoint), checkpoint)
        except (ZeebeOutcomeUnknown, OffsiteError):
            highest = checkpoint
        if highest >= MAX_OFFSET:
            return "no id is left in this cluster"
        return f"use an id above all earlier ids of Zeebe: offsite checkpoint take --id {highest + 1} or higher"

    def _status(self, attempt: _Attempt, backup: ZeebeBackup | None) -> CheckpointStatus:
        """Map Zeebe's state. Raises `ParticipantFailed` with the reason, where known."""
        state = ZeebeBackupState.DOES_NOT_EXIST if backup is None else backup.state
        if state is not ZeebeBackupState.INCOMPLETE:
            attempt.partial_since_s = None
        match state:
            case ZeebeBackupState.COMPLETED:
                return CheckpointStatus.COMPLETED
            case ZeebeBackupState.IN_PROGRESS:
                return CheckpointStatus.ONGOING
            case ZeebeBackupState.DELETED:
                return CheckpointStatus.DELETED
            case ZeebeBackupState.INCOMPLETE:
                return self._partial(attempt, backup)
            case ZeebeBackupState.DOES_NOT_EXIST:
                is_new = attempt.taken_s is not None and not self._is_over(attempt.taken_s, self._times.unseen_s)
                return CheckpointStatus.ONGOING if is_new else CheckpointStatus.DOES_NOT_EXIST
            case ZeebeBackupState.FAILED | ZeebeBackupState.INCOMPATIBLE:
                why = (backup.failure_reason if backup is not None else "") or f"its state is {state}"
                raise ParticipantFailed(f"Zeebe's backup {attempt.checkpoint} failed: {why}")

    def _partial(self, attempt: _Attempt, backup: ZeebeBackup | None) -> CheckpointStatus:
        if attempt.partial_since_s is None:
            attempt.partial_since_s = self._clock.monotonic_s()
        if not self._is_over(attempt.partial_since_s, self._times.unseen_s):
            return CheckpointStatus.ONGOING
        missing = named([str(partition) for partition in backup.missing], most=5) if backup is not None else ""
        raise ParticipantFailed(f"Zeebe's backup {attempt.checkpoint} is missing on partition {missing or 'unknown'}")

    def _silent(self, attempt: _Attempt, error: ZeebeOutcomeUnknown) -> CheckpointStatus:
        """Ongoing, until Zeebe is silent for too long."""
        if attempt.silent_since_s is None:
            attempt.silent_since_s = self._clock.monotonic_s()
        if not self._is_over(attempt.silent_since_s, self._times.silent_s):
            return CheckpointStatus.ONGOING
        raise ParticipantUnreachable(f"it could not be reached for {self._times.silent_s:g} s: {error}") from error

    def _watch(self, attempt: _Attempt) -> None:
        """Resume exporting as soon as the backup is settled: our own copy may take hours longer."""
        while not attempt.over.wait(self._times.watch_s):
            with self._lock:
                if attempt.over.is_set() or not attempt.must_resume:
                    return
                try:
                    if why := self._why_resume(attempt):
                        self._resume(attempt, why)
                        return
                except (ZeebeOutcomeUnknown, OffsiteError) as error:
                    if self._is_over(attempt.began_s, self._times.paused_s):
                        warned("zeebe_still_paused", why=str(error), participant=self._name, id=attempt.checkpoint)

    def _why_resume(self, attempt: _Attempt) -> str:
        if self._is_over(attempt.began_s, self._times.paused_s):
            return f"its backup is not complete after {self._times.paused_s:g} s"
        try:
            status = self._status(attempt, self._zeebe.find(attempt.checkpoint))
        except ParticipantFailed:
            return "its backup failed"
        return "" if status is CheckpointStatus.ONGOING else f"its backup is {status}"

    def _resume(self, attempt: _Attempt, why: str) -> None:
        self._zeebe.exporting(Exporting.RESUME)
        attempt.must_resume = False
        decided("zeebe_resumed", why=why, participant=self._name, id=attempt.checkpoint)

    def _insistently(self, request: Callable[[], None]) -> None:
        for tries_left in reversed(range(self._times.release_tries)):
            try:
                return request()
            except ZeebeOutcomeUnknown as error:
                if not tries_left:
                    raise ParticipantUnreachable(str(error)) from error
                self._clock.sleep(self._times.release_s)
        return None

    def _is_over(self, since_s: float, limit_s: float) -> bool:
        return self._clock.monotonic_s() - since_s >= limit_s
