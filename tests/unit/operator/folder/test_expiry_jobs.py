from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from offsite.model.errors import BadResource
from offsite.operator.core.expiry_jobs import UNKNOWN, ExpiryJobs, QueuedExpiry
from offsite.operator.core.processes import ProcessLaunch, is_alive, last_words
from offsite.operator.decide.queue import QueueRules
from tests.processes import wait_until
from tests.unit.operator.folder.home import QUICK, Home, opened_home

ONE, TWO = "aaaaaaaa-1", "bbbbbbbb-2"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with opened_home(tmp_path, monkeypatch) as found:
        yield found


def asked(home: Home, *uids: str, is_deletion: bool = False) -> Mapping[str, QueuedExpiry]:
    def launch(uid: str) -> ProcessLaunch:
        script = str(home.root.parent / "script.py")
        argv = (sys.executable, "-S", script, "operator", "expire", "--uid", uid)
        return ProcessLaunch(argv=argv, environment=dict(os.environ))

    return {uid: QueuedExpiry(launch=lambda uid=uid: launch(uid), is_deletion=is_deletion) for uid in uids}  # type: ignore[misc]


def begun_for(home: Home) -> list[str]:
    return [line.split()[4] for line in home.begun()]


def ended(jobs: ExpiryJobs, uid: str) -> bool:
    job = jobs.job(uid)
    return job is not None and job.ended_ms > 0


def test_so_many_jobs_run_at_once_as_may_and_the_next_after_the_interval(home: Home) -> None:
    jobs = ExpiryJobs(home.layout, QUICK, clock=home.clock)
    jobs.step(asked(home, ONE, TWO))
    wait_until(lambda: ended(jobs, ONE), "the first one")
    jobs.step(asked(home, ONE, TWO))
    assert begun_for(home) == [ONE]
    home.pass_s(61)
    jobs.step(asked(home, ONE, TWO))

    wait_until(lambda: begun_for(home) == [ONE, TWO], "the second one")


def test_another_operator_knows_what_runs(home: Home) -> None:
    hangs = home.flag("hangs")
    ExpiryJobs(home.layout, QUICK, clock=home.clock).step(asked(home, ONE, TWO))
    home.wait_for_begun(1)
    ExpiryJobs(home.layout, QUICK, clock=home.clock).step(asked(home, ONE, TWO))
    hangs.unlink()

    assert begun_for(home) == [ONE]


def test_a_job_that_shows_nothing_for_too_long_is_killed_and_the_next_one_begins(home: Home) -> None:
    jobs = ExpiryJobs(home.layout, QueueRules(job_max_s=3600, retry_s=60), clock=home.clock)
    home.flag("hangs")
    jobs.step(asked(home, ONE, TWO))
    home.wait_for_begun(1)
    home.pass_s(3601)
    jobs.step(asked(home, ONE, TWO))

    wait_until(lambda: ended(jobs, ONE), "the end of the first one")
    job = jobs.job(ONE)
    assert job is not None
    assert (job.exit_code, job.has_deleted) == (UNKNOWN, False)
    wait_until(lambda: begun_for(home) == [ONE, TWO], "the second one")


@pytest.mark.parametrize("code", [0, 14])
def test_a_deletion_is_done_when_its_job_ended_with_0(home: Home, code: int) -> None:
    home.flag("exit", str(code))
    jobs = ExpiryJobs(home.layout, QUICK, clock=home.clock)
    jobs.step(asked(home, ONE, is_deletion=True))
    wait_until(lambda: ended(jobs, ONE), "its end")

    other = ExpiryJobs(home.layout, QUICK, clock=home.clock).job(ONE)
    assert other is not None
    assert (other.exit_code, other.has_deleted, other.said) == (code, code == 0, f"it ended with {code}")


def test_an_ordinary_job_that_ended_well_deletes_nothing(home: Home) -> None:
    jobs = ExpiryJobs(home.layout, QUICK, clock=home.clock)
    jobs.step(asked(home, ONE))
    wait_until(lambda: ended(jobs, ONE), "its end")

    job = jobs.job(ONE)
    assert job is not None
    assert not job.has_deleted


def test_a_deletion_that_failed_is_tried_again_after_a_pause(home: Home) -> None:
    home.flag("exit", "14")
    jobs = ExpiryJobs(home.layout, QUICK, clock=home.clock)
    jobs.step(asked(home, ONE, is_deletion=True))
    wait_until(lambda: ended(jobs, ONE), "its end")
    home.pass_s(2)
    jobs.step(asked(home, ONE, is_deletion=True))
    jobs.step(asked(home, ONE, is_deletion=True))
    assert len(home.begun()) == 1
    home.pass_s(16)
    jobs.step(asked(home, ONE, is_deletion=True))

    home.wait_for_begun(2)


def test_a_job_that_cannot_be_begun_stops_no_other(home: Home) -> None:
    def launch() -> ProcessLaunch:
        raise BadResource("no account")

    jobs = ExpiryJobs(home.layout, QueueRules(at_once=2), clock=home.clock)
    jobs.step({ONE: QueuedExpiry(launch=launch, is_deletion=False), **asked(home, TWO)})

    wait_until(lambda: begun_for(home) == [TWO], "the other one")


def test_what_is_noted_of_those_that_are_gone_is_removed(home: Home) -> None:
    jobs = ExpiryJobs(home.layout, QUICK, clock=home.clock)
    jobs.step(asked(home, ONE))
    wait_until(lambda: ended(jobs, ONE), "its end")
    jobs.forget_others({ONE})
    assert jobs.job(ONE) is not None
    jobs.step({})
    jobs.forget_others(())

    assert jobs.job(ONE) is None


