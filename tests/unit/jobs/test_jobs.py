"""Jobs: asked for once, told to end, and what silence means."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.engine.runner import RunProgress
from offsite.jobs import work, workers
from offsite.jobs.ask import SEARCH, JobRequest, cancel_job, record_failed_start, request_job
from offsite.jobs.end import find_job_of_word, forget_jobs, forget_searches, give_up_job, withdraw_job
from offsite.jobs.status import GIVEN_UP, START_S, JobFacts, JobState, decide_state, read_job, read_jobs
from offsite.jobs.work import work_on
from offsite.jobs.workers import Workers
from offsite.model.clock import SystemClock
from offsite.model.errors import (
    BadName,
    DamagedObject,
    JobNotBegun,
    JobNotFound,
    LeaseHeld,
    RequestRepeated,
    StoreDenied,
    TooManyJobs,
)
from offsite.model.ids import dated_id
from offsite.model.units import MIB
from offsite.repository import lease
from offsite.repository.job import (
    JOB_CANCELLATION,
    JOB_END,
    SAID_MAX,
    JobCancellation,
    JobEnd,
    JobLayout,
    StoredJobRequest,
    encode_wish,
    repeat_key,
)
from offsite.repository.job_records import RESULT_MAX_BYTES, JobRecords
from offsite.repository.lease import ProcessIdentity
from offsite.restore.topic_progress import TopicProgress
from offsite.stores.posix_store import open_folder
from offsite.stores.store import Store
from tests.processes import wait_until

REQUEST = JobRequest(kind="verify", arguments=("verify", "--deep"), backup="nightly", by="ann")
ASKED = StoredJobRequest(id="20260101-000000-0000abcd", kind="verify", arguments=(), backup="", at_ms=1_000, by="ann")
FACTS = JobFacts(request=ASKED, cancellation=None, end=None, worker="", had_worker=False, now_ms=1_000)
CANCELLED = JobCancellation(id=ASKED.id, at_ms=1_500, by="bob")


def end(exit_code: int) -> JobEnd:
    return JobEnd(id=ASKED.id, at_ms=2_000, exit_code=exit_code, result="", said="")


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
        (replace(FACTS, worker="process 1", had_worker=True, cancellation=CANCELLED), JobState.CANCELLING),
        (replace(FACTS, had_worker=True), JobState.LOST),
        (replace(FACTS, had_worker=True, cancellation=CANCELLED), JobState.LOST),
        (replace(FACTS, end=end(0)), JobState.SUCCEEDED),
        (replace(FACTS, end=end(0), cancellation=CANCELLED), JobState.SUCCEEDED),
        (replace(FACTS, end=end(3)), JobState.PARTIAL),
        (replace(FACTS, end=end(13)), JobState.FAILED),
        (replace(FACTS, end=end(130)), JobState.FAILED),
        (replace(FACTS, end=end(130), cancellation=CANCELLED), JobState.CANCELLED),
        (replace(FACTS, end=end(13), cancellation=CANCELLED), JobState.FAILED),
    ],
)
def test_a_state_says_what_was_told_and_silence_is_no_success(facts: JobFacts, state: JobState) -> None:
    assert decide_state(facts) is state


def test_of_many_that_ask_the_same_at_once_one_begins_it(store: Store) -> None:
    found: list[tuple[str, bool]] = []

    def ask() -> None:
        asked = request_job(store, REQUEST, word="w")
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
        patched.setattr(JobRecords, "put_request", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            request_job(store, REQUEST, word="w")
    assert request_job(store, REQUEST, word="w").is_new
    assert not request_job(store, REQUEST, word="w").is_new


def test_a_word_is_bound_to_its_request_and_its_asker(store: Store) -> None:
    first = request_job(store, REQUEST, word="w")
    with pytest.raises(RequestRepeated):
        request_job(store, replace(REQUEST, arguments=("verify",)), word="w")
    assert request_job(store, replace(REQUEST, by="bob"), word="w").id != first.id
    assert repeat_key("verify", "../../x").startswith("job-keys/")


def test_a_job_lives_while_its_process_does(store: Store) -> None:
    asked = request_job(store, REQUEST)
    job = asked.id
    assert read_job(store, job).state is JobState.STARTING
    with work_on(store, job, cancel=nothing, clock=SystemClock(), secret=asked.secret) as doing:
        assert read_job(store, job).state is JobState.RUNNING
        with pytest.raises(LeaseHeld), work_on(store, job, cancel=nothing, clock=SystemClock()):
            pytest.fail("two processes worked on one job")
        doing.record_end(exit_code=0, result='{"ok": true}', said="done\n")
        assert read_job(store, job).state is JobState.SUCCEEDED
    report = read_job(store, job)
    assert (report.result, report.said, report.exit_code, report.worker) == ({"ok": True}, "done\n", 0, "")
    assert [(each.id, each.result) for each in read_jobs(store).jobs] == [(job, None)]


def test_a_process_that_told_no_end_lost_its_job(store: Store) -> None:
    job = request_job(store, REQUEST).id
    with work_on(store, job, cancel=nothing, clock=SystemClock()):
        pass
    assert read_job(store, job).state is JobState.LOST


def test_progress_and_a_cancellation_are_heard_soon(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "LOOK_S", 0.01)
    asked, heard = request_job(store, REQUEST), threading.Event()
    job = asked.id
    far = RunProgress(
        tasks_total=4, tasks_done=1, tasks_failed=0, moved_bytes=5, records=2, elapsed_s=1.5, worker_peak_rss_bytes=0
    )
    with work_on(store, job, cancel=heard.set, clock=SystemClock(), secret=asked.secret) as doing:
        doing.report_topics([TopicProgress(topic=f"t{n:02}", done=n, total=25) for n in range(26)])
        doing.report_progress("verify nightly", far)
        assert until(lambda: read_job(store, job).progress is not None)
        cancel_job(store, job, by="bob")
        assert heard.wait(60)
        assert read_job(store, job).state is JobState.CANCELLING
        doing.record_end(exit_code=130, result="", said="")
    report = read_job(store, job)
    assert (report.state, report.cancelled_by) == (JobState.CANCELLED, "bob")
    assert report.progress is not None
    assert (report.progress.label, report.progress.tasks_done) == ("verify nightly", 1)
    assert (report.progress.topics_done, report.progress.topics_total) == (1, 26)
    shown = [topic.topic for topic in report.progress.topics]
    assert shown == [f"t{n:02}" for n in range(1, 21)], "those under way before those that wait, the longest first"


def until(seen: Callable[[], bool]) -> bool:
    return any(seen() or threading.Event().wait(0.01) for _ in range(6000))


def test_what_a_stranger_wrote_there_is_damage_or_nothing(store: Store) -> None:
    job = request_job(store, REQUEST).id
    layout = JobLayout(job=job)
    store.put_overwrite(layout.progress_key, b"[" * 100_000)
    assert read_job(store, job).progress is None
    asked = request_job(store, REQUEST)
    store.put_if_absent(JobLayout(job=asked.id).ended_key, JOB_END.encode(replace(end(0), id=ASKED.id)))
    with pytest.raises(DamagedObject, match="is about job"):
        read_job(store, asked.id)
    for name in ("..", "../x", "20260101-000000-0000ABCD", ""):
        with pytest.raises(BadName):
            JobLayout(job=name)
    with pytest.raises(JobNotFound):
        read_job(store, ASKED.id)


def test_what_is_kept_of_a_command_is_bounded(store: Store) -> None:
    kept = JOB_END.decode(JOB_END.encode(replace(end(0), said="a" + "b" * SAID_MAX)), key="ended")
    assert kept.said == "b" * SAID_MAX
    asked = request_job(store, REQUEST)
    job = asked.id
    ended = JobEnd(id=job, at_ms=1, exit_code=0, result="x" * (RESULT_MAX_BYTES + 1), said="it ended")
    JobRecords(store=store, layout=JobLayout(job=job)).put_end(ended, secret=asked.secret)
    report = read_job(store, job)
    assert (report.result, report.state) == (None, JobState.SUCCEEDED)
    assert report.said.startswith("it ended\nits result of 8.0 MiB is not kept")


def test_a_long_result_lies_beside_and_is_not_read_by_a_list(store: Store) -> None:
    asked = request_job(store, REQUEST)
    job, layout = asked.id, JobLayout(job=asked.id)
    ended = JobEnd(id=job, at_ms=1, exit_code=0, result=json.dumps(["x" * 200_000]), said="")
    JobRecords(store=store, layout=layout).put_end(ended, secret=asked.secret)
    assert len(store.get(layout.end_key(asked.secret)) or b"") < 1_000
    assert read_job(store, job).result == ["x" * 200_000]
    assert read_jobs(store).jobs[0].state is JobState.SUCCEEDED


@pytest.mark.parametrize("name", ["asked_key", "end_key", "wish_key", "result_key"])
def test_an_object_that_is_far_too_large_is_told_and_not_read(store: Store, name: str) -> None:
    asked = request_job(store, REQUEST)
    job, layout = asked.id, JobLayout(job=asked.id)
    if name == "result_key":
        ended = JobEnd(id=job, at_ms=1, exit_code=0, result="", said="")
        JobRecords(store=store, layout=layout).put_end(ended, secret=asked.secret)
    key = getattr(layout, name)
    store.put_overwrite(key(asked.secret) if callable(key) else key, bytes(20 * MIB))
    with pytest.raises(DamagedObject, match="larger than a record of a job may be"):
        read_job(store, job)


def test_jobs_of_the_future_hide_none_and_are_forgotten(store: Store) -> None:
    job = request_job(store, REQUEST).id
    forged = [f"20990101-000000-{number:08x}" for number in range(60)]
    for each in forged:
        store.put_if_absent(JobLayout(job=each).asked_key, b"{}")
    assert read_jobs(store).jobs[0].id == job
    for each in forged:
        records = JobRecords(store=store, layout=JobLayout(job=each))
        store.delete(records.layout.asked_key)
        records.put_request(replace(ASKED, id=each))
        records.put_end(JobEnd(id=each, at_ms=1, exit_code=0, result="", said=""))
    assert set(forget_jobs(store, older_than_s=24 * 3600).jobs) == set(forged)


def test_what_searches_have_found_goes_after_a_week_and_nothing_else_does(store: Store) -> None:
    """It is records, and words of them: no retention of a backup reaches it."""
    now_ms = store.now_ms()
    day_ms = 24 * 3_600_000
    kept = []
    for kind, days, is_over in ((SEARCH, 8, True), (SEARCH, 6, True), (SEARCH, 8, False), ("backup", 8, True)):
        job = dated_id(now_ms - days * day_ms)
        records = JobRecords(store=store, layout=JobLayout(job=job))
        records.put_request(replace(ASKED, id=job, kind=kind, at_ms=now_ms - days * day_ms))
        if is_over:
            records.put_end(JobEnd(id=job, at_ms=now_ms, exit_code=0, result='["found"]', said=""))
        else:
            terms = records.layout.lease(store)
            terms.claim(ProcessIdentity.current(), "worker", take_over=False)
        kept.append(job)
    gone = forget_searches(store)
    assert gone.jobs == (kept[0],)
    assert {each.id for each in read_jobs(store).jobs} == set(kept[1:])
    assert not [info.key for info in store.list(JobLayout(job=kept[0]).prefix)]


def test_the_list_of_jobs_asks_for_the_time_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        job = request_job(store, REQUEST).id
        terms = JobLayout(job=job).lease(store)
        terms.claim(ProcessIdentity.current(), "word", take_over=False)
    asked, now_ms = [], store.now_ms()
    monkeypatch.setattr(type(store), "now_ms", lambda _: asked.append(1) or now_ms)
    read_jobs(store)
    assert len(asked) == 1


def test_a_job_that_could_not_be_begun_has_failed(store: Store) -> None:
    found = Workers(environment={"TOO_LONG": "x" * 10_000_000})
    job = request_job(store, REQUEST)
    with pytest.raises(JobNotBegun) as error:
        found.begin(job.id, ["verify"])
    record_failed_start(store, job, error.value)
    assert read_job(store, job.id).state is JobState.FAILED


def test_only_so_many_run_at_once() -> None:
    found = Workers(environment={}, at_once=0)
    with pytest.raises(TooManyJobs):
        found.check_free()


def test_a_job_that_hangs_leaves_its_room_once_it_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that looks for `regex:(x+x+)+y` among topics of a tenant: it hears nothing any more."""
    hangs = "import signal, re; signal.signal(signal.SIGTERM, signal.SIG_IGN); re.search('(x+x+)+y', 'x' * 60)"
    monkeypatch.setattr(workers, "_MODULE", hangs)
    found = Workers(environment={}, at_once=1)
    found.begin("one", [])
    with pytest.raises(TooManyJobs):
        found.check_free()
    found.end("another")
    with pytest.raises(TooManyJobs):
        found.check_free()
    found.end("one")
    wait_until(lambda: not found.running(), "its end")
    found.check_free()


