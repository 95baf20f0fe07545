"""The stages of a declared restore: toggle, check. Pure. Every observation leads to one step or none.

A restore runs in attempts of one job each. First the log of the restore records an attempt, next its job is requested
under an idempotency key of the attempt, last the job starts. After the death of an operator the next round continues
from the stored state. Only a job with a vanished process is followed by another attempt, with the same words, after the
lost job was shut out and its leases in the repository expired. Every other end is the end of the restore.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from offsite.jobs.status import JobState
from offsite.operator.decide.desired_restore import DesiredRestore
from offsite.operator.resources.jobs import RestoreState
from offsite.repository.declared.restore_log import AttemptEnd, AttemptOutcome, Failure, RestoreHistory
from offsite.repository.job import JobProgress

AHEAD_S = 300.0
"""Clocks differ by less: a log time further ahead is not believed, and counts as past."""
ATTEMPTS_MAX = 20
"""A restore whose process vanished so often is reported as failed: something kills the process."""
SETTLE_S = 40.0
"""Seconds between the end of a lost job and the next attempt: leases of the lost process have expired by then."""
FORGOTTEN_S = 12 * 3600.0
"""If the job of an attempt is not found after so long, the records of the job were deleted (not allowed within a
day)."""
_OUTCOMES = {
    JobState.SUCCEEDED: AttemptOutcome.SUCCEEDED,
    JobState.PARTIAL: AttemptOutcome.PARTIAL,
    JobState.FAILED: AttemptOutcome.FAILED,
    JobState.CANCELLED: AttemptOutcome.CANCELLED,
}
_FORGOTTEN = Failure(
    id="",
    message="its result is unknown: the records of its job were deleted",
    hint="check the topics in the cluster",
)
_UNPROVEN = Failure(
    id="",
    message="not proven: its log says that it succeeded, but no job confirms this",
    hint="its records were deleted, or it never ran: compare with offsite verify --against",
)


class RestorePhase(StrEnum):
    PENDING = "Pending"
    """Nothing has started yet."""
    WAITING = "Waiting"
    """Waits for another restore of the tag, for room, or for the leases of a vanished process."""
    RUNNING = "Running"
    STOPPING = "Stopping"
    COMPLETED = "Completed"
    PARTIALLY_COMPLETED = "PartiallyCompleted"
    """Finished, with some parts left out: the result of the job names them."""
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def is_final(self) -> bool:
        return self in _PHASES.values()


class RestoreConditionType(StrEnum):
    """Why a restore differs from its spec. No condition: the restore is reconciled."""

    INCORRECT_RESTORE_STATE = "IncorrectRestoreState"
    """The restore has not completed, or runs and is to be stopped."""
    MISCONFIGURED_RESTORE = "MisconfiguredRestore"
    """The restore cannot start as declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCondition:
    type: RestoreConditionType
    message: str


