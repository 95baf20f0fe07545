"""Jobs: asked for once, told to end, and what silence means."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import BadName, DamagedObject, JobNotFound, RequestRepeated, RestoreRunning, TooManyJobs
from offsite.repository.jobs.layout import JobLayout, repeat_key
from offsite.repository.jobs.record import (
    RESULT_MAX,
    SAID_MAX,
    AskedJob,
    CancelledJob,
    EndedJob,
    decode_ended,
    encode_ended,
)
from offsite.repository.jobs.records import JobRecords
from offsite.repository.restores import lease
from offsite.services.jobs import work
from offsite.services.jobs.ask import JobRequest, ask_for_job, cancel_job
from offsite.services.jobs.status import START_S, JobFacts, JobState, decide_state, job_list, job_report
from offsite.services.jobs.work import working
from offsite.services.jobs.workers import Workers
from offsite.spark.runner import RunProgress
from offsite.stores.posix_store import open_folder
from offsite.stores.store import Store

REQUEST = JobRequest(kind="verify", arguments=("verify", "--deep"), backup="nightly", by="ann")
ASKED = AskedJob(id="20260101-000000-0000abcd", kind="verify", arguments=(), backup="", at_ms=1_000, by="ann")
FACTS = JobFacts(asked=ASKED, cancelled=None, ended=None, worker="", had_worker=False, now_ms=1_000)
CANCELLED = CancelledJob(id=ASKED.id, at_ms=1_500, by="bob")


def end(exit_code: int) -> EndedJob:
    return EndedJob(id=ASKED.id, at_ms=2_000, exit_code=exit_code, result="", said="")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = open_folder(tmp_path / "repository")
    found.prepare()
    return found


def nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (FACTS, JobState.STARTING),
        (replace(FACTS, now_ms=1_001 + int(START_S * 1000)), JobState.LOST),
        (replace(FACTS, worker="process 1", had_worker=True), JobState.RUNNING),
        (replace(FACTS, worker="process 1", had_worker=True, cancelled=CANCELLED), JobState.CANCELLING),
        (replace(FACTS, had_worker=True), JobState.LOST),
        (replace(FACTS, had_worker=True, cancelled=CANCELLED), JobState.LOST),
        (replace(FACTS, ended=end(0)), JobState.SUCCEEDED),
        (replace(FACTS, ended=end(0), cancelled=CANCELLED), JobState.SUCCEEDED),
        (replace(FACTS, ended=end(3)), JobState.PARTIAL),
        (replace(FACTS, ended=end(13)), JobState.FAILED),
        (replace(FACTS, ended=end(130)), JobState.FAILED),
        (replace(FACTS, ended=end(130), cancelled=CANCELLED), JobState.CANCELLED),
        (replace(FACTS, ended=end(13), cancelled=CANCELLED), JobState.FAILED),
    ],
)
def test_a_state_says_what_was_told_and_silence_is_no_success(facts: JobFacts, state: JobState) -> None:
    assert decide_state(facts) is state


def test_of_many_that_ask_the_same_at_once_one_begins_it(store: Store) -> None:
    found: list[tuple[str, bool]] = []

    def ask() -> None:
        asked = ask_for_job(store, REQUEST, word="w")
        found.append((asked.id, asked.is_new))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len({job for job, _ in found}) == 1
    assert sum(is_new for _, is_new in found) == 1


def test_one_that_died_between_the_two_steps_is_followed_by_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(JobRecords, "put_asked", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            ask_for_job(store, REQUEST, word="w")
    assert ask_for_job(store, REQUEST, word="w").is_new
    assert not ask_for_job(store, REQUEST, word="w").is_new


def test_a_word_is_bound_to_its_request_and_its_asker(store: Store) -> None:
    first = ask_for_job(store, REQUEST, word="w")
    with pytest.raises(RequestRepeated):
        ask_for_job(store, replace(REQUEST, arguments=("verify",)), word="w")
    assert ask_for_job(store, replace(REQUEST, by="bob"), word="w").id != first.id
    assert repeat_key("verify", "../../x").startswith("job-keys/")


def test_a_job_lives_while_its_process_does(store: Store) -> None:
    job = ask_for_job(store, REQUEST).id
    assert job_report(store, job).state is JobState.STARTING
    with working(store, job, cancel=nothing, clock=SystemClock()) as doing:
        assert job_report(store, job).state is JobState.RUNNING
        with pytest.raises(RestoreRunning), working(store, job, cancel=nothing, clock=SystemClock()):
            pytest.fail("two processes worked on one job")
        doing.ended(exit_code=0, result='{"ok": true}', said="done\n")
        assert job_report(store, job).state is JobState.SUCCEEDED
    report = job_report(store, job)
    assert (report.result, report.said, report.exit_code, report.worker) == ({"ok": True}, "done\n", 0, "")
    assert [(each.id, each.result) for each in job_list(store).jobs] == [(job, None)]


def test_a_process_that_told_no_end_lost_its_job(store: Store) -> None:
    job = ask_for_job(store, REQUEST).id
    with working(store, job, cancel=nothing, clock=SystemClock()):
        pass
    assert job_report(store, job).state is JobState.LOST


def test_progress_and_a_cancellation_are_heard_soon(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "LOOK_S", 0.01)
    job, heard = ask_for_job(store, REQUEST).id, threading.Event()
    far = RunProgress(
        tasks_total=4, tasks_done=1, tasks_failed=0, moved_bytes=5, records=2, elapsed_s=1.5, worker_peak_rss_bytes=0
    )
    with working(store, job, cancel=heard.set, clock=SystemClock()) as doing:
        doing.progress("verify nightly", far)
        assert until(lambda: job_report(store, job).progress is not None)
        cancel_job(store, job, by="bob")
        assert heard.wait(10)
        assert job_report(store, job).state is JobState.CANCELLING
        doing.ended(exit_code=130, result="", said="")
    report = job_report(store, job)
    assert (report.state, report.cancelled_by) == (JobState.CANCELLED, "bob")
    assert report.progress is not None
    assert (report.progress.label, report.progress.tasks_done) == ("verify nightly", 1)


def until(seen: Callable[[], bool]) -> bool:
    return any(seen() or threading.Event().wait(0.01) for _ in range(1000))


def test_what_a_stranger_wrote_there_is_damage_or_nothing(store: Store) -> None:
    job = ask_for_job(store, REQUEST).id
    layout = JobLayout(job=job)
    store.put_overwrite(layout.progress_key, b"[" * 100_000)
    assert job_report(store, job).progress is None
    store.put_if_absent(layout.ended_key, encode_ended(replace(end(0), id="20260101-000000-0000beef")))
    with pytest.raises(DamagedObject, match="tells of job"):
        job_report(store, job)
    for name in ("..", "../x", "20260101-000000-0000ABCD", ""):
        with pytest.raises(BadName):
            JobLayout(job=name)
    with pytest.raises(JobNotFound):
        job_report(store, ASKED.id)


def test_what_is_kept_of_a_command_is_bounded() -> None:
    kept = decode_ended(
        encode_ended(replace(end(0), result="x" * (RESULT_MAX + 1), said="a" + "b" * SAID_MAX)), key="ended"
    )
    assert (kept.result, kept.said) == ("", "b" * SAID_MAX)


def test_only_so_many_run_at_once() -> None:
    workers = Workers(environment={}, at_once=0)
    with pytest.raises(TooManyJobs):
        workers.check_free()


def test_signs_of_life_come_before_they_are_missed() -> None:
    assert work.LOOK_S < lease.BEAT_S < lease.TTL_S / 2


@pytest.mark.parametrize("result", ["[" * 200_000, "{", "1" * 5_000 + "x"])
def test_a_result_that_is_none_is_not_shown(store: Store, result: str) -> None:
    job = ask_for_job(store, REQUEST).id
    records = JobRecords(store=store, layout=JobLayout(job=job))
    records.put_ended(EndedJob(id=job, at_ms=1, exit_code=0, result=result, said=""))
    assert job_report(store, job).result is None
