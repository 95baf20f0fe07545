"""A declared restore brought one step nearer to what is declared, and told as it is then.

Every step that changes something is decided anew under the lock of the restore, on a look made under it, and its number
goes into the log of the restore. Of two operators one decides an attempt; its job is asked for by a create-only object,
so whoever decided and died is followed by the next one, and no job is begun twice. What an operator on an old look, or
one that slept, would still do: begin an attempt (refused by the log), ask for the job of an attempt that goes on (the
job is the same, and is begun by whoever asked first) or that was withdrawn (asked for and ended already).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import assert_never

from offsite.model.errors import (
    BadName,
    JobNotBegun,
    JobNotFound,
    OffsiteError,
    RestoreRunning,
    TooManyJobs,
)
from offsite.model.ids import random_id
from offsite.model.journal import decided
from offsite.operator.decide.restore import (
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
from offsite.repository.declared.entry import decode_owner
from offsite.repository.declared.layout import DeclaredLayout, owner_key
from offsite.repository.declared.restore_log import End, NotNextError, RestoreEntry, RestoreHistory, RestoreLog
from offsite.services.jobs.ask import JobRequest, cancel_job
from offsite.services.jobs.give_up import give_up_job, job_of_word, withdraw_job
from offsite.services.jobs.status import JobState, job_report
from offsite.stores.store import Store

KIND = "restore"
STEPS_MAX = 4
"""Steps of one look: take the tag, begin; or tell the end, give the tag."""
GONE_MS = 3_600_000
"""A tag is taken from a restore that no operator here knows of after so long, when nothing of it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreHands:
    """What a restore is looked at and carried out with. `tags`: of the store that all operators of a home share."""

    jobs: Jobs
    tags: Tags

    @property
    def eyes(self) -> Eyes:
        return self.jobs.eyes

    def reconcile(self, wanted: RestoreWanted, *, known: Collection[str]) -> RestoreStatus:
        """Carry out what the stages say, and check. `known`: the uids of all restores that are declared. Raises what a
        look raises: then nothing is known, and nothing was decided."""
        problem = ""
        for _ in range(STEPS_MAX):
            seen = self.look(wanted, known=known)
            if (step := decide_restore(wanted, seen)) is None:
                return check_restore(wanted, seen)
            try:
                self.carry_out(wanted, step, known=known)
            except (RestoreRunning, TooManyJobs, JobNotBegun) as error:  # others are at it, or have room first
                decided("restore_waits", why=error.message, uid=wanted.uid)
                break
            except OffsiteError as error:
                problem = f"{error.id}: {error.message}{'; ' if error.hint else ''}{error.hint}"
                break
        return check_restore(wanted, self.look(wanted, known=known, problem=problem))

    def look(self, wanted: RestoreWanted, *, known: Collection[str] = (), problem: str = "") -> RestoreSeen:
        """What is of a restore. Raises what the store raises, and `DamagedObject`."""
        store = self.eyes.open_store(wanted.place)
        history = RestoreLog(store=store, layout=DeclaredLayout(uid=wanted.uid)).read()
        return RestoreSeen(
            history=history,
            job=self._job(store, history),
            tag=self._tag_of(wanted, known),
            now_ms=store.now_ms(),
            problem=problem or _wrong_source(store, wanted),
        )

    def carry_out(self, wanted: RestoreWanted, step: RestoreStep, *, known: Collection[str] = ()) -> None:
        """One step. Raises `RestoreRunning` while another operator holds the lock, or a process a job that is to be
        given up; `TooManyJobs`, `JobNotBegun`, `RequestRepeated`, `BadResource`, and what the store raises."""
        store, layout = self.eyes.open_store(wanted.place), DeclaredLayout(uid=wanted.uid)
        with locked(store, layout, self.eyes) as fence:
            seen = self.look(wanted, known=known)
            if decide_restore(wanted, seen) != step:
                return  # somebody else did it meanwhile
            match step:
                case TakeTag():
                    self.tags.take(_tag(wanted), wanted.uid, wanted.place)
                case GiveTag():
                    self.tags.give(_tag(wanted), wanted.uid)
                case Begin():
                    self._begin(wanted, seen, fence)
                case Withdraw():
                    self._withdraw(store, wanted.uid, step.attempt)
                case Cancel():
                    cancel_job(store, step.job, by=BY)
                case GiveUp():
                    give_up_job(store, step.job, identity=self.eyes.identity)
                case Tell():
                    self._append(store, seen.history, fence, seen.history.attempt, step.end)
                case _:
                    assert_never(step)

    def _begin(self, wanted: RestoreWanted, seen: RestoreSeen, fence: int) -> None:
        self.jobs.environment_of(wanted.place, wanted.cluster)  # what is not known is told before anything is decided
        store, history = self.eyes.open_store(wanted.place), seen.history
        if not history.is_under_way:
            with self.jobs.processes.room():  # an attempt that is decided, and waits for hours, would look as if it ran
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
        """Of the attempt that is under way; None where it is not asked for, or its records were deleted."""
        if not history.is_under_way:
            return None
        job = job_of_word(store, kind=KIND, by=BY, word=word_of(history.uid, history.attempt))
        try:
            return None if job is None else job_seen(job_report(store, job))
        except JobNotFound:
            return None

    # -- the tag -------------------------------------------------------------------------------------------------------

    def _tag_of(self, wanted: RestoreWanted, known: Collection[str]) -> Tag:
        if (holder := self.tags.holder(_tag(wanted))) is None:
            return Tag.FREE
        if holder.uid == wanted.uid:
            return Tag.HELD
        if not self._is_over(wanted, holder, known):
            return Tag.TAKEN
        self.tags.give(_tag(wanted), holder.uid)  # its operator died before it did
        return Tag.FREE

    def _is_over(self, wanted: RestoreWanted, holder: TagHolder, known: Collection[str]) -> bool:
        """Whether the restore that has the tag is over. One whose resource is gone runs to its end; what has not begun
        by then, or is lost, is withdrawn first, so that no operator that still knows it begins it."""
        store = self.eyes.open_store(holder.place)
        log = RestoreLog(store=store, layout=DeclaredLayout(uid=holder.uid))
        if (history := log.read()).is_over:
            return True
        is_gone = holder.uid not in known and self.tags.now_ms() - holder.since_ms > GONE_MS
        job = self._job(store, history)
        if is_gone and wanted.uid in known and (job is None or job.state in _STOPPED):
            self._end(wanted, holder)
        return log.read().is_over

    def _end(self, wanted: RestoreWanted, holder: TagHolder) -> None:
        """Take a restore that is gone to its end, as if it were declared to be stopped."""
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
    """The idempotency word of the job of an attempt."""
    return f"restore-{uid}-{attempt}"


def _tag(wanted: RestoreWanted) -> TagName:
    return TagName(cluster=wanted.cluster, tag=wanted.tag)


def _wrong_source(store: Store, wanted: RestoreWanted) -> str:
    """Why the backup is not one of the cluster whose time was given. Only a declared backup has a cluster by name."""
    if not wanted.source_cluster:
        return ""
    try:
        data = store.get(key := owner_key(wanted.backup))
        history = None if data is None else history_of(store, decode_owner(data, key=key))
    except BadName:
        return ""
    made = [each for each in history.backups if each.beginning.backup == wanted.backup] if history else []
    clusters = {each.beginning.cluster for each in made}
    if not clusters or wanted.source_cluster in clusters:
        return ""
    return f"the backup {wanted.backup} is of {', '.join(sorted(clusters))}, not of {wanted.source_cluster}"


_STOPPED = {JobState.LOST, JobState.SUCCEEDED, JobState.PARTIAL, JobState.FAILED, JobState.CANCELLED}