def test_a_job_that_gets_on_is_not_killed_however_long_it_takes(home: Home) -> None:
    jobs = ExpiryJobs(home.layout, QueueRules(job_max_s=3600, retry_s=60), clock=home.clock)
    home.flag("hangs")
    jobs.step(asked(home, ONE))
    home.wait_for_begun(1)
    for number in range(12):
        with (home.layout.jobs / ONE / "job.log").open("a") as log:
            log.write(f"works: {number} requests were answered so far\n")
        jobs.step(asked(home, ONE))
        home.pass_s(1800)
        jobs.step(asked(home, ONE))
    assert len(home.begun()) == 1
    assert not ended(jobs, ONE)
    home.pass_s(3601)
    jobs.step(asked(home, ONE))
    wait_until(lambda: ended(jobs, ONE), "its end: it shows nothing any more")


def test_a_job_that_gets_on_for_ever_ends_where_another_namespace_waits_and_counts_as_no_failure(home: Home) -> None:
    jobs = ExpiryJobs(home.layout, QUICK, clock=home.clock)
    home.flag("hangs")
    wanted = asked(home, ONE, TWO)
    wanted = {ONE: replace(wanted[ONE], namespace="evil"), TWO: replace(wanted[TWO], namespace="shops")}
    for number in range(5):
        jobs.step(wanted)
        home.wait_for_begun(1)
        with (home.layout.jobs / ONE / "job.log").open("a") as log:
            log.write(f"works: {number} requests were answered so far\n")
        home.pass_s(900)
    job = jobs.job(ONE)
    assert job is not None
    assert not job.ended_ms

    jobs.step(wanted)
    job = jobs.job(ONE)
    assert job is not None
    assert (job.ended_ms > 0, job.failures) == (True, 0)
    assert job.said == "stopped: another namespace has its turn"
    wait_until(lambda: begun_for(home) == [ONE, TWO], "the job of the other namespace")


def test_a_wall_clock_that_is_set_kills_nothing_and_holds_nothing_up(home: Home) -> None:
    jobs = ExpiryJobs(home.layout, QUICK, clock=home.clock)
    home.flag("hangs")
    jobs.step(asked(home, ONE))
    home.wait_for_begun(1)
    for ahead_ms in (10**9, -(10**9)):
        set_clock = SimpleNamespace(now_ms=lambda by=ahead_ms: home.clock.ms + by, monotonic_s=home.clock.monotonic_s)
        ExpiryJobs(home.layout, QUICK, clock=set_clock).step(asked(home, ONE))  # type: ignore[arg-type]
    assert not ended(jobs, ONE)


def test_failures_in_a_row_are_counted_until_one_ends_well(home: Home) -> None:
    jobs = ExpiryJobs(home.layout, QUICK, clock=home.clock)
    for code, failures in ((11, 1), (11, 2), (0, 0), (14, 1)):
        home.flag("exit", str(code))
        jobs.step(asked(home, ONE))
        wait_until(lambda jobs=jobs: ended(jobs, ONE), "its end")  # type: ignore[misc]
        jobs = ExpiryJobs(home.layout, QUICK, clock=home.clock)  # another operator knows as well
        jobs.step({})
        job = jobs.job(ONE)
        assert job is not None
        assert (job.exit_code, job.failures) == (code, failures)
        home.pass_s(61)


def test_one_that_cannot_be_begun_has_failed_as_well(home: Home) -> None:
    def launch() -> ProcessLaunch:
        raise BadResource("account 'main' no longer exists", hint="known: none")

    jobs = ExpiryJobs(home.layout, QUICK, clock=home.clock)
    for failures in (1, 2):
        jobs.step({ONE: QueuedExpiry(launch=launch, is_deletion=False)})
        job = jobs.job(ONE)
        assert job is not None
        assert (job.failures, job.ended_ms > 0) == (failures, True)
        assert job.failure == "error[OFF-0218]: account 'main' no longer exists; hint: known: none"
        home.pass_s(61)


def test_a_job_that_goes_by_another_spec_is_stopped_and_counts_as_no_failure(home: Home) -> None:
    jobs = ExpiryJobs(home.layout, QUICK, clock=home.clock)
    home.flag("hangs")
    told = {ONE: replace(asked(home, ONE)[ONE], words="maximumRetention=1d")}
    jobs.step(told)
    home.wait_for_begun(1)
    jobs.stop_other(ONE, "maximumRetention=1d")
    assert not ended(jobs, ONE)
    jobs.stop_other(ONE, "maximumRetention=30d")
    job = jobs.job(ONE)
    assert job is not None
    assert (job.ended_ms > 0, job.failures) == (True, 0)
    wait_until(lambda: not is_alive(job.identity), "the end of its process")
    assert job.said == "stopped: the spec was changed"


def test_an_error_is_told_with_its_message_and_its_hint(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("a\nerror[OFF-1]: old\nb\nerror[OFF-0910]: the lease is held\nhint: wait\n")
    assert last_words(log) == "error[OFF-0910]: the lease is held; hint: wait"
    log.write_text("a\n3 restore points were let go\n")
    assert last_words(log) == "3 restore points were let go"
    assert last_words(tmp_path / "none") == ""


def test_an_error_that_names_much_is_told_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"a\nerror[OFF-0910]: the lease is held by {'x' * 6000}\nhint: wait\n")
    assert last_words(log).startswith("error[OFF-0910]: the lease is held by x")
