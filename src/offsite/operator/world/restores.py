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

from offsite.model.errors import (
    BadName,
    DamagedObject,
    JobNotBegun,
    JobNotFound,
    NoRepository,
    OffsiteError,
    RestoreRunning,
    TooManyJobs,
    UserError,
)
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.operator.decide.restore import (
    AHEAD_S,
    Begin,
    Cancel,
    GiveTag,
    GiveUp,
    JobSeen,
    RestoreSeen,
    RestoreStatus,
    RestoreStep,
    RestoreWanted,
    Tag,
    TakeTag,
    Tell,
    Withdraw,
    check_restore,
    decide_restore,
    leaving,
)
from offsite.operator.world.act import locked
from offsite.operator.world.job_end import job_seen
from offsite.operator.world.job_processes import BY, Jobs
from offsite.operator.world.look import Eyes, history_of
from offsite.operator.world.tags import TagHolder, TagName, Tags
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import owner_of
from offsite.repository.declared.restore_log import End, NotNextError, Outcome, RestoreEntry, RestoreHistory, RestoreLog
from offsite.repository.restores.lease import LeaseTerms
from offsite.services.jobs.ask import JobRequest, cancel_job
from offsite.services.jobs.give_up import job_of_word, withdraw_job
from offsite.services.jobs.status import JobState, job_report
from offsite.stores.store import Store

KIND = "restore"
STEPS_MAX = 4
"""Steps of one reconciliation: take the tag, begin; or record the end, release the tag."""
GONE_MS = 3_600_000
"""A tag is taken from a restore that no operator here has known for so long, if no job of the restore runs."""


InForce = Callable[[RestoreWanted], bool]
"""Whether the desired restore is still in force, so that an attempt may start."""


