"""The stages of a declared restore: toggle, check. Pure; each look says one thing to do, or nothing.

A restore is done by attempts, one job each. An attempt is decided in the log of the restore, then asked for as a job
under a word of its own, then begun; whoever dies between two of them leaves what the next look goes on with. Only a job
whose process vanished is followed by another attempt, with the same words, when that job is shut out and what it held
in the repository has run out. Every other end is the end of the restore.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from offsite.model.choices import Keyless
from offsite.model.errors import BadName, BadOption, BadResource
from offsite.model.selections.pattern_list import split_patterns
from offsite.model.selections.selection import NONE
from offsite.model.selections.topic_choices import parse_partition_counts
from offsite.model.size import parse_rate
from offsite.model.time import format_time, parse_time
from offsite.model.untrusted.names import check_backup_name
from offsite.operator.decide.command import option_words
from offsite.operator.decide.wanted import Account, Place, account_of, foreign_query, place_of
from offsite.operator.resources.restore import Restore, RestoreSpec, RestoreState
from offsite.repository.declared.restore_log import End, Failure, Outcome, RestoreHistory
from offsite.repository.jobs.record import JobProgress
from offsite.services.jobs.status import JobState
from offsite.services.restore.options import parse_batch_bytes

AHEAD_S = 300.0
"""Clocks differ by less: what a log dates further ahead is not believed, and counts as past."""
ATTEMPTS_MAX = 20
"""A restore whose process vanished so often is told to have failed: something kills it."""
SETTLE_S = 40.0
"""Seconds between the end of a lost job and the next attempt: a lease that its process held has run out by then."""
FORGOTTEN_S = 12 * 3600.0
"""An attempt whose job is not found after so long: its records were deleted, which nobody may do within a day."""


class RestorePhase(StrEnum):
    PENDING = "Pending"
    """Nothing is begun yet."""
    WAITING = "Waiting"
    """For another restore of its tag, for room, or for what a vanished process held."""
    RUNNING = "Running"
    STOPPING = "Stopping"
    COMPLETED = "Completed"
    PARTIALLY_COMPLETED = "PartiallyCompleted"
    """Finished, with some parts left out: the result of its job tells which."""
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def is_final(self) -> bool:
        return self in _PHASES.values()


class RestoreConditionType(StrEnum):
    """Why a restore is not as it is declared. None of them: it is reconciled."""

    INCORRECT_RESTORE_STATE = "IncorrectRestoreState"
    """It has not completed, or runs and is to be stopped."""
    MISCONFIGURED_RESTORE = "MisconfiguredRestore"
    """It cannot be begun as it is declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCondition:
    type: RestoreConditionType
    message: str


class Tag(StrEnum):
    """Who has the tag in the cluster: one restore at a time."""

    HELD = "held"
    FREE = "free"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreWanted:
    """What a restore asks for. `source_cluster`: of which cluster the backup has to be, empty where that does not
    matter. `arguments`: the command line, without where the repository and the cluster are. `name`: for people."""

    uid: str
    state: RestoreState
    place: Place
    backup: str
    cluster: str
    tag: str
    source_cluster: str
    arguments: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """The job of the newest attempt. `is_shut_out`: it was given up as lost."""

    id: str
    state: JobState
    is_cancelled: bool = False
    is_shut_out: bool = False
    progress: JobProgress | None = None
    verified: bool | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSeen:
    """`job`: None where none is asked for yet; `now_ms` by the repository's clock. `problem`: why it cannot begin;
    `waits_for`: who has the tag. `witness`: the job of a restore that is over, None where it is not there, or did not
    succeed."""

    history: RestoreHistory
    job: JobSeen | None
    tag: Tag
    now_ms: int
    problem: str = ""
    waits_for: str = ""
    witness: JobSeen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeTag:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveTag:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Decide the attempt, if it is not decided; ask for its job; begin its process, if nobody has asked before."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Let the job of an attempt that was decided never begin."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Shut a lost job out, whatever its process is up to."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Write down how the newest attempt ended."""

    end: End


RestoreStep = TakeTag | GiveTag | Begin | Withdraw | Cancel | GiveUp | Tell


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStatus:
    """What is told of a restore. `job`: its newest one, empty for none. `verified`: what was written was read back and
    is what the backup holds; None: nobody looked."""

    phase: RestorePhase
    job: str = ""
    attempts: int = 0
    progress: JobProgress | None = None
    failure: Failure | None = None
    verified: bool | None = None
    conditions: tuple[RestoreCondition, ...] = ()


def is_final(phase: object) -> bool:
    """Whether a restore that was told to be in `phase` is over for good."""
    return phase in {each.value for each in _PHASES.values()}