def test_signs_of_life_come_before_they_are_missed() -> None:
    assert work.LOOK_S < lease.BEAT_S < lease.TTL_S / 2


@pytest.mark.parametrize("result", ["[" * 200_000, "{", "1" * 5_000 + "x"])
def test_a_result_that_is_none_is_not_shown(store: Store, result: str) -> None:
    asked = request_job(store, REQUEST)
    records = JobRecords(store=store, layout=JobLayout(job=asked.id))
    records.put_end(JobEnd(id=asked.id, at_ms=1, exit_code=0, result=result, said=""), secret=asked.secret)
    assert read_job(store, asked.id).state is JobState.SUCCEEDED
    assert read_job(store, asked.id).result is None


def test_a_lost_job_that_is_given_up_is_lost_for_good(store: Store) -> None:
    job = request_job(store, REQUEST).id
    give_up_job(store, job, identity=ProcessIdentity.current())
    assert read_job(store, job).state is JobState.LOST
    with work_on(store, job, cancel=nothing, clock=SystemClock()) as late:
        assert late.is_over


def test_a_job_that_told_its_end_keeps_it_when_it_is_given_up(store: Store) -> None:
    asked = request_job(store, REQUEST)
    job = asked.id
    with work_on(store, job, cancel=nothing, clock=SystemClock(), secret=asked.secret) as doing:
        with pytest.raises(LeaseHeld):
            give_up_job(store, job, identity=ProcessIdentity.current())
        doing.record_end(exit_code=0, result="", said="")
    give_up_job(store, job, identity=ProcessIdentity.current())
    assert read_job(store, job).state is JobState.SUCCEEDED