def _always(wanted: RestoreWanted) -> bool:  # noqa: ARG001  # as `IsRestoreInForce`
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreHands:
    """The means to observe and execute a restore. `tags`: tags in the store that all operators of a home share.
    `namespace`: namespace of the tags. `in_force` is asked under the lock: the log of a restore does not show the
    deletion of the resource."""

    jobs: Jobs
    tags: Tags
    namespace: str = ""
    in_force: InForce = _always

    @property
    def eyes(self) -> Eyes:
        return self.jobs.eyes

    def reconcile(self, wanted: RestoreWanted, *, known: Collection[str]) -> RestoreStatus:
        """Execute the decided steps, and return the status. `declared_uids`: uids of all declared restores. Raises the
        errors of an observation: then nothing was decided."""
        problem = ""
        for _ in range(STEPS_MAX):
            seen = self.look(wanted, known=known)
            if (step := decide_restore(wanted, seen)) is None:
                return check_restore(wanted, seen)
            try:
                self.carry_out(wanted, step, known=known)
            except (RestoreRunning, TooManyJobs, JobNotBegun) as error:  # another operator acts, or no room is free
                decided("restore_waits", why=error.message, uid=wanted.uid)
                break
            except OffsiteError as error:
                problem = f"{error.id}: {error.message}{'; ' if error.hint else ''}{error.hint}"
                break
        return check_restore(wanted, self.look(wanted, known=known, problem=problem))

    def look(self, wanted: RestoreWanted, *, known: Collection[str] = (), problem: str = "") -> RestoreSeen:
        """Observe a restore. Raises `DamagedObject`, and the errors of the store."""
        store = self.eyes.open_store(wanted.place)
        history = RestoreLog(store=store, layout=DeclaredLayout(uid=wanted.uid)).read()
        tag, waits_for = self._tag_of(wanted, known)
        return RestoreSeen(
            history=history,
            job=self._job(store, history),
            tag=tag,
            now_ms=store.now_ms(),
            problem=problem or _wrong_source(store, wanted),
            waits_for=waits_for,
            witness=_witness(store, history),
        )

    def is_barred(self, wanted: RestoreWanted) -> bool:
        """Whether no entry can follow in the log of a restore, and no job of the restore runs. Raises the errors of
        `look`."""
        store, seen = self.eyes.open_store(wanted.place), self.look(wanted)
        is_idle = seen.job is None or seen.job.state in _STOPPED
        return is_idle and _is_barred(store, DeclaredLayout(uid=wanted.uid), seen.history)

    def free_tag(self, wanted: RestoreWanted) -> None:
        """Release the tag of a deleted restore that no operator can start any more."""
        self.tags.give(self._tag(wanted), wanted.uid)

    def carry_out(self, wanted: RestoreWanted, step: RestoreStep, *, known: Collection[str] = ()) -> None:
        """Execute one step. Raises `RestoreRunning` while another operator holds the lock, or a process works on a job
        that is to be given up; `TooManyJobs`, `JobNotBegun`, `RequestRepeated`, `BadResource`, and the errors of the
        store."""
        store, layout = self.eyes.open_store(wanted.place), DeclaredLayout(uid=wanted.uid)
        with locked(store, layout, self.eyes) as fence:
            seen = self.look(wanted, known=known)
            if decide_restore(wanted, seen) != step:
                return  # another operator executed the step
            if isinstance(step, Tell | Begin):
                _check_fence(store, layout, seen.history)
            match step:
                case TakeTag() | Begin():
                    self._forth(wanted, step, seen, fence)
                case GiveTag():
                    self.tags.give(self._tag(wanted), wanted.uid)
                case Withdraw():
                    self._withdraw(store, wanted.uid, step.attempt)
                case Cancel():
                    cancel_job(store, step.job, by=BY)
                case GiveUp():
                    self.jobs.give_up(store, step.job)
                case Tell():
                    self._append(store, seen.history, fence, seen.history.attempt, step.end)
                case _:
                    assert_never(step)

    def _forth(self, wanted: RestoreWanted, step: TakeTag | Begin, seen: RestoreSeen, fence: int) -> None:
        """Take the tag or start the attempt, if the spec is still in force."""
        if not self.in_force(wanted):
            decided("not_any_more", why="it is being deleted, or another spec is in force", uid=wanted.uid)
            return
        # an unknown cluster or account is reported before a decision, and before other restores lose the tag
        self.jobs.environment_of(wanted.place, wanted.cluster)
        if isinstance(step, TakeTag):
            self.tags.take(self._tag(wanted), wanted.uid, wanted.place, name=wanted.name)
        else:
            self._begin(wanted, seen, fence)

    def _begin(self, wanted: RestoreWanted, seen: RestoreSeen, fence: int) -> None:
        store, history = self.eyes.open_store(wanted.place), seen.history
        if history.ended_ms - store.now_ms() > AHEAD_S * 1000:
            warned("not_yet", why="its log dates an end in the future: taken for past", uid=history.uid)
        if not history.is_under_way:
            with self.jobs.processes.room():  # a decided attempt that waits for hours would look like a running one
                begun = self._append(store, history, fence, history.attempt + 1, None)
            if begun is None:
                return
            history = begun
        request = JobRequest(kind=KIND, arguments=wanted.arguments, backup=wanted.backup, by=BY, cluster=wanted.cluster)
        word = word_of(wanted.uid, history.attempt)
        self.jobs.begin(wanted.place, request, word=word)

    def _withdraw(self, store: Store, uid: str, attempt: int) -> None:
        withdraw_job(store, kind=KIND, by=BY, word=word_of(uid, attempt), identity=self.eyes.identity)

    def _append(
        self, store: Store, history: RestoreHistory, fence: int, attempt: int, end: End | None
    ) -> RestoreHistory | None:
        entry = RestoreEntry(
            seq=history.seq + 1,
            previous=history.head,
            attempt=attempt,
            fence=fence,
            word=random_id(16),
            at_ms=store.now_ms(),
            by=self.eyes.identity.text,
            end=end,
        )
        try:
            found = RestoreLog(store=store, layout=DeclaredLayout(uid=history.uid)).append(entry, to=history)
        except NotNextError as error:
            decided("not_any_more", why=str(error), uid=history.uid, what="restore")
            return None
        if found is not None:
            decided("restore", why=end.outcome.value if end else "begun", uid=history.uid, attempt=attempt, fence=fence)
        return found

    def _job(self, store: Store, history: RestoreHistory) -> JobSeen | None:
        """Return the job of the attempt under way; None if the job is not requested yet, or its records were
        deleted."""
        if not history.is_under_way:
            return None
        job = job_of_word(store, kind=KIND, by=BY, word=word_of(history.uid, history.attempt))
        try:
            return None if job is None else job_seen(job_report(store, job))
        except JobNotFound:
            return None

    # -- the tag -------------------------------------------------------------------------------------------------------

    def _tag_of(self, wanted: RestoreWanted, known: Collection[str]) -> tuple[Tag, str]:
        """Return who has the tag; and, if another restore has the tag, a text about that restore."""
        if (holder := self.tags.holder(self._tag(wanted))) is None:
            return Tag.FREE, ""
        if holder.uid == wanted.uid:
            return Tag.HELD, ""
        waits_for = f"restore {holder.name or holder.uid}"
        try:
            is_over = self._is_over(wanted, holder, known)
        except OffsiteError as error:
            is_over = is_out_of_reach(error) and self._is_gone(wanted, holder, known)
            where = f"repository {holder.place.repository} cannot be opened"
            what = where if is_out_of_reach(error) else "end is not known"
            waits_for += f", whose {what} ({error.id}: {error.message})"
        if not is_over:
            return Tag.TAKEN, waits_for
        self.tags.give(self._tag(wanted), holder.uid)  # the operator of that restore died before the release
        return Tag.FREE, ""

    def _tag(self, wanted: RestoreWanted) -> TagName:
        return TagName(cluster=wanted.cluster, tag=wanted.tag, namespace=self.namespace)

    def _is_gone(self, wanted: RestoreWanted, holder: TagHolder, known: Collection[str]) -> bool:
        """Whether no operator here has known the holder for long. Only asked for a declared restore."""
        is_long = self.tags.now_ms() - holder.since_ms > GONE_MS
        return is_long and holder.uid not in known and wanted.uid in known

    def _is_over(self, wanted: RestoreWanted, holder: TagHolder, known: Collection[str]) -> bool:
        """Whether the restore with the tag is over. The restore of a deleted resource runs to its end. A job without a
        start, or a lost job, is withdrawn first. Hence no operator with old knowledge can start the job."""
        store = self.eyes.open_store(holder.place)
        log = RestoreLog(store=store, layout=DeclaredLayout(uid=holder.uid))
        if (history := log.read()).is_over:
            return True
        job = self._job(store, history)
        if self._is_gone(wanted, holder, known) and (job is None or job.state in _STOPPED):
            self._end(wanted, holder)
        return log.read().is_over

    def _end(self, wanted: RestoreWanted, holder: TagHolder) -> None:
        """End a restore whose resource is deleted, as if the spec said `stopped`."""
        gone = leaving(holder.uid, holder.place, cluster=wanted.cluster, tag=wanted.tag)
        for _ in range(STEPS_MAX):
            step = decide_restore(gone, self.look(gone))
            if step is None or isinstance(step, GiveTag):
                return
            try:
                self.carry_out(gone, step)
            except RestoreRunning:
                return