def restore_wanted(restore: Restore, accounts: Sequence[Account], *, kept: str = "") -> RestoreWanted:
    """What `restore` asks for. `kept`: the account that it has where it names none. Raises `BadResource`."""
    spec, who = restore.spec, f"restore {restore.metadata.name}"
    repository, _, backup = spec.backup_url.rpartition("#")
    if problem := foreign_query(repository, "spec.backupUrl"):
        raise BadResource(problem)
    account = account_of(spec.account or kept, accounts, who)
    try:
        check_backup_name(backup)
    except BadName as error:
        raise BadResource(f"{who}: {error.message}", hint="write backupUrl as REPOSITORY#BACKUP") from error
    return RestoreWanted(
        uid=restore.metadata.uid,
        state=spec.state,
        place=place_of(account, repository),
        backup=backup,
        cluster=spec.cluster,
        tag=spec.tag,
        source_cluster=spec.source_cluster if spec.timestamp and not spec.commit else "",
        arguments=restore_words(spec, backup, who),
        name=restore.metadata.name,
    )


def leaving(uid: str, place: Place, *, cluster: str, tag: str) -> RestoreWanted:
    """What is asked for where a resource goes, or is gone: that its restore is stopped. Nothing begins by it."""
    return RestoreWanted(
        uid=uid,
        state=RestoreState.STOPPED,
        place=place,
        backup="",
        cluster=cluster,
        tag=tag,
        source_cluster="",
        arguments=(),
    )


def decide_restore(wanted: RestoreWanted, seen: RestoreSeen) -> RestoreStep | None:
    """Toggle: what to do now, None for nothing."""
    history = seen.history
    if history.is_over:
        return GiveTag() if seen.tag is Tag.HELD else None
    if history.is_under_way:
        return _watch(wanted, seen)
    if wanted.state is RestoreState.STOPPED:
        return Tell(end=End(outcome=Outcome.CANCELLED, job=history.end.job if history.end else ""))
    return Tell(end=_worn_out(history)) if history.attempt >= ATTEMPTS_MAX else _begin(seen)


def _begin(seen: RestoreSeen) -> RestoreStep | None:
    """The tag, then the next attempt."""
    if seen.problem or _settles(seen):
        return None
    if seen.tag is not Tag.HELD:
        return TakeTag() if seen.tag is Tag.FREE else None
    return Begin(attempt=seen.history.attempt + 1)


def check_restore(wanted: RestoreWanted, seen: RestoreSeen) -> RestoreStatus:
    """Check: the phase, and what is not as declared."""
    history, job = seen.history, seen.job
    end = history.end if history.is_over else None
    phase = _phase(wanted, seen)
    is_unproven = end is not None and end.outcome is Outcome.SUCCEEDED and seen.witness is None
    return RestoreStatus(
        phase=phase,
        job=end.job if end is not None else job.id if job else "",
        attempts=history.attempt,
        progress=job.progress if job else None,
        failure=_UNPROVEN if is_unproven else end.failure if end is not None else None,
        verified=None if end is None or is_unproven else end.verified,
        conditions=_conditions(wanted, seen, phase),
    )


def _watch(wanted: RestoreWanted, seen: RestoreSeen) -> RestoreStep | None:
    """An attempt is decided, and has not ended."""
    job, attempt = seen.job, seen.history.attempt
    is_stopped = wanted.state is RestoreState.STOPPED
    if job is None:
        if seen.now_ms - seen.history.begun_ms > FORGOTTEN_S * 1000:
            return Tell(end=End(outcome=Outcome.UNKNOWN, failure=_FORGOTTEN))
        return Withdraw(attempt=attempt) if is_stopped else Begin(attempt=attempt)
    if job.state is JobState.LOST and job.is_shut_out:
        return Tell(end=End(outcome=Outcome.LOST, job=job.id))
    if job.state in _OUTCOMES:
        return Tell(end=End(outcome=_OUTCOMES[job.state], job=job.id, verified=job.verified, failure=_failure_of(job)))
    if is_stopped and not job.is_cancelled:
        return Cancel(job=job.id)
    return GiveUp(job=job.id) if job.state is JobState.LOST else None


def _failure_of(job: JobSeen) -> Failure | None:
    if job.state is JobState.FAILED and job.failure is None:
        return Failure(
            id="", message="its command failed, and did not say why", hint=f"see: offsite jobs show {job.id}"
        )
    return job.failure


def _worn_out(history: RestoreHistory) -> End:
    job = history.end.job if history.end else ""
    said = f"its process vanished {history.attempt} times"
    failure = Failure(id="", message=said, hint="look at the memory of the machine, then declare a new restore")
    return End(outcome=Outcome.FAILED, job=job, failure=failure)


def _settles(seen: RestoreSeen) -> bool:
    """Whether what a lost job held may still be held."""
    return seen.history.end is not None and -AHEAD_S < (seen.now_ms - seen.history.ended_ms) / 1000 < SETTLE_S


def _phase(wanted: RestoreWanted, seen: RestoreSeen) -> RestorePhase:
    history, job = seen.history, seen.job
    if history.is_over and history.end is not None:
        return _PHASES[history.end.outcome]
    is_stopped = wanted.state is RestoreState.STOPPED
    if history.is_under_way and job is not None:
        is_ending = is_stopped or job.is_cancelled
        return RestorePhase.STOPPING if is_ending else RestorePhase.RUNNING
    if history.attempt or seen.tag is Tag.TAKEN:
        return RestorePhase.STOPPING if is_stopped else RestorePhase.WAITING
    return RestorePhase.PENDING