def test_a_process_that_was_silent_and_given_up_is_told_to_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "LOOK_S", 0.01)
    monkeypatch.setattr(work, "BEAT_S", 0.0)
    job, heard = request_job(store, REQUEST).id, threading.Event()
    with work_on(store, job, cancel=heard.set, clock=SystemClock()):
        monkeypatch.setattr(work, "TTL_S", -1.0)  # any moment is a silence
        terms = JobLayout(job=job).lease(store)
        terms.claim(ProcessIdentity.current(), "other", take_over=True)
        assert heard.wait(60)


@pytest.fixture
def forged() -> Callable[[Store, str], None]:
    """All that whoever may create objects, and neither overwrite nor delete, can put beside a job."""

    def put(store: Store, job: str) -> None:
        layout = JobLayout(job=job)
        won = JobEnd(id=job, at_ms=1, exit_code=0, result='{"verified": true, "records": 7}', said="")
        for secret in ("", "0" * 32):
            store.put_if_absent(layout.end_key(secret), JOB_END.encode(won))
            store.put_if_absent(layout.result_key(secret), b'{"verified": true}')
        store.put_if_absent(layout.cancelled_key, JOB_CANCELLATION.encode(replace(CANCELLED, id=job)))
        store.put_if_absent(layout.wish_key, encode_wish(job, replace(CANCELLED, id=job)))

    return put