class TagAvailability(StrEnum):
    """Who has the tag in the cluster: one restore at a time."""

    HELD = "held"
    FREE = "free"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """The job of the newest attempt. `is_shut_out`: the job was given up as lost."""

    id: str
    state: JobState
    is_cancelled: bool = False
    is_shut_out: bool = False
    progress: JobProgress | None = None
    verified: bool | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRestore:
    """The observed state of a restore. `job`: None if no job is requested yet. `now_ms`: the repository's clock.
    `problem`: why the restore cannot start. `waits_for`: the holder of the tag. `witness`: the job of a finished
    restore; None if the job is not found, or did not succeed."""

    history: RestoreHistory
    job: ObservedJob | None
    tag: TagAvailability
    now_ms: int
    problem: str = ""
    waits_for: str = ""
    witness: ObservedJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeTag:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveTag:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginAttempt:
    """Decide the attempt, request its job, start its process: each unless already done."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawAttempt:
    """Prevent the job of a decided attempt from ever starting."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUpJob:
    """Shut out a lost job, whatever its process still does."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEnd:
    """Record the end of the newest attempt."""

    end: AttemptEnd


RestoreStep = TakeTag | GiveTag | BeginAttempt | WithdrawAttempt | CancelJob | GiveUpJob | RecordEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStatus:
    """The status of a restore. `job`: newest job; empty: none. `verified`: whether all written records were read back
    and equal the backup; None: not compared."""

    phase: RestorePhase
    job: str = ""
    attempts: int = 0
    progress: JobProgress | None = None
    failure: Failure | None = None
    verified: bool | None = None
    conditions: tuple[RestoreCondition, ...] = ()


def is_final(phase: object) -> bool:
    """Whether a restore with the reported `phase` is over for good."""
    return phase in {final_phase.value for final_phase in _PHASES.values()}


def decide_restore(desired: DesiredRestore, observed: ObservedRestore) -> RestoreStep | None:
    """Toggle: return the step of now; None: no step."""
    history = observed.history
    if history.is_over:
        return GiveTag() if observed.tag is TagAvailability.HELD else None
    if history.is_under_way:
        return _watch(desired, observed)
    if desired.state is RestoreState.STOPPED:
        return RecordEnd(end=AttemptEnd(outcome=AttemptOutcome.CANCELLED, job=history.end.job if history.end else ""))
    return RecordEnd(end=_worn_out(history)) if history.attempt >= ATTEMPTS_MAX else _begin(observed)


def _begin(observed: ObservedRestore) -> RestoreStep | None:
    """Take the tag, then start the next attempt."""
    if observed.problem or _settles(observed):
        return None
    if observed.tag is not TagAvailability.HELD:
        return TakeTag() if observed.tag is TagAvailability.FREE else None
    return BeginAttempt(attempt=observed.history.attempt + 1)


def check_restore(desired: DesiredRestore, observed: ObservedRestore) -> RestoreStatus:
    """Check: return the phase, and the differences from the spec."""
    history, job = observed.history, observed.job
    end = history.end if history.is_over else None
    phase = _phase(desired, observed)
    is_unproven = end is not None and end.outcome is AttemptOutcome.SUCCEEDED and observed.witness is None
    return RestoreStatus(
        phase=phase,
        job=end.job if end is not None else job.id if job else "",
        attempts=history.attempt,
        progress=job.progress if job else None,
        failure=_UNPROVEN if is_unproven else end.failure if end is not None else None,
        verified=None if end is None or is_unproven else end.verified,
        conditions=_conditions(desired, observed, phase),
    )


def _watch(desired: DesiredRestore, observed: ObservedRestore) -> RestoreStep | None:
    """The step while an attempt is decided and has not ended."""
    job, attempt = observed.job, observed.history.attempt
    is_stopped = desired.state is RestoreState.STOPPED
    if job is None:
        if observed.now_ms - observed.history.begun_ms > FORGOTTEN_S * 1000:
            return RecordEnd(end=AttemptEnd(outcome=AttemptOutcome.UNKNOWN, failure=_FORGOTTEN))
        return WithdrawAttempt(attempt=attempt) if is_stopped else BeginAttempt(attempt=attempt)
    if job.state is JobState.LOST and job.is_shut_out:
        return RecordEnd(end=AttemptEnd(outcome=AttemptOutcome.LOST, job=job.id))
    if job.state in _OUTCOMES:
        return RecordEnd(
            end=AttemptEnd(outcome=_OUTCOMES[job.state], job=job.id, verified=job.verified, failure=_failure_of(job))
        )
    if is_stopped and not job.is_cancelled:
        return CancelJob(job=job.id)
    return GiveUpJob(job=job.id) if job.state is JobState.LOST else None


def _failure_of(job: ObservedJob) -> Failure | None:
    if job.state is JobState.FAILED and job.failure is None:
        return Failure(id="", message="its command failed without a reason", hint=f"see: offsite jobs show {job.id}")
    return job.failure


def _worn_out(history: RestoreHistory) -> AttemptEnd:
    job = history.end.job if history.end else ""
    said = f"its process disappeared {history.attempt} times"
    failure = Failure(id="", message=said, hint="check the memory of the machine, then declare a new restore")
    return AttemptEnd(outcome=AttemptOutcome.FAILED, job=job, failure=failure)


def _settles(observed: ObservedRestore) -> bool:
    """Whether leases of a lost job may still be valid."""
    return (
        observed.history.end is not None and -AHEAD_S < (observed.now_ms - observed.history.ended_ms) / 1000 < SETTLE_S
    )


def _phase(desired: DesiredRestore, observed: ObservedRestore) -> RestorePhase:
    history, job = observed.history, observed.job
    if history.is_over and history.end is not None:
        return _PHASES[history.end.outcome]
    is_stopped = desired.state is RestoreState.STOPPED
    if history.is_under_way and job is not None:
        is_ending = is_stopped or job.is_cancelled
        return RestorePhase.STOPPING if is_ending else RestorePhase.RUNNING
    if history.attempt or observed.tag is TagAvailability.TAKEN:
        return RestorePhase.STOPPING if is_stopped else RestorePhase.WAITING
    return RestorePhase.PENDING


def _conditions(
    desired: DesiredRestore, observed: ObservedRestore, phase: RestorePhase
) -> tuple[RestoreCondition, ...]:
    if observed.problem and not phase.is_final:
        return (RestoreCondition(type=RestoreConditionType.MISCONFIGURED_RESTORE, message=observed.problem),)
    wrong = _wrong_state(desired, observed, phase)
    return (RestoreCondition(type=RestoreConditionType.INCORRECT_RESTORE_STATE, message=wrong),) if wrong else ()


def _wrong_state(desired: DesiredRestore, observed: ObservedRestore, phase: RestorePhase) -> str:
    if desired.state is RestoreState.STOPPED:
        return "" if phase.is_final else f"it is {phase}, but should be stopped"
    if phase is RestorePhase.COMPLETED:
        return "its job is missing: there is no proof that the restore was done" if observed.witness is None else ""
    if phase is RestorePhase.WAITING and observed.tag is TagAvailability.TAKEN:
        return (
            f"it waits for {observed.waits_for or 'another restore'} with the tag {desired.tag} into {desired.cluster}"
        )
    if phase is RestorePhase.WAITING:
        return "its process disappeared: the restore continues soon"
    failure = observed.history.end.failure if observed.history.end else None
    said = f": {failure.message}" if failure else ""
    return f"it is {phase}, not completed{said}"


_PHASES = {
    AttemptOutcome.SUCCEEDED: RestorePhase.COMPLETED,
    AttemptOutcome.PARTIAL: RestorePhase.PARTIALLY_COMPLETED,
    AttemptOutcome.FAILED: RestorePhase.FAILED,
    AttemptOutcome.UNKNOWN: RestorePhase.FAILED,
    AttemptOutcome.CANCELLED: RestorePhase.STOPPED,
}
