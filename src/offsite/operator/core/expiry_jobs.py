"""Expiry jobs as processes of the local machine, started and killed by the queue. The record of every job is the
truth: a restarted operator reads from the records which jobs run, and how the last job of a backup ended.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import decided, warned
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.operator.core.files import FolderLayout, locked, read_json, read_whole, write_json
from offsite.operator.core.processes import ProcessLaunch, begin, bound_log, is_alive, kill, last_words
from offsite.operator.decide.queue import ExpiryQueue, QueueRules, QueueSnapshot, RunningJob, step
from offsite.repository.lease import ProcessIdentity

UNKNOWN = -1
"""The exit code of a killed job."""
RETRY_MS = 15_000
"""Time from a deletion that was not yet possible to the next try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryJob:
    """The last job of a backup. `ended_ms`: 0 while the job runs; `exit_code` counts after the end. `failures`: failed
    jobs in a row, and `failure`: error of the newest one. `words`: retention of the job; empty if an earlier version
    started the job."""

    uid: str
    identity: ProcessIdentity
    is_deletion: bool
    started_ms: int
    ended_ms: int = 0
    exit_code: int = UNKNOWN
    said: str = ""
    failures: int = 0
    failure: str = ""
    words: str = ""

    @property
    def has_deleted(self) -> bool:
        return self.is_deletion and self.ended_ms > 0 and self.exit_code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedExpiry:
    """A job that the queue may start for a backup. `launch` raises `BadResource` if the job cannot start. `words`:
    retention of the job: a running job with other words follows a spec that is no longer in force. `namespace`:
    namespace of the backup, if any."""

    launch: Callable[[], ProcessLaunch]
    is_deletion: bool
    words: str = ""
    namespace: str = ""