def _conditions(wanted: RestoreWanted, seen: RestoreSeen, phase: RestorePhase) -> tuple[RestoreCondition, ...]:
    if seen.problem and not phase.is_final:
        return (RestoreCondition(type=RestoreConditionType.MISCONFIGURED_RESTORE, message=seen.problem),)
    wrong = _wrong_state(wanted, seen, phase)
    return (RestoreCondition(type=RestoreConditionType.INCORRECT_RESTORE_STATE, message=wrong),) if wrong else ()


def _wrong_state(wanted: RestoreWanted, seen: RestoreSeen, phase: RestorePhase) -> str:
    if wanted.state is RestoreState.STOPPED:
        return "" if phase.is_final else f"it is {phase}, and is to be stopped"
    if phase is RestorePhase.COMPLETED:
        return "its job is not found: that it was done is not proven" if seen.witness is None else ""
    if phase is RestorePhase.WAITING and seen.tag is Tag.TAKEN:
        return f"it waits for {seen.waits_for or 'another restore'}, of the tag {wanted.tag} into {wanted.cluster}"
    if phase is RestorePhase.WAITING:
        return "its process vanished: it goes on soon"
    failure = seen.history.end.failure if seen.history.end else None
    said = f": {failure.message}" if failure else ""
    return f"it is {phase}, and has not completed{said}"


def restore_words(spec: RestoreSpec, backup: str, who: str) -> tuple[str, ...]:
    """The command line of a restore: the same for each attempt, so that the command goes on where it was. Raises
    `BadResource`."""
    if not spec.topics:
        raise BadResource(f"{who}: it names no topics", hint="leave topics away for all of the backup")
    _check_limits(spec, who)
    point = {"commit": spec.commit or None, "committed-at": None if spec.commit else _time(spec.timestamp, who)}
    words = option_words(
        who,
        {
            "backup": backup,
            **point,
            "topics": spec.topics,
            "rename": spec.rename,
            "repartition": spec.repartition,
            "keyless": spec.keyless if spec.keyless != Keyless.DEFAULT.value else None,
            "batch-bytes": spec.batch_bytes or None,
            "write-limit": spec.write_limit or None,
            "offsets": spec.offsets,
            "groups": tuple(split_patterns(spec.groups)) or (NONE,),
        },
    )
    return ("restore", "run", *words, "--yes")


def _check_limits(spec: RestoreSpec, who: str) -> None:
    """What the command would refuse is told by the names of fields. Raises `BadResource`."""
    try:
        if spec.write_limit:
            parse_rate(spec.write_limit, "spec.writeLimit")
        parse_batch_bytes(spec.batch_bytes or None, "spec.batchBytes")
    except BadOption as error:
        raise BadResource(f"{who}: {error.message}", hint=error.hint) from error
    try:
        parse_partition_counts(spec.repartition)
    except (BadOption, BadName) as error:
        raise BadResource(f"{who}: spec.repartition: {error.message}", hint="write orders=12, or 12 for all") from error


def _time(timestamp: str, who: str) -> str | None:
    """As one absolute time in UTC: `2h-ago` would be another one for each attempt."""
    if not timestamp:
        return None
    try:
        times = {parse_time(timestamp, now_ms=now_ms) for now_ms in (0, 1)}
    except (BadOption, ValueError, OverflowError) as error:
        said = error.message if isinstance(error, BadOption) else f"{timestamp[:40]!r} is not a time"
        raise BadResource(f"{who}: {said}", hint="write it as 2026-11-20T14:00:00Z") from error
    if len(times) > 1:
        raise BadResource(f"{who}: {timestamp!r} is another time whenever it is read", hint="write a date and a time")
    return format_time(times.pop())


_OUTCOMES = {
    JobState.SUCCEEDED: Outcome.SUCCEEDED,
    JobState.PARTIAL: Outcome.PARTIAL,
    JobState.FAILED: Outcome.FAILED,
    JobState.CANCELLED: Outcome.CANCELLED,
}
_PHASES = {
    Outcome.SUCCEEDED: RestorePhase.COMPLETED,
    Outcome.PARTIAL: RestorePhase.PARTIALLY_COMPLETED,
    Outcome.FAILED: RestorePhase.FAILED,
    Outcome.UNKNOWN: RestorePhase.FAILED,
    Outcome.CANCELLED: RestorePhase.STOPPED,
}
_FORGOTTEN = Failure(
    id="",
    message="how it ended is not known: the records of its job were deleted",
    hint="look at the topics in the cluster",
)
_UNPROVEN = Failure(
    id="",
    message="not proven: its log says that it succeeded, and no job of it tells so",
    hint="its records were deleted, or it never ran: compare with offsite verify --against",
)