def test_a_forged_end_is_told_for_what_it_is_and_ends_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, forged: Callable[[Store, str], None]
) -> None:
    monkeypatch.setattr(work, "LOOK_S", 0.01)
    monkeypatch.setattr(work, "BEAT_S", 0.0)
    asked, heard = request_job(store, REQUEST), threading.Event()
    forged(store, asked.id)
    report = read_job(store, asked.id)
    assert (report.state, report.result, report.vouched) == (JobState.STARTING, None, False)
    assert report.claimed == "an end with exit code 0 is claimed, not confirmed: it does not count"
    with work_on(store, asked.id, cancel=heard.set, clock=SystemClock(), secret=asked.secret) as doing:
        assert not doing.is_over
        terms = JobLayout(job=asked.id).lease(store)
        terms.claim(ProcessIdentity.current(), "other", take_over=True)
        assert not heard.wait(0.5)
        assert not read_job(store, asked.id).state.is_final
        doing.record_end(exit_code=13, result='{"ok": false}', said="damaged")
    report = read_job(store, asked.id)
    assert (report.state, report.result, report.vouched, report.claimed) == (JobState.FAILED, {"ok": False}, True, "")
    assert report.cancelled_by == ""


def test_a_forged_end_makes_no_success_of_a_job_that_died(store: Store, forged: Callable[[Store, str], None]) -> None:
    job = request_job(store, REQUEST).id
    with work_on(store, job, cancel=nothing, clock=SystemClock()):
        forged(store, job)
    assert read_job(store, job).state is JobState.LOST
    assert not read_job(store, job).vouched