class ExpiryJobs:
    def __init__(self, layout: FolderLayout, rules: QueueRules, *, clock: Clock) -> None:
        self._layout, self._rules, self._clock = layout, rules, clock
        self._queue = ExpiryQueue()
        self._shown: Mapping[str, JsonValue] = {}
        self._signs: dict[str, tuple[tuple[int, int], float]] = {}
        self._begun: dict[tuple[str, int], float] = {}

    def step(self, requests: Mapping[str, QueuedExpiry]) -> None:
        """Run one round of the queue. `requests`: entries by uid."""
        with locked(self._layout.lock):
            jobs = self._jobs()
            alive = {uid: job for uid, job in jobs.items() if not job.ended_ms}
            now_s = self._clock.monotonic_s()
            self._begun = {key: self._begun.get(key, now_s) for key in map(_key, alive.values())}
            running = tuple(
                RunningJob(uid=uid, since_s=self._sign_s(job, now_s), begun_s=self._begun[_key(job)])
                for uid, job in alive.items()
            )
            queue_step = step(
                replace(self._queue, running=running),
                self._rules,
                QueueSnapshot(
                    now_s=now_s,
                    uids=[uid for uid, request in requests.items() if not self._rests(jobs.get(uid), request)],
                    deleting={uid for uid, request in requests.items() if request.is_deletion},
                    alive=alive.keys(),
                    owners={uid: request.namespace for uid, request in requests.items()},
                ),
            )
            for uid in queue_step.kill:
                why = f"it showed no progress for {self._rules.job_max_s:.0f} s"
                warned("expiry_killed", why=why, uid=uid)
                kill(alive[uid].identity)
            for uid in queue_step.end:
                self._stop(alive[uid], "another namespace has its turn")
            for uid in queue_step.begin:
                self._begin(uid, requests[uid])
            self._queue = queue_step.queue
            self._show()

    def job(self, uid: str) -> ExpiryJob | None:
        """Return the last job of a backup, in its current state."""
        document = read_json(self._folder(uid) / "job.json")
        return None if document is None else self._as_it_is(_job(uid, document))

    def stop_other(self, uid: str, words: str) -> None:
        """End a job that follows another spec than the one in force. Finished work stays; the next job continues."""
        with locked(self._layout.lock):
            job = self.job(uid)
            if job is None or job.ended_ms or job.is_deletion or job.words in {"", words}:
                return
            self._stop(job, "the spec was changed")

    def _stop(self, job: ExpiryJob, why: str) -> None:
        """End a job that has not failed."""
        warned("expiry_killed", why=why, uid=job.uid)
        kill(job.identity)
        self._noted(replace(job, ended_ms=self._clock.now_ms(), said=f"stopped: {why}"))

    def _sign_s(self, job: ExpiryJob, now_s: float) -> float:
        """Return the time of the last observed sign of progress: the log of a job grows with its progress."""
        try:
            size_bytes = (self._folder(job.uid) / "job.log").stat().st_size
        except OSError:
            size_bytes = 0
        sign, since_s = (job.started_ms, size_bytes), now_s
        if (before := self._signs.get(job.uid)) is not None and before[0] == sign:
            since_s = before[1]
        self._signs[job.uid] = (sign, since_s)
        return since_s

    def forget_others(self, uids: Collection[str]) -> None:
        """Remove the records of deleted resources. `uids`: all existing resources."""
        for folder in self._layout.jobs.iterdir() if self._layout.jobs.is_dir() else ():
            job = self.job(folder.name)
            if folder.name not in uids and (job is None or job.ended_ms):
                shutil.rmtree(folder, ignore_errors=True)

    def _rests(self, job: ExpiryJob | None, request: QueuedExpiry) -> bool:
        """Whether a deletion failed a moment ago."""
        now_ms = self._clock.now_ms()
        is_again = job is not None and request.is_deletion and job.is_deletion
        return job is not None and is_again and 0 <= now_ms - job.ended_ms < RETRY_MS

    def _begin(self, uid: str, request: QueuedExpiry) -> None:
        folder, now_ms, before = self._folder(uid), self._clock.now_ms(), self.job(uid)
        before = before if before is not None and before.is_deletion == request.is_deletion else None
        bound_log(folder / "job.log")
        (folder / "job.told").unlink(missing_ok=True)

        fresh = ExpiryJob(
            uid=uid,
            identity=ProcessIdentity.current(),
            is_deletion=request.is_deletion,
            started_ms=now_ms,
            failures=before.failures if before is not None else 0,
            failure=before.failure if before is not None else "",
            words=request.words,
        )

        def note(identity: ProcessIdentity) -> None:
            self._begun[_key(fresh)] = self._clock.monotonic_s()
            self._sign_s(self._noted(replace(fresh, identity=identity)), self._clock.monotonic_s())

        try:
            begin(request.launch(), log=folder / "job.log", exit_code_file=folder / "job.told", note=note)
        except OffsiteError as error:
            warned("expiry_not_begun", error=error.id, why=error.message, uid=uid)
            hint = f"; hint: {error.hint}" if error.hint else ""
            self._noted(_failed(replace(fresh, ended_ms=now_ms), f"error[{error.id}]: {error.message}{hint}"))
        else:
            decided("expiry_begun", why="its turn in the queue", uid=uid, deletion=request.is_deletion)

    def _jobs(self) -> dict[str, ExpiryJob]:
        folders = sorted(self._layout.jobs.iterdir()) if self._layout.jobs.is_dir() else []
        documents = ((folder, read_json(folder / "job.json")) for folder in folders)
        noted = [_job(folder.name, document) for folder, document in documents if document is not None]
        return {job.uid: self._ended(job) for job in noted}

    def _ended(self, job: ExpiryJob) -> ExpiryJob:
        """Return the job, with its end recorded if the job ended."""
        now = self._as_it_is(job)
        if now == job:
            return job
        decided("expiry_ended", why=now.said or "no output", uid=job.uid, exit_code=now.exit_code)
        return self._noted(now)

    def _as_it_is(self, job: ExpiryJob) -> ExpiryJob:
        if job.ended_ms or is_alive(job.identity):
            return job
        folder = self._folder(job.uid)
        exit_text = (read_whole(folder / "job.told") or b"").strip()
        code = int(exit_text) if exit_text.isdigit() else UNKNOWN
        said = last_words(folder / "job.log")
        ended_job = replace(job, ended_ms=self._clock.now_ms(), exit_code=code)
        return replace(ended_job, said=said, failures=0, failure="") if code == 0 else _failed(ended_job, said)

    def _noted(self, job: ExpiryJob) -> ExpiryJob:
        write_json(
            self._folder(job.uid) / "job.json",
            {
                "holder": dict(job.identity.fields),
                "is_deletion": job.is_deletion,
                "started_ms": job.started_ms,
                "ended_ms": job.ended_ms,
                "exit_code": job.exit_code,
                "said": job.said,
                "failures": job.failures,
                "failure": job.failure,
                "words": job.words,
            },
        )
        return job

    def _show(self) -> None:
        """Write the queue to a file for people; nothing depends on the file."""
        shown: Mapping[str, JsonValue] = {
            "waiting": list(self._queue.waiting),
            "running": [job.uid for job in self._queue.running],
        }
        if shown != self._shown:
            write_json(self._layout.queue, shown)
            self._shown = shown

    def _folder(self, uid: str) -> Path:
        return self._layout.jobs / uid


def _key(job: ExpiryJob) -> tuple[str, int]:
    """Distinguishes a job from the next job of the same backup."""
    return job.uid, job.started_ms


def _failed(job: ExpiryJob, said: str) -> ExpiryJob:
    """A job that failed, or could not start."""
    failure = said or f"it ended with exit code {job.exit_code} and no output"
    return replace(job, said=said, failures=job.failures + 1, failure=failure)


def _job(uid: str, document: JsonObject) -> ExpiryJob:
    return ExpiryJob(
        uid=uid,
        identity=ProcessIdentity.of(dict(document.text_map("holder"))),
        is_deletion=document.optional_flag("is_deletion"),
        started_ms=document.count("started_ms"),
        ended_ms=document.count("ended_ms"),
        exit_code=document.integer("exit_code"),
        said=document.text("said"),
        failures=document.count("failures") if "failures" in document.fields else 0,
        failure=document.optional_text("failure") or "",
        words=document.optional_text("words") or "",
    )
