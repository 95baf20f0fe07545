"""Brings a declared restore one step nearer to its spec, and reports the new state.

Every changing step is decided again under the lock of the restore, on an observation made under the lock, and the
number of the lock goes into the log of the restore. One of several operators decides an attempt. The job of the attempt
is requested by a create-only object, so the next operator continues after a crash, and no job starts twice. An operator
with an old observation, or an operator that slept, could still start an attempt (the log refuses), request the job of a
running attempt (the same job, started by the first requester), or request the job of a withdrawn attempt (already
requested and ended).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import assert_never

from offsite.jobs.ask import JobRequest, cancel_job
from offsite.jobs.end import find_job_of_word, withdraw_job
from offsite.jobs.status import JobState, read_job
from offsite.model.errors import (
    BadName,
    DamagedObject,
    JobNotBegun,
    JobNotFound,
    LeaseHeld,
    NoRepository,
    OffsiteError,
    TooManyJobs,
    UserError,
)
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.operator.decide.desired_restore import DesiredRestore, resolve_stopped_restore
from offsite.operator.decide.restore import (
    AHEAD_S,
    BeginAttempt,
    CancelJob,
    GiveTag,
    GiveUpJob,
    ObservedJob,
    ObservedRestore,
    RecordEnd,
    RestoreStatus,
    RestoreStep,
    TagAvailability,
    TakeTag,
    WithdrawAttempt,
    check_restore,
    decide_restore,
)
from offsite.operator.world.claims import TagHolder, TagName, Tags
from offsite.operator.world.jobs import BY, JobStarter, observe_job
from offsite.operator.world.observe import Observer, read_history
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import owner_of
from offsite.repository.declared.restore_log import (
    AttemptEnd,
    AttemptOutcome,
    RestoreEntry,
    RestoreHistory,
    restore_log,
)
from offsite.stores.numbered_log import EntryRefusedError
from offsite.stores.store import Store

KIND = "restore"
STEPS_MAX = 4
"""Steps of one reconciliation: take the tag, begin; or record the end, release the tag."""
GONE_MS = 3_600_000
"""A tag is taken from a restore that no operator here has known for so long, if no job of the restore runs."""


IsRestoreInForce = Callable[[DesiredRestore], bool]
"""Whether the desired restore is still in force, so that an attempt may start."""
_STOPPED = {JobState.LOST, JobState.SUCCEEDED, JobState.PARTIAL, JobState.FAILED, JobState.CANCELLED}


def _always(desired: DesiredRestore) -> bool:  # noqa: ARG001  # as `IsRestoreInForce`
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreExecutor:
    """The means to observe and execute a restore. `tags`: tags in the store that all operators of a home share.
    `namespace`: namespace of the tags. `in_force` is asked under the lock: the log of a restore does not show the
    deletion of the resource."""

    jobs: JobStarter
    tags: Tags
    namespace: str = ""
    in_force: IsRestoreInForce = _always

    @property
    def observer(self) -> Observer:
        return self.jobs.observer

    def reconcile(self, desired: DesiredRestore, *, declared_uids: Collection[str]) -> RestoreStatus:
        """Execute the decided steps, and return the status. `declared_uids`: uids of all declared restores. Raises the
        errors of an observation: then nothing was decided."""
        problem = ""
        for _ in range(STEPS_MAX):
            observed = self.look(desired, declared_uids=declared_uids)
            if (step := decide_restore(desired, observed)) is None:
                return check_restore(desired, observed)
            try:
                self.carry_out(desired, step, declared_uids=declared_uids)
            except (LeaseHeld, TooManyJobs, JobNotBegun) as error:  # another operator acts, or no room is free
                decided("restore_waits", why=error.message, uid=desired.uid)
                break
            except OffsiteError as error:
                problem = f"{error.id}: {error.message}{'; ' if error.hint else ''}{error.hint}"
                break
        return check_restore(desired, self.look(desired, declared_uids=declared_uids, problem=problem))

    def look(
        self, desired: DesiredRestore, *, declared_uids: Collection[str] = (), problem: str = ""
    ) -> ObservedRestore:
        """Observe a restore. Raises `DamagedObject`, and the errors of the store."""
        store = self.observer.open_store(desired.place)
        history = restore_log(store, desired.uid).read()
        tag, waits_for = self._tag_of(desired, declared_uids)
        return ObservedRestore(
            history=history,
            job=self._job(store, history),
            tag=tag,
            now_ms=store.now_ms(),
            problem=problem or _wrong_source(store, desired),
            waits_for=waits_for,
            witness=_witness(store, history),
        )

    def is_barred(self, desired: DesiredRestore) -> bool:
        """Whether no entry can follow in the log of a restore, and no job of the restore runs. Raises the errors of
        `look`."""
        store, observed = self.observer.open_store(desired.place), self.look(desired)
        is_idle = observed.job is None or observed.job.state in _STOPPED
        return is_idle and _is_barred(store, DeclaredLayout(uid=desired.uid), observed.history)

    def free_tag(self, desired: DesiredRestore) -> None:
        """Release the tag of a deleted restore that no operator can start any more."""
        self.tags.give(self._tag(desired), desired.uid)

    def carry_out(self, desired: DesiredRestore, step: RestoreStep, *, declared_uids: Collection[str] = ()) -> None:
        """Execute one step. Raises `LeaseHeld` while another operator holds the lock, or a process works on a job
        that is to be given up; `TooManyJobs`, `JobNotBegun`, `RequestRepeated`, `BadResource`, and the errors of the
        store."""
        store, layout = self.observer.open_store(desired.place), DeclaredLayout(uid=desired.uid)
        with layout.lock(store).held(self.observer.identity) as claim:
            observed = self.look(desired, declared_uids=declared_uids)
            if decide_restore(desired, observed) != step:
                return  # another operator executed the step
            if isinstance(step, RecordEnd | BeginAttempt):
                _check_fence(store, layout, observed.history)
            match step:
                case TakeTag() | BeginAttempt():
                    self._advance(desired, step, observed, claim.term)
                case GiveTag():
                    self.tags.give(self._tag(desired), desired.uid)
                case WithdrawAttempt():
                    self._withdraw(store, desired.uid, step.attempt)
                case CancelJob():
                    cancel_job(store, step.job, by=BY)
                case GiveUpJob():
                    self.jobs.give_up(store, step.job)
                case RecordEnd():
                    self._append(store, observed.history, claim.term, observed.history.attempt, step.end)
                case _:
                    assert_never(step)

    def _advance(
        self, desired: DesiredRestore, step: TakeTag | BeginAttempt, observed: ObservedRestore, fence: int
    ) -> None:
        """Take the tag or start the attempt, if the spec is still in force."""
        if not self.in_force(desired):
            decided("not_any_more", why="it is being deleted, or another spec is in force", uid=desired.uid)
            return
        # an unknown cluster or account is reported before a decision, and before other restores lose the tag
        self.jobs.environment_of(desired.place, desired.cluster)
        if isinstance(step, TakeTag):
            self.tags.take(self._tag(desired), desired.uid, desired.place, name=desired.name)
        else:
            self._begin(desired, observed, fence)

    def _begin(self, desired: DesiredRestore, observed: ObservedRestore, fence: int) -> None:
        store, history = self.observer.open_store(desired.place), observed.history
        if history.ended_ms - store.now_ms() > AHEAD_S * 1000:
            warned("not_yet", why="its log has an end in the future: the end counts as past", uid=history.uid)
        if not history.is_under_way:
            with self.jobs.processes.room():  # a decided attempt that waits for hours would look like a running one
                started = self._append(store, history, fence, history.attempt + 1, None)
            if started is None:
                return
            history = started
        request = JobRequest(
            kind=KIND, arguments=desired.arguments, backup=desired.backup, by=BY, cluster=desired.cluster
        )
        word = idempotency_word(desired.uid, history.attempt)
        self.jobs.begin(desired.place, request, word=word)

    def _withdraw(self, store: Store, uid: str, attempt: int) -> None:
        withdraw_job(store, kind=KIND, by=BY, word=idempotency_word(uid, attempt), identity=self.observer.identity)

    def _append(
        self, store: Store, history: RestoreHistory, fence: int, attempt: int, end: AttemptEnd | None
    ) -> RestoreHistory | None:
        entry = RestoreEntry(
            seq=history.seq + 1,
            previous=history.head,
            attempt=attempt,
            fence=fence,
            word=random_id(16),
            at_ms=store.now_ms(),
            by=self.observer.identity.text,
            end=end,
        )
        try:
            appended = restore_log(store, history.uid).append(entry, to=history)
        except EntryRefusedError as error:
            decided("not_any_more", why=str(error), uid=history.uid, what="restore")
            return None
        if appended is not None:
            decided("restore", why=end.outcome.value if end else "begun", uid=history.uid, attempt=attempt, fence=fence)
        return appended

    def _job(self, store: Store, history: RestoreHistory) -> ObservedJob | None:
        """Return the job of the attempt under way; None if the job is not requested yet, or its records were
        deleted."""
        if not history.is_under_way:
            return None
        job = find_job_of_word(store, kind=KIND, by=BY, word=idempotency_word(history.uid, history.attempt))
        try:
            return None if job is None else observe_job(read_job(store, job))
        except JobNotFound:
            return None

    # -- the tag -------------------------------------------------------------------------------------------------------

    def _tag_of(self, desired: DesiredRestore, declared_uids: Collection[str]) -> tuple[TagAvailability, str]:
        """Return who has the tag; and, if another restore has the tag, a text about that restore."""
        if (holder := self.tags.holder(self._tag(desired))) is None:
            return TagAvailability.FREE, ""
        if holder.uid == desired.uid:
            return TagAvailability.HELD, ""
        waits_for = f"restore {holder.name or holder.uid}"
        try:
            is_over = self._is_over(desired, holder, declared_uids)
        except OffsiteError as error:
            is_over = is_unreachable(error) and self._is_gone(desired, holder, declared_uids)
            where = f"repository {holder.place.repository} cannot be opened"
            cause = where if is_unreachable(error) else "end is unknown"
            waits_for += f", whose {cause} ({error.id}: {error.message})"
        if not is_over:
            return TagAvailability.TAKEN, waits_for
        self.tags.give(self._tag(desired), holder.uid)  # the operator of that restore died before the release
        return TagAvailability.FREE, ""

    def _tag(self, desired: DesiredRestore) -> TagName:
        return TagName(cluster=desired.cluster, tag=desired.tag, namespace=self.namespace)

    def _is_gone(self, desired: DesiredRestore, holder: TagHolder, declared_uids: Collection[str]) -> bool:
        """Whether no operator here has known the holder for long. Only asked for a declared restore."""
        is_long = self.tags.now_ms() - holder.since_ms > GONE_MS
        return is_long and holder.uid not in declared_uids and desired.uid in declared_uids

    def _is_over(self, desired: DesiredRestore, holder: TagHolder, declared_uids: Collection[str]) -> bool:
        """Whether the restore with the tag is over. The restore of a deleted resource runs to its end. A job without a
        start, or a lost job, is withdrawn first. Hence no operator with old knowledge can start the job."""
        store = self.observer.open_store(holder.place)
        log = restore_log(store, holder.uid)
        if (history := log.read()).is_over:
            return True
        job = self._job(store, history)
        if self._is_gone(desired, holder, declared_uids) and (job is None or job.state in _STOPPED):
            self._end(desired, holder)
        return log.read().is_over

    def _end(self, desired: DesiredRestore, holder: TagHolder) -> None:
        """End a restore whose resource is deleted, as if the spec said `stopped`."""
        gone = resolve_stopped_restore(holder.uid, holder.place, cluster=desired.cluster, tag=desired.tag)
        for _ in range(STEPS_MAX):
            step = decide_restore(gone, self.look(gone))
            if step is None or isinstance(step, GiveTag):
                return
            try:
                self.carry_out(gone, step)
            except LeaseHeld:
                return


def idempotency_word(uid: str, attempt: int) -> str:
    """The idempotency key of the job of an attempt."""
    return f"restore-{uid}-{attempt}"


def is_unreachable(error: OffsiteError) -> bool:
    """Whether a repository cannot be opened because of a setting: waiting alone changes nothing."""
    return isinstance(error, UserError | NoRepository)


def _check_fence(store: Store, layout: DeclaredLayout, history: RestoreHistory) -> None:
    """Raises `DamagedObject` for a log entry by a lock number that no process ever held: no entry could follow, and all
    restores would wait."""
    if _is_barred(store, layout, history):
        raise DamagedObject(
            f"entry {history.seq} of restore {history.uid} is by lock {history.fence}, which does not exist yet",
            hint="no operator wrote the entry: declare the restore again under another name",
        )


def _is_barred(store: Store, layout: DeclaredLayout, history: RestoreHistory) -> bool:
    return bool(history.fence) and history.fence > layout.lock(store).newest_term()


def _witness(store: Store, history: RestoreHistory) -> ObservedJob | None:
    """Return the job that succeeded according to the log, found by its own records and by the idempotency key of the
    attempt."""
    end = history.end
    if end is None or end.outcome is not AttemptOutcome.SUCCEEDED:
        return None
    if (
        find_job_of_word(store, kind=KIND, by=BY, word=idempotency_word(history.uid, history.attempt)) != end.job
        or not end.job
    ):
        return None
    try:
        report = read_job(store, end.job)
    except (JobNotFound, BadName):
        return None
    return observe_job(report) if report.state is JobState.SUCCEEDED else None


def _wrong_source(store: Store, desired: DesiredRestore) -> str:
    """Return why the backup is not a backup of the cluster of `timestamp`. Only a declared backup has a cluster
    name."""
    if not desired.source_cluster:
        return ""
    try:
        owner = owner_of(store, desired.backup)
        history = None if owner is None else read_history(store, owner)
    except BadName:
        return ""
    lows = [low for low in history.backups if low.beginning.backup == desired.backup] if history else []
    clusters = {low.beginning.cluster for low in lows}
    if not clusters or desired.source_cluster in clusters:
        return ""
    return f"the backup {desired.backup} belongs to {', '.join(sorted(clusters))}, not to {desired.source_cluster}"