def word_of(uid: str, attempt: int) -> str:
    """The idempotency key of the job of an attempt."""
    return f"restore-{uid}-{attempt}"


def is_out_of_reach(error: OffsiteError) -> bool:
    """Whether a repository cannot be opened because of a setting: waiting alone changes nothing."""
    return isinstance(error, UserError | NoRepository)


def _check_fence(store: Store, layout: DeclaredLayout, history: RestoreHistory) -> None:
    """Raises `DamagedObject` for a log entry by a lock number that no process ever held: no entry could follow, and all
    restores would wait."""
    if _is_barred(store, layout, history):
        raise DamagedObject(
            f"entry {history.seq} of restore {history.uid} is by lock {history.fence}, which nobody held yet",
            hint="it was not written by an operator: declare the restore anew, under another name",
        )


def _is_barred(store: Store, layout: DeclaredLayout, history: RestoreHistory) -> bool:
    return bool(history.fence) and history.fence > LeaseTerms(store=store, lease=layout.lock).newest_term()


def _witness(store: Store, history: RestoreHistory) -> JobSeen | None:
    """Return the job that succeeded according to the log, found by its own records and by the idempotency key of the
    attempt."""
    end = history.end
    if end is None or end.outcome is not Outcome.SUCCEEDED:
        return None
    if job_of_word(store, kind=KIND, by=BY, word=word_of(history.uid, history.attempt)) != end.job or not end.job:
        return None
    try:
        report = job_report(store, end.job)
    except (JobNotFound, BadName):
        return None
    return job_seen(report) if report.state is JobState.SUCCEEDED else None


def _wrong_source(store: Store, wanted: RestoreWanted) -> str:
    """Return why the backup is not a backup of the cluster of `timestamp`. Only a declared backup has a cluster
    name."""
    if not wanted.source_cluster:
        return ""
    try:
        owner = owner_of(store, wanted.backup)
        history = None if owner is None else history_of(store, owner)
    except BadName:
        return ""
    made = [each for each in history.backups if each.beginning.backup == wanted.backup] if history else []
    clusters = {each.beginning.cluster for each in made}
    if not clusters or wanted.source_cluster in clusters:
        return ""
    return f"the backup {wanted.backup} is of {', '.join(sorted(clusters))}, not of {wanted.source_cluster}"


_STOPPED = {JobState.LOST, JobState.SUCCEEDED, JobState.PARTIAL, JobState.FAILED, JobState.CANCELLED}