def test_the_end_of_a_job_of_an_earlier_version_counts_and_is_said_to_be_claimed(store: Store) -> None:
    records = JobRecords(store=store, layout=JobLayout(job=ASKED.id))
    records.put_request(ASKED)
    records.put_end(end(0))
    report = read_job(store, ASKED.id)
    assert (report.state, report.vouched) == (JobState.SUCCEEDED, False)
    assert "claimed, not confirmed" in report.claimed


def test_a_withdrawn_word_begins_no_job(store: Store) -> None:
    withdraw_job(store, kind=REQUEST.kind, by=REQUEST.by, word="once", identity=ProcessIdentity.current())
    with pytest.raises(RequestRepeated):
        request_job(store, REQUEST, word="once")
    (found,) = read_jobs(store).jobs
    assert (found.state, found.arguments) == (JobState.CANCELLED, ())


def test_a_job_that_waits_for_its_process_is_withdrawn_from_it(store: Store) -> None:
    asked = request_job(store, REQUEST, word="once")
    withdraw_job(store, kind=REQUEST.kind, by=REQUEST.by, word="once", identity=ProcessIdentity.current())
    assert find_job_of_word(store, kind=REQUEST.kind, by=REQUEST.by, word="once") == asked.id
    assert read_job(store, asked.id).state is JobState.CANCELLED


@pytest.mark.slow
def test_the_process_of_a_job_that_was_given_up_does_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    made = [sys.executable, "-c", "from offsite.cli.main import main; main()", "init", str(folder)]
    subprocess.run(made, check=True, capture_output=True)
    store = open_folder(folder)
    job = request_job(store, REQUEST).id
    give_up_job(store, job, identity=ProcessIdentity.current())
    code = "from offsite.cli.work import main; main()"
    environment = {**os.environ, "OFFSITE_REPO": str(folder)}
    report = str(tmp_path / "report")
    words = json.dumps(["init", report]).encode()
    done = subprocess.run(
        [sys.executable, "-c", code, job], env=environment, input=words, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert not Path(report).exists()
    assert read_job(store, job).exit_code == GIVEN_UP


def test_what_hinders_that_old_searches_go_is_told_and_stops_nothing_else(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes along with other work, which was done: a retention that was applied did not fail."""

    def denied(_: object) -> int:
        raise StoreDenied("the store said no")

    monkeypatch.setattr(type(store), "now_ms", denied)
    assert forget_searches(store).jobs == ()
    assert "the store said no" in caplog.text
